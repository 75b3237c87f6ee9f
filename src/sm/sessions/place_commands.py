"""Runs commands in the terminal of a session before its agent starts there, such as those that set up its directory.

They run in the sandbox, with the environment, the limits and the identity of the agent. A person can attach to the
terminal meanwhile. They go on while no daemon runs.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from sm.config import Cleanup
from sm.core.dataclass import dataclass
from sm.core.models import Exit, Process, Session
from sm.core.states import TrustLevel
from sm.core.timestamps import epoch_s
from sm.errors import ExternalError, NoServer, NoTerminal
from sm.linux.process_endings import ProcessWatch
from sm.linux.processes import TICKS_PER_S, identify, read_stat
from sm.paths import InstancePaths
from sm.sandboxes.base import Sandbox
from sm.sessions.keepers import SessionKeeper
from sm.sessions.starts import AgentStarts
from sm.store import Store
from sm.terminals.base import Pane, Terminals

log = logging.getLogger(__name__)

RUN_EACH = """for command do printf '+ %s\\n' "$command"; /bin/sh -c "$command" || exit; done"""
"""Runs its arguments one after the other, up to the first one that fails, whose exit code it has."""
_LINES_KEPT = 200
_LEAST_S = 1.0
"""In which commands that have ended are seen as such, although their time is over."""


@dataclass(frozen=True, slots=True)
class CommandsEnd:
    """The end of the commands. `exit`: of the last one, or None if their time was over."""

    exit: Exit | None
    lines: Sequence[str]
    """The last lines of the terminal."""


class PlaceCommands:
    def __init__(
        self,
        store: Store,
        paths: InstancePaths,
        terminals: Terminals,
        sandbox: Sandbox,
        starts: AgentStarts,
        keeper: SessionKeeper,
        cleanup: Cleanup,
    ) -> None:
        self._store = store
        self._paths = paths
        self._terminals = terminals
        self._sandbox = sandbox
        self._starts = starts
        self._keeper = keeper
        self._cleanup = cleanup
        self._running = dict[str, Process]()
        """By the id of the session."""

    async def run(
        self, session_id: str, commands: Sequence[str], working_dir: str, within_s: float
    ) -> CommandsEnd:
        """Run the commands, each by `sh -c`, and leave the terminal open. `working_dir`: as the agent sees it.

        May be repeated: commands that run, or have ended, are not started again while their terminal exists. A
        cancelled call leaves them running. `within_s`: since they began, also in an earlier daemon. Commands that fail
        leave no processes behind. Raises AgentStartFailed, SandboxUnavailable, StorageFull and TerminalError.
        """
        session = self._store.sessions[session_id]
        is_sandboxed = session.effective_mode is TrustLevel.SANDBOXED
        launch = await self._store.launch(session_id)
        # $0 is the file of MCP servers: a launch that does not name it would remove it.
        servers = self._paths.agent_paths(session_id, sandboxed=is_sandboxed).mcp_file
        argv = ("/bin/sh", "-c", RUN_EACH, servers, *commands)
        launch = replace(launch, argv=argv, working_dir=working_dir, prompt_file=None)
        opened = await self._sandbox.prepare(session, launch)
        self._starts.prepared.pop(session_id, None)  # its script was replaced
        directory = "/" if is_sandboxed else working_dir
        pane = await self._terminals.open(
            session_id, session.terminal, directory, opened, title=session.display_name
        )
        first = identify(pane.pid)
        process = await self._sandbox.wait_started(session, pane.pid)
        if process is not None:
            self._running[session_id] = process
        left_s = max(_LEAST_S, within_s - _age_s(pane.pid))
        in_time = await self._wait_for_end(session, process, pane, left_s)
        self._running.pop(session_id, None)
        exit = await self._exit(session, pane)
        if exit != Exit(0) and in_time:
            await self._end_rest(session, process or first)
        lines = await self._terminals.capture(session.terminal, _LINES_KEPT)
        return CommandsEnd(exit if in_time else None, lines)

    async def _wait_for_end(
        self, session: Session, process: Process | None, pane: Pane, within_s: float
    ) -> bool:
        """Wait for the end of the commands and of their terminal. End them after the time, and return False then."""
        try:
            async with asyncio.timeout(within_s):
                # In a container, the process of the terminal ends after that of the commands.
                for waited in dict.fromkeys((process, identify(pane.pid))):
                    if waited is not None:
                        await _ended(waited)
            return True
        except TimeoutError:
            await self._end(session, process, pane)
            return False

    async def _exit(self, session: Session, pane: Pane) -> Exit:
        try:
            return (await self._sandbox.ending(session, await self._terminals.exit_status(pane))).exit
        except (NoServer, NoTerminal):
            return Exit()

    async def stop(self, session_id: str) -> None:
        """End the commands, if they run. Their terminal stays. Raises ExternalError and TerminalUnreachable."""
        session, process = self._store.sessions[session_id], self._running.pop(session_id, None)
        with suppress(NoServer):
            pane = (await self._terminals.snapshot()).get(session_id)
            if pane is not None and not pane.dead:
                await self._end(session, process, pane)

    async def _end(self, session: Session, process: Process | None, pane: Pane) -> None:
        ended = process or identify(pane.pid)
        if ended is not None:
            await self._sandbox.end(session, ended, force=False)

    async def _end_rest(self, session: Session, process: Process | None) -> None:
        """End the processes that failed commands have left in the background: they have the token of the session."""
        if process is None:
            return
        try:
            await self._sandbox.end(session, process, force=False)
        except ExternalError as error:  # the failure of the commands is the reason that people read
            log.warning("a set-up left processes behind: %s", error.message, extra={"sm_session": session.id})

    async def close(self, session_id: str) -> None:
        """Keep the output of the commands in the archive of the session, and close their terminal. Idempotent.

        Not to be called once the agent has started.
        """
        session = self._store.sessions[session_id]
        with suppress(NoServer):
            if session_id not in await self._terminals.snapshot():
                return
            if self._cleanup.auto_archive_transcript:
                await self._keeper.keep(session_id, session.terminal, epoch_s(session.created_at))
            await self._terminals.close(session.terminal)


def _age_s(pid: int) -> float:
    """The seconds since a process began, 0 for one that is gone."""
    stat = read_stat(pid)
    return 0.0 if stat is None else time.clock_gettime(time.CLOCK_BOOTTIME) - stat.start / TICKS_PER_S


async def _ended(process: Process) -> None:
    watch, ended = ProcessWatch(), asyncio.Event()
    try:
        watch.watch(process, ended.set)
        await ended.wait()
    finally:
        watch.close()
