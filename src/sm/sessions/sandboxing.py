"""Builds the image of sandboxes, and shows, stops, removes and enters their containers. Only for the operator."""

import asyncio
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from sm.config import SandboxSection
from sm.core.dataclass import dataclass
from sm.core.lifecycle import is_live
from sm.core.models import Caller, Session, Workspace
from sm.core.programs import agent_programs, login_commands
from sm.core.states import TrustLevel
from sm.errors import IllegalState, NotFound, SandboxUnavailable, SmError, UsageError
from sm.linux.cgroups import CgroupUsage, cgroup_of
from sm.operations import Operation
from sm.operations.hints import Hint, Use
from sm.operations.sandbox_operations import (
    BUILD,
    ENTER_CONTAINER,
    FOLLOW_BUILD,
    LIST_UNUSED,
    PRUNE,
    REMOVE_CONTAINER,
    SHOW_SANDBOX,
    STOP_CONTAINER,
)
from sm.operations.session_operations import KILL
from sm.paths import INSIDE_CA_FILE, INSIDE_HOME, InstancePaths
from sm.sandboxes.containers import Container, ContainerEventKind, ContainerRecord
from sm.sandboxes.engine import ContainerEngine, EngineFacts
from sm.sandboxes.home import ContainerHome
from sm.sandboxes.images import BuildRequest, ImageBuild, ImageFacts, agents_of, arguments_of
from sm.sessions.authorizer import Authorizer
from sm.sessions.home_files import write_missing
from sm.sessions.kill import Kills
from sm.sessions.workdir import no_such_workspace
from sm.store import Store
from sm.wire_types.sandbox_answers import UnusedView

DEFAULT = "default"
"""The name of the container for sessions without a workspace."""
_HOME_FILES_MAX = 500_000


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """The engine of sandboxes. `error`: the reason why it cannot be used; `facts` is None then."""

    url: str
    error: SmError | None
    facts: EngineFacts | None = None
    data_free_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ContainerStatus:
    """A container of this instance."""

    name: str
    workspace: str | None
    state: str
    """As the engine names it: running, paused, exited."""
    user: str
    """UID:GID"""
    sessions: tuple[str, ...]
    """The ids of the live sessions in it."""
    usage: CgroupUsage | None
    """None for a container that does not run."""
    home_bytes: int
    is_current: bool
    """False if it was made with another configuration, version or image. It is made anew when nothing lives in it."""
    last_oom: str | None
    """The time at which the kernel last killed a process for lack of memory, since the start of the daemon."""
    problem: str | None
    """The reason why no session can start in it."""


@dataclass(frozen=True, slots=True)
class SandboxStatus:
    """Everything about sandboxes."""

    engine: EngineStatus
    image_name: str
    image: ImageFacts | None = None
    containers: tuple[ContainerStatus, ...] = ()
    other_instances: int = 0
    """Containers of other instances of sm on the same engine."""


@dataclass(frozen=True, slots=True)
class PruneScope:
    """The things that a prune removes, beyond stopped containers without sessions."""

    homes: bool = False
    images: bool = False


@dataclass(slots=True)
class _OomTimes:
    now: Callable[[], str]
    by_workspace: dict[str | None, str] = field(default_factory=dict)

    def on_event(self, kind: ContainerEventKind, container: Container) -> None:
        if kind is ContainerEventKind.OOM:
            self.by_workspace[container.workspace] = self.now()


class Sandboxing:
    """The operator's view of sandboxes. Every method raises NotPermitted for a session."""

    def __init__(
        self,
        store: Store,
        authorizer: Authorizer,
        kills: Kills,
        engine: ContainerEngine,
        paths: InstancePaths,
        settings: Callable[[Workspace | None], SandboxSection],
        home_files: Callable[[str], Mapping[str, str]],
    ) -> None:
        """`home_files`: the files that an agent CLI needs in a new home, by their paths in the container."""
        self._store = store
        self._authorizer = authorizer
        self._kills = kills
        self._engine = engine.link
        self._images = engine.images
        self._containers = engine.containers
        self._paths = paths
        self._settings = settings
        self._home_files = home_files
        self._ooms = _OomTimes(store.now)
        engine.containers.listen(self._ooms.on_event)
        engine.images.listen(engine.containers.image_changed)

    # ------------------------------------------------------------------------------------------------- image

    async def build(
        self,
        caller: Caller,
        agents: Sequence[str],
        environment: Mapping[str, str],
        *,
        no_cache: bool,
        pull: bool,
    ) -> ImageBuild:
        """Begin to build the image, or join the build that runs. Raises UsageError, IllegalState."""
        self._authorizer.require(caller, BUILD.audience)
        request = BuildRequest(agents_of(agents), no_cache, pull, arguments_of(environment))
        return await self._images.start_build(request)

    def running_build(self, caller: Caller) -> ImageBuild:
        """The build that runs, or the last one. Raises NotFound."""
        self._authorizer.require(caller, FOLLOW_BUILD.audience, is_read=True)
        if (build := self._images.build) is None:
            raise NotFound("no image was built since the start of the daemon", "sm sandbox build")
        return build

    # ------------------------------------------------------------------------------------------------ status

    async def status(self, caller: Caller) -> SandboxStatus:
        """Never raises SandboxUnavailable: the status of the engine has the reason."""
        self._authorizer.require(caller, SHOW_SANDBOX.audience, is_read=True)
        try:
            facts = await self._engine.facts()
            image = await self._images.find(self._images.name)
            records = await self._containers.list(all_instances=True)
            shown = await asyncio.gather(
                *(self._container(record) for record in records if self._is_ours(record))
            )
        except SandboxUnavailable as error:
            return SandboxStatus(EngineStatus(self._engine.url, error), self._images.name)
        others = sum(not self._is_ours(r) and r.labels.get("type") in ("workspace", DEFAULT) for r in records)
        free_bytes = await asyncio.to_thread(_free_bytes, facts.data_root)
        engine = EngineStatus(self._engine.url, None, facts, free_bytes)
        by_name = tuple(sorted(shown, key=lambda c: (c.workspace is not None, c.name)))
        return SandboxStatus(engine, self._images.name, image, by_name, others)

    def _is_ours(self, record: ContainerRecord) -> bool:
        return record.labels.get("instance") == self._store.instance

    async def _container(self, record: ContainerRecord) -> ContainerStatus:
        key = record.key
        problem = self._containers.problem(key)
        is_current = True
        try:
            workspace = self._workspace(key)
            is_current = await self._containers.is_current(record, workspace)
            image = await self._images.find(self._settings(workspace).image)
            is_current = is_current and (image is None or image.id == record.image)
        except SmError as error:
            problem = problem or error.message
        running = record.running()
        return ContainerStatus(
            name=record.name,
            workspace=key,
            state=record.state,
            user=record.user,
            sessions=tuple(session.id for session in self._sessions(key)),
            usage=None if running is None else await asyncio.to_thread(_usage, running),
            home_bytes=await asyncio.to_thread(_size_of, self._paths.sandbox(key).home),
            is_current=is_current,
            last_oom=self._ooms.by_workspace.get(key),
            problem=problem,
        )

    # -------------------------------------------------------------------------------------------- containers

    async def stop(self, caller: Caller, name: str, *, force: bool) -> None:
        """Stop a container; the next spawn starts it. With `force`, kill its sessions before.

        Raises NotFound, and IllegalState if processes live in it.
        """
        key = self._key(caller, STOP_CONTAINER, name)
        await self._end_sessions(caller, key, force=force)
        await self._containers.stop(key, force=force)

    async def remove(self, caller: Caller, name: str, *, force: bool) -> None:
        """Remove a container, but not its home. As `stop`."""
        key = self._key(caller, REMOVE_CONTAINER, name)
        await self._end_sessions(caller, key, force=force)
        await self._containers.remove(key, force=force)

    async def remove_all(self) -> tuple[str, ...]:
        """Remove every container of this instance, with its processes, and return their names."""
        return await self._containers.remove_all()

    async def enter(self, caller: Caller, name: str, login: str | None) -> list[str]:
        """The argv of a shell in a container, or with `login` of the login of that agent CLI.

        A shell is for a container that exists; a login makes it. Raises NotFound, UsageError, IllegalState,
        SandboxUnavailable, StorageFull, AgentStartFailed.
        """
        key = self._key(caller, ENTER_CONTAINER, name)
        logins = login_commands()
        if login is not None and login not in logins:
            raise UsageError(f"unknown agent {login[:40]!r}", f"use one of: {', '.join(logins)}")
        if login is None and all(record.key != key for record in await self._containers.list()):
            raise IllegalState(
                f"{_owner(key)} has no container yet",
                f"the first session makes it, and so does a login: sm sandbox login {name}",
            )
        workspace = self._workspace(key)
        if login is not None:
            image = await self._images.require(self._settings(workspace).image)
            if not image.has(login):
                raise SandboxUnavailable(
                    f"the image {image.name} has no {login}", f"sm sandbox build --with {login}"
                )
        container = await self._containers.ensure(workspace)
        if login is not None:
            # Before the agent CLI writes its own, with which the next agent would ask for the first-time setup.
            home = ContainerHome(self._paths.sandbox(key).home)
            await write_missing(home, self._home_files(login), (container.uid, container.gid))
        directory = INSIDE_HOME if workspace is None or login is not None else workspace.directory
        variables = (
            *("TERM", f"HOME={INSIDE_HOME}", f"NODE_EXTRA_CA_CERTS={INSIDE_CA_FILE}"),
            *(
                f"{name}={value}"
                for agent in agent_programs()
                for name, value in agent.container_variables.items()
            ),
        )
        argv = logins[login] if login is not None else ("bash",)
        return self._engine.enter_command(container, directory, variables, argv)

    async def _end_sessions(self, caller: Caller, key: str | None, *, force: bool) -> None:
        sessions = self._sessions(key)
        if sessions and not force:
            ids = " ".join(session.id for session in sessions)
            raise IllegalState(
                f"sessions run in the container of {_owner(key)}: {ids}",
                Hint(Use(KILL, ids), ", or add --force"),
            )
        for session in sessions:
            await self._kills.kill(caller, session.id, None, force=True, tree=False)

    # ------------------------------------------------------------------------------------------------- prune

    async def unused(self, caller: Caller, scope: PruneScope) -> list[UnusedView]:
        """Everything that `prune` would remove. Sizes of images are lower bounds: images share layers."""
        self._authorizer.require(caller, LIST_UNUSED.audience, is_read=True)
        found = [UnusedView("container", record.name, 0) for record in await self._unused_containers()]
        for slug in self._unused_homes() if scope.homes else ():
            size = await asyncio.to_thread(_size_of, self._paths.sandbox(slug).base)
            found.append(UnusedView("home", slug, size))
        if scope.images:
            found += [
                UnusedView("image", image.id, image.size_bytes) for image in await self._images.unused()
            ]
        return found

    async def prune(self, caller: Caller, scope: PruneScope) -> list[UnusedView]:
        """Remove stopped containers without sessions, with `homes` the homes of deleted workspaces, and with `images`
        the images that no container uses. Returns them.
        """
        self._authorizer.require(caller, PRUNE.audience)
        found = await self.unused(caller, scope)
        for record in await self._unused_containers():
            await self._containers.remove(record.key)
        for slug in self._unused_homes() if scope.homes else ():
            await asyncio.to_thread(shutil.rmtree, self._paths.sandbox(slug).base, ignore_errors=True)
        if scope.images:
            await self._images.remove(await self._images.unused())
        return found

    async def _unused_containers(self) -> list[ContainerRecord]:
        records = await self._containers.list()
        return [r for r in records if r.state not in ("running", "paused") and not self._sessions(r.key)]

    def _unused_homes(self) -> list[str]:
        """The slugs of deleted workspaces that still have a home, and no live session."""
        try:
            names = sorted(os.listdir(os.path.dirname(self._paths.sandbox("x").base)))
        except FileNotFoundError:
            return []
        used = {slug for slug, w in self._store.workspaces.items() if w.deleted_at is None}
        return [name for name in names if name not in used and not self._sessions(name)]

    # ---------------------------------------------------------------------------------------------- internal

    def _key(self, caller: Caller, operation: Operation, name: str) -> str | None:
        """The slug that a name stands for; None for the default container. Raises NotFound."""
        self._authorizer.require(caller, operation.audience, name)
        if name == DEFAULT:
            return None
        if name not in self._store.workspaces:
            raise no_such_workspace(name, self._store.workspaces.values())
        return name

    def _workspace(self, key: str | None) -> Workspace | None:
        if key is not None and key not in self._store.workspaces:
            raise no_such_workspace(key, self._store.workspaces.values())
        return None if key is None else self._store.workspaces[key]

    def _sessions(self, key: str | None) -> list[Session]:
        return [
            session
            for session in self._store.sessions.values()
            if session.workspace == key
            and session.effective_mode is TrustLevel.SANDBOXED
            and is_live(session.status)
        ]


def _owner(key: str | None) -> str:
    return "the default sandbox" if key is None else f"workspace {key}"


def _usage(container: Container) -> CgroupUsage | None:
    cgroup = cgroup_of(container.init.pid)
    return None if cgroup is None else cgroup.usage()


def _free_bytes(path: str) -> int | None:
    try:
        status = os.statvfs(path)
    except OSError:
        return None
    return status.f_bavail * status.f_frsize


def _size_of(path: str) -> int:
    """The disk space of the files below a directory, which agents can write: links are not followed."""
    total, files = 0, 0
    for folder, _, names in os.walk(path):
        for name in names:
            files += 1
            try:
                total += os.lstat(f"{folder}/{name}").st_blocks * 512
            except OSError:
                continue
        if files > _HOME_FILES_MAX:
            break
    return total
