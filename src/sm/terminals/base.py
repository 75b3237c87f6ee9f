"""The contract of terminals, in which agents run and to which people attach: four protocols."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Protocol

from sm.core.dataclass import dataclass
from sm.core.models import Exit


@dataclass(frozen=True, slots=True)
class Pane:
    """A terminal of this instance in its current state."""

    session_id: str
    name: str
    pane_id: str
    pid: int
    """The pane's first process: the agent, once the launch script has exec'ed it."""
    tty: str
    dead: bool
    exit: Exit | None
    """Set when `dead`. `Exit()` without code and signal: the server does not know."""
    activity_s: int
    """The time of the last output, in seconds since the epoch."""
    foreign: bool = False
    """The agent was adopted, and the pane's first process is a person's shell, which `sm` must not end."""
    server_pid: int = 0
    dead_since_s: int | None = None
    """The end of the pane's first process, in seconds since the epoch. None while it runs, and with tmux 3.2."""
    viewed: bool = False
    """A person looks at it now."""
    agent_pid: int | None = None
    """The agent in a `foreign` pane; None also for a pane that an older sm adopted."""
    command: str = field(default="", compare=False)
    """The name of the program that has the terminal of a `foreign` pane."""


@dataclass(frozen=True, slots=True)
class ForeignPane:
    """Any pane of the terminal server, usually one that `sm` did not make."""

    pane_id: str
    pid: int
    """The pane's first process."""
    session_id: str | None = None
    """The session that was adopted from this pane."""
    taken: bool = False
    """`sm` made the terminal of this pane, or another instance uses it."""


class Lifecycle(Protocol):
    """Makes, finds, adopts and removes terminals, and reports how they ended.

    An empty result means that the server answered and has no such terminal. `NoServer` means that no terminal server
    runs, so no terminal lives. `TerminalUnreachable` means that nothing is known. Every call of the four protocols is
    bounded in time and may be repeated. After a failure the next call reconnects.
    """

    @property
    def trouble(self) -> str | None:
        """The reason why the terminal server did not answer the last call; None when it answered or does not run."""

    @property
    def server_pid(self) -> int | None:
        """The process of the terminal server, the parent of every agent; None when no call has reached it."""

    async def snapshot(self) -> Mapping[str, Pane]:
        """Every terminal of this instance by session id. Raises NoServer, TerminalUnreachable."""

    async def server_started_s(self) -> float:
        """The start of the terminal server, in seconds since the epoch. Raises NoServer, TerminalUnreachable."""

    async def open(
        self,
        session_id: str,
        name: str,
        working_dir: str,
        argv: Sequence[str],
        *,
        title: str | None = None,
        search: bool = True,
    ) -> Pane:
        """Make terminal `name` and run `argv` in it; on an error no terminal is left behind.

        `title`: the name that the server shows people, None for `name`. `search`: look for a terminal that an earlier
        call made. Pass False only for the first call of a session, which then does not work through all terminals.

        Starts the server when none runs. Returns an existing terminal of that name unchanged when it carries this
        session's id. Raises TerminalError (also when the name belongs to another program).
        """

    async def look(self, target: str) -> ForeignPane:
        """Find the pane that `target` names. Raises NoTerminal, also when the pane's process has ended."""

    async def adopt(
        self, session_id: str, name: str, pane: ForeignPane, *, foreign: bool, agent_pid: int | None = None
    ) -> Pane:
        """Mark an existing pane as this session's terminal `name`. The pane is neither moved nor renamed.

        `foreign`: see `Pane`; no later call ends the processes in such a pane. With `agent_pid`, nothing is typed into
        it while another program has the terminal. Raises NoTerminal when the pane or its first process has changed.
        """

    async def release(self, name: str) -> None:
        """Forget a terminal whose pane is `foreign`, and leave the pane to its owner. Ignores other terminals."""

    async def exit_status(self, pane: Pane) -> Exit:
        """The exit status of an agent whose process is known to be gone; `Exit()` for a `foreign` pane.

        Raises NoTerminal when the terminal is gone too, NoServer when its server is gone or was replaced, and
        TerminalUnreachable when the server does not answer.
        """

    async def close(self, name: str) -> None:
        """Remove a terminal; release a `foreign` one. Does nothing when the terminal or the server is gone."""

    async def session_of_tty(self, tty: str) -> str | None:
        """The session id of the terminal that `tty` belongs to, split panes included."""


class Screen(Protocol):
    """Reads terminals, and shows them to a person."""

    async def capture(self, name: str, lines: int) -> list[str]:
        """The last `lines` lines of history and screen, without trailing blank lines. Raises NoTerminal."""

    async def capture_visible(self, name: str) -> list[str]:
        """The visible lines, top to bottom, of a living or a dead terminal. Raises NoTerminal."""

    async def capture_styled(self, name: str) -> list[str]:
        """As `capture_visible`, with styles as escape sequences (ECMA-48, SGR).

        Raises NoTerminal also for a dead terminal.
        """

    async def show_line(self, name: str, text: str) -> None:
        """Show one line to the people who are attached to terminal `name`, until their next key.

        Raises NoTerminal, TerminalUnreachable.
        """

    async def client_pids(self) -> Mapping[str, int]:
        """The process of each client that is attached, by its name. Raises NoServer, TerminalUnreachable."""

    def attach_command(self, name: str) -> tuple[str, ...]:
        """The argv that attaches a person's terminal to terminal `name`."""


@dataclass(frozen=True, slots=True)
class Busy:
    """The answer of a terminal that takes no keys now. No key was sent."""

    why: str


class Keyboard(Protocol):
    """Types into terminals. Where a method returns Busy, it typed nothing."""

    async def paste(self, name: str, *texts: str) -> Busy | None:
        """Paste texts of any number of lines without Enter, bracketed where the program supports it.

        The program gets them at once, each as a paste of its own, for the price of one call.
        Raises NoTerminal, TerminalUnreachable when the outcome is unknown.
        """

    async def running(self, name: str) -> Pane | Busy:
        """Find a terminal whose process runs, as typing does first. Raises NoTerminal."""

    async def type_line(self, name: str, text: str, pane: Pane | None = None) -> Busy | None:
        """Paste one line of text, then press Enter as a separate key. Raises as `paste`.

        `pane`: the terminal that `running` has just found, or None to find it first.
        """

    async def enter_if_unsent(self, name: str, text: str) -> bool:
        """Press Enter if `text` is before the cursor, where a paste was interrupted; else return False.

        A text that was entered is on a line above the cursor. Raises NoTerminal, TerminalBusy.
        """

    async def press(self, name: str, key: str) -> Busy | None:
        """Press one key, by its name in tmux(1), send-keys. Raises as `paste`."""

    async def key_pause_s(self, name: str) -> float:
        """The least time since a person pressed a key in terminal `name`, infinite if nobody is attached to its pane.

        At most a second shorter than the real time. Raises NoTerminal, TerminalUnreachable.
        """

    async def has_unread_input(self, name: str) -> bool:
        """True while the program has not read all that was typed. Raises NoTerminal, TerminalUnreachable."""


class TerminalEvents(Protocol):
    """Reports changes of all terminals, each kind to one listener."""

    def on_activity(self, listener: Callable[[Mapping[str, int]], None]) -> None:
        """Call `listener` with the changed {session id: activity_s}, at most about once a second."""

    def on_titles(self, listener: Callable[[Mapping[str, str]], None]) -> None:
        """As `on_activity`, with {session id: first character of the title}."""

    def on_viewers(self, listener: Callable[[Mapping[str, frozenset[str]]], None]) -> None:
        """As `on_activity`, with {session id: names of the clients that show the terminal}. Reports the first ones."""


class Terminals(Lifecycle, Screen, Keyboard, TerminalEvents, Protocol):
    """All terminals of this instance."""
