"""Runs agents in the container of their workspace.

The terminal runs `docker exec -it`, which runs the launch script inside. The session's process is the agent's process
on the host: the kernel tells its end, and takes its signals, without the engine. All processes of the container that
were started for a session belong to it, whoever their parent is now. They are in the cgroup of the session, which is
below that of the container, or have the id of the session in their environment.
"""

import asyncio
import contextlib
import logging
import os
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from sm.config import Config, sandbox_for
from sm.core.models import Exit, Launch, Process, Session, Workspace
from sm.errors import (
    AgentStartFailed,
    SandboxBusy,
    SandboxUnavailable,
    SandboxUnreachable,
    UsageError,
)
from sm.linux import process_endings, processes
from sm.linux.cgroups import Cgroup, container_of
from sm.linux.process_limits import UMASK
from sm.linux.process_root import ProcessRoot
from sm.paths import INSIDE_HOME, INSIDE_LAUNCH, INSIDE_SCRATCH, InstancePaths, SandboxPaths
from sm.sandboxes import launch as launches
from sm.sandboxes.base import ProcessEnding, did_not_end
from sm.sandboxes.containers import Container
from sm.sandboxes.docker.admission import gib, shortage, usage_of
from sm.sandboxes.docker.agent_process import AgentSearch, cgroup_of_container, exec_pid, marked
from sm.sandboxes.docker.engine import Engine
from sm.sandboxes.docker.image import Images
from sm.sandboxes.docker.mounts import present, writable_directories
from sm.sandboxes.docker.protection import ProtectionRecords
from sm.sandboxes.docker.start_report import (
    FOLDER,
    NO_SCRATCH,
    explained,
    read_report,
    remove_report,
    report_inside,
    words_of_engine,
)
from sm.sandboxes.session_processes import SessionProcesses

if TYPE_CHECKING:
    from docker import DockerClient

log = logging.getLogger(__name__)

_ID = re.compile(r"[a-zA-Z0-9_-]+")
_BUSY_S = 10.0
# Longer than on the host: thirty starts at the same time take the engine seconds.
_START_BOUND_S = 30.0
# The search in /proc takes milliseconds, and does not find an agent without its mark.
_SEARCH_S = 2.0
_SIGKILL = 9
_WORDS = ".engine"
"""The suffix of the file in the daemon's own launch directory that gets the complaints of `docker exec`."""

# $0 gets the complaints of the command: its stderr is not that of the agent, which has a terminal. The last argument is
# the pid of the terminal's process, because exec keeps it. The command needs nothing from the configuration of a user.
_IN_TERMINAL = 'exec /usr/bin/env -i TERM="$TERM" DOCKER_CONFIG=/nonexistent "$@" "$$" 2>"$0"'
_IN_CONTAINER = 'exec /usr/bin/env -i TERM="$TERM" /bin/sh "$@"'
# The command holds back the first key of the sequence that ends the connection, which is ctrl-p by default. Nobody
# types this one.
_DETACH_KEYS = "ctrl-^,ctrl-@,ctrl-^,ctrl-@,ctrl-^,ctrl-@"
# The id is checked here again. The last argument is kept, because the script sets its own ones.
_SETUP = (
    "_sm_start=$1 _sm_id=${0##*/}",
    f"case $_sm_id in ''|*[!a-zA-Z0-9_-]*) exit {NO_SCRATCH} ;; esac",
    f"[ -d {INSIDE_HOME}/{FOLDER} ] || mkdir -m 700 {INSIDE_HOME}/{FOLDER}",
    f"mkdir -m 700 {INSIDE_SCRATCH}/$_sm_id 2>/dev/null || [ -d {INSIDE_SCRATCH}/$_sm_id ] || exit {NO_SCRATCH}",
)


class ContainerKeeper(Protocol):
    """Makes and knows the containers of this instance: `Containers`."""

    async def check(self, workspace: Workspace | None) -> tuple[str, ...]:
        """Warnings for a session that is about to start. Raises SandboxUnavailable if the container cannot be made."""

    async def ensure(self, workspace: Workspace | None) -> Container:
        """Return the container, which runs. Raises SandboxUnavailable."""

    def find(self, workspace: str | None) -> Container | None:
        """The container that runs, as far as it is known now, without I/O."""

    async def has_ended(self, workspace: str | None, process: Process) -> bool:
        """Return True if the container in which the process ran has ended without an order of this daemon."""

    def start_idle_time(self, workspace: str | None) -> None:
        """Count the time after which an idle container stops from now."""


class ContainerSandbox:
    """`Sandbox` in containers, to be made in the event loop that uses it and closed with `close`.

    `workspace`: finds a workspace by its slug; None for a deleted one. `grace_s`: the time between SIGTERM and SIGKILL.
    """

    def __init__(
        self,
        engine: Engine,
        containers: ContainerKeeper,
        images: Images,
        config: Config,
        paths: InstancePaths,
        workspace: Callable[[str], Workspace | None],
        session_processes: SessionProcesses,
        grace_s: float = 5.0,
    ) -> None:
        self._engine = engine
        self._containers = containers
        self._images = images
        self._config = config
        self._paths = paths
        self._workspace = workspace
        self._session_processes = session_processes
        self._grace_s = grace_s
        self._records = ProtectionRecords(paths)
        self._watch = launches.LaunchWatch()
        self._oom_kills: dict[str, int] = {}  # by the id of the container: those that are accounted for

    # ------------------------------------------------------------------------------------------------- start

    async def require_available(self, workspace: Workspace | None) -> tuple[str, ...]:
        """As in `Sandbox`: the engine, the image and the command docker are there, and the container has room."""
        # The engine first: the want of any engine is another answer than the want of the command.
        image = await self._images.require(sandbox_for(self._config, workspace).image)
        self._engine.command()
        warnings = await self._containers.check(workspace)
        container = self._containers.find(None if workspace is None else workspace.slug)
        usage = None if container is None else await asyncio.to_thread(usage_of, container)
        if usage is not None and (words := shortage(usage)):
            raise SandboxBusy(
                f"sandbox busy, {words}",
                "end sessions of this workspace, or raise sandbox.memory or sandbox.pids",
                retry_after_s=_BUSY_S,
            )
        return *image.warnings(), *warnings

    async def prepare(self, session: Session, launch: Launch, token: str | None = None) -> tuple[str, ...]:
        """As in `Sandbox`: makes and starts the container, if needed. The files belong to the container's user.

        Raises StorageFull, with nothing half-written, SandboxUnavailable, and UsageError as `launch.script`.
        """
        docker, session_id = self._engine.command(), session.id
        if not _ID.fullmatch(session_id):
            raise UsageError(f"invalid session id {session_id!r}")
        # The limits of the processes in a container are those of the container.
        umask = {name: value for name, value in launch.process_limits.items() if name == UMASK}
        environment = {**launch.environment, "SM_SESSION_ID": session_id}
        marked_launch = replace(launch, environment=environment, process_limits=umask)
        setup = (*_SETUP, *_scratch_directory(launch.working_dir))
        text = launches.script(marked_launch, report_inside(session_id), mark="$_sm_start", setup=setup)
        workspace = self._workspace_of(session)
        await asyncio.to_thread(self._remember_protected, session_id, workspace)
        container = await self._containers.ensure(workspace)
        # The kernel knows it before the event of the engine arrives.
        await self._unpause(container.init, cgroup_of_container(container.init))
        self._count_oom_kills(container)
        inside = self._paths.agent_paths(session_id, sandboxed=True)
        user = container.uid, container.gid
        folder = self._place(session).launch
        os.makedirs(self._paths.launch, mode=0o700, exist_ok=True)
        launches.write_files(
            session_id, folder, text, launch, token, servers_file=inside.mcp_file, owner=user
        )
        return (
            *("/bin/sh", "-c", _IN_TERMINAL, self._words_file(session_id)),
            *(docker, "-H", self._engine.url, "exec", "-it", "-e", "TERM", "--detach-keys", _DETACH_KEYS),
            *("--user", f"{user[0]}:{user[1]}", container.id),
            *("/bin/sh", "-c", _IN_CONTAINER, "sh", f"{INSIDE_LAUNCH}/{session_id}"),
        )

    def _remember_protected(self, session_id: str, workspace: Workspace | None) -> None:
        settings = sandbox_for(self._config, workspace)
        if directories := writable_directories(workspace, settings):
            with launches.full_disk(session_id, self._paths.launch):
                self._records.remember(session_id, directories, settings.protect)

    async def wait_started(self, session: Session, pid: int) -> Process | None:
        """As in `Sandbox`. The agent runs once it has left the launch script, at most 30 s after this call."""
        place, session_id = self._place(session), session.id
        script = f"{place.launch}/{session_id}"
        container = self._containers.find(session.workspace)
        cgroup = None if container is None else cgroup_of_container(container.init)
        inside = f"{INSIDE_LAUNCH}/{session_id}"
        search = None if cgroup is None else AgentSearch(cgroup, session_id, inside, pid)
        process: Process | None = None
        entering: asyncio.Task[bool] | None = None

        def is_over() -> bool:
            nonlocal process, entering
            terminal = processes.identify(pid)  # first: an agent does not outlive the search that follows
            process, has_left = (None, False) if search is None else search.look()
            if process is not None and entering is None:
                entering = asyncio.create_task(self._enter(session_id, process))
            return has_left or (process is None and terminal is None)

        in_time = await self._watch.wait_until(script, is_over, _SEARCH_S)
        if not in_time:
            if search is not None and container is not None and process is None:
                await self._ask_engine(search, container, inside, pid)
            in_time = await self._watch.wait_until(script, is_over, _START_BOUND_S - _SEARCH_S)
        is_late = not in_time and (process is None or processes.has_open(process.pid, script))
        if entering is not None:
            await entering
        launches.remove_script(session_id, place.launch)  # so that a start in a suspended engine fails later
        if is_late:
            raise launches.late_start(session_id, _START_BOUND_S)
        if process is not None:
            await self._enter(session_id, process)  # it may be another one than the first that was seen
        else:
            await asyncio.to_thread(self._raise_if_failed, session, pid, container)
        return process

    async def _enter(self, session_id: str, process: Process) -> bool:
        return await asyncio.to_thread(self._session_processes.enter, session_id, process)

    async def _ask_engine(self, search: AgentSearch, container: Container, script: str, pid: int) -> None:
        """Find the process of an agent that has replaced its environment, such as by `env -i`."""
        try:
            agent = await self._engine.call(lambda client: exec_pid(client, container.id, (script, str(pid))))
        except SandboxUnavailable as error:
            log.info("could not ask the engine for a process: %s", error)
            return
        if (
            agent
            and container_of(agent) == container.id
            and (process := processes.identify(agent)) is not None
        ):
            search.know(process)

    def _raise_if_failed(self, session: Session, pid: int, container: Container | None) -> None:
        """Raise AgentStartFailed when the script of this start, or the engine, reported a failure. Blocks."""
        failure = read_report(self._place(session).home, session.id, str(pid))
        if failure is not None and container is not None:
            raise explained(failure, session.id, container.init.pid, (container.uid, container.gid))
        if words := words_of_engine(self._words_file(session.id)):
            raise AgentStartFailed(
                f"the engine could not start the agent of session {session.id}: {words}", "sm sandbox status"
            )

    # --------------------------------------------------------------------------------------------------- end

    async def end(self, session: Session, process: Process, *, force: bool) -> None:
        """As in `Sandbox`, with all processes of the container that were started for the session.

        Unpauses the container. Raises ExternalError when a process does not end, and SandboxUnavailable when the engine
        cannot unpause.
        """
        container = self._containers.find(session.workspace)
        # A container that this daemon does not know yet shows in the cgroup of the process.
        first = process if container is None else container.init
        cgroup = await asyncio.to_thread(cgroup_of_container, first)

        def others() -> list[Process]:
            inside = [] if cgroup is None else marked(cgroup, session.id)
            return [*inside, *self._session_processes.of(session.id, process)]

        await self._unpause(first, cgroup)
        await asyncio.to_thread(self._session_processes.thaw, session.id)
        left = await process_endings.end_tree(process, self._grace_s, force=force, others=others)
        left += await self._session_processes.kill_cgroup(session.id)  # what forks faster than it is seen
        if left:
            raise did_not_end(left)

    async def _unpause(self, member: Process, cgroup: Cgroup | None) -> None:
        """Continue the container of a process, if it is paused. Raises SandboxUnavailable."""
        if cgroup is not None and cgroup.is_frozen() and (paused := container_of(member.pid)) is not None:
            await self._engine.call(lambda client: client.api.unpause(paused))

    async def ending(self, session: Session, terminal: Exit) -> ProcessEnding:
        """As in `Sandbox`: unknown when the engine restarted or is away, because the code is then that of its command.

        The engine reports a signal as exit code 128 + n. A kill for lack of memory is named as such.
        """
        if terminal.signal is not None:
            return ProcessEnding(Exit())
        gone = await self._is_engine_gone(session)
        if terminal.code is None:
            return ProcessEnding(Exit())
        if gone or words_of_engine(self._words_file(session.id)):
            # The command of an engine that goes away never reports success.
            return ProcessEnding(Exit(), cut_off=gone and terminal.code != 0)
        if terminal.code <= 128:
            return ProcessEnding(terminal)
        exit = Exit(signal=terminal.code - 128)
        process = session.process
        if (
            exit.signal == _SIGKILL
            and process
            and await self._containers.has_ended(session.workspace, process)
        ):
            return ProcessEnding(exit, place_ended=True)
        container = self._containers.find(session.workspace)
        if container is None or exit.signal != _SIGKILL or not self._count_oom_kills(container):
            return ProcessEnding(exit)
        usage = usage_of(container)
        limit = None if usage is None else usage.memory_limit_bytes
        return ProcessEnding(
            exit, "the sandbox ran out of memory" + ("" if limit is None else f" ({gib(limit)} GiB)")
        )

    async def appeared(self, session: Session) -> tuple[str, ...]:
        """As in `Sandbox`. Empty when the container is gone: nothing tells then what it could write to."""
        workspace = None if session.workspace is None else self._workspace(session.workspace)
        container = self._containers.find(session.workspace)
        if container is None or (session.workspace is not None and workspace is None):
            return ()
        settings = sandbox_for(self._config, workspace)

        def find() -> tuple[str, ...]:
            directories = writable_directories(workspace, settings)
            mounts = present(container.mounts, container.init.pid)
            return self._records.appeared(session.id, directories, settings.protect, mounts)

        return await asyncio.to_thread(find)

    def ended(self, session: Session) -> None:
        """As in `Sandbox`: the container may be idle from now on."""
        if self._containers.find(session.workspace) is not None:
            self._containers.start_idle_time(session.workspace)

    async def _is_engine_gone(self, session: Session) -> bool:
        """Return True if the engine that started the agent's process runs no longer. Raises SandboxUnreachable."""
        try:
            engine = processes.read_stat(await self._engine.ping())
        except SandboxUnreachable:
            raise
        except SandboxUnavailable:
            return True
        if engine is None or session.process is None:
            return False
        boot, _, ticks = session.process.started.partition("/")
        return not (engine.process.started.startswith(boot + "/") and engine.start <= int(ticks))

    def _count_oom_kills(self, container: Container) -> bool:
        """Return True when the kernel killed a process for lack of memory since the last call for this container."""
        usage = usage_of(container)
        if usage is None or usage.oom_kills is None:
            return False
        before = self._oom_kills.get(container.id, usage.oom_kills)
        self._oom_kills[container.id] = usage.oom_kills
        return usage.oom_kills > before

    async def forget(self, session_id: str) -> None:
        """As in `Sandbox`, also for sessions that the store does not know.

        The scratch directory is removed if the engine answers now. It ends with its container anyway.
        """
        if not _ID.fullmatch(session_id):
            return
        self._records.forget(session_id)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._words_file(session_id))
        for workspace in self._places():
            place = self._paths.sandbox(workspace)
            launches.remove_files(session_id, place.launch)
            remove_report(place.home, session_id)
            container = self._containers.find(workspace)
            if container is not None and await asyncio.to_thread(_has_scratch, container, session_id):
                await self._remove_scratch(container, session_id)

    async def _remove_scratch(self, container: Container, session_id: str) -> None:
        # Inside and as its user, because agents may change the directory meanwhile.
        argv = ["rm", "-rf", "--", f"{INSIDE_SCRATCH}/{session_id}"]
        user = f"{container.uid}:{container.gid}"

        def remove(client: "DockerClient") -> None:
            client.api.exec_start(client.api.exec_create(container.id, argv, user=user)["Id"])

        try:
            await self._engine.call(remove)
        except SandboxUnavailable as error:
            log.info("could not remove a scratch directory: %s", error, extra={"sm_session": session_id})

    def close(self) -> None:
        """Stop watching files. Idempotent; agents keep running."""
        self._watch.close()

    # ------------------------------------------------------------------------------------------------- paths

    def _place(self, session: Session) -> SandboxPaths:
        return self._paths.sandbox(session.workspace)

    def _places(self) -> Iterator[str | None]:
        """The workspaces that have files of a sandbox, also deleted ones, with None for the default container."""
        yield None
        with contextlib.suppress(FileNotFoundError):
            yield from os.listdir(os.path.dirname(self._paths.sandbox("x").base))

    def _words_file(self, session_id: str) -> str:
        return f"{self._paths.launch}/{session_id}{_WORDS}"

    def _workspace_of(self, session: Session) -> Workspace | None:
        """Raises SandboxUnavailable for a session of a deleted workspace."""
        if session.workspace is None:
            return None
        workspace = self._workspace(session.workspace)
        if workspace is None:
            raise SandboxUnavailable(f"workspace {session.workspace} was deleted", "sm workspace list")
        return workspace


def _scratch_directory(path: str) -> tuple[str, ...]:
    """The line of the script that makes a working directory in the scratch space, which ends with the container."""
    if not path.startswith(INSIDE_SCRATCH + "/"):
        return ()
    return (f"[ -d {shlex.quote(path)} ] || mkdir -p -m 700 -- {shlex.quote(path)}",)


def _has_scratch(container: Container, session_id: str) -> bool:
    if not processes.is_alive(container.init):
        return False
    try:
        with ProcessRoot(container.init.pid) as root:
            root.status(f"{INSIDE_SCRATCH}/{session_id}".encode(), follow=False)
    except OSError as error:
        return not isinstance(error, FileNotFoundError)
    return True
