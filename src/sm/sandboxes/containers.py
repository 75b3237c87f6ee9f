"""Containers of sessions, as every engine describes them."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import StrEnum

from sm.core.dataclass import dataclass
from sm.core.models import Process
from sm.linux.cgroups import cgroup_of
from sm.linux.processes import identify, read_stat
from sm.sandboxes.path_map import Mount


@dataclass(frozen=True, slots=True)
class Container:
    """A container whose first process lives."""

    id: str
    name: str
    workspace: str | None
    """The slug, or None for the container for sessions without a workspace."""
    uid: int
    gid: int
    init: Process
    config: str
    """The hash of the spec from which it was made."""
    mounts: tuple[Mount, ...]
    """The mounts that it has, which may differ from those of the current configuration."""
    state: str = "running"
    """running or paused"""
    warnings: tuple[str, ...] = ()

    def members(self) -> list[Process]:
        """The live processes, without the two that the container itself needs. Reads /proc."""
        cgroup = cgroup_of(self.init.pid)
        if cgroup is None or identify(self.init.pid) != self.init:
            return []
        stats = [stat for stat in map(read_stat, cgroup.members()) if stat is not None and not stat.gone]
        # The oldest child of init is the command of the container: init ends when that ends. Orphans are younger.
        children = [stat for stat in stats if stat.parent == self.init.pid]
        command = min(children, key=lambda stat: (stat.start, stat.process.pid), default=None)
        return [stat.process for stat in stats if stat.process != self.init and stat is not command]


@dataclass(frozen=True, slots=True)
class ContainerRecord:
    """A container as the engine describes it. `pid`: of its first process on the host; 0 when it has none."""

    id: str
    name: str
    labels: Mapping[str, str]
    state: str
    """created, running, paused, restarting, removing, exited or dead"""
    pid: int
    user: str
    image: str
    """The id of the image from which it was made."""
    exit_code: int
    mounts: tuple[Mount, ...]

    @property
    def key(self) -> str | None:
        return key_of(self.labels)

    def running(self) -> Container | None:
        """None when it does not run, or when its first process cannot be seen from here."""
        init = identify(self.pid) if self.pid and self.state in ("running", "paused") else None
        if init is None:
            return None
        uid, _, gid = self.user.partition(":")
        return Container(
            id=self.id,
            name=self.name,
            workspace=self.key,
            uid=int(uid) if uid.isdecimal() else 0,
            gid=int(gid) if gid.isdecimal() else 0,
            init=init,
            config=self.labels.get("config", ""),
            mounts=self.mounts,
            state=self.state,
        )


def key_of(labels: Mapping[str, str]) -> str | None:
    """The slug of the workspace; None for the container of sessions without a workspace."""
    return None if labels.get("type") == "default" else labels.get("workspace", "")


class ContainerEventKind(StrEnum):
    DIED = "died"
    """The first process ended, and with it all processes of the container."""
    OOM = "oom"
    """The kernel killed a process because the memory of the container was used up. The container goes on."""


ContainerListener = Callable[[ContainerEventKind, Container], None]
RecordMounts = Callable[[str | None, Iterable[Mount]], Awaitable[None]]
"""Stores the mounts of the container of a workspace."""
