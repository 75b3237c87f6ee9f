"""Terminals in tmux: one detached tmux session for each agent.

A terminal is found by these options and never by its name, which hooks and people change:

    session  @sm_terminal     INSTANCE ID NAME: the session was made for it (set first)
    pane     @sm_agent        INSTANCE ID NAME: this pane runs, or ran, the agent
    session  @sm_instance     INSTANCE (the keeper of `tmux_server` carries this one alone)
    session  @sm_session_id   ID: the agent was started (set last)

An agent that was adopted runs in a pane of somebody else's, in whose session others of theirs may stand. So the
session gets no mark that names ours, but for one that tells where to look for activity:

    pane     @sm_agent        INSTANCE ID NAME, as above (set last)
    pane     @sm_session_id   ID
    pane     @sm_adopted      own, when the agent is the pane's first process; foreign, when a shell is
    session  @sm_hosts        INSTANCE

One session more, `sm-spare-...`, stands ready after an agent was started: what waits for a spawn then waits for
one pane and not for two. Nothing relies on it. It is marked like a keeper, so that the next connection removes
one that a killed daemon has left.

All other options are set on our own sessions, windows and panes; nothing of the user's is changed.
"""

import asyncio
import contextlib
import logging
import os
import re
import secrets
import signal
import tempfile
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from sm.errors import CouldNotAsk, NoServer, NoTerminal, TerminalError, TerminalHeld
from sm.models import Exit
from sm.terminals import panes
from sm.terminals.base import Pane, Stranger
from sm.terminals.control import Command, Refused
from sm.terminals.tmux_server import GLOBAL_WINDOW_SIZE, Server

log = logging.getLogger(__name__)

EXIT_STATUS_TIMEOUT_S: Final = 2.0
"""How long tmux may take to find out how a process ended that is known to be gone (see `_LAST_WORDS`)."""

SETTLE_S: Final = 0.02
"""Between a paste and Enter, which a program could else take for a part of the paste; longer for a longer text."""
_SETTLE_S_PER_CHARACTER: Final = 1 / 100_000
_COMMAND_MAX_BYTES: Final = 4096

_TTY = re.compile(r"/dev/[A-Za-z0-9/]+")
# How long a placeholder lives, in seconds, when nobody removes it. Only that of a spare session may outlive
# its daemon for long: tmux 3.3a crashes when a session ends while a control client is still connecting
# (control_notify_session_closed), so none may end by itself at just any moment.
_PLACEHOLDER_S = 60
_TIDY_AFTER_S = 0.002
_SPARE_S = 3600
# What tmux writes below the output of a dead pane, so that a person sees why nothing happens
# (remain-on-exit-format; tmux 3.2 has a text of its own instead). It is no output of the agent.
_DEAD_NOTE = "[sm] the agent has ended"
_DEAD_NOTE_3_2 = "Pane is dead ("
# When tmux learns of a death before it has read the pane, it throws the unread output away, unless the pane
# has a pipe: then it reads first. An agent that prints one line and ends while tmux is still busy with
# opening the terminal lost it 3 to 5 times of 100, and next to never with a pipe for its first second.
_LAST_WORDS = "exec sleep 1"


class Tmux:
    """The terminals of one instance, on the user's default tmux server or on one of its own (`socket_name`).

    `environment` and `umask` (-1: ours) are those of a server that it starts too. `width` and `height` are in
    cells, `history_limit` in lines. As a context manager it ends our client at the end, and nothing else.

    `scratch` is a directory for texts that are too long for a command.

    `before_exec` runs in our client's process and should make it die with us. When a daemon is killed that tmux
    3.3a has something to tell, tmux keeps its client for ever, with all that it would still tell it, and cannot
    even end (test_a_killed_daemon_leaves_no_client_behind).
    """

    def __init__(
        self,
        instance: str,
        socket_name: str | None,
        width: int,
        height: int,
        history_limit: int,
        environment: Mapping[str, str],
        *,
        timeout_s: float = 5.0,
        umask: int = -1,
        before_exec: Callable[[], None] | None = None,
        scratch: str | None = None,
    ) -> None:
        self._instance = instance
        self._scratch = scratch
        self._width = width
        self._height = height
        self._history_limit = history_limit
        self._server = Server(instance, socket_name, environment, timeout_s, umask, before_exec)
        self._session_names: dict[str, str] = {}
        self._adopted: dict[str, str] = {}
        """The pane of each terminal that was adopted."""
        self._spare: str | None = None
        """The name of a session that stands ready for the next agent; it goes after an hour."""
        self._activity: Mapping[str, int] = {}
        self._titles: Mapping[str, str] = {}
        self._subscribing = False
        self._told_activity: Callable[[Mapping[str, int]], None] = lambda moved: None
        self._told_titles: Callable[[Mapping[str, str]], None] = lambda changed: None
        self._tidying: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End our tmux client. Every session stays; a later call would connect again."""
        for tidying in tuple(self._tidying):
            tidying.cancel()
        await asyncio.gather(*self._tidying, return_exceptions=True)
        await self._server.aclose()

    async def retire(self) -> None:
        """As `aclose`; and when no terminal of ours is left, nothing of ours stays in tmux."""
        with contextlib.suppress(NoServer):
            await self._server.remove_spare()
            if not await self.snapshot():
                await self._server.retire()
        await self.aclose()

    async def snapshot(self) -> Mapping[str, Pane]:
        (lines,) = await self._server.ask(panes.panes(f"#{{m:{self._instance} *,#{{@sm_agent}}}}"))
        rows = panes.rows(lines)
        self._session_names = {row.pane.name: row.session_name for row in rows}
        self._adopted = {row.pane.name: row.pane.pane_id for row in rows if row.adopted}
        return {row.pane.session_id: row.pane for row in rows}

    async def since(self) -> float:
        ((started,),) = await self._server.ask(("display-message", "-p", "#{start_time}"))
        try:
            return float(started)
        except ValueError:
            raise CouldNotAsk("tmux says in a form that makes no sense since when it runs") from None

    async def open(self, session_id: str, name: str, working_dir: str, argv: Sequence[str]) -> Pane:
        """As in `Terminals`. After CouldNotAsk nobody knows; ask again, and a terminal that was made is found."""
        # A task of its own, so that a cancelled caller leaves no terminal half made: what was begun is
        # finished and then removed, unless it stood before.
        opening = asyncio.create_task(self._open(session_id, name, working_dir, argv))
        try:
            pane, _ = await asyncio.shield(opening)
        except asyncio.CancelledError:
            try:
                _, made = await opening
                if made:
                    await self.close(name)
            except TerminalError as error:
                log.warning("could not take back a terminal: %s", error, extra={"sm_session": session_id})
            raise
        return pane

    async def _open(
        self, session_id: str, name: str, working_dir: str, argv: Sequence[str]
    ) -> tuple[Pane, bool]:
        """The pane, and whether it was made now."""
        tag = f"{self._instance} {panes.word(session_id)} {panes.word(name)}"
        lines, (window_size,) = await self._server.ask(
            panes.panes(f"#{{==:{tag},#{{@sm_agent}}}}"), GLOBAL_WINDOW_SIZE, start=True
        )
        for row in panes.rows(lines):
            self._session_names[name] = row.session_name
            return row.pane, False
        self._server.refuse_manual(window_size)
        session, placeholder = await self._take_spare(name, tag) or await self._make_session(name, tag)
        try:
            pane = await self._start_agent(session, placeholder, tag, panes.literal(working_dir), argv)
        except Refused as refused:
            await self._kill("kill-session", session)
            raise TerminalError(f"tmux could not open terminal {name}: {refused.text}") from None
        self._session_names[name] = name
        self._tidying.add(tidying := asyncio.create_task(self._tidy(placeholder)))
        tidying.add_done_callback(self._tidying.discard)
        return pane, True

    async def _tidy(self, placeholder: str) -> None:
        """Do what a spawn does not need, when it has its answer: entries in utmp cost tmux more than all of ours."""
        await asyncio.sleep(_TIDY_AFTER_S)
        with contextlib.suppress(TerminalError):  # then the next one takes the long way
            ((window_size,),) = await self._server.ask(GLOBAL_WINDOW_SIZE)
            self._server.tell(("kill-window", "-t", placeholder))
            self._server.refuse_manual(window_size)
            if self._spare is None:
                self._make_spare()

    def _make_spare(self) -> None:
        """Have tmux make the session for the next agent while nobody waits for it."""
        self._spare = f"sm-spare-{secrets.token_hex(4)}"
        here = f"={self._spare}:"
        self._server.tell(
            self._new_session(self._spare, _SPARE_S),
            ("set-option", "-t", here, "@sm_instance", self._instance),
            ("set-option", "-t", here, "destroy-unattached", "off"),
            # Else it would stay after its hour where the user's remain-on-exit is on.
            ("set-option", "-w", "-t", f"{here}^", "remain-on-exit", "off"),
        )

    async def _take_spare(self, name: str, tag: str) -> tuple[str, str] | None:
        """What `_make_session` returns, if the spare session is still there."""
        spare, self._spare = self._spare, None
        if spare is None:
            return None
        first = f"={spare}:^"  # a hook may have made other windows after it
        try:
            *_, (made,), _ = await self._server.ask(
                ("set-option", "-w", "-t", first, "remain-on-exit", "on"),  # its hour may be over just now
                ("set-option", "-t", f"={spare}:", "@sm_terminal", tag),
                ("display-message", "-p", "-t", first, "#{session_id} #{window_id}"),
                ("rename-session", "-t", f"={spare}:", name),
            )
        except Refused:  # its hour is over, a hook renamed it, or the name is taken: the long way tells
            self._server.tell(("kill-session", "-t", f"={spare}"))
            return None
        session, placeholder = made.split()
        return session, placeholder

    async def _make_session(self, name: str, tag: str) -> tuple[str, str]:
        """A session with a placeholder process in it: the ids of the session and of its window.

        history-limit is read when a pane is made, and a session that is being made has only the user's
        global value. So its first pane is a placeholder, which ends by itself should we die here, and the
        agent gets one of its own when the session has our options.
        """
        for _ in range(2):
            try:
                made, *_ = await self._server.ask(
                    self._new_session(name, _PLACEHOLDER_S),
                    # By name, because the id is not known on this line. A hook that renames the session makes
                    # these two fail. That does no harm: the name is free again, and they are repeated by id.
                    ("set-option", "-t", f"={name}:", "@sm_terminal", tag),
                    ("set-option", "-t", f"={name}:", "destroy-unattached", "off"),
                    start=True,
                )
            except Refused as refused:
                if refused.outputs:
                    made = refused.outputs[0]
                elif not refused.text.startswith("duplicate session"):
                    raise TerminalError(f"tmux could not open terminal {name}: {refused.text}") from None
                else:
                    await self._remove_half(name, tag)
                    continue
            session, placeholder = made[0].split()
            return session, placeholder
        raise TerminalError(f"a tmux session called {name} comes back again and again")

    def _new_session(self, name: str, placeholder_s: int) -> Command:
        size = ("-x", str(self._width), "-y", str(self._height))
        ids = ("-P", "-F", "#{session_id} #{window_id}")
        return ("new-session", "-d", "-s", name, *size, "-c", "/", *ids, "--", "sleep", str(placeholder_s))

    async def _remove_half(self, name: str, tag: str) -> None:
        """Remove the session that has this name, if we made it and died before the agent was started in it."""
        show = (
            "display-message",
            "-p",
            "-t",
            f"={name}:",
            "#{session_id} x#{@sm_session_id} #{@sm_terminal}",
        )
        ((line,),) = await self._server.ask(show)
        session, started, holder = line.split(" ", 2)
        socket_path = self._server.socket_path()
        if holder != tag:
            raise TerminalError(
                f"a tmux session called {name} exists and is not ours",
                f"tmux -S {socket_path} rename-session -t ={name} something-else",
            )
        if started != "x":
            raise TerminalError(
                f"terminal {name} stands without its agent's pane, which somebody closed",
                f"tmux -S {socket_path} kill-session -t ={name}",
            )
        await self._kill("kill-session", session)

    async def _start_agent(
        self, session: str, placeholder: str, tag: str, working_dir: str, argv: Sequence[str]
    ) -> Pane:
        instance, session_id, name = tag.split(" ")
        here = ("-t", f"{session}:")  # the session's current pane: from new-window on the agent's
        # One argument alone would be a command line for the user's default-shell.
        command = tuple(argv) if len(argv) > 1 else ("/bin/sh", "-c", 'exec "$0"', *argv)
        window = ("new-window", "-b", "-t", f"{session}:{placeholder}", "-n", name, "-c", working_dir)
        # One line, which tmux runs without looking at anything else: the agent cannot end before
        # remain-on-exit is set (as two lines the exit code was lost 40 times of 40), and the markers are
        # there if and only if the agent's pane is.
        outputs = await self._server.ask(
            ("set-option", "-t", session, "@sm_terminal", tag),
            ("set-option", "-t", session, "destroy-unattached", "off"),
            ("set-option", "-t", session, "history-limit", str(self._history_limit)),
            # A hook that splits the new window would make another pane the current one.
            ("set-hook", "-t", session, "after-new-window", ""),
            (*window, "-P", "-F", f"{tag} {panes.ROW}", "--", *command),
            ("set-option", "-p", *here, "remain-on-exit", "on"),
            ("pipe-pane", *here, _LAST_WORDS),
            ("set-option", "-p", *here, "@sm_agent", tag),
            ("set-option", "-t", session, "@sm_instance", instance),
            ("set-option", "-t", session, "@sm_session_id", session_id),
            ("set-option", "-p", "-q", *here, "remain-on-exit-format", _DEAD_NOTE),
            ("set-option", "-w", *here, "window-size", "latest"),
            ("set-option", "-w", *here, "allow-rename", "off"),
            ("set-hook", "-u", "-t", session, "after-new-window"),
        )
        return panes.row(outputs[4][0]).pane

    async def look(self, target: str) -> Stranger:
        if not target or not target.isprintable() or target.startswith("-"):
            raise NoTerminal("that is no name of a pane")
        fields = "#{pane_id} #{pane_pid} x#{pane_dead} x#{@sm_instance} #{@sm_agent}"
        try:
            ((line,),) = await self._server.ask(("display-message", "-p", "-t", target, fields))
            # For a pane that is not there display-message prints empty fields, and no error.
            pane_id, pid, dead, owner, agent = line.split(" ", 4)
            instance, _, rest = agent.partition(" ")
            taken = owner != "x" or instance not in ("", self._instance)
            pane = Stranger(pane_id, int(pid), rest.split(" ")[0] or None, taken)
        except Refused as refused:
            raise NoTerminal(refused.text) from None
        except ValueError:
            raise NoTerminal("tmux does not find it") from None
        if dead == "x1":
            raise NoTerminal("its process has ended")
        return pane

    async def adopt(self, session_id: str, name: str, pane: Stranger, *, foreign: bool) -> Pane:
        tag = f"{self._instance} {panes.word(session_id)} {panes.word(name)}"
        to = ("-t", pane.pane_id)
        show: Command = ("display-message", "-p", *to, f"{tag} {panes.ROW}")
        kept = panes.FOREIGN if foreign else panes.OWN
        # A shell's pane ends with its shell, as it always did; how an agent ended only a dead pane can tell.
        stay: tuple[Command, ...] = (
            ("set-option", "-p", *to, "remain-on-exit", "on"),
            ("set-option", "-p", "-q", *to, "remain-on-exit-format", _DEAD_NOTE),
        )
        try:
            ((line,),) = await self._server.ask(show)
            if f" {pane.pane_id} {pane.pid} " not in line:
                raise NoTerminal(f"pane {pane.pane_id} is not there any more")
            *_, (line,) = await self._server.ask(
                ("set-option", "-p", *to, "@sm_adopted", kept),
                ("set-option", "-p", *to, "@sm_session_id", session_id),
                ("set-option", *to, "@sm_hosts", self._instance),
                *(() if foreign else stay),
                ("set-option", "-p", *to, "@sm_agent", tag),
                show,
            )
        except Refused:
            raise NoTerminal(f"pane {pane.pane_id} is not there any more") from None
        row = panes.row(line)
        self._session_names[name] = row.session_name
        self._adopted[name] = pane.pane_id
        return row.pane

    async def release(self, name: str) -> None:
        with contextlib.suppress(NoServer, NoTerminal):
            pane = (await self._row_of(name)).pane
            if pane.foreign:
                await self._unmark(pane.pane_id)
                self._adopted.pop(name, None)

    async def _unmark(self, pane_id: str) -> None:
        marks = ("@sm_agent", "@sm_session_id", "@sm_adopted")
        with contextlib.suppress(Refused):  # an id can only be refused for not being there
            await self._server.ask(*(("set-option", "-p", "-u", "-t", pane_id, mark) for mark in marks))

    async def ending(self, pane: Pane) -> Exit:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + EXIT_STATUS_TIMEOUT_S
        pause_s = 0.002
        show = ("display-message", "-p", "-t", pane.pane_id, f"{self._instance} - - {panes.ROW}")
        while True:
            await self._nudge()
            ((line,),) = await self._server.ask(show)
            # For a pane that is not there display-message prints empty fields, and no error.
            now = panes.row(line).pane if f" {pane.pane_id} {pane.pid} " in line else None
            if now is None and line.split(" ")[3] != str(pane.server_pid):
                raise NoServer("the tmux server that it was in has ended")
            if now is None:
                raise NoTerminal(f"terminal {pane.name} is not there any more")
            if now.exit not in (None, Exit()):
                return now.exit
            if pane.foreign or loop.time() > deadline:
                return Exit()
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.1)

    async def _nudge(self) -> None:
        """Make tmux look for ended children.

        libutempter sets its SIGCHLD handler aside while the helper that writes utmp runs, which is for each
        pane made and closed; what ends meanwhile is not noticed before the next SIGCHLD.
        """
        pid = await self._server.pid()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGCHLD)

    async def close(self, name: str) -> None:
        mine = f"#{{m:{self._instance} * {panes.word(name)},"
        where = f"#{{||:{mine}#{{@sm_terminal}}}},{mine}#{{@sm_agent}}}}}}"
        fields = f"#{{?{mine}#{{@sm_terminal}}}},#{{session_id}},-}} #{{?@sm_agent,#{{pane_id}},-}} x#{{@sm_adopted}}"
        with contextlib.suppress(NoServer):
            (lines,) = await self._server.ask(("list-panes", "-a", "-f", where, "-F", fields))
            found = [line.split(" ") for line in lines]
            for session in {session for session, _, _ in found} - {"-"}:
                await self._kill("kill-session", session)
            # Somebody may have moved the pane elsewhere, or hold it through another session of a group.
            for pane, adopted in {(pane, adopted) for _, pane, adopted in found if pane != "-"}:
                if adopted == f"x{panes.FOREIGN}":
                    await self._unmark(pane)
                else:
                    await self._kill("kill-pane", pane)
        self._session_names.pop(name, None)
        self._adopted.pop(name, None)

    async def _kill(self, command: str, target: str) -> None:
        with contextlib.suppress(Refused):  # an id can only be refused for not being there
            await self._server.ask((command, "-t", target))

    async def capture(self, name: str, lines: int) -> list[str]:
        pane = (await self._row_of(name)).pane
        kept: list[str] = []
        # Joined, one line may take several rows. When these many rows do not do, take all.
        for start in (f"-{lines}", "-"):
            show = ("capture-pane", "-p", "-J", "-t", pane.pane_id, "-S", start)
            try:
                text = await self._server.ask_for_text(show)
            except Refused:
                raise _not_there(name) from None
            kept = panes.without_blanks(text)
            if kept and kept[-1].startswith(_DEAD_NOTE_3_2) and pane.dead:
                kept = panes.without_blanks(kept[:-1])
            # It stands where the output ends; and the pane may have died since it was looked at.
            elif (
                kept and kept[-1].endswith(_DEAD_NOTE) and (pane.dead or (await self._row_of(name)).pane.dead)
            ):
                kept = panes.without_blanks([*kept[:-1], kept[-1].removesuffix(_DEAD_NOTE)])
            if len(kept) >= lines:
                break
        return kept[-lines:] if lines > 0 else []

    async def visible(self, name: str) -> list[str]:
        pane = (await self._row_of(name)).pane
        try:
            return await self._server.ask_for_text(("capture-pane", "-p", "-t", pane.pane_id))
        except Refused:
            raise _not_there(name) from None

    async def styled(self, name: str) -> list[str]:
        pane = await self._living(name)
        try:
            return await self._server.ask_for_text(("capture-pane", "-p", "-e", "-t", pane.pane_id))
        except Refused:
            raise _not_there(name) from None

    async def paste(self, name: str, text: str) -> None:
        try:
            pane = await self._living(name)
            await self._server.ask(("copy-mode", "-q", "-t", pane.pane_id))
        except Refused:
            raise _not_there(name) from None
        except CouldNotAsk as error:
            raise TerminalHeld(f"terminal {name} does not answer: {error.message}") from None
        try:
            await self._paste(pane, text)
        except Refused:
            raise _not_there(name) from None

    async def type_line(
        self, name: str, text: str, holds: Callable[[Sequence[str]], str | None] = lambda screen: None
    ) -> None:
        try:
            pane = await self._living(name)
            # Out of copy mode and any other: there a key is a command, and what is shown is not what is going on.
            leave: Command = ("copy-mode", "-q", "-t", pane.pane_id)
            why = holds(await self._screen(pane, leave))
        except CouldNotAsk as error:  # so far nothing was typed
            raise TerminalHeld(f"terminal {name} does not answer: {error.message}") from None
        if why is not None:
            raise TerminalHeld(f"terminal {name} takes no text now: {why}")
        try:
            if text:
                await self._paste(pane, text)
            await asyncio.sleep(SETTLE_S + len(text) * _SETTLE_S_PER_CHARACTER)
            why = holds(await self._screen(pane, leave)) if text else None
            if why is not None:
                raise TerminalError(f"the text stands in terminal {name}, and Enter was not pressed: {why}")
            # A line of its own: written in one go with the paste, Enter would be text.
            await self._server.ask(leave, ("send-keys", "-t", pane.pane_id, "Enter"))
        except Refused:
            raise _not_there(name) from None

    async def _paste(self, pane: Pane, text: str) -> None:
        """As a bracketed paste (-p) of the text as it is (-r), from a buffer of our own that goes with it (-d)."""
        buffer = f"sm-{secrets.token_hex(6)}"
        paste = ("paste-buffer", "-p", "-r", "-d", "-b", buffer, "-t", pane.pane_id)
        try:
            if len(text.encode()) <= _COMMAND_MAX_BYTES:
                await self._server.ask(("set-buffer", "-b", buffer, "--", text), paste)
                return
            with tempfile.NamedTemporaryFile("wb", prefix="sm-paste-", dir=self._scratch) as file:  # 0600
                file.write(text.encode())
                file.flush()
                await self._server.ask(("load-buffer", "-b", buffer, file.name), paste)
        except Refused:
            self._server.tell(("delete-buffer", "-b", buffer))
            raise

    async def _screen(self, pane: Pane, before: Command) -> list[str]:
        """The visible lines, after `before` was run."""
        try:
            await self._server.ask(before)
            return await self._server.ask_for_text(("capture-pane", "-p", "-t", pane.pane_id))
        except Refused:
            raise _not_there(pane.name) from None

    async def enter_if_unsent(self, name: str, text: str) -> bool:
        pane = await self._living(name)
        to = ("-t", pane.pane_id)
        try:
            _, (cursor,) = await self._server.ask(
                ("copy-mode", "-q", *to), ("display-message", "-p", *to, "#{cursor_y}")
            )
            # From the history on, because a long line may have scrolled; joined, because it may be wrapped.
            shown = ("capture-pane", "-p", "-J", *to, "-S", "-100", "-E", cursor)
            lines = await self._server.ask_for_text(shown)
            if not text or not lines or not lines[-1].rstrip().endswith(text.rstrip()):
                return False
            await self._server.ask(("send-keys", *to, "Enter"))
        except Refused:
            raise _not_there(name) from None
        return True

    async def press(self, name: str, key: str) -> None:
        try:
            pane = await self._living(name)
        except CouldNotAsk as error:
            raise TerminalHeld(f"terminal {name} does not answer: {error.message}") from None
        to = ("-t", pane.pane_id)
        try:
            await self._server.ask(("copy-mode", "-q", *to), ("send-keys", *to, panes.word(key)))
        except Refused:
            raise _not_there(name) from None

    async def _living(self, name: str) -> Pane:
        pane = (await self._row_of(name)).pane
        if pane.dead:
            raise NoTerminal(f"the process in terminal {name} has ended")
        return pane

    async def session_of_tty(self, tty: str) -> str | None:
        if not _TTY.fullmatch(tty):
            return None
        # What else is done in the shell around an adopted agent is its owner's doing.
        own = f"#{{==:#{{@sm_adopted}},{panes.FOREIGN}}}"
        fields = f"#{{?{own},,#{{@sm_agent}}|#{{@sm_instance}} #{{@sm_session_id}}}}"
        # A dead pane still shows the name of the terminal that it had, which may be another pane's by now.
        where = f"#{{&&:#{{==:#{{pane_tty}},{tty}}},#{{!=:#{{pane_dead}},1}}}}"
        (lines,) = await self._server.ask(("list-panes", "-a", "-f", where, "-F", fields))
        for carried in "|".join(lines).split("|"):
            instance, _, rest = carried.partition(" ")
            if instance == self._instance and rest:
                return rest.split(" ")[0]
        return None

    def attach_command(self, name: str) -> tuple[str, ...]:
        # The whole path, because the person's shell may have another TMUX_TMPDIR, or run inside tmux. And
        # the name that the session was last seen with: a hook may have given it another one.
        session = self._session_names.get(name, name)
        client = ("tmux", "-S", self._server.socket_path())
        attach = ("attach-session", "-t", f"={session}:")
        if (pane := self._adopted.get(name)) is None:
            return (*client, *attach)
        # Its session is a person's, who may look at another window of it just now.
        return (*client, "select-window", "-t", pane, ";", "select-pane", "-t", pane, ";", *attach)

    def on_activity(self, told: Callable[[Mapping[str, int]], None]) -> None:
        """As in `Terminals`, for one listener. After a lost connection it goes on with the next call of any kind."""
        self._told_activity = told
        self._subscribe()

    def on_titles(self, told: Callable[[Mapping[str, str]], None]) -> None:
        self._told_titles = told
        self._subscribe()

    def _subscribe(self) -> None:
        if self._subscribing:
            return
        self._subscribing = True
        # window_activity, because session_activity does not move while nobody is attached.
        pane = "#{?@sm_agent,#{@sm_session_id}=#{window_activity}=#{=1:pane_title} ,}"
        mine = f"#{{||:#{{==:#{{@sm_instance}},{self._instance}}},#{{==:#{{@sm_hosts}},{self._instance}}}}}"
        self._server.subscribe(f"#{{S:#{{?{mine},#{{W:#{{P:{pane}}}}},}}}}", self._subscribed)

    def _subscribed(self, value: str) -> None:
        activity: dict[str, int] = {}
        titles: dict[str, str] = {}
        for word in value.split():
            session_id, _, rest = word.partition("=")
            moment, _, glyph = rest.partition("=")
            if moment.isdigit():
                activity[session_id] = int(moment)
                titles[session_id] = glyph
        moved = {key: each for key, each in activity.items() if self._activity.get(key) != each}
        changed = {key: each for key, each in titles.items() if self._titles.get(key) != each}
        self._activity, self._titles = activity, titles
        if moved:
            self._told_activity(moved)
        if changed:
            self._told_titles(changed)

    async def _row_of(self, name: str) -> panes.Row:
        (lines,) = await self._server.ask(
            panes.panes(f"#{{m:{self._instance} * {panes.word(name)},#{{@sm_agent}}}}")
        )
        for row in panes.rows(lines):
            self._session_names[name] = row.session_name
            if row.adopted:
                self._adopted[name] = row.pane.pane_id
            return row
        raise _not_there(name)


def _not_there(name: str) -> NoTerminal:
    return NoTerminal(f"terminal {name} is not there")
