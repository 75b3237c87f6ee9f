"""Played agents that count their starts and interrupts in files, and what a start has left."""

import asyncio
import signal
from collections import Counter
from pathlib import Path
from typing import Any

from sm.core.models import digest
from tests.integration.ended_agents import rows
from tests.sim.programs import Running
from tests.sim.stage import Instance, until

TYPES = """\
  Counted: {command: [counted]}
  Catcher: {command: [catcher]}
  Goer: {command: [comes-and-goes]}
"""


async def counted(program: Running) -> int | None:
    """Append the pid to a file at each start. With an exit code, end unless the file with suffix `.go` exists."""
    name, *code = program.argv[1].split()
    path = Path(program.process.cwd, name)
    with path.open("a") as file:
        file.write(f"{program.process.pid}\n")
    if code and not Path(f"{path}.go").exists():
        return int(code[0])
    await asyncio.sleep(100_000)
    return None


async def catcher(program: Running) -> None:
    """Append a line to a file at each SIGINT."""
    path = Path(program.process.cwd, program.argv[1])

    def say(word: str) -> None:
        with path.open("a") as file:
            file.write(f"{word}\n")

    program.process.handlers[signal.SIGINT] = lambda: say("caught")
    say("ready")
    await asyncio.sleep(100_000)


class CountedStage(Instance):
    def __init__(self, more: str = "") -> None:
        super().__init__(TYPES + more)
        self.world.programs.installed |= {"counted": counted, "catcher": catcher}


def agents_of(instance: Instance, session_ids: set[str]) -> Counter[str]:
    """Count the live processes of each session by their environment."""
    live = [p for p in instance.world.kernel.processes.values() if p.exit is None]
    counts = Counter(p.environ.get("SM_SESSION_ID", "") for p in live)
    return Counter({s: n for s, n in counts.items() if s in session_ids})


def left_over(instance: Instance, known: set[str]) -> list[str]:
    """Files and terminals that an interrupted start has left."""
    launch = {p.name for p in (instance.state / "launch").iterdir()} - {f"{s}.token" for s in known}
    return sorted(launch | (set(instance.world.server.panes) - {f"command-{s}" for s in known}))


def starts(instance: Instance, name: str) -> list[int]:
    """The pids that all agents of this name have written."""
    path = instance.work / name
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def spawn_counted(instance: Instance, name: str, *arguments: str) -> dict[str, Any]:
    session = instance.spawn("Counted", name, *arguments)
    until(lambda: starts(instance, name), f"{name} runs")
    return session


def column(instance: Instance, name: str, session_id: str) -> Any:
    """A column of the session's row."""
    return dict(rows(instance, f"SELECT id, {name} FROM sessions"))[session_id]  # noqa: S608 - a column name of a test


def token_is_right(instance: Instance, session_id: str) -> bool:
    """True if the token file of the agent matches the hash in the database."""
    token = (instance.state / "launch" / f"{session_id}.token").read_text()
    return bool(column(instance, "token_hash", session_id) == digest(token))
