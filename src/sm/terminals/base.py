"""Terminals: where an agent's process lives and what a person attaches to. A contract of four protocols."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sm.core.models import Exit


@dataclass(frozen=True, slots=True)
class Pane:
    """One terminal of ours as the terminal server sees it now."""

    session_id: str
    name: str
    pane_id: str
    pid: int
    """The pane's first process: the agent, once the launch script has exec'ed it."""
    tty: str
    dead: bool
    exit: Exit | None
    """Set when `dead`; an `Exit()` without code and signal when the server does not know."""
    activity_s: int
    """When the terminal last printed something, in seconds since the epoch."""
    foreign: bool = False
    """The agent was adopted and is not the pane's first process: that is a person's shell, and none of ours."""
    server_pid: int = 0
    """The terminal server that it stands in."""


@dataclass(frozen=True, slots=True)
class ForeignPane:
    """A pane as anybody may name it, most of all one that somebody else has made."""

    pane_id: str
    pid: int
    """The pane's first process."""
    session_id: str | None = None
    """The session that was adopted from it."""
    taken: bool = False
    """It stands in a terminal that was made by `sm`, or is used by another instance."""


class Lifecycle(Protocol):
    """Makes, finds, adopts and removes terminals, and tells how they ended.

    Three answers are never one value: an empty result means that the server was asked and there is none; `NoServer`
    means that no terminal server runs, so no terminal lives; `TerminalUnreachable` means that nothing is known. Every
    call of the four protocols is bounded in time and may be repeated. After a failure the next call connects again.
    """

    async def snapshot(self) -> Mapping[str, Pane]:
        """Every terminal of this instance by session id, in one question. Raises NoServer, TerminalUnreachable."""

    async def since(self) -> float:
        """When the terminal server started, in seconds since the epoch. Raises NoServer, TerminalUnreachable."""

    async def open(self, session_id: str, name: str, working_dir: str, argv: Sequence[str]) -> Pane:
        """Make terminal `name` and run `argv` in it, all or nothing: on an error none is left behind.

        Starts the server when none runs. A terminal of that name that carries this session's id is
        returned as it is. Raises TerminalError (also when the name belongs to somebody else).
        """

    async def look(self, target: str) -> ForeignPane:
        """The pane that `target` names to the terminal server. Raises NoTerminal, also when its process has ended."""

    async def adopt(self, session_id: str, name: str, pane: ForeignPane, *, foreign: bool) -> Pane:
        """Make a pane that stands already this session's terminal `name`, where it stands and as it is called.

        `foreign`: see `Pane`. Nothing that is done to the terminal ends what is in such a pane. Raises NoTerminal
        when the pane, or its first process, is another by now.
        """

    async def release(self, name: str) -> None:
        """Forget a terminal whose pane is `foreign`, and leave the pane to its owner. Any other stays as it is."""

    async def ending(self, pane: Pane) -> Exit:
        """How the agent ended; call it when its process is known to be gone. Of a `foreign` pane nobody knows: Exit().

        Raises NoTerminal or NoServer when the terminal went with it, NoServer also when it went with a server that
        has a successor by now; TerminalUnreachable when the server stays silent.
        """

    async def close(self, name: str) -> None:
        """Remove a terminal; release one that is `foreign`. One that is not there is fine, and so is no server."""

    async def session_of_tty(self, tty: str) -> str | None:
        """The session id carried by the terminal session that `tty` belongs to, split panes included."""


class Screen(Protocol):
    """Reads terminals, and shows them to a person."""

    async def capture(self, name: str, lines: int) -> list[str]:
        """The last `lines` lines of history and screen, without trailing blank ones. Raises NoTerminal."""

    async def visible(self, name: str) -> list[str]:
        """The visible lines as they are, top to bottom, of a living or a dead terminal. Raises NoTerminal."""

    async def styled(self, name: str) -> list[str]:
        """As `visible`, with their styles as escape sequences (ECMA-48, SGR). Raises NoTerminal when its process has
        ended.
        """

    def attach_command(self, name: str) -> tuple[str, ...]:
        """The argv that attaches a person's terminal to terminal `name`."""


class Keyboard(Protocol):
    """Types into terminals."""

    async def paste(self, name: str, text: str) -> None:
        """Paste a text of any number of lines as it is, bracketed where the program takes that; no Enter.

        Raises NoTerminal, TerminalBusy when nothing was typed, TerminalUnreachable when nobody knows.
        """

    async def type_line(self, name: str, text: str) -> None:
        """Paste one line of text, and press Enter as a key of its own.

        Raises NoTerminal, TerminalBusy when nothing was typed, TerminalUnreachable when nobody knows.
        """

    async def enter_if_unsent(self, name: str, text: str) -> bool:
        """Press Enter if `text` stands before the cursor, where a paste was interrupted; False: it does not.

        A text that was entered stands on a line above the cursor's. Raises NoTerminal.
        """

    async def press(self, name: str, key: str) -> None:
        """Press one key, by its name in tmux(1), send-keys.

        Raises NoTerminal, TerminalBusy when nothing was pressed, TerminalUnreachable when nobody knows.
        """


class TerminalEvents(Protocol):
    """Reports changes of all terminals, each kind to one listener."""

    def on_activity(self, told: Callable[[Mapping[str, int]], None]) -> None:
        """Call `told` with {session id: activity_s} whenever some of them moved (at most about once a second)."""

    def on_titles(self, told: Callable[[Mapping[str, str]], None]) -> None:
        """As `on_activity`, with the first character of each terminal's title that is another now."""


class Terminals(Lifecycle, Screen, Keyboard, TerminalEvents, Protocol):
    """All terminals of this instance."""
