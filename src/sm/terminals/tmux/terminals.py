"""The terminals of one instance in tmux: a detached tmux session for each agent.

`PaneCreator` and `PaneAdopter` make a terminal, `Finder` finds it again, `TmuxKeyboard` types into it, `Subscription`
reports its changes. This module captures and removes terminals, reads exit statuses, and gives the attach command.

The options that mark terminals (`lookup`, `adopt`) may be set on panes of the user. All other options are set on
sessions, windows and panes of sm only.
"""

import asyncio
import contextlib
import logging
import os
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from sm.config.model import TmuxSection
from sm.core.backoff import Backoff
from sm.core.models import Exit
from sm.errors import NoServer, NoTerminal, TerminalError, TerminalUnreachable
from sm.terminals.base import Busy, ForeignPane, Pane
from sm.terminals.tmux import panes
from sm.terminals.tmux.adopt import PaneAdopter
from sm.terminals.tmux.create import PaneCreator
from sm.terminals.tmux.keys import TmuxKeyboard
from sm.terminals.tmux.lookup import Finder, translate_refusal
from sm.terminals.tmux.subscription import Subscription
from sm.terminals.tmux.tmux_server import TmuxServer

log = logging.getLogger(__name__)

EXIT_STATUS_TIMEOUT_S: Final = 2.0
"""The time that tmux gets to learn the exit status of a process that is gone (see `_PIPE_COMMAND` in `create`)."""

_TTY = re.compile(r"/dev/[A-Za-z0-9/]+")


class Tmux:
    """The terminals of one instance, on the user's default tmux server or on a separate server, as `settings` say.

    A server that this class starts gets `environment` and `umask` (-1: inherited). On exit the context manager ends
    only the client. `scratch` is a directory for texts that are too long for a command.

    `before_exec` runs in the client's process and should make it die with the daemon. When a daemon is killed while
    tmux 3.3a has output for it, tmux keeps the client and the output for ever, and cannot end
    (test_killed_daemon_leaves_no_tmux_client).
    """

    def __init__(
        self,
        instance: str,
        settings: TmuxSection,
        environment: Mapping[str, str],
        *,
        timeout_s: float = 5.0,
        umask: int = -1,
        before_exec: Callable[[], None] | None = None,
        scratch: str | None = None,
    ) -> None:
        self._instance = instance
        self._server = server = TmuxServer(
            instance, settings.socket_name, environment, timeout_s, umask, before_exec
        )
        self._finder = finder = Finder(server)
        self._creator = PaneCreator(server, finder, settings)
        self._adopter = PaneAdopter(server, finder)
        self._keyboard = TmuxKeyboard(server, finder, scratch)
        subscription = Subscription(server)
        self.on_activity, self.on_titles = subscription.on_activity, subscription.on_titles
        self.on_viewers = subscription.on_viewers

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the tmux client. Every session stays; a later call reconnects."""
        await self._creator.aclose()
        await self._server.aclose()

    async def retire(self) -> None:
        """As `aclose`. When no terminal of this instance is left, also remove its spare and keeper sessions."""
        with contextlib.suppress(NoServer):
            await self._server.remove_spare()
            if not await self.snapshot():
                await self._server.retire()
        await self.aclose()

    @property
    def trouble(self) -> str | None:
        return self._server.trouble

    @property
    def server_pid(self) -> int | None:
        return self._server.known_pid

    async def snapshot(self) -> Mapping[str, Pane]:
        return await self._finder.snapshot()

    async def server_started_s(self) -> float:
        ((started,),) = await self._server.ask(("display-message", "-p", "#{start_time}"))
        try:
            return float(started)
        except ValueError:
            raise TerminalUnreachable("tmux printed an unreadable start time") from None

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
        """As in `Terminals`. After TerminalUnreachable, call again with `search`: a terminal that was made is found."""
        # A separate task, so that a cancelled caller leaves no half-made terminal: the task finishes, and the
        # terminal is then removed unless it existed before.
        opening = asyncio.create_task(
            self._creator.open(session_id, name, working_dir, argv, title or name, search=search)
        )
        try:
            pane, _ = await asyncio.shield(opening)
        except asyncio.CancelledError:
            try:
                _, made = await opening
                if made:
                    await self.close(name)
            except TerminalError as error:
                log.warning(
                    "could not remove the terminal of a cancelled start: %s",
                    error,
                    extra={"sm_session": session_id},
                )
            raise
        return pane

    async def exit_status(self, pane: Pane) -> Exit:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + EXIT_STATUS_TIMEOUT_S
        backoff = Backoff(0.002, 0.1)
        show = ("display-message", "-p", "-t", pane.pane_id, f"{self._instance} - - {panes.ROW}")
        while True:
            await self._nudge()
            ((line,),) = await self._server.ask(show)
            # For a missing pane display-message prints empty fields and no error.
            now = panes.row(line).pane if f" {pane.pane_id} {pane.pid} " in line else None
            if now is None and line.split(" ")[3] != str(pane.server_pid):
                raise NoServer(f"the tmux server of terminal {pane.name} has ended")
            if now is None:
                raise NoTerminal(f"terminal {pane.name} no longer exists")
            if now.exit not in (None, Exit()):
                if not pane.foreign:  # an older version of sm made the pane without the hook that does this
                    self._server.send_nowait(panes.input_off(pane.pane_id))
                return now.exit
            if pane.foreign or loop.time() > deadline:
                return Exit()
            await asyncio.sleep(backoff.next_s())

    async def _nudge(self) -> None:
        """Make tmux look for ended children.

        For each pane made and closed libutempter replaces tmux's SIGCHLD handler while its helper writes utmp. tmux
        does not notice a child that ends meanwhile before the next SIGCHLD.
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
            rows = [line.split(" ") for line in lines]
            for session in {session for session, _, _ in rows} - {"-"}:
                await self._server.kill("kill-session", session)
            # Somebody may have moved the pane to another session, or hold it through a session group.
            for pane, adopted in {(pane, adopted) for _, pane, adopted in rows if pane != "-"}:
                if adopted == f"x{panes.FOREIGN}":
                    await self._adopter.unmark(pane)
                else:
                    await self._server.kill("kill-pane", pane)
        self._finder.forget(name)

    async def capture(self, name: str, lines: int) -> list[str]:
        pane = await self._finder.pane(name)
        kept: list[str] = []
        # Joined, one line may take several rows. When `lines` rows are not enough, take the whole history.
        for start in (f"-{lines}", "-"):
            kept = panes.without_blanks(await self._shown(pane, "-J", "-S", start))
            if kept and kept[-1].startswith(panes.DEAD_NOTE_3_2) and pane.dead:
                kept = panes.without_blanks(kept[:-1])
            # The note follows the output directly. The pane may have died since the look-up.
            elif (
                kept
                and kept[-1].endswith(panes.DEAD_NOTE)
                and (pane.dead or (await self._finder.pane(name)).dead)
            ):
                kept = panes.without_blanks([*kept[:-1], kept[-1].removesuffix(panes.DEAD_NOTE)])
            if len(kept) >= lines:
                break
        return kept[-lines:] if lines > 0 else []

    async def capture_visible(self, name: str) -> list[str]:
        return await self._shown(await self._finder.pane(name))

    async def capture_styled(self, name: str) -> list[str]:
        return await self._shown(await self._finder.find_running(name), "-e")

    async def _shown(self, pane: Pane, *options: str) -> list[str]:
        with translate_refusal(pane.name):
            return await self._server.ask_for_text(("capture-pane", "-p", *options, "-t", pane.pane_id))

    # Methods and not attributes: the crash tests kill the daemon before and after each call.

    async def look(self, target: str) -> ForeignPane:
        return await self._adopter.look(target)

    async def adopt(
        self, session_id: str, name: str, pane: ForeignPane, *, foreign: bool, agent_pid: int | None = None
    ) -> Pane:
        return await self._adopter.adopt(session_id, name, pane, foreign=foreign, agent_pid=agent_pid)

    async def release(self, name: str) -> None:
        await self._adopter.release(name)

    async def paste(self, name: str, *texts: str) -> Busy | None:
        return await self._keyboard.paste(name, *texts)

    async def running(self, name: str) -> Pane | Busy:
        return await self._keyboard.running(name)

    async def type_line(self, name: str, text: str, pane: Pane | None = None) -> Busy | None:
        return await self._keyboard.type_line(name, text, pane)

    async def enter_if_unsent(self, name: str, text: str) -> bool:
        return await self._keyboard.enter_if_unsent(name, text)

    async def press(self, name: str, key: str) -> Busy | None:
        return await self._keyboard.press(name, key)

    async def key_pause_s(self, name: str) -> float:
        return await self._keyboard.key_pause_s(name)

    async def show_line(self, name: str, text: str) -> None:
        await self._keyboard.show_line(name, text)

    async def has_unread_input(self, name: str) -> bool:
        return await self._keyboard.has_unread_input(name)

    async def session_of_tty(self, tty: str) -> str | None:
        if not _TTY.fullmatch(tty):
            return None
        # Commands in the shell around an adopted agent come from the shell's owner, not from the agent.
        own = f"#{{==:#{{@sm_adopted}},{panes.FOREIGN}}}"
        fields = f"#{{?{own},,#{{@sm_agent}}|#{{@sm_instance}} #{{@sm_session_id}}}}"
        # A dead pane still shows the name of its old tty, which may belong to another pane now.
        where = f"#{{&&:#{{==:#{{pane_tty}},{tty}}},#{{!=:#{{pane_dead}},1}}}}"
        (lines,) = await self._server.ask(("list-panes", "-a", "-f", where, "-F", fields))
        for carried in "|".join(lines).split("|"):
            instance, _, rest = carried.partition(" ")
            if instance == self._instance and rest:
                return rest.split(" ")[0]
        return None

    async def client_pids(self) -> Mapping[str, int]:
        (lines,) = await self._server.ask(("list-clients", "-F", "#{client_pid} #{client_name}"))
        found = (line.partition(" ") for line in lines)
        return {name: int(pid) for pid, _, name in found if pid.isdigit()}

    def attach_command(self, name: str) -> tuple[str, ...]:
        # The whole path, because the person's shell may have another TMUX_TMPDIR or run inside tmux. The last known
        # name, because a hook may have renamed the session.
        session, pane = self._finder.last_seen(name)
        client = ("tmux", "-S", self._server.socket_path())
        attach = ("attach-session", "-t", f"={session}:")
        if pane is None:
            return (*client, *attach)
        # The tmux session belongs to a person, who may look at another window of it.
        return (*client, "select-window", "-t", pane, ";", "select-pane", "-t", pane, ";", *attach)
