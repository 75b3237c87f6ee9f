"""The containers of an instance: makes them when a session needs one, follows their state, stops idle ones.

Identity is by labels only. A container of another instance is never touched, one with live processes never removed
or stopped without force.
"""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from sm.config import SandboxSection
from sm.core.models import Process, Workspace
from sm.errors import IllegalState, NotFound, SandboxUnavailable, SmError, StorageFull
from sm.linux.cgroups import container_of
from sm.linux.processes import is_alive, is_ending, start_s
from sm.paths import InstancePaths
from sm.sandboxes.containers import (
    Container,
    ContainerEventKind,
    ContainerListener,
    ContainerRecord,
    RecordMounts,
    key_of,
)
from sm.sandboxes.docker import container as calls
from sm.sandboxes.docker.crashes import Crashes
from sm.sandboxes.docker.engine import Engine
from sm.sandboxes.docker.events import EngineEvent, follow
from sm.sandboxes.docker.maker import CHANGE_S, ContainerEnded, ContainerMaker, drift_warning
from sm.sandboxes.docker.spec import ContainerSpec, build_spec, network_name

log = logging.getLogger(__name__)

_CLOSE_S: Final = 1.0


class Containers:
    """One container for each workspace, and one for sessions without a workspace: key None.

    `run` must run for `find` and `of_pid` to follow what the engine does.
    """

    def __init__(
        self,
        engine: Engine,
        paths: InstancePaths,
        instance: str,
        settings: Callable[[Workspace | None], SandboxSection],
        workspace_of: Callable[[str], Workspace | None],
        write_client: Callable[[], object],
        record_mounts: RecordMounts,
    ) -> None:
        """`settings`: of the container of a workspace. `write_client`: blocks; makes the directory `paths.client`.

        `record_mounts`: is awaited before a container is made or started; no container is made if it fails.
        """
        self._engine = engine
        self._paths = paths
        self._instance = instance
        self._settings = settings
        self._workspace_of = workspace_of
        self._write_client = write_client
        self._record_mounts = record_mounts
        self._known: dict[str | None, Container] = {}
        self._maker = ContainerMaker(engine, paths, instance)
        self._crashes = Crashes()
        self._ended: dict[str | None, float] = {}
        """When the last container ended without an order of this daemon, in seconds since the boot."""
        self._ordered: dict[str | None, float] = {}
        """When this daemon last stopped or removed a container."""
        self._unverified: set[str | None] = set()
        """Containers whose image may have changed, or whose mounts this daemon did not check."""
        self._flights: dict[str | None, asyncio.Task[Container]] = {}
        self._locks: dict[str | None, asyncio.Lock] = {}
        self._client_lock = asyncio.Lock()
        self._wrote_client = False
        self._idle_timers: dict[str | None, asyncio.TimerHandle] = {}
        self._idle_stops: set[asyncio.Task[None]] = set()
        self._listeners: list[ContainerListener] = []
        self._used = asyncio.Event()
        self._removes_all = False

    # ------------------------------------------------------------------------------ what is known, without I/O

    def find(self, workspace: str | None) -> Container | None:
        """The container of a workspace (slug) if its first process lives."""
        found = self._known.get(workspace)
        return found if found is not None and is_alive(found.init) else None

    def of_pid(self, pid: int) -> Container | None:
        """The container in which a process runs, by the process's cgroup."""
        found = container_of(pid)
        return next((container for container in list(self._known.values()) if container.id == found), None)

    def first_processes(self) -> list[Process]:
        """The first process of each container that runs. Thread-safe."""
        return [found.init for found in list(self._known.values()) if is_alive(found.init)]

    def listen(self, listener: ContainerListener) -> None:
        """Call `listener` from the event loop when a container dies or uses up its memory."""
        self._listeners.append(listener)

    def problem(self, workspace: str | None) -> str | None:
        """The reason why no session can start in the container, if it ended too often."""
        problem = self._crashes.problem(workspace)
        return None if problem is None else problem.message

    # --------------------------------------------------------------------------------------- the daemon's part

    async def adopt(self) -> None:
        """Find the containers of this instance. Raises SandboxUnavailable."""
        before = dict(self._known)
        records = await self._engine.call(partial(calls.find_all, labels=self._labels))
        self._used.set()
        for record in records:  # an earlier version may have made it
            try:
                await self._record_mounts(record.key, record.mounts)
            except StorageFull as error:
                log.warning("could not store what container %s can write: %s", record.name, error.message)
        alive = {record.key: found for record in records if (found := record.running()) is not None}
        for key in {*before, *alive}:
            known, found = before.get(key), alive.get(key)
            if self._known.get(key) != known:
                continue  # `ensure` knows better meanwhile
            if known is not None and (found is None or (found.id, found.init) != (known.id, known.init)):
                self._ended[key] = _now_s()
                self._forget(key)
                known = None
            if found is not None:
                self._known[key] = replace(found, warnings=() if known is None else known.warnings)
                if known is None:
                    self._unverified.add(key)
                if key not in self._idle_timers:
                    self.start_idle_time(key)
        if alive:
            try:
                await self._provide_client()  # the agents in them use that of an earlier daemon
            except OSError as error:
                log.warning("could not write the command sm for containers: %s", error)

    async def run(self) -> None:
        """Follow the events of the engine, from the first use of a container on. Runs until it is cancelled."""
        await self._used.wait()
        await follow(self._engine, self._instance, self.adopt, self._on_event)

    def expect(self) -> None:
        """Let `run` connect to the engine, because containers with sessions should exist."""
        self._used.set()

    async def close(self) -> None:
        """Drop timers and unfinished work. Containers go on. Returns at once, also while the engine hangs."""
        for timer in self._idle_timers.values():
            timer.cancel()
        self._idle_timers.clear()
        tasks = [*self._flights.values(), *self._idle_stops]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSE_S)

    # ---------------------------------------------------------------------------------------------- operations

    async def has_ended(self, workspace: str | None, process: Process) -> bool:
        """Return True if the container in which the process ran has ended, unless this daemon ended it.

        The kernel ends the processes of a container while its first process exits, so before the engine reports that.
        Asks the engine about a container that this daemon has never known. False if the engine does not answer.
        """
        known, began_s = self._known.get(workspace), start_s(process)
        if (known is not None and is_ending(known.init)) or began_s <= self._ended.get(workspace, 0.0):
            return True
        if began_s <= self._ordered.get(workspace, 0.0):
            return False
        if known is None:
            try:
                record = next((record for record in await self.list() if record.key == workspace), None)
            except SandboxUnavailable:
                return False
            known = None if record is None else record.running()
        return known is None or start_s(known.init) > began_s

    async def check(self, workspace: Workspace | None) -> tuple[str, ...]:
        """Return warnings for a session that is about to start in the container.

        Raises SandboxUnavailable if the container must not be made: for its mounts, its owner or its crashes.
        """
        key = None if workspace is None else workspace.slug
        spec = await self._spec(workspace)
        found = self.find(key)
        if found is None and (problem := self._crashes.problem(key)) is not None:
            raise problem
        if found is None or found.config == spec.hash:
            return ()
        left = await asyncio.to_thread(found.members)
        return (drift_warning(found.name, key),) if left else ()

    async def ensure(self, workspace: Workspace | None) -> Container:
        """The running container of a workspace, or of sessions without one if None. Makes, starts and continues it.

        Calls at the same time share one attempt. Raises SandboxUnavailable, also after `remove_all`.
        """
        self._check_open()
        key = None if workspace is None else workspace.slug
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = asyncio.create_task(
                self._ensure(workspace), name="ensure a container"
            )
            flight.add_done_callback(partial(self._land, key))
        # A caller that goes away must not cancel the attempt of the others.
        found = await asyncio.shield(flight)
        self.start_idle_time(key)
        return found

    async def list(self, *, all_instances: bool = False) -> tuple[ContainerRecord, ...]:
        """The containers of this instance, or of all instances of sm on the engine, running or not."""
        labels = ("app=sm",) if all_instances else self._labels
        return tuple(await self._engine.call(partial(calls.find_all, labels=labels)))

    async def is_current(self, record: ContainerRecord, workspace: Workspace | None) -> bool:
        """Return whether the container would be made with the same options now. Raises SandboxUnavailable."""
        spec = await self._plan(workspace, (await self._engine.facts()).nofile_max)
        return record.labels.get("config") == spec.hash

    async def stop(self, workspace: str | None, *, force: bool = False) -> None:
        """Raises NotFound, and IllegalState if processes live in it, unless `force`."""
        async with self._lock(workspace):
            record = await self._require_unused(workspace, force=force)
            self._crashes.clear(workspace)
            self._ordered[workspace] = _now_s()
            self._forget(workspace)
            await self._engine.call(partial(calls.stop, container=record.id), timeout_s=CHANGE_S)
            log.info("stopped container %s", record.name)

    async def remove(self, workspace: str | None, *, force: bool = False) -> None:
        """Stop and remove. The container's home stays. Raises as `stop`."""
        async with self._lock(workspace):
            record = await self._require_unused(workspace, force=force)
            self._crashes.clear(workspace)
            self._ordered[workspace] = _now_s()
            self._forget(workspace)
            await self._engine.call(partial(calls.remove, container=record.id), timeout_s=CHANGE_S)
            log.info("removed container %s", record.name)

    async def remove_all(self) -> tuple[str, ...]:
        """Stop and remove every container of this instance, also with live processes, and its network.

        No container is made afterwards: the daemon stops. Returns their names. Raises SandboxUnavailable.
        """
        self._removes_all = True
        # Wait for unfinished work. If it were cancelled, the engine could still make a container.
        await asyncio.gather(*self._flights.values(), return_exceptions=True)
        records = await self.list()
        for record in records:
            await self.remove(record.key, force=True)
        await self._engine.call(
            partial(calls.remove_network, name=network_name(self._instance), instance=self._instance)
        )
        return tuple(record.name for record in records)

    def image_changed(self) -> None:
        """Compare the image of each container again when a session needs it."""
        self._unverified.update(self._known)

    def start_idle_time(self, workspace: str | None) -> None:
        """Count the time after which the container stops from now: a session was started, or has ended."""
        if (timer := self._idle_timers.pop(workspace, None)) is not None:
            timer.cancel()
        with contextlib.suppress(SmError):  # a deleted workspace; an override that is no longer valid
            found = None if workspace is None else self._workspace_of(workspace)
            if (workspace is None or found is not None) and (idle_s := self._settings(found).idle_stop_s):
                loop = asyncio.get_running_loop()
                self._idle_timers[workspace] = loop.call_later(idle_s, self._begin_idle_stop, workspace)

    # ------------------------------------------------------------------------------------------------ internal

    @property
    def _labels(self) -> tuple[str, ...]:
        return calls.labels_of_instance(self._instance)

    def _lock(self, key: str | None) -> asyncio.Lock:
        return self._locks.setdefault(key, asyncio.Lock())

    def _land(self, key: str | None, flight: asyncio.Task[Container]) -> None:
        self._flights.pop(key, None)
        if not flight.cancelled():
            flight.exception()  # every caller may be gone, and asyncio would warn

    async def _ensure(self, workspace: Workspace | None) -> Container:
        key = None if workspace is None else workspace.slug
        async with self._lock(key):
            spec = await self._spec(workspace)
            found = self.find(key)
            if found is None and key in self._known:
                self._end(key)
            # A warning means that the container should be made anew as soon as nothing lives in it.
            if (
                found is None
                or found.config != spec.hash
                or found.state != "running"
                or found.warnings
                or key in self._unverified
            ):
                found = await self._bring_up(workspace, key, spec)
            return found

    def _check_open(self) -> None:
        if self._removes_all:
            raise SandboxUnavailable("the daemon is stopping, and has removed all containers")

    async def _spec(self, workspace: Workspace | None) -> ContainerSpec:
        nofile_max = (await self._engine.facts()).nofile_max
        await self._provide_client()
        return await self._plan(workspace, nofile_max)

    async def _plan(self, workspace: Workspace | None, nofile_max: int | None) -> ContainerSpec:
        settings = self._settings(workspace)
        return await asyncio.to_thread(
            build_spec, workspace, settings, self._paths, self._instance, nofile_max=nofile_max
        )

    async def _provide_client(self) -> None:
        """Write the client once, so that it is of the daemon's version, and again if somebody removed it."""
        async with self._client_lock:
            if not (self._wrote_client and self._has_client()):
                await asyncio.to_thread(self._write_client)
                self._wrote_client = True

    def _has_client(self) -> bool:
        return os.path.exists(f"{self._paths.client}/bin/sm")

    async def _bring_up(self, workspace: Workspace | None, key: str | None, spec: ContainerSpec) -> Container:
        if key not in self._known:
            await self._crashes.wait(key)
        self._check_open()
        await self._record_mounts(key, spec.mounts)
        try:
            found = await self._maker.bring_up(workspace, spec, anew=self._crashes.has_crashed(key))
        except ContainerEnded:
            self._crashes.add(key)
            raise
        self._unverified.discard(key)
        self._known[key] = found
        self._used.set()
        return found

    async def _require_unused(self, key: str | None, *, force: bool) -> ContainerRecord:
        record = next((record for record in await self.list() if record.key == key), None)
        if record is None:
            raise NotFound(f"{_owner(key)} has no container")
        running = record.running()
        if running is not None and not force and (left := await asyncio.to_thread(running.members)):
            pids = ", ".join(str(process.pid) for process in left)
            raise IllegalState(
                f"processes run in container {record.name}: {pids}",
                "a shell or a login in a closed terminal may go on; to end all processes, add --force",
            )
        return record

    def _end(self, key: str | None) -> None:
        """The first process ended without an order of this daemon."""
        if not self._crashes.was_expected(self._known[key].id):
            self._crashes.add(key)
        self._ended[key] = _now_s()
        self._forget(key)

    def _forget(self, key: str | None) -> None:
        """Drop a container whose first process ended or will end, and tell listeners."""
        self._unverified.discard(key)
        if (timer := self._idle_timers.pop(key, None)) is not None:
            timer.cancel()
        if (gone := self._known.pop(key, None)) is not None:
            self._tell(ContainerEventKind.DIED, gone)

    def _tell(self, kind: ContainerEventKind, container: Container) -> None:
        if kind is ContainerEventKind.OOM:
            log.warning("container %s ran out of memory: the kernel ended a process", container.name)
        else:
            log.info("container %s ended", container.name)
        for listener in self._listeners:
            listener(kind, container)

    def _on_event(self, event: EngineEvent) -> None:
        key = key_of(event.attributes)
        known = self._known.get(key)
        if event.kind == "kill":
            self._crashes.expect_end(event.container, event.attributes.get("signal", ""))
        if known is None or known.id != event.container:
            return
        if event.kind == "oom":
            self._tell(ContainerEventKind.OOM, known)
        elif event.kind in ("pause", "unpause"):
            self._known[key] = replace(known, state="paused" if event.kind == "pause" else "running")
        elif event.kind in ("die", "destroy") and not is_alive(known.init):
            # Else it runs again already, and the event is about its run before.
            self._end(key)

    def _begin_idle_stop(self, key: str | None) -> None:
        task = asyncio.create_task(self._stop_if_idle(key), name="stop an idle container")
        self._idle_stops.add(task)
        task.add_done_callback(self._idle_stops.discard)

    async def _stop_if_idle(self, key: str | None) -> None:
        try:
            if key not in self._flights:
                await self.stop(key)
                log.info("stopped the idle container of %s", _owner(key))
                return
        except NotFound:
            return
        except SmError as error:
            log.debug("an idle container was not stopped: %s", error)
        self.start_idle_time(key)


def _now_s() -> float:
    """Seconds since the boot."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _owner(key: str | None) -> str:
    return "the default sandbox" if key is None else f"workspace {key}"
