"""Reads, stores and merges the contents of files through the repository of a copy."""

import os
import subprocess
from collections.abc import Iterable, Iterator

from sm.capabilities.worktrees.copies.directories import blob_name
from sm.capabilities.worktrees.git.calls import environment, git, git_bytes
from sm.capabilities.worktrees.git.scratch import MERGE, scratch_directory
from sm.core.text import folded
from sm.errors import ExternalError

_CHUNK_BYTES = 64 << 20
"""Contents that are read at the same time, unless one of them has more."""
_TIMEOUT_S = 120.0


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

    Raises ExternalError.
    """
    with scratch_directory(MERGE) as directory:
        for name, data in (("ours", ours), ("base", base), ("theirs", theirs)):
            with open(f"{directory}/{name}", "wb") as file:
                file.write(data)
        # Without any configuration: it needs no repository.
        nothing = {"GIT_DIR": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
        try:
            done = subprocess.run(
                ["git", "merge-file", "-p", "ours", "base", "theirs"],
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
    return done.stdout if done.returncode == 0 else None


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
