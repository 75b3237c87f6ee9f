"""The terminals of one instance in tmux: a detached tmux session for each agent.

`PaneCreator` and `PaneAdopter` make a terminal, `Finder` finds it again, `TmuxKeyboard` types into it, `Subscription`
reports its changes. This module has the rest: what a terminal shows, its end, its removal, and how a person attaches.

The options that mark terminals (`lookup`, `adopt`) may be set on panes of the user. All others are set on sessions,
windows and panes of sm only.
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
from sm.terminals.base import ForeignPane, Pane
from sm.terminals.tmux import panes
from sm.terminals.tmux.adopt import PaneAdopter
from sm.terminals.tmux.create import PaneCreator
from sm.terminals.tmux.keys import TmuxKeyboard
from sm.terminals.tmux.lookup import Finder, expected
from sm.terminals.tmux.server import TmuxServer
from sm.terminals.tmux.subscription import Subscription

log = logging.getLogger(__name__)

EXIT_STATUS_TIMEOUT_S: Final = 2.0
"""How long tmux may take to find out how a process ended that is known to be gone (see `_LAST_WORDS` in `create`)."""

_TTY = re.compile(r"/dev/[A-Za-z0-9/]+")


class Tmux:
    """The terminals of one instance, on the user's default tmux server or on one of its own, as `settings` say.

    `environment` and `umask` (-1: ours) are those of a server that it starts too. As a context manager it ends our
    client at the end, and nothing else.

    `scratch` is a directory for texts that are too long for a command.

    `before_exec` runs in our client's process and should make it die with us. When a daemon is killed that tmux
    3.3a has something to tell, tmux keeps its client for ever, with all that it would still tell it, and cannot
    even end (test_a_killed_daemon_leaves_no_client_behind).
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

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End our tmux client. Every session stays; a later call would connect again."""
        await self._creator.aclose()
        await self._server.aclose()

    async def retire(self) -> None:
        """As `aclose`; and when no terminal of ours is left, nothing of ours stays in tmux."""
        with contextlib.suppress(NoServer):
            await self._server.remove_spare()
            if not await self.snapshot():
                await self._server.retire()
        await self.aclose()

    async def snapshot(self) -> Mapping[str, Pane]:
        return await self._finder.snapshot()

    async def since(self) -> float:
        ((started,),) = await self._server.ask(("display-message", "-p", "#{start_time}"))
        try:
            return float(started)
        except ValueError:
            raise TerminalUnreachable("tmux says in a form that makes no sense since when it runs") from None

    async def open(self, session_id: str, name: str, working_dir: str, argv: Sequence[str]) -> Pane:
        """As in `Terminals`. After TerminalUnreachable, ask again: a terminal that was made is found."""
        # A task of its own, so that a cancelled caller leaves no terminal half made: what was begun is
        # finished and then removed, unless it stood before.
        opening = asyncio.create_task(self._creator.open(session_id, name, working_dir, argv))
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

    async def ending(self, pane: Pane) -> Exit:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + EXIT_STATUS_TIMEOUT_S
        backoff = Backoff(0.002, 0.1)
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
            await asyncio.sleep(backoff.next_s())

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
                await self._server.kill("kill-session", session)
            # Somebody may have moved the pane elsewhere, or hold it through another session of a group.
            for pane, adopted in {(pane, adopted) for _, pane, adopted in found if pane != "-"}:
                if adopted == f"x{panes.FOREIGN}":
                    await self._adopter.unmark(pane)
                else:
                    await self._server.kill("kill-pane", pane)
        self._finder.closed(name)

    async def capture(self, name: str, lines: int) -> list[str]:
        pane = await self._finder.pane(name)
        kept: list[str] = []
        # Joined, one line may take several rows. When these many rows do not do, take all.
        for start in (f"-{lines}", "-"):
            kept = panes.without_blanks(await self._shown(pane, "-J", "-S", start))
            if kept and kept[-1].startswith(panes.DEAD_NOTE_3_2) and pane.dead:
                kept = panes.without_blanks(kept[:-1])
            # It stands where the output ends; and the pane may have died since it was looked at.
            elif (
                kept
                and kept[-1].endswith(panes.DEAD_NOTE)
                and (pane.dead or (await self._finder.pane(name)).dead)
            ):
                kept = panes.without_blanks([*kept[:-1], kept[-1].removesuffix(panes.DEAD_NOTE)])
            if len(kept) >= lines:
                break
        return kept[-lines:] if lines > 0 else []

    async def visible(self, name: str) -> list[str]:
        return await self._shown(await self._finder.pane(name))

    async def styled(self, name: str) -> list[str]:
        return await self._shown(await self._finder.living(name), "-e")

    async def _shown(self, pane: Pane, *options: str) -> list[str]:
        with expected(pane.name):
            return await self._server.ask_for_text(("capture-pane", "-p", *options, "-t", pane.pane_id))

    # Methods, and not attributes: the crash tests kill the daemon before and after each of them.

    async def look(self, target: str) -> ForeignPane:
        return await self._adopter.look(target)

    async def adopt(self, session_id: str, name: str, pane: ForeignPane, *, foreign: bool) -> Pane:
        return await self._adopter.adopt(session_id, name, pane, foreign=foreign)

    async def release(self, name: str) -> None:
        await self._adopter.release(name)

    async def paste(self, name: str, text: str) -> None:
        await self._keyboard.paste(name, text)

    async def type_line(self, name: str, text: str) -> None:
        await self._keyboard.type_line(name, text)

    async def enter_if_unsent(self, name: str, text: str) -> bool:
        return await self._keyboard.enter_if_unsent(name, text)

    async def press(self, name: str, key: str) -> None:
        await self._keyboard.press(name, key)

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
        session, pane = self._finder.last_seen(name)
        client = ("tmux", "-S", self._server.socket_path())
        attach = ("attach-session", "-t", f"={session}:")
        if pane is None:
            return (*client, *attach)
        # Its session is a person's, who may look at another window of it just now.
        return (*client, "select-window", "-t", pane, ";", "select-pane", "-t", pane, ";", *attach)
