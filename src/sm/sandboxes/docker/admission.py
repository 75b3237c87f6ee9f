"""Decides by the cgroup of a container if one more agent has room in it."""

from sm.linux.cgroups import CgroupUsage
from sm.sandboxes.containers import Container
from sm.sandboxes.docker.agent_process import cgroup_of_container

_SPARE_BYTES = 300 << 20
_SPARE_PIDS = 64


def usage_of(container: Container) -> CgroupUsage | None:
    """None when the container does not run."""
    cgroup = cgroup_of_container(container.init)
    return None if cgroup is None else cgroup.usage()


def shortage(usage: CgroupUsage) -> str | None:
    """The limit that one more agent may exceed, or None if there is room."""
    used, most = usage.memory_bytes, usage.memory_limit_bytes
    if used is not None and most is not None and used + _SPARE_BYTES > most:
        return f"{gib(used)} of {gib(most)} GiB"
    if (
        usage.pids is not None
        and usage.pids_limit is not None
        and usage.pids + _SPARE_PIDS > usage.pids_limit
    ):
        return f"{usage.pids} of {usage.pids_limit} processes"
    return None


def gib(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 30):.1f}"
