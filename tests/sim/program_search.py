"""Decides as a shell does if a program can run: the exit code of an exec that fails."""

import os
from collections.abc import Callable, Mapping, Sequence

from tests.sim.scripts import NOT_FOUND

_CANNOT_RUN = 126
_ARGUMENT_MAX_BYTES = 131_072
"""MAX_ARG_STRLEN, execve(2)."""
_HEADER_BYTES = 52
"""The shortest header of a program, elf(5)."""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Of a shell without the variable."""


def exit_of_exec(
    argv: Sequence[str], environ: Mapping[str, str], directory: str, host_path: Callable[[str], str]
) -> int | None:
    """None if the program runs. `host_path`: the path on this machine of a path as the program names it."""
    program = argv[0]
    folders = [""] if "/" in program else environ.get("PATH", _PATH).split(":")
    candidates = [host_path(os.path.join(directory, folder, program)) for folder in folders if program]
    existing = [path for path in candidates if os.path.lexists(path)]
    if not existing:
        return NOT_FOUND
    file = next((path for path in existing if _is_executable(path)), None)
    if file is None:
        return NOT_FOUND if not os.path.exists(existing[0]) else _CANNOT_RUN
    if any(len(word.encode("utf-8", "surrogateescape")) >= _ARGUMENT_MAX_BYTES for word in argv):
        return _CANNOT_RUN
    if _is_damaged(file):
        return _CANNOT_RUN
    return None if _has_loader(file, host_path) else NOT_FOUND


def _is_executable(path: str) -> bool:
    return os.path.isfile(path) and bool(os.stat(path).st_mode & 0o111)


def _is_damaged(path: str) -> bool:
    """Return whether a file begins as a program does, and lacks the rest of the header."""
    with open(path, "rb") as file:
        header = file.read(_HEADER_BYTES)
    return header.startswith(b"\x7fELF") and len(header) < _HEADER_BYTES


def _has_loader(path: str, host_path: Callable[[str], str]) -> bool:
    """Return whether the interpreter of a script exists. No real program of this machine runs in a simulation."""
    with open(path, "rb") as file:
        first = file.readline(4096)
    if first.startswith(b"#!"):
        return os.path.exists(host_path(os.fsdecode(first[2:].split()[0])))
    return not first.startswith(b"\x7fELF")
