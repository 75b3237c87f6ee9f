"""Creates terminals: makes a tmux session for each agent, sets its options, and starts the agent in it.

After each start a spare session, `sm-spare-...`, is made for the next agent: a spawn then waits for one pane and not
for two. The spare is an optimisation only. It is marked like a keeper, so that the next connection removes a spare
that a killed daemon left.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Sequence

from sm.config.model import TmuxSection
from sm.errors import TerminalError
from sm.terminals.base import Pane
from sm.terminals.tmux import panes
from sm.terminals.tmux.control import Command, Refused
from sm.terminals.tmux.lookup import Finder
from sm.terminals.tmux.server import GLOBAL_WINDOW_SIZE, TmuxServer

# The lifetime of a placeholder that nobody removes, in seconds. A spare session's placeholder lives longer: tmux 3.3a
# crashes when a session ends while a control client is still connecting (control_notify_session_closed), so a session
# must not end by itself at a random moment.
_PLACEHOLDER_S = 60
_CLEAN_UP_AFTER_S = 0.002
_SPARE_S = 3600
# When tmux notices that a process ended before it has read the pane, it discards the unread output, unless the pane
# has a pipe. An agent that prints one line and ends while tmux still opens the terminal lost the line 3 to 5 times of
# 100, and almost never with a pipe for the first second.
_PIPE_COMMAND = "exec sleep 1"


class PaneCreator:
    """Opens terminals of the configured size and history."""

    def __init__(self, server: TmuxServer, finder: Finder, settings: TmuxSection) -> None:
        self._server = server
        self._finder = finder
        self._settings = settings
        self._spare: str | None = None
        """The name of the spare session, which tmux removes after an hour."""
        self._cleanups: set[asyncio.Task[None]] = set()

    async def aclose(self) -> None:
        """Cancel the work that continues after `open` has returned."""
        for cleanup in tuple(self._cleanups):
            cleanup.cancel()
        await asyncio.gather(*self._cleanups, return_exceptions=True)

    async def open(
        self, session_id: str, name: str, working_dir: str, argv: Sequence[str], title: str
    ) -> tuple[Pane, bool]:
        """As in `Terminals`. Returns the pane, and whether this call made it."""
        tag = panes.tag(self._server.instance, session_id, name)
        lines, (window_size,) = await self._server.ask(
            panes.panes(f"#{{==:{tag},#{{@sm_agent}}}}"), GLOBAL_WINDOW_SIZE, start=True
        )
        for row in panes.rows(lines):
            return self._finder.remember(row), False
        self._server.refuse_manual(window_size)
        spare = await self._take_spare(name, tag)
        session, placeholder = spare or await self._make_session(name, tag)
        prepared = () if spare else self._preparation(session, tag)
        try:
            shown = ("-n", panes.window_name(title), "-c", panes.literal(working_dir))
            row = await self._start_agent(session, placeholder, tag, shown, argv, prepared)
        except Refused as refused:
            await self._server.kill("kill-session", session)
            raise TerminalError(f"tmux cannot open terminal {name}: {refused.text}") from None
        self._cleanups.add(cleanup := asyncio.create_task(self._clean_up(placeholder)))
        cleanup.add_done_callback(self._cleanups.discard)
        return self._finder.remember(row), True

    async def _clean_up(self, placeholder: str) -> None:
        """Remove the placeholder and make the next spare, after the caller has the answer: utmp entries are slow."""
        await asyncio.sleep(_CLEAN_UP_AFTER_S)
        with contextlib.suppress(TerminalError):  # then the next spawn makes its own session
            ((window_size,),) = await self._server.ask(GLOBAL_WINDOW_SIZE)
            self._server.send_nowait(("kill-window", "-t", placeholder))
            self._server.refuse_manual(window_size)
            if self._spare is None:
                self._make_spare()

    def _make_spare(self) -> None:
        self._spare = f"sm-spare-{secrets.token_hex(4)}"
        here = f"={self._spare}:"
        self._server.send_nowait(
            self._new_session(self._spare, _SPARE_S),
            ("set-option", "-t", here, "@sm_instance", self._server.instance),
            *self._session_options(here),
            # Else the spare stays after its hour when the user's remain-on-exit is on.
            ("set-option", "-w", "-t", f"{here}^", "remain-on-exit", "off"),
        )

    async def _take_spare(self, name: str, tag: str) -> tuple[str, str] | None:
        """The same ids as `_make_session` returns; None when there is no spare session."""
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
        except Refused:  # its hour is over, a hook renamed it, or the name is taken: make a session
            self._server.send_nowait(("kill-session", "-t", f"={spare}"))
            return None
        session, placeholder = made.split()
        return session, placeholder

    async def _make_session(self, name: str, tag: str) -> tuple[str, str]:
        """Make a session with a placeholder process; return the ids of the session and of its window.

        tmux reads history-limit when it makes a pane, and a new session has only the user's global value. So the
        first pane is a placeholder, which ends by itself when the daemon dies here. The agent gets another pane once
        the session has its options.
        """
        for _ in range(2):
            try:
                made, *_ = await self._server.ask(
                    self._new_session(name, _PLACEHOLDER_S),
                    # By name, because the id is not known on this line. When a hook renames the session, these two
                    # fail without harm: the name is free again, and they are repeated by id.
                    ("set-option", "-t", f"={name}:", "@sm_terminal", tag),
                    ("set-option", "-t", f"={name}:", "destroy-unattached", "off"),
                    start=True,
                )
            except Refused as refused:
                if refused.outputs:
                    made = refused.outputs[0]
                elif not refused.text.startswith("duplicate session"):
                    raise TerminalError(f"tmux cannot open terminal {name}: {refused.text}") from None
                else:
                    await self._remove_half(name, tag)
                    continue
            session, placeholder = made[0].split()
            return session, placeholder
        raise TerminalError(f"cannot remove the tmux session named {name}: it keeps coming back")

    def _new_session(self, name: str, placeholder_s: int) -> Command:
        size = ("-x", str(self._settings.width), "-y", str(self._settings.height))
        ids = ("-P", "-F", "#{session_id} #{window_id}")
        return ("new-session", "-d", "-s", name, *size, "-c", "/", *ids, "--", "sleep", str(placeholder_s))

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

    def _session_options(self, session: str) -> tuple[Command, ...]:
        """Prepare a session before the agent's pane is made in it. With 300 sessions each takes tmux 0.2 ms."""
        return (
            ("set-option", "-t", session, "destroy-unattached", "off"),
            ("set-option", "-t", session, "history-limit", str(self._settings.history_limit)),
            # A hook that splits the new window would make another pane the current one.
            ("set-hook", "-t", session, "after-new-window", ""),
        )

    def _preparation(self, session: str, tag: str) -> tuple[Command, ...]:
        """The options that a spare session has already."""
        instance, _, _ = tag.split(" ")
        return (
            ("set-option", "-t", session, "@sm_terminal", tag),
            ("set-option", "-t", session, "@sm_instance", instance),
            *self._session_options(session),
        )

    async def _start_agent(
        self,
        session: str,
        placeholder: str,
        tag: str,
        shown: Command,
        argv: Sequence[str],
        prepared: Sequence[Command],
    ) -> panes.Row:
        """Open the agent's window before the placeholder. `shown`: the options for its name and directory."""
        instance, session_id, _ = tag.split(" ")
        here = ("-t", f"{session}:")  # the session's current pane: after new-window the agent's
        # tmux passes a single argument to the user's default-shell.
        command = tuple(argv) if len(argv) > 1 else ("/bin/sh", "-c", 'exec "$0"', *argv)
        window = ("new-window", "-b", "-t", f"{session}:{placeholder}", *shown)
        # tmux runs one line without interruption: the agent cannot end before remain-on-exit is set (with two lines
        # the exit code was lost 40 times of 40), and the marks exist if and only if the agent's pane does.
        outputs = await self._server.ask(
            *prepared,
            (*window, "-P", "-F", f"{tag} {panes.ROW}", "--", *command),
            ("set-option", "-p", *here, "remain-on-exit", "on"),
            ("pipe-pane", *here, _PIPE_COMMAND),
            ("set-option", "-p", *here, "@sm_agent", tag),
            ("set-option", "-t", session, "@sm_session_id", session_id),
            ("set-option", "-p", "-q", *here, "remain-on-exit-format", panes.DEAD_NOTE),
            ("set-option", "-w", *here, "window-size", "latest"),
            ("set-option", "-w", *here, "allow-rename", "off"),
            ("set-hook", "-u", "-t", session, "after-new-window"),
            # If this daemon does not remove it.
            ("set-option", "-w", "-t", placeholder, "@sm_placeholder", instance),
        )
        return panes.row(outputs[len(prepared)][0])
