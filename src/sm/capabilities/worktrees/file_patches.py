"""Compares two states of a session's work file by file, with limits, for a page that shows the changes.

An agent writes the files and their names. Sections of the output of `git diff` belong to files by their order in
git's own list, never by what is written in them.
"""

import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import IO

from sm.capabilities.worktrees.git.calls import git_bytes, prepared
from sm.capabilities.worktrees.git.present_files import DIFF
from sm.core.dataclass import dataclass
from sm.core.patches import RawPatch, sections
from sm.errors import ExternalError, LimitReached

FILES_MAX = 1_000
PATCH_MAX = 256 << 10
"""The bytes of one file's section that a list of all changes has."""
PATCHES_MAX = 4 << 20
"""The bytes of all sections together."""
WHOLE_MAX = 4 << 20
"""The bytes of the section of a file that is read by itself."""
LISTED = ("--raw", "--numstat", "-z", "--no-abbrev")
RENAMES = ("--find-renames", "-l1000", "--no-relative")
_PATCH = ("--no-color", "--src-prefix=a/", "--dst-prefix=b/", "--patch")
_LINK = "160000"
TYPE_CHANGE = "T"
_NOTHING = "0"


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file that differs between two states."""

    status: str
    """Git's letter: A, D, M, R, C or T."""
    path: bytes
    old_path: bytes
    """The path before a rename or a copy, else `path`."""
    old_mode: str
    new_mode: str
    old_blob: str
    """The name of its object before, or empty."""
    new_blob: str
    added: int | None
    """The number of added lines, or None for a binary file."""
    deleted: int | None

    @property
    def sections(self) -> int:
        """The number of its sections in a patch: another type, such as a link, is a deletion and an addition."""
        return 2 if self.status == TYPE_CHANGE else 1

    @property
    def blobs(self) -> tuple[str, str]:
        """Its contents before and after, with an empty text for a submodule, which has a commit."""
        return (
            "" if self.old_mode == _LINK else self.old_blob,
            "" if self.new_mode == _LINK else self.new_blob,
        )


def changed_files(top: str, base: str, tree: str) -> list[ChangedFile]:
    """The files that differ between two states, in git's order. Raises ExternalError."""
    return listed_files(git_bytes(top, *DIFF, *RENAMES, *LISTED, base, tree, "--"))


def listed_files(output: bytes) -> list[ChangedFile]:
    """Read the output of `git diff --raw --numstat -z`."""
    words = iter(output.split(b"\0"))
    found = list[tuple[list[str], bytes, bytes]]()
    counts = list[tuple[int | None, int | None]]()
    for word in words:
        if word.startswith(b":"):
            facts = word[1:].decode("ascii").split(" ")
            old = next(words)
            found.append((facts, old, next(words) if facts[4][0] in "RC" else old))
        elif word:
            added, deleted, path = word.split(b"\t", 2)
            counts.append((_count(added), _count(deleted)))
            if not path:  # the two paths of a rename follow
                next(words), next(words)
    return [
        ChangedFile(
            facts[4][0], new, old, facts[0], facts[1], facts[2].strip(_NOTHING) and facts[2],
            facts[3].strip(_NOTHING) and facts[3], *count,
        )
        for (facts, old, new), count in zip(found, counts, strict=True)
    ]  # fmt: skip


def _count(number: bytes) -> int | None:
    return None if number == b"-" else int(number)


def all_patches(top: str, base: str, tree: str, files: list[ChangedFile]) -> list[RawPatch | None]:
    """The section of each file; None for one without room. Raises ExternalError."""
    left, found = PATCHES_MAX, list[RawPatch | None]()
    with _difference(top, base, tree) as stream:
        for _, patch in zip(files, joined(sections(stream, PATCH_MAX), files), strict=False):
            has_room = not patch.is_cut and len(patch.text) <= left
            left -= len(patch.text) if has_room else 0
            found.append(patch if has_room else None)
    return found + [None] * (len(files) - len(found))


def one_patch(top: str, base: str, tree: str, file: ChangedFile, *, is_whole: bool) -> RawPatch:
    """The section of one file, with all of its lines if `is_whole`. Raises ExternalError, and LimitReached."""
    options = ("-U1000000",) if is_whole else ()
    paths = dict.fromkeys((file.old_path, file.path))
    with _difference(top, base, tree, options, paths) as stream:
        for patch in joined(sections(stream, WHOLE_MAX), [file]):
            if patch.is_cut:
                raise LimitReached(f"the file has more than {WHOLE_MAX >> 20} MiB of changes", "sm diff")
            return patch
    raise ExternalError("git shows no change of the file")


@contextmanager
def _difference(
    top: str, base: str, tree: str, options: Sequence[str] = (), paths: Iterable[bytes] = ()
) -> Iterator[IO[bytes]]:
    """The stdout of git, which is ended at the end of the block."""
    arguments = ("--literal-pathspecs", *DIFF, *RENAMES, *_PATCH, *options, base, tree, "--")
    with prepared(top, arguments) as (argv, environment):
        # Its errors are those of the list of files, which has come before.
        process = subprocess.Popen(
            [*argv, *paths],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            assert process.stdout is not None
            with process.stdout as stream:
                yield stream
        finally:
            process.kill()
            process.wait()


def joined(found: Iterable[RawPatch], files: Iterable[ChangedFile]) -> Iterator[RawPatch]:
    """The sections of each file together."""
    rest = iter(found)
    for file in files:
        parts = list(islice(rest, file.sections))
        if not parts:
            return
        yield RawPatch(b"".join(part.text for part in parts), any(part.is_cut for part in parts))


def sizes_of(top: str, blobs: Iterable[str]) -> dict[str, int]:
    """The sizes of contents in bytes. Raises ExternalError."""
    asked = "".join(f"{blob}\n" for blob in dict.fromkeys(filter(None, blobs)))
    options = ("cat-file", "--batch-check=%(objectname) %(objectsize)")
    rows = (
        git_bytes(top, *options, text=asked.encode()).decode("ascii", "replace").splitlines() if asked else []
    )
    pairs = (row.split(" ", 1) for row in rows)
    return {name: int(size) for name, size in pairs if size.isdecimal()}
