"""The panes of the played terminal server."""

import asyncio
from dataclasses import dataclass, field

from sm.core.models import Exit
from sm.terminals.base import Pane
from tests.sim.processes import PlayedProcess


@dataclass(slots=True)
class PlayedPane:
    """One pane. `lines` is the history with the screen; the last one may be unfinished."""

    session_id: str
    instance: str
    name: str
    pane_id: str
    process: PlayedProcess
    argv: tuple[str, ...]
    working_dir: str
    server_pid: int
    activity_s: int
    height: int = 50
    lines: list[str] = field(default_factory=lambda: [""])
    title: str = ""
    exit: Exit | None = None
    dead_since_s: int | None = None
    foreign: bool = False
    agent_pid: int | None = None
    typed: asyncio.Queue[tuple[str, str]] = field(default_factory=asyncio.Queue)
    """The input that the program has not read: ("text", TEXT) of a paste, and ("key", NAME)."""
    unsent: str = ""
    """The text that was pasted since the last Enter."""
    keys_at_s: float | None = None
    """The last key of a person who is attached, or None if nobody is."""
    clients: dict[str, int] = field(default_factory=dict)
    """The processes of the attached clients, by their names."""

    @property
    def tty(self) -> str:
        return self.process.tty_path


def visible(pane: PlayedPane) -> list[str]:
    """The visible lines, as many as the screen has."""
    shown = pane.lines[-pane.height :]
    return shown + [""] * (pane.height - len(shown))


def shown(pane: PlayedPane) -> Pane:
    return Pane(
        pane.session_id,
        pane.name,
        pane.pane_id,
        pane.process.pid,
        pane.tty,
        pane.exit is not None,
        pane.exit,
        pane.activity_s,
        pane.foreign,
        pane.server_pid,
        pane.dead_since_s,
        pane.keys_at_s is not None,
        pane.agent_pid,
    )
