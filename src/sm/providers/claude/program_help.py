"""Asks a claude for its version and its options, once for each file."""

import asyncio
import os
import shutil
from collections.abc import Mapping

from sm.linux.programs import run_program
from sm.providers.base import InstalledProgram, ProgramFacts
from sm.providers.checks import is_script
from sm.providers.claude.readiness import installed_version, is_claude, is_versioned

_ANSWERS_WITHIN_S = 10.0
_WAITS_S = 2.0
"""No spawn waits longer for the answers. They are kept for the next spawn."""
_ASKED_AGAIN_S = 60.0
"""A program that gave no answer, such as one that is being installed, is asked again after this time."""
_OUTPUT_MAX_BYTES = 256 * 1024
_PASSED = ("HOME", "PATH", "LANG", "TERM")

OLDEST: tuple[int, ...] = (2, 1)
"""The oldest version that sm supports."""

_File = tuple[str, int, int, int]


class ProgramHelp:
    """The answers of the programs that agents are started with. A changed file is asked again.

    A wrapper such as npx is never asked, because it may install a program.
    """

    def __init__(self) -> None:
        self._answers: dict[_File, asyncio.Task[ProgramFacts | None]] = {}

    async def ask(self, program: str, environment: Mapping[str, str]) -> ProgramFacts:
        """Return the answers of the program that an agent with this environment starts.

        They are empty for a program that does not answer, or not in time.
        """
        path = shutil.which(program, path=environment.get("PATH")) if is_claude(program) else None
        file = None if path is None else _identity(path)
        if file is None:
            return ProgramFacts()
        asking = self._answers.get(file)
        if asking is None:
            asking = asyncio.create_task(self._keep(file, environment), name=f"ask {file[0]} for its options")
            self._answers = {known: kept for known, kept in self._answers.items() if known[0] != file[0]}
            self._answers[file] = asking
        try:
            answer = await asyncio.wait_for(asyncio.shield(asking), _WAITS_S)
        except TimeoutError:
            answer = None
        return answer or ProgramFacts()

    async def _keep(self, file: _File, environment: Mapping[str, str]) -> ProgramFacts | None:
        """Return the answers, or None without any. Then the program is asked again later."""
        answer = await _ask(file[0], environment)
        if answer is None:
            asyncio.get_running_loop().call_later(_ASKED_AGAIN_S, self._forget, file)
        return answer

    def _forget(self, file: _File) -> None:
        self._answers.pop(file, None)


def is_own_program(path: str) -> bool:
    """Return whether the program at a path is claude, as npm or its installer keeps it."""
    return is_claude(path) or is_versioned(path)


def find_installed(program: str, environment: Mapping[str, str]) -> InstalledProgram | None:
    """Find the program that an agent with this environment starts.

    Returns None for a wrapper such as npx, and for another program to which a link with the name of claude leads.
    """
    link = shutil.which(program, path=environment.get("PATH")) if is_claude(program) else None
    if link is None:
        return None
    path, version = os.path.realpath(link), installed_version(program, environment)
    if not is_own_program(path) and not is_script(path):
        return None
    name = None if version is None else ".".join(map(str, version))
    return InstalledProgram(os.path.abspath(link), path, name, is_script(path))


def _identity(path: str) -> _File | None:
    """The file behind all links: its path, inode, size and time."""
    try:
        path = os.path.realpath(path)
        status = os.stat(path)
    except OSError:
        return None
    return path, status.st_ino, status.st_size, status.st_mtime_ns


async def _ask(path: str, environment: Mapping[str, str]) -> ProgramFacts | None:
    """Run the program with --version and --help. claude writes no file meanwhile (measured)."""
    given = {name: environment[name] for name in _PASSED if name in environment}
    texts = []
    for option in ("--version", "--help"):
        try:
            ended = await run_program(
                (path, option), b"", _ANSWERS_WITHIN_S, environment=given, output_max_bytes=_OUTPUT_MAX_BYTES
            )
        except (OSError, TimeoutError, ValueError):
            return None
        if ended.code != 0:
            return None
        texts.append(ended.output.decode(errors="replace"))
    version, help = texts
    return ProgramFacts(version, help)
