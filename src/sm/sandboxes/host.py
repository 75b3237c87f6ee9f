"""Runs agents on this host as the user of the daemon: without isolation, but in a separate environment.

The terminal runs `env -i TERM=... sh state/launch/ID`, and the agent becomes the terminal's own process. The script
first enters the cgroup of the session, and is removed when the agent runs.
"""

import asyncio
import logging
import subprocess
from collections.abc import Callable

from sm.core.models import Exit, Launch, Process, Session, Workspace
from sm.linux import process_endings, processes
from sm.paths import InstancePaths
from sm.sandboxes import launch as launches
from sm.sandboxes.base import ProcessEnding, did_not_end
from sm.sandboxes.launch import FAILED, HostFiles, LaunchWatch, parse_failure
from sm.sandboxes.session_processes import SessionProcesses

log = logging.getLogger(__name__)

_ENV = "/usr/bin/env"
_PROBE_S = 10.0
START_BOUND_S = 10.0
_ENTERS_AFTER_S = 0.02
"""The look whether an agent is in its cgroup takes a millisecond, which the answer to the spawn should not wait for."""


def _launch_command(shell: str) -> tuple[str, ...]:
    """The argv that runs a script in `shell` with an environment of only the terminal's TERM.

    `env -S` (GNU, FreeBSD) needs no shell to expand TERM and is 0.5 ms faster. Busybox does not support it.
    """
    probe = (_ENV, f"-S-i TERM=${{TERM}} {_ENV}")
    environment = {"TERM": "a b", "SM_PROBE": "1"}
    answer = subprocess.run(probe, env=environment, capture_output=True, timeout=_PROBE_S, check=False)
    return (
        (_ENV, f"-S-i TERM=${{TERM}} {shell}")
        if answer.stdout == b"TERM=a b\n"
        else _slow_launch_command(shell)
    )


def _slow_launch_command(shell: str) -> tuple[str, ...]:
    return (shell, "-c", f'exec {_ENV} -i TERM="$TERM" {shell} "$0"')


class HostSandbox:
    """`Sandbox` on this host, to be made in the event loop that uses it and closed with `close`.

    `grace_s`: the time between SIGTERM and SIGKILL. `shell`: the absolute path of a POSIX shell. `way_in`: the
    argv that runs a script with an environment of only TERM. By default it is found with the first script.
    """

    def __init__(
        self,
        paths: InstancePaths,
        session_processes: SessionProcesses,
        grace_s: float = 5.0,
        *,
        shell: str = "/bin/sh",
        way_in: tuple[str, ...] | None = None,
    ) -> None:
        self._paths = paths
        self._session_processes = session_processes
        self._grace_s = grace_s
        self._shell = shell
        self._way_in = way_in
        self._watch = LaunchWatch()
        self._running: set[asyncio.Future[object]] = set()

    def _script_of(self, session_id: str) -> str:
        return f"{self._paths.launch}/{session_id}"

    async def require_available(self, workspace: Workspace | None) -> tuple[str, ...]:
        """As in `Sandbox`: this host is always available."""
        return ()

    async def prepare(self, session: Session, launch: Launch, token: str | None = None) -> tuple[str, ...]:
        """As in `Sandbox`. Raises StorageFull, with nothing half-written, and UsageError as `launch.script`."""
        session_id = session.id
        if self._session_processes.enters_at_once:
            entry = self._session_processes.open(session_id)
        else:
            # First the cgroup is made: the kernel makes none during the warm-up, for which nobody waits.
            entry = await asyncio.to_thread(self._session_processes.open, session_id)
            self._in_thread(self._session_processes.warm_up)
        script = self._script_of(session_id)
        text = launches.script(launch, script + FAILED, setup=entry)
        if self._way_in is None:
            self._way_in = await asyncio.to_thread(_launch_command, self._shell)
        folder, servers = self._paths.launch, self._paths.mcp_file(session_id)
        launches.write_files(session_id, folder, text, launch, token, servers_file=servers)
        return (*self._way_in, script)

    async def wait_started(self, session: Session, pid: int) -> Process | None:
        """As in `Sandbox`. The agent runs once `pid` has left the launch script, at most 10 s after this call."""
        script = self._script_of(session.id)
        process: Process | None = None

        def is_over() -> bool:
            nonlocal process
            process = processes.identify(pid)
            return process is None or not _in_launch(pid, script)

        # bash reads a text file without #! in the same process, which then looks like the launch for ever. The launch
        # is over when the process no longer has the script open.
        if not await self._watch.wait_until(script, is_over, START_BOUND_S) and processes.has_open(
            pid, script
        ):
            raise launches.late_start(session.id, START_BOUND_S)
        launches.remove_script(session.id, self._paths.launch)
        if process is None:
            self._in_thread(self._session_processes.forget, session.id)
            _raise_if_failed(pid, script + FAILED)
        else:
            # For a script that could not enter. Nobody waits for it, and the next daemon repeats it.
            asyncio.get_running_loop().call_later(
                _ENTERS_AFTER_S, self._in_thread, self._session_processes.enter, session.id, process
            )
        return process

    async def end(self, session: Session, process: Process, *, force: bool) -> None:
        """As in `Sandbox`. Raises ExternalError when a process does not end."""

        def others() -> list[Process]:
            return self._session_processes.of(session.id, process)

        await asyncio.to_thread(self._session_processes.thaw, session.id)
        left = await process_endings.end_tree(process, self._grace_s, force=force, others=others)
        left += await self._session_processes.kill_cgroup(session.id)  # what forks faster than it is seen
        if left:
            raise did_not_end(left)

    async def ending(self, session: Session, terminal: Exit) -> ProcessEnding:
        """As in `Sandbox`: the agent is the process of its terminal."""
        return ProcessEnding(terminal)

    async def appeared(self, session: Session) -> tuple[str, ...]:
        """As in `Sandbox`: nothing is protected."""
        return ()

    def ended(self, session: Session) -> None:
        """As in `Sandbox`: this host does not stop."""

    async def forget(self, session_id: str) -> None:
        await asyncio.to_thread(self._session_processes.forget, session_id)
        launches.remove_files(session_id, self._paths.launch)

    def _in_thread(self, function: Callable[..., object], *arguments: object) -> None:
        future = asyncio.get_running_loop().run_in_executor(None, function, *arguments)
        self._running.add(future)
        future.add_done_callback(self._finished)

    def _finished(self, future: "asyncio.Future[object]") -> None:
        self._running.discard(future)
        if not future.cancelled() and (error := future.exception()) is not None:
            log.error("failed to move an agent to its cgroup", exc_info=error)

    def close(self) -> None:
        """Stop watching files. Idempotent; agents keep running."""
        self._watch.close()


def _in_launch(pid: int, script: str) -> bool:
    """True while a process is not the agent yet: a fork of the terminal server, `env`, or the shell."""
    argv = processes.command_line(pid)
    if not argv or argv[-1] == script:  # no argv: in the middle of an execve
        return True
    # Between the server's fork and its first execve the child still shows the server's own command line.
    return argv == processes.command_line(next(iter(processes.ancestry(pid)[1:2]), 0))


def _raise_if_failed(pid: int, report: str) -> None:
    """Raise AgentStartFailed when the script that ran as `pid` reported a failure."""
    try:
        with open(report, "rb") as file:
            failure = parse_failure(file.read())
    except FileNotFoundError:
        return
    if failure is not None and failure.mark == str(pid):  # else from an earlier start
        raise failure.error(HostFiles())
