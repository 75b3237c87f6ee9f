"""Creates terminals: prepares a tmux session with an empty pane, and starts the agent in the pane.

After each start a spare session, `sm-spare-...`, is prepared for the next agent, so that a spawn waits for one command
line of tmux. The spare is an optimisation only. It is marked like a keeper, so that the next connection removes a
spare that a killed daemon left.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Sequence

from sm.config.model import TmuxSection
from sm.core.dataclass import dataclass
from sm.errors import NoServer, TerminalError, TerminalUnreachable
from sm.terminals.base import Pane
from sm.terminals.tmux import panes
from sm.terminals.tmux.control import Command, Control, Refused
from sm.terminals.tmux.lookup import Finder
from sm.terminals.tmux.tmux_server import GLOBAL_WINDOW_SIZE, TmuxServer

_PLACEHOLDER_S = 60
"""The lifetime of a session without marks that a killed daemon left, in seconds."""
_CLEAN_UP_AFTER_S = 0.002
# When tmux notices that a process ended before it has read the pane, it discards the unread output, unless the pane
# has a pipe. An agent that prints one line and ends while tmux still opens the terminal lost the line 3 to 5 times of
# 100, and almost never with a pipe for the first second.
_PIPE_COMMAND = "exec sleep 1"
_SPLIT_HOOK = "after-split-window"
_KILL_HOOK = "after-kill-pane"


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A tmux session with all options of a terminal and one empty pane."""

    connection: Control | None
    """The ids are valid only on this connection: another server gives out the same ids again."""
    session: str
    window: str
    pane: str


class PaneCreator:
    """Opens terminals of the configured size and history."""

    def __init__(self, server: TmuxServer, finder: Finder, settings: TmuxSection) -> None:
        self._server = server
        self._finder = finder
        self._settings = settings
        self._spare: _Prepared | None = None
        self._prepares_spare = False
        self._cleanups: set[asyncio.Task[None]] = set()

    async def aclose(self) -> None:
        """Cancel the work that continues after `open` has returned."""
        for cleanup in tuple(self._cleanups):
            cleanup.cancel()
        await asyncio.gather(*self._cleanups, return_exceptions=True)

    async def open(
        self,
        session_id: str,
        name: str,
        working_dir: str,
        argv: Sequence[str],
        title: str,
        *,
        search: bool = True,
    ) -> tuple[Pane, bool]:
        """As in `Terminals`. Returns the pane, and whether this call made it."""
        tag = panes.tag(self._server.instance, session_id, name)
        if search:
            (lines,) = await self._server.ask(panes.panes(f"#{{==:{tag},#{{@sm_agent}}}}"), start=True)
            for row in panes.rows(lines):
                return self._finder.remember(row), False
        shown = (panes.literal(working_dir), panes.window_name(title))
        for _ in range(3):
            spare = self._take_spare()
            prepared = spare or await self._session_for(name)
            try:
                row = await self._start_agent(prepared, tag, shown, argv)
            except NoServer:
                if spare is None:
                    raise
            except Refused as refused:
                await self._server.kill("kill-session", prepared.session)
                if refused.text.startswith("duplicate session"):
                    await self._remove_half(name, tag)
                elif spare is None:
                    raise _refusal(name, refused) from None
            else:
                self._cleanups.add(cleanup := asyncio.create_task(self._clean_up(row.pane.pane_id, tag)))
                cleanup.add_done_callback(self._cleanups.discard)
                return self._finder.remember(row), True
        raise TerminalError(f"cannot remove the tmux session named {name}: it keeps coming back")

    async def _clean_up(self, pane_id: str, tag: str) -> None:
        """Prepare the next spare after the caller has the answer: utmp entries are slow.

        A hook may have renamed the agent's session after its start, so ask for the name again.
        """
        await asyncio.sleep(_CLEAN_UP_AFTER_S)
        with contextlib.suppress(TerminalError):  # then the next spawn makes its own session
            ((line,),) = await self._server.ask(panes.pane(pane_id))
            if (row := panes.row_of(line, tag)) is not None:
                self._finder.remember(row)
            if self._spare is not None or self._prepares_spare:
                return
            self._prepares_spare = True
            try:
                self._spare = await self._make_session()
            finally:
                self._prepares_spare = False

    def _take_spare(self) -> _Prepared | None:
        spare, self._spare = self._spare, None
        # A new connection removes the spare of the last one.
        if spare is None or spare.connection is not self._server.connection:
            return None
        return spare

    async def _session_for(self, name: str) -> _Prepared:
        try:
            return await self._make_session()
        except Refused as refused:
            raise _refusal(name, refused) from None

    async def _make_session(self) -> _Prepared:
        """Prepare a session with an empty pane, which `split-window` can make and `new-session` cannot.

        tmux reads history-limit when it makes a pane, and a new session has only the user's global value. So the
        first pane, with a placeholder process, makes room for another one once the session has its options. Raises
        Refused.
        """
        ((window_size,),) = await self._server.ask(GLOBAL_WINDOW_SIZE, start=True)
        self._server.refuse_manual(window_size)
        connection = self._server.connection
        name = f"sm-spare-{secrets.token_hex(4)}"
        mark = ("@sm_instance", self._server.instance)
        keep = ("destroy-unattached", "off")
        try:
            made, *_ = await self._server.ask(
                self._new_session(name),
                # By name, because the id is not known on this line. When a hook renames the session, these two fail
                # without harm, and are repeated by id.
                *(("set-option", "-t", f"={name}:", *option) for option in (mark, keep)),
            )
        except Refused as refused:
            if not refused.outputs:
                raise
            made = refused.outputs[0]
        session, window = made[0].split()
        try:
            (*_, (pane,)) = await self._ask(connection, *self._preparation(session, window, mark, keep))
        except Refused:
            await self._server.kill("kill-session", session)
            raise
        return _Prepared(connection, session, window, pane)

    def _new_session(self, name: str) -> Command:
        size = ("-x", str(self._settings.width), "-y", str(self._settings.height))
        ids = ("-P", "-F", "#{session_id} #{window_id}")
        return ("new-session", "-d", "-s", name, *size, "-c", "/", *ids, "--", "sleep", str(_PLACEHOLDER_S))

    def _preparation(self, session_id: str, window_id: str, *options: Command) -> list[Command]:
        """The commands that replace a new session's placeholder by an empty pane. The last one prints its id.

        The options that every terminal has are set here and not in the start: with 300 sessions each takes tmux
        0.1 ms.
        """
        session, window = ("-t", session_id), ("-t", f"{session_id}:{window_id}")
        hooks = (_SPLIT_HOOK, _KILL_HOOK)
        return [
            *(("set-option", *session, *option) for option in options),
            ("set-option", *session, "history-limit", str(self._settings.history_limit)),
            # A hook could make another pane the current one.
            *(("set-hook", *session, hook, "") for hook in hooks),
            ("split-window", "-h", *window, "-c", "/", ""),
            # From here on the window's current pane is the empty one. A hook may have made more than the placeholder.
            ("kill-pane", "-a", *window),
            *(("set-hook", "-u", *session, hook) for hook in hooks),
            *panes.keep_on_exit(f"{session_id}:{window_id}"),
            ("set-option", "-w", *window, "window-size", "latest"),
            ("set-option", "-w", *window, "allow-rename", "off"),
            ("display-message", "-p", *window, "#{pane_id}"),
        ]

    async def _ask(self, connection: Control | None, *commands: Command) -> list[list[str]]:
        """Ask by ids. Raises TerminalUnreachable when the connection on which they are valid is lost."""
        if self._server.connection is not connection:
            raise TerminalUnreachable("the connection to the tmux server was lost")
        return await self._server.ask(*commands)

    async def _remove_half(self, name: str, tag: str) -> None:
        """Remove the session of this name that a daemon made and left without an agent."""
        fields = "#{session_id} x#{@sm_session_id} #{@sm_terminal}"
        ((line,),) = await self._server.ask(("display-message", "-p", "-t", f"={name}:", fields))
        session, started, holder = line.split(" ", 2)
        socket_path = self._server.socket_path()
        if holder != tag:
            raise TerminalError(
                f"a tmux session named {name} exists, and sm did not create it",
                f"tmux -S {socket_path} rename-session -t ={name} something-else",
            )
        if started != "x":
            raise TerminalError(
                f"terminal {name} has no agent: its pane was closed",
                f"tmux -S {socket_path} kill-session -t ={name}",
            )
        await self._server.kill("kill-session", session)

    async def _start_agent(
        self, prepared: _Prepared, tag: str, shown: tuple[str, str], argv: Sequence[str]
    ) -> panes.Row:
        """Start the agent in the prepared pane. `shown`: its working directory and the name of its window."""
        _, session_id, name = tag.split(" ")
        working_dir, title = shown
        session, pane = ("-t", prepared.session), ("-t", prepared.pane)
        # tmux passes a single argument to the user's default-shell.
        command = tuple(argv) if len(argv) > 1 else ("/bin/sh", "-c", 'exec "$0"', *argv)
        # tmux runs one line without interruption: the marks exist if and only if the agent does.
        outputs = await self._ask(
            prepared.connection,
            ("rename-session", *session, name),
            ("set-option", *session, "@sm_terminal", tag),
            ("respawn-pane", *pane, "-c", working_dir, "--", *command),
            ("pipe-pane", *pane, _PIPE_COMMAND),
            ("set-option", "-p", *pane, "@sm_agent", tag),
            ("set-option", *session, "@sm_session_id", session_id),
            ("rename-window", "-t", prepared.window, "--", title),
            panes.pane(prepared.pane),
        )
        return panes.row(outputs[-1][0])


def _refusal(name: str, refused: Refused) -> TerminalError:
    return TerminalError(f"tmux cannot open terminal {name}: {refused.text}")
