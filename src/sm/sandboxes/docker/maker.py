"""Brings one container up: uses the container that exists, or makes one."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from sm.core.models import Workspace
from sm.errors import SandboxUnavailable
from sm.linux.cgroups import container_of
from sm.linux.process_root import wait_until_visible
from sm.paths import InstancePaths
from sm.sandboxes.containers import Container, ContainerRecord
from sm.sandboxes.docker import container as calls
from sm.sandboxes.docker.engine import Engine, EngineError
from sm.sandboxes.docker.mounts import changed, make_directories
from sm.sandboxes.docker.spec import ContainerSpec, network_name

if TYPE_CHECKING:
    from docker import DockerClient

T = TypeVar("T")

log = logging.getLogger(__name__)

CHANGE_S: Final = 60.0
"""A limit in seconds for making, starting or stopping a container on a busy machine."""
_NOTICED_PAUSE_S: Final = 0.1
_NOTICED_LOOKS: Final = 100
"""A busy engine notices within seconds that a container has ended."""


class ContainerEnded(SandboxUnavailable):
    """The first process of a container ended right after its start."""


class ContainerMaker:
    """The caller makes sure that one call runs at a time for each container."""

    def __init__(self, engine: Engine, paths: InstancePaths, instance: str) -> None:
        self._engine = engine
        self._paths = paths
        self._instance = instance
        self._network = network_name(instance)
        self._network_lock = asyncio.Lock()

    async def bring_up(self, workspace: Workspace | None, spec: ContainerSpec, *, anew: bool) -> Container:
        """Return the running container of the spec. `anew`: remove one that does not run, instead of starting it.

        Raises ContainerEnded and other SandboxUnavailable.
        """
        key = None if workspace is None else workspace.slug
        records = await self._call(partial(calls.find_all, labels=calls.labels_of_instance(self._instance)))
        record = next((record for record in records if record.key == key), None)
        if record is not None:
            record = await self._noticed(record)
            running = record.running()
            drifted = await self._has_drifted(record, spec, running)
            members = [] if running is None else await asyncio.to_thread(running.members)
            if drifted and members:
                record = await self._start_again(workspace, spec, record)
                return replace(self._require_running(record), warnings=(drift_warning(record.name, key),))
            if drifted or (anew and running is None) or record.state in ("dead", "removing"):
                await self._call(partial(calls.remove, container=record.id))
                record = None
        if record is None:
            record = await self._make(workspace, spec)
        else:
            record = await self._start_again(workspace, spec, record)
        return self._require_running(record)

    async def _noticed(self, record: ContainerRecord) -> ContainerRecord:
        """The record once the engine has noticed the end of a container. The kernel knows of it earlier.

        A record stays as it is where the engine never notices: its processes cannot be seen from here.
        """
        for _ in range(_NOTICED_LOOKS):
            if record.state != "running" or record.running() is not None:
                break
            await asyncio.sleep(_NOTICED_PAUSE_S)
            now = await self._call(partial(calls.inspect, name=record.id))
            record = record if now is None else now
        return record

    async def _call(self, work: "Callable[[DockerClient], T]") -> T:
        return await self._engine.call(work, timeout_s=CHANGE_S)

    async def _has_drifted(
        self, record: ContainerRecord, spec: ContainerSpec, running: Container | None
    ) -> bool:
        if record.labels.get("config") != spec.hash:
            return True
        image = await self._call(partial(calls.image_id, image=spec.options["image"]))
        if image is not None and image != record.image:
            return True
        # A daemon that was killed while it made the container did not check the mounts.
        return running is not None and bool(await self._changed(spec, running.init.pid))

    def _require_running(self, record: ContainerRecord) -> Container:
        found = record.running()
        if found is not None and container_of(found.init.pid) == found.id:
            return found
        if record.state not in ("running", "paused") or not record.pid:
            raise ContainerEnded(
                f"container {record.name} ended right after its start, with exit code {record.exit_code}",
                f"docker -H {self._engine.url} logs {record.name}",
            )
        raise SandboxUnavailable(
            f"the processes of container {record.name} cannot be seen: "
            f"the Docker engine at {self._engine.url} does not run on this kernel"
        )

    async def _start_again(
        self, workspace: Workspace | None, spec: ContainerSpec, record: ContainerRecord
    ) -> ContainerRecord:
        if record.state == "running":
            return record
        if record.state == "paused":  # processes may live in it
            return await self._call(partial(calls.start, container=record.id))
        await asyncio.to_thread(make_directories, workspace, self._paths, spec.user)
        try:
            return await self._start(record.id, spec)
        except EngineError as error:
            if not error.status:
                raise
            log.info("container %s cannot start again, and is made anew: %s", record.name, error)
        await self._call(partial(calls.remove, container=record.id))
        return await self._make(workspace, spec)

    async def _make(self, workspace: Workspace | None, spec: ContainerSpec) -> ContainerRecord:
        await asyncio.to_thread(make_directories, workspace, self._paths, spec.user)
        if spec.network == self._network:
            async with self._network_lock:
                foreign = await self._call(
                    partial(calls.ensure_network, name=spec.network, instance=self._instance)
                )
            if foreign is not None:
                raise SandboxUnavailable(
                    f"the name {spec.network} is taken by network {foreign[:12]}, "
                    "which this instance of sm did not make",
                    f"docker network rm {foreign[:12]}",
                )
        try:
            made = await self._call(partial(calls.create, spec=spec))
        except EngineError as error:
            await self._explain(error, spec)
            raise
        return await self._start(made, spec)

    async def _start(self, container: str, spec: ContainerSpec) -> ContainerRecord:
        """Start a container in which nothing runs. Remove it if a link made the engine mount another file."""
        try:
            record = await self._call(partial(calls.start, container=container))
            if record.pid and (others := await self._changed(spec, record.pid)):
                now = await self._call(partial(calls.inspect, name=record.id))
                if now is not None and not now.pid:  # it has ended: nothing of it was seen
                    return now
                raise SandboxUnavailable(
                    f"container {spec.name} was removed: {others[0]} was replaced while the container was started"
                )
        except BaseException:
            # Also when the caller was cancelled: a container that was not checked must not stay.
            with contextlib.suppress(SandboxUnavailable):
                await asyncio.shield(self._call(partial(calls.remove, container=container)))
            raise
        log.info("started container %s", spec.name)
        return record

    async def _changed(self, spec: ContainerSpec, pid: int) -> tuple[str, ...]:
        """As `changed`, for a container whose first process may have only just started."""
        try:
            async with asyncio.timeout(CHANGE_S):
                await wait_until_visible(pid)
        except TimeoutError:
            raise SandboxUnavailable(
                f"the files of container {spec.name} cannot be seen: process {pid} belongs to another user"
            ) from None
        return await asyncio.to_thread(changed, spec.mounts, pid)

    async def _explain(self, error: EngineError, spec: ContainerSpec) -> None:
        """Raise a clearer error, if there is one."""
        image = spec.options["image"]
        if error.status == 404 and await self._call(partial(calls.image_id, image=image)) is None:
            raise SandboxUnavailable(f"the Docker engine has no image {image}", "sm sandbox build") from error
        if error.status == 409 and (taken := await self._call(partial(calls.inspect, name=spec.name))):
            raise SandboxUnavailable(
                f"the name {spec.name} is taken by container {taken.id[:12]}, which this instance of sm did not make",
                f"docker rename {taken.id[:12]} OTHER",
            ) from error


def drift_warning(name: str, key: str | None) -> str:
    word = "default" if key is None else key
    return (
        f"container {name} still has its earlier configuration, because sessions live in it; "
        f"to apply the current one, end them and type sm sandbox rm {word}"
    )
