"""Reads, stores and merges the contents of files through the repository of a copy."""

import os
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from sm.capabilities.worktrees.copies.directories import blob_name
from sm.capabilities.worktrees.git.calls import environment, git, git_bytes, killed
from sm.capabilities.worktrees.git.scratch import MERGE, scratch_directory
from sm.core.text import folded
from sm.errors import ExternalError

_CHUNK_BYTES = 64 << 20
"""Contents that are read at the same time, unless one of them has more."""
_TIMEOUT_S = 120.0
_CONFLICTS_MAX = 127
"""The exit code of `git merge-file` is the number of conflicts up to this one. Above, it is an error."""
_MARKER_SIZE = 60
_MARKERS = tuple(sign * _MARKER_SIZE for sign in (b"<", b"|", b"=", b">"))


def contents(top: str, oids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Read objects of the repository. Raises ExternalError for one that it does not have, or that is none of a file."""
    wanted = list(dict.fromkeys(oids))
    if not wanted:
        return
    sizes = git(top, "cat-file", "--batch-check", text=_lines(wanted)).split("\n")
    chunk, total = list[str](), 0
    for oid, described in zip(wanted, sizes, strict=True):
        words = described.split(" ")
        if len(words) != 3 or words[1] != "blob":
            raise ExternalError(f"the copy has lost the content of a file: {folded(described, 100)}")
        if chunk and total + int(words[2]) > _CHUNK_BYTES:
            yield from _read(top, chunk)
            chunk, total = [], 0
        chunk.append(oid)
        total += int(words[2])
    yield from _read(top, chunk)


def has_contents(top: str, oids: Iterable[str]) -> bool:
    """True if the repository still has all of these objects."""
    wanted = list(dict.fromkeys(oids))
    return not wanted or " missing" not in git(top, "cat-file", "--batch-check", text=_lines(wanted))


def content(top: str, oid: str) -> bytes:
    """Read one object of the repository."""
    return next(data for _, data in contents(top, [oid]))


def merged_content(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """Merge two changes of a file as git does. Returns None for a conflict, as for every binary file.

    Where `theirs` has all that `ours` has changed, it is taken: so the copy can resolve a conflict. Raises
    ExternalError.
    """
    code, merged = _merge_file(base, ours, theirs)
    if not code:
        return merged
    sides = (base, ours, theirs)
    # git ends a last line before a marker that has no end.
    if code > _CONFLICTS_MAX or any(_has_marker(side) or side[-1:] not in (b"", b"\n") for side in sides):
        return None
    code, merged = _merge_file(base, ours, theirs, "--diff3", f"--marker-size={_MARKER_SIZE}")
    return resolved(merged.splitlines(keepends=True)) if 0 < code <= _CONFLICTS_MAX else None


def resolved(lines: Sequence[bytes]) -> bytes | None:
    """The lines of a merge, of each conflict those of `theirs`. None if one of `theirs` lacks a change of `ours`.

    `lines`: with the markers of `git merge-file --diff3`.
    """
    found, sides, at = list[bytes](), list[list[bytes]](), -1
    for line in lines:
        marker = line.rstrip(b"\r\n")[:_MARKER_SIZE]
        if at < 0 and marker == _MARKERS[0]:
            sides, at = [[], [], []], 0
        elif 0 <= at < 2 and marker == _MARKERS[at + 1]:
            at += 1
        elif at == 2 and marker == _MARKERS[3]:
            ours, base, theirs = sides
            if not _has_changes(ours, base, theirs):
                return None
            found += theirs
            at = -1
        else:
            (found if at < 0 else sides[at]).append(line)
    return b"".join(found)


def _has_marker(data: bytes) -> bool:
    return any(marker in data for marker in _MARKERS)


def _has_changes(ours: Sequence[bytes], base: Sequence[bytes], theirs: Sequence[bytes]) -> bool:
    """True if `theirs` has every line of `ours` in its order, and none that `ours` has deleted."""
    rest = iter(theirs)
    deleted = Counter(base) - Counter(ours)
    return bool(ours) and all(line in rest for line in ours) and not any(line in deleted for line in theirs)


def _merge_file(base: bytes, ours: bytes, theirs: bytes, *options: str) -> tuple[int, bytes]:
    """The exit code of `git merge-file`, which is the number of conflicts, and its output.

    Raises ExternalError, also if a signal has ended it: its output would be a part of the file.
    """
    with scratch_directory(MERGE) as directory:
        for name, data in (("ours", ours), ("base", base), ("theirs", theirs)):
            with open(f"{directory}/{name}", "wb") as file:
                file.write(data)
        # Without any configuration: it needs no repository.
        nothing = {"GIT_DIR": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
        try:
            done = subprocess.run(
                ["git", "merge-file", "-p", *options, "ours", "base", "theirs"],
                cwd=directory,
                env=environment() | nothing,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except FileNotFoundError:
            raise ExternalError("git is not installed", "sudo apt-get install git") from None
        except subprocess.TimeoutExpired:
            raise ExternalError(f"git merge-file did not finish within {_TIMEOUT_S:g} s") from None
    if done.returncode < 0:
        raise killed(["merge-file"], done.returncode)
    return done.returncode, done.stdout


def stored(top: str, data: bytes) -> str:
    """Store a content in the repository. Returns its name."""
    oid = git(top, "hash-object", "-w", "--no-filters", "--stdin", text=data)
    if oid != blob_name(data):
        raise ExternalError("the copy names its objects in another way")
    return oid


def _read(top: str, oids: list[str]) -> Iterator[tuple[str, bytes]]:
    output, at = git_bytes(top, "cat-file", "--batch", text=_lines(oids)), 0
    for oid in oids:
        end = output.index(b"\n", at)
        size = int(output[at:end].split(b" ")[2])
        data = output[end + 1 : end + 1 + size]
        at = end + 1 + size + 1
        if blob_name(data) != oid:
            raise ExternalError(f"the copy has another content for {oid}")
        yield oid, data


def _lines(oids: Iterable[str]) -> bytes:
    return "".join(f"{oid}\n" for oid in oids).encode()
