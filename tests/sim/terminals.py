"""The played terminal server, which outlives the daemon, and `FakeTerminals`, the daemon's access to it."""

import asyncio
import math
import re
import signal
import termios
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from sm.core.models import Exit
from sm.errors import NoServer, NoTerminal, TerminalError, TerminalUnreachable
from sm.terminals.base import Busy, ForeignPane, Pane
from tests.sim.lives import Life
from tests.sim.panes import PlayedPane, shown, visible
from tests.sim.processes import PlayedKernel, PlayedProcess

_CALL_S = 0.001
_SETTLE_S = 0.02
_TIMEOUT_S = 5.0
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_STYLE = re.compile(r"\x1b\[[0-9;]*m")

Program = Callable[[PlayedPane], None]
"""Begins to run what the pane was opened for."""


class PlayedServer:
    """The terminal server of the user, with the terminals of all instances."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, kernel: PlayedKernel, wall: Callable[[], float]
    ) -> None:
        self.loop = loop
        self._kernel = kernel
        self._wall = wall
        self.process: PlayedProcess | None = None
        self.started_s = 0.0
        self.panes: dict[str, PlayedPane] = {}
        """By the name of the terminal."""
        self.is_deaf = False
        """True while it runs and does not answer."""
        self.call_s = _CALL_S
        """How long it takes for each call."""
        self.run: Program = lambda pane: None
        self._panes_made = 0
        self._clients: list[FakeTerminals] = []

    def client(self, instance: str, life: Life) -> "FakeTerminals":
        client = FakeTerminals(self, instance, life)
        self._clients = [c for c in self._clients if not c.life.is_dropped]
        self._clients.append(client)
        return client

    async def ask(self) -> None:
        """Take the time of one call. Raises TerminalUnreachable, NoServer."""
        if self.is_deaf:
            await asyncio.sleep(_TIMEOUT_S)
            raise TerminalUnreachable(f"tmux did not respond within {_TIMEOUT_S:g} s")
        await asyncio.sleep(self.call_s)
        if self.process is None:
            raise NoServer("no tmux server runs")

    def kill(self) -> None:
        """End the server with all terminals, as a crash of tmux does: the agents get a hang-up."""
        panes, self.panes = self.panes, {}
        if self.process is not None:
            self._kernel.end(self.process, Exit(signal=9))
            self._kernel.reap(self.process)
            self.process = None
            self._panes_made = 0
        for pane in panes.values():
            self._hang_up(pane)

    def _hang_up(self, pane: PlayedPane) -> None:
        self._kernel.signal(pane.process, 1)
        if pane.process.exit is not None:
            self._kernel.reap(pane.process)

    def add(
        self, session_id: str, instance: str, name: str, working_dir: str, argv: tuple[str, ...]
    ) -> PlayedPane:
        if self.process is None:
            self.process = self._kernel.start(("tmux", "start-server"), {}, "/")
            self.started_s = math.floor(self._wall())
        process = self._kernel.start(
            argv, {}, working_dir, parent=self.process.pid, tty=self._kernel.new_tty()
        )
        pane = PlayedPane(
            session_id,
            instance,
            name,
            f"%{self._panes_made}",
            process,
            argv,
            working_dir,
            self.process.pid,
            int(self._wall()),
        )
        self._panes_made += 1
        self.panes[name] = pane
        process.on_end.append(lambda: self._notice_end(pane))
        self._report("_activity", pane.session_id, pane.activity_s)
        self.run(pane)
        return pane

    def _notice_end(self, pane: PlayedPane) -> None:
        pane.exit, pane.dead_since_s = pane.process.exit, int(self._wall())

    def close(self, name: str) -> None:
        pane = self.panes.pop(name, None)
        if pane is not None:
            self._hang_up(pane)

    # What programs do

    def print(self, pane: PlayedPane, text: str) -> None:
        first, *more = text.split("\n")
        pane.lines[-1] += first
        pane.lines.extend(more)
        pane.activity_s = int(self._wall())
        self._report("_activity", pane.session_id, pane.activity_s)

    def draw(self, pane: PlayedPane, lines: Sequence[str]) -> None:
        """Replace the screen, as a program in full-screen mode does."""
        pane.lines = list(lines)
        pane.activity_s = int(self._wall())
        self._report("_activity", pane.session_id, pane.activity_s)

    def set_title(self, pane: PlayedPane, title: str) -> None:
        pane.title = title
        self._report("_titles", pane.session_id, title[:1])

    def attach(self, pane: PlayedPane, process: PlayedProcess) -> None:
        """Show a pane in a client, until the end of its process."""
        pane.clients[process.tty_path] = process.pid
        process.on_end.append(lambda: self._detach(pane, process))
        self._report("_viewers", pane.session_id, frozenset(pane.clients))

    def _detach(self, pane: PlayedPane, process: PlayedProcess) -> None:
        del pane.clients[process.tty_path]
        self._report("_viewers", pane.session_id, frozenset(pane.clients))

    def _report(self, kind: str, session_id: str, value: int | str | frozenset[str]) -> None:
        for client in self._clients:
            if not client.life.is_dropped:
                client.changed(kind, session_id, value)

    def put(self, pane: PlayedPane, what: tuple[str, str]) -> None:
        """Type into a pane: a text or a key."""
        kind, text = what
        flags = self._kernel.flags[pane.tty]
        if what == ("key", "C-c") and flags & termios.ISIG:  # the line discipline takes the key
            self.print(pane, "^C")
            self._kernel.signal(pane.process, signal.SIGINT)
            return
        if kind == "text":
            pane.unsent += text
        elif text == "Enter":
            pane.unsent = ""
        pane.typed.put_nowait(what)
        self._kernel.unread[pane.tty] = self._kernel.unread.get(pane.tty, 0) + (
            len(text) if kind == "text" else 1
        )
        if flags & termios.ECHO:
            self.print(pane, text if kind == "text" else {"Enter": "\n", "C-c": "^C"}.get(text, ""))

    async def read(self, pane: PlayedPane) -> tuple[str, str]:
        """The next text or key, for the program."""
        what = await pane.typed.get()
        read = len(what[1]) if what[0] == "text" else 1
        self._kernel.unread[pane.tty] = max(0, self._kernel.unread.get(pane.tty, 0) - read)
        return what


class FakeTerminals:
    """`Terminals` of one instance on the played server, for one life of its daemon."""

    def __init__(self, server: PlayedServer, instance: str, life: Life) -> None:
        self._server = server
        self._instance = instance
        self.life = life
        self._trouble: str | None = None
        self._listeners: dict[str, Callable[[Mapping[str, Any]], None]] = {}
        self._changed: dict[str, dict[str, Any]] = {}

    async def __aenter__(self) -> "FakeTerminals":
        return self

    async def __aexit__(self, *_: object) -> None:
        """The terminals stay."""

    async def retire(self) -> None:
        """The server stays, as it has no spare terminals."""

    # Lifecycle

    @property
    def trouble(self) -> str | None:
        return self._trouble

    async def _ask(self) -> None:
        try:
            await self._server.ask()
        except TerminalUnreachable as error:
            self._trouble = error.message
            raise
        except NoServer:
            self._trouble = None
            raise
        self._trouble = None

    def _own(self) -> dict[str, PlayedPane]:
        return {p.session_id: p for p in self._server.panes.values() if p.instance == self._instance}

    @property
    def server_pid(self) -> int | None:
        return None if self._server.process is None else self._server.process.pid

    async def snapshot(self) -> Mapping[str, Pane]:
        await self._ask()
        return {session_id: shown(pane) for session_id, pane in self._own().items()}

    async def server_started_s(self) -> float:
        await self._ask()
        return self._server.started_s

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
        if not _NAME.fullmatch(name):
            raise TerminalError(f"invalid terminal name {name!r}")
        with suppress(NoServer):  # it starts now
            await self._ask()
        existing = self._server.panes.get(name)
        if existing is not None:
            if (existing.instance, existing.session_id) != (self._instance, session_id):
                raise TerminalError(f"terminal {name} belongs to another program")
            return shown(existing)
        return shown(self._server.add(session_id, self._instance, name, working_dir, tuple(argv)))

    async def look(self, target: str) -> ForeignPane:
        await self._ask()
        for pane in self._server.panes.values():
            if target in (pane.pane_id, pane.name) and pane.exit is None:
                taken = pane.instance not in ("", self._instance)
                return ForeignPane(pane.pane_id, pane.process.pid, pane.session_id or None, taken)
        raise NoTerminal(f"no terminal {target}")

    async def adopt(
        self, session_id: str, name: str, pane: ForeignPane, *, foreign: bool, agent_pid: int | None = None
    ) -> Pane:
        await self._ask()
        for old, found in self._server.panes.items():
            if (found.pane_id, found.process.pid) == (pane.pane_id, pane.pid) and found.exit is None:
                del self._server.panes[old]
                found.session_id, found.instance, found.name = session_id, self._instance, name
                found.foreign, found.agent_pid = foreign, agent_pid
                self._server.panes[name] = found
                return shown(found)
        raise NoTerminal(f"pane {pane.pane_id} has changed")

    async def release(self, name: str) -> None:
        await self._ask()
        pane = self._server.panes.get(name)
        if pane is not None and pane.foreign:
            pane.instance = pane.session_id = ""
            pane.agent_pid = None

    async def exit_status(self, pane: Pane) -> Exit:
        await self._ask()
        if self._server.process is None or self._server.process.pid != pane.server_pid:
            raise NoServer(f"the tmux server of terminal {pane.name} has ended")
        for found in self._server.panes.values():
            if (found.pane_id, found.process.pid) == (pane.pane_id, pane.pid):
                return Exit() if pane.foreign or found.exit is None else found.exit
        raise NoTerminal(f"terminal {pane.name} no longer exists")

    async def close(self, name: str) -> None:
        try:
            await self._ask()
        except NoServer:
            return
        pane = self._server.panes.get(name)
        if pane is not None and pane.instance == self._instance:
            if pane.foreign:
                pane.instance = pane.session_id = ""
            else:
                self._server.close(name)

    async def session_of_tty(self, tty: str) -> str | None:
        await self._ask()
        return next(
            (s for s, p in self._own().items() if p.tty == tty and p.exit is None and not p.foreign), None
        )

    async def client_pids(self) -> Mapping[str, int]:
        await self._ask()
        return {name: pid for pane in self._server.panes.values() for name, pid in pane.clients.items()}

    # Screen

    async def _pane(self, name: str, *, runs: bool = False) -> PlayedPane:
        await self._ask()
        pane = self._server.panes.get(name)
        if pane is None or pane.instance != self._instance:
            raise NoTerminal(f"terminal {name} does not exist")
        if runs and pane.exit is not None:
            raise NoTerminal(f"the process in terminal {name} has ended")
        return pane

    async def capture(self, name: str, lines: int) -> list[str]:
        pane = await self._pane(name)
        kept = [_STYLE.sub("", line).rstrip() for line in pane.lines]
        while kept and not kept[-1]:
            kept.pop()
        return kept[-lines:] if lines > 0 else []

    async def capture_visible(self, name: str) -> list[str]:
        return [_STYLE.sub("", line).rstrip() for line in visible(await self._pane(name))]

    async def capture_styled(self, name: str) -> list[str]:
        return visible(await self._pane(name, runs=True))

    async def show_line(self, name: str, text: str) -> None:
        await self._pane(name)

    def attach_command(self, name: str) -> tuple[str, ...]:
        return ("tmux", "attach-session", "-t", f"={name}:")

    # Keyboard

    async def paste(self, name: str, *texts: str) -> Busy | None:
        pane = await self._pane(name, runs=True)
        for text in texts:
            self._server.put(pane, ("text", text))
        return None

    async def running(self, name: str) -> Pane | Busy:
        return shown(await self._pane(name, runs=True))

    async def type_line(self, name: str, text: str, pane: Pane | None = None) -> Busy | None:
        found = await self._pane(name, runs=True)
        if pane is not None and pane.pid != found.process.pid:
            raise NoTerminal(f"terminal {name} has another process")
        if text:
            self._server.put(found, ("text", text))
        await asyncio.sleep(_SETTLE_S)
        if found.exit is not None:
            if not text:
                raise NoTerminal(f"the process in terminal {name} has ended")
            raise TerminalUnreachable(f"the process in terminal {name} has ended, after the text was pasted")
        self._server.put(found, ("key", "Enter"))
        return None

    async def enter_if_unsent(self, name: str, text: str) -> bool:
        pane = await self._pane(name)
        if not pane.unsent.endswith(text) or not text or pane.exit is not None:
            return False
        self._server.put(pane, ("key", "Enter"))
        return True

    async def press(self, name: str, key: str) -> Busy | None:
        self._server.put(await self._pane(name, runs=True), ("key", key))
        return None

    async def key_pause_s(self, name: str) -> float:
        pane = await self._pane(name)
        return (
            math.inf
            if pane.keys_at_s is None
            else max(0.0, asyncio.get_running_loop().time() - pane.keys_at_s)
        )

    async def has_unread_input(self, name: str) -> bool:
        return not (await self._pane(name, runs=True)).typed.empty()

    # Events

    def on_activity(self, listener: Callable[[Mapping[str, int]], None]) -> None:
        self._listeners["_activity"] = listener

    def on_titles(self, listener: Callable[[Mapping[str, str]], None]) -> None:
        self._listeners["_titles"] = listener

    def on_viewers(self, listener: Callable[[Mapping[str, frozenset[str]]], None]) -> None:
        self._listeners["_viewers"] = listener
        for session_id, pane in self._own().items():
            if pane.clients:
                self.changed("_viewers", session_id, frozenset(pane.clients))

    def changed(self, kind: str, session_id: str, value: int | str | frozenset[str]) -> None:
        """Report a change within a second, together with the next ones."""
        waiting = self._changed.setdefault(kind, {})
        if not waiting:
            self._server.loop.call_later(1.0, self._report, kind, context=self.life.context)
        waiting[session_id] = value

    def _report(self, kind: str) -> None:
        changed, self._changed[kind] = self._changed[kind], {}
        own = self._own()
        changed = {session_id: value for session_id, value in changed.items() if session_id in own}
        if changed and not self._server.is_deaf and kind in self._listeners:
            self._listeners[kind](changed)
