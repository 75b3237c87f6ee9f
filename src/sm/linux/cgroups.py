"""Reads the cgroup of a process: its container, its processes, its memory and its limits; cgroup v1 and v2.

Sources: cgroups(7), Documentation/admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst of the kernel.
"""

import errno
import functools
import os
import re
from collections.abc import Iterable, Mapping

from sm.core.dataclass import dataclass
from sm.core.programs import engine_programs
from sm.linux.processes import read_proc

# cgroup v1 has no word for "no limit": it shows the largest number of pages that fit.
_NO_LIMIT_BYTES = 1 << 62
# Pages that the kernel frees before it kills a process. tmpfs is not among them: the kernel counts it as anonymous.
_CACHE_V1 = ("total_active_file", "total_inactive_file")
_CACHE_V2 = ("active_file", "inactive_file", "slab_reclaimable")


@dataclass(frozen=True, slots=True)
class CgroupUsage:
    """The use of a cgroup and its limits. None for no limit, or for a number that the kernel does not count."""

    memory_bytes: int | None
    """Without page cache."""
    memory_limit_bytes: int | None
    pids: int | None
    """Processes and threads."""
    pids_limit: int | None
    oom_kills: int | None
    """Processes that the kernel killed because the memory was used up, since the cgroup exists."""


# ------------------------------------------------------------------------------------------------ pure parsers


@functools.cache
def _container_pattern() -> re.Pattern[str]:
    """`/docker/ID` of the driver cgroupfs, `/system.slice/docker-ID.scope` of the driver systemd; any parent."""
    prefixes = "|".join(re.escape(engine.cgroup_prefix) for engine in engine_programs())
    return re.compile(rf"/(?:{prefixes})?([0-9a-f]{{64}})(?:\.scope)?(?=/|\Z)")


def memberships(text: str) -> dict[str, str]:
    """The path of each controller in the text of /proc/PID/cgroup; "" stands for cgroup v2."""
    paths: dict[str, str] = {}
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for controller in controllers.split(","):
            paths[controller] = path
    return paths


def container_in(text: str) -> str | None:
    """The id of the container in the text of /proc/PID/cgroup: 64 hexadecimal digits.

    None for a process outside of containers, and when the hierarchies name different containers. The innermost
    container counts, because the engine itself may run in one.
    """
    found = {
        match[-1] for path in memberships(text).values() if (match := _container_pattern().findall(path))
    }
    return found.pop() if len(found) == 1 else None


def hierarchies(mountinfo: str) -> dict[str, tuple[str, str]]:
    """The (mount point, root) of each controller in the text of /proc/self/mountinfo; "" stands for cgroup v2."""
    found: dict[str, tuple[str, str]] = {}
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")
        if len(fields) < 5 or len(kind) < 3 or kind[0] not in ("cgroup", "cgroup2"):
            continue
        root, mount = (_unescape(field) for field in fields[3:5])
        for option in kind[2].split(",") if kind[0] == "cgroup" else ("",):
            found.setdefault(option, (mount, root))
    return found


def _unescape(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)  # proc(5)


def directory_of(
    controller: str, paths: Mapping[str, str], mounts: Mapping[str, tuple[str, str]]
) -> str | None:
    """The directory of a controller for the process with these `memberships`; None when it is not mounted here.

    A controller of cgroup v1 has a hierarchy and a mount of its own. Otherwise it belongs to cgroup v2.
    """
    name = controller if controller in paths else ""
    if name not in paths or name not in mounts:
        return None
    (mount, root), path = mounts[name], paths[name]
    if "/.." in path:  # outside of the cgroup namespace of this process
        return None
    if root != "/":
        if path != root and not path.startswith(root + "/"):
            return None
        path = path[len(root) :]
    return mount + path.rstrip("/")


def counters(text: str) -> dict[str, int]:
    """The numbers of a flat file such as memory.stat or memory.events."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}


def limit(text: str) -> int | None:
    """A limit, in its own unit; None for no limit."""
    word = text.strip()
    return int(word) if word.isdecimal() and int(word) < _NO_LIMIT_BYTES else None


def without_cache(used_bytes: int, stat: Mapping[str, int]) -> int:
    """Memory in use without page cache. `stat`: the counters of memory.stat, with children."""
    names = _CACHE_V1 if _CACHE_V1[0] in stat else _CACHE_V2
    return max(0, used_bytes - sum(stat.get(name, 0) for name in names))


# ---------------------------------------------------------------------------------------------- this machine


def _text(path: str) -> str | None:
    content = read_proc(path)
    return None if content is None else content.decode("utf-8", "surrogateescape")


def container_of(pid: int) -> str | None:
    """The id of the container of a process; None for a process outside of containers, and when it is gone."""
    return container_in(_text(f"/proc/{pid}/cgroup") or "")


@dataclass(frozen=True, slots=True)
class Cgroup:
    """The cgroup of a container, as the directories of its controllers. None where a controller is not available."""

    memory: str | None
    pids: str | None
    freezer: str | None

    def is_frozen(self) -> bool:
        """True while its processes are suspended (`docker pause`): they handle no signal, in version 1 not even
        SIGKILL."""
        text = _first(self.freezer, "cgroup.freeze", "freezer.state")
        return text is not None and text.strip() in ("1", "FROZEN", "FREEZING")

    def members(self) -> list[int]:
        """The pids of its processes, also of cgroups below it; empty when it was removed.

        Processes that this process cannot see, because of a PID namespace, are left out.
        """
        base = self.pids or self.memory
        found: list[int] = []
        for folder, _, _ in os.walk(base) if base is not None else ():
            found += (pid for pid in map(int, (_counter_file(folder, "cgroup.procs") or "").split()) if pid)
        return list(dict.fromkeys(found))

    def usage(self) -> CgroupUsage:
        """The use now. Takes 0.1 ms; every value is None when the cgroup was removed."""
        used = _number(self.memory, "memory.current", "memory.usage_in_bytes")
        stat = counters(_counter_file(self.memory, "memory.stat") or "")
        events = counters(_first(self.memory, "memory.events", "memory.oom_control") or "")
        return CgroupUsage(
            memory_bytes=None if used is None else without_cache(used, stat),
            memory_limit_bytes=_number(self.memory, "memory.max", "memory.limit_in_bytes"),
            pids=_number(self.pids, "pids.current"),
            pids_limit=_number(self.pids, "pids.max"),
            oom_kills=events.get("oom_kill"),
        )


def container_paths(paths: Mapping[str, str]) -> dict[str, str]:
    """The `memberships` of a container itself, from those of a process in it, which may be in a cgroup below.

    A hierarchy in which the process is outside of its container is left out.
    """
    found = {}
    for controller, path in paths.items():
        if matches := list(_container_pattern().finditer(path)):
            found[controller] = path[: matches[-1].end()]
    return found


def container_directory(pid: int, controller: str) -> str | None:
    """The directory of a controller for the container of a process; "" stands for cgroup v2.

    None for a process outside of containers, and where the hierarchy is not visible here or has no such container.
    """
    text = _text(f"/proc/{pid}/cgroup") or ""
    path = container_paths(memberships(text)).get(controller)
    if path is None or container_in(text) is None:
        return None
    return directory_of(controller, {controller: path}, hierarchies(_text("/proc/self/mountinfo") or ""))


def cgroup_of(pid: int) -> Cgroup | None:
    """The cgroup of a process, or of its container; None when the process is gone or its cgroup is not visible here."""
    paths = memberships(_text(f"/proc/{pid}/cgroup") or "")
    paths |= container_paths(paths)
    mounts = hierarchies(_text("/proc/self/mountinfo") or "")
    memory, pids, freezer = (directory_of(name, paths, mounts) for name in ("memory", "pids", "freezer"))
    return None if memory is None and pids is None else Cgroup(memory, pids, freezer)


def _counter_file(folder: str | None, name: str) -> str | None:
    """The text of a file of a cgroup; None when the cgroup or the file does not exist."""
    if folder is None:
        return None
    try:
        return _text(f"{folder}/{name}")
    except OSError as error:
        if error.errno in (errno.ENODEV, errno.EOPNOTSUPP):  # removed while open; a threaded cgroup
            return None
        raise


def _first(folder: str | None, *names: str) -> str | None:
    texts: Iterable[str | None] = (_counter_file(folder, name) for name in names)
    return next((text for text in texts if text is not None), None)


def _number(folder: str | None, *names: str) -> int | None:
    text = _first(folder, *names)
    return None if text is None else limit(text)
