"""Sample terminals and checks for the contract suite."""

import contextlib
from pathlib import Path

from sm.linux.processes import identify, signal_process
from sm.terminals.base import Terminals
from tests.terminals.world import ended, sh, until, until_async

ID = "1a2b3c4d"
NAME = "command-1a2b3c4d"
FOREVER = sh("exec sleep 1000")


async def gone(pid: int) -> None:
    await until(lambda: ended(pid))


def lives(pid: int) -> bool:
    return not ended(pid)


def kill(pid: int, number: int) -> None:
    process = identify(pid)
    assert process is not None
    assert signal_process(process, number)


async def line_of(terminals: Terminals, name: str, lines: int = 20) -> list[str]:
    """The lines of the terminal, as soon as it shows any."""
    return await until_async(lambda: terminals.capture(name, lines))


async def ends_with(terminals: Terminals, line: str) -> bool:
    return (await terminals.capture(NAME, 1)) == [line]


def commands_below(pid: int) -> set[bytes]:
    """The command lines of all running children; each argument ends with NUL."""
    found = set()
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found.add(Path(f"/proc/{child}/cmdline").read_bytes())
    return found
