"""A cgroup for each session, which holds every process that its agent started, also one that left the process tree.

The cgroups of an instance are `BASE/sm-INSTANCE/SESSION`. They are found again by their names, so nothing is stored.
The hierarchy `freezer` of cgroup v1 is used where it is mounted and writable, otherwise cgroup v2. `BASE` is the
highest cgroup above this process that this user may change: for root the top of the hierarchy, with systemd the cgroup
of the user's manager or of the daemon's own unit. A process can enter from anywhere below it.

The launch script of an agent enters by itself, so that nothing of the agent can run before (`SessionCgroup.entry`). In
v1 a process with one thread enters within 0.02 ms, which is why v1 comes first. To enter takes 6 to 20 ms in v2,
because the kernel waits for a grace period of RCU. `warm_up` begins this wait earlier, while the terminal of the agent
is being opened.

A process is free to move itself to another cgroup that its user may change. A cgroup finds what an agent left behind.
It confines nothing.

Sources: cgroups(7), Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/freezer-subsystem.rst of the kernel.
"""

import asyncio
import contextlib
import os
import re
import shlex
import signal
import time
from collections.abc import Callable, Collection, Mapping
from enum import StrEnum

from sm.core.backoff import Backoff
from sm.core.dataclass import dataclass
from sm.core.models import Process
from sm.linux.cgroups import container_directory, counters, directory_of, hierarchies, memberships
from sm.linux.processes import identify, read_proc, signal_process

_SESSION = re.compile(r"[0-9a-f]{8}")
_KILL_S = 10.0
_LOOK_S = 0.005
_LONGEST_LOOK_S = 0.2
_FREEZE_S = 0.5
_DEPTH_MAX = 16


class Freeze(StrEnum):
    """The state of the processes of a cgroup."""

    THAWED = "thawed"
    FREEZING = "freezing"
    """Ordered; some process still runs."""
    FROZEN = "frozen"
    """No process runs, and none will until it is thawed."""


def _read(path: str) -> str | None:
    """None when the cgroup or the file does not exist, or this user may not read it."""
    try:
        content = read_proc(path)
    except OSError:  # ENODEV: the cgroup was removed while the file was open
        return None
    return None if content is None else content.decode("utf-8", "surrogateescape")


def _write(path: str, text: str) -> None:
    """Write with one write(2), as cgroup files need it. Raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


@dataclass(frozen=True, slots=True)
class SessionCgroup:
    """The cgroup of one session. It need not exist: then it has no members."""

    path: str
    version: int
    """1 or 2"""

    def create(self) -> None:
        """Idempotent. Raises OSError."""
        os.makedirs(self.path, mode=0o755, exist_ok=True)

    def enter(self, pid: int) -> None:
        """Move a process with all its threads here; its later children follow. Takes 10 to 20 ms. Raises OSError."""
        _write(self.path + "/cgroup.procs", str(pid))

    def entry(self) -> str:
        """The line of a shell script that moves the shell here. The script goes on when it fails."""
        # v1: `tasks` moves one thread, and a shell has no other. Since Linux 5.5 that needs no grace period.
        file = self.path + ("/cgroup.procs" if self.version == 2 else "/tasks")
        return f"{{ echo 0 >{shlex.quote(file)}; }} 2>/dev/null || :"

    def exists(self) -> bool:
        return os.path.isdir(self.path)

    def has(self, pid: int) -> bool:
        """True for a member, also one in a cgroup below."""
        return self._is_member(pid, _mounts())

    def _is_member(self, pid: int, mounts: Mapping[str, tuple[str, str]]) -> bool:
        return any(_is_below(path, self.path) for path in _directories(pid, mounts) if path is not None)

    def members(self) -> list[int]:
        """The pids of all its processes, also in cgroups below it; with zombies in v1."""
        found: dict[int, None] = {}
        for folder, _, _ in os.walk(self.path):
            found |= dict.fromkeys(
                pid for pid in map(int, (_read(folder + "/cgroup.procs") or "").split()) if pid
            )
        return list(found)

    def processes(self) -> list[Process]:
        """The live processes."""
        return [process for process in map(identify, self.members()) if process is not None]

    def freeze(self) -> None:
        """Order the kernel to suspend every process; `state` says when it has. Idempotent. Raises OSError."""
        self._order_freeze("1", "FROZEN")

    def thaw(self) -> None:
        """Idempotent. Raises OSError."""
        self._order_freeze("0", "THAWED")

    def _order_freeze(self, v2: str, v1: str) -> None:
        if self.version == 2:
            _write(self.path + "/cgroup.freeze", v2)
        else:
            _write(self.path + "/freezer.state", v1)

    def state(self) -> Freeze | None:
        """None when the cgroup does not exist."""
        if self.version == 1:
            text = _read(self.path + "/freezer.state")
            return None if text is None else Freeze(text.strip().lower())
        ordered, events = _read(self.path + "/cgroup.freeze"), _read(self.path + "/cgroup.events")
        if ordered is None or events is None:
            return None
        if counters(events).get("frozen"):
            return Freeze.FROZEN
        return Freeze.FREEZING if ordered.strip() == "1" else Freeze.THAWED

    def _kill_once(self, spared: Collection[int]) -> list[int]:
        """Send SIGKILL to every member that is not spared; return their pids. Blocks."""
        members = self.members()
        victims = [pid for pid in members if pid not in spared]
        if not victims:
            return []
        alone = len(victims) == len(members)
        with contextlib.suppress(OSError):
            if alone and self.version == 2:
                _write(self.path + "/cgroup.kill", "1")  # also ends processes that fork meanwhile
                return victims
        # Before kernel 5.14, or with spared ones. Frozen processes do not fork, so that all of them are listed.
        with contextlib.suppress(OSError):
            if alone:
                self.freeze()
                self._wait_frozen()
                victims = self.members()
        mounts = _mounts()
        for pid in victims:
            process = identify(pid)
            # Looked up after `identify`: a pid that was reused meanwhile belongs to another process.
            if process is not None and self._is_member(pid, mounts):
                with contextlib.suppress(PermissionError):
                    signal_process(process, signal.SIGKILL)
        with contextlib.suppress(OSError):
            self.thaw()  # a frozen process of v1 handles no signal
        return victims

    def _wait_frozen(self) -> None:
        deadline = time.monotonic() + _FREEZE_S
        while self.state() is Freeze.FREEZING and time.monotonic() < deadline:
            time.sleep(_LOOK_S)

    async def kill(self, spared: Callable[[], Collection[int]] = tuple) -> list[Process]:
        """End every member with SIGKILL, except the spared pids. Returns the processes left after 10 s, else none.

        Also ends frozen processes, and those that fork meanwhile. `spared` is called in a thread before each look.
        """
        loop = asyncio.get_running_loop()
        deadline, backoff = loop.time() + _KILL_S, Backoff(_LOOK_S, _LONGEST_LOOK_S)
        while left := await asyncio.to_thread(lambda: self._kill_once(spared())):
            if loop.time() > deadline:
                return [process for process in map(identify, left) if process is not None]
            await asyncio.sleep(backoff.next_s())
        return []

    def remove(self) -> bool:
        """Remove the cgroup and those below it; False while it has a process. Idempotent."""
        for folder, _, _ in os.walk(self.path, topdown=False):
            try:
                os.rmdir(folder)
            except FileNotFoundError:
                continue
            except OSError:  # EBUSY: it has a process; EACCES: it belongs to another user
                return False
        return True


@dataclass(frozen=True, slots=True)
class SessionCgroups:
    """The cgroups of one instance."""

    base: str
    """The directory in which new ones are made. It may not exist yet."""
    version: int
    """1 or 2"""
    earlier: tuple[tuple[str, int], ...] = ()
    """Other directories with cgroups of this instance, and their versions: the daemon ran in another cgroup before."""

    def create(self, session_id: str) -> SessionCgroup:
        """The cgroup of a session, made with its directory if it has none. Idempotent. Raises OSError."""
        cgroup = self.of(session_id)
        cgroup.create()
        return cgroup

    def of(self, session_id: str) -> SessionCgroup:
        """The cgroup of a session, whether it exists or not."""
        _require_id(session_id)
        for base, version in self.earlier:
            if os.path.isdir(f"{base}/{session_id}"):
                return SessionCgroup(f"{base}/{session_id}", version)
        return SessionCgroup(f"{self.base}/{session_id}", self.version)

    def all(self) -> dict[str, SessionCgroup]:
        """The existing ones by the id of their session."""
        found: dict[str, SessionCgroup] = {}
        for base, version in ((self.base, self.version), *self.earlier):
            with contextlib.suppress(OSError):
                names = filter(_SESSION.fullmatch, os.listdir(base))
                found |= {name: SessionCgroup(f"{base}/{name}", version) for name in names}
        return found

    def close(self) -> None:
        """Remove the directory of the instance if no session has a cgroup in it. Idempotent."""
        for name in (f"{self.base}/daemon", self.base):
            with contextlib.suppress(OSError):
                os.rmdir(name)

    def warm_up(self) -> None:
        """Make the kernel begin the wait that the next `entry` of v2 needs. Blocks for 10 to 20 ms.

        Moves this process to the cgroup in which it is already. Meanwhile no cgroup can be made. Without effect in v1.
        """
        if self.version == 1:
            return
        with contextlib.suppress(OSError):
            folder = directory_of("", _memberships(os.getpid()), _mounts())
            if folder is not None:
                _write(folder + "/cgroup.procs", str(os.getpid()))


@dataclass(frozen=True, slots=True)
class Probe:
    """The result of `probe`."""

    cgroups: SessionCgroups | None
    reason: str
    """The place of the cgroups, or the reason why there can be none. For people."""


def probe(instance: str) -> Probe:
    """Find a place for the cgroups of an instance, and make it. Blocks for a few milliseconds.

    `instance`: its id; the first 8 characters name the directory.
    """
    name, mounts, paths = _name(instance), _mounts(), _memberships(os.getpid())
    why: list[str] = []
    for version, controller, needed in ((1, "freezer", "freezer.state"), (2, "", "cgroup.freeze")):
        label = "cgroup v2" if version == 2 else "the freezer of cgroup v1"
        if controller not in mounts or (own := directory_of(controller, paths, mounts)) is None:
            why.append(f"{label} is not mounted")
            continue
        top = highest_writable(own, mounts[controller][0])
        if top is None:
            why.append(f"{label}: this user may not make a cgroup in {own}")
            continue
        base = f"{top}/{name}"
        try:
            os.makedirs(base, mode=0o755, exist_ok=True)
        except OSError as error:
            why.append(f"{label}: cannot make {base}: {os.strerror(error.errno or 0)}")
            continue
        if not os.path.exists(f"{base}/{needed}"):
            why.append(f"{label}: the kernel has no {needed}")
            continue
        earlier = tuple(found for found in find_bases(name, mounts) if found[0] != base)
        return Probe(SessionCgroups(base, version, earlier), f"{label}, {base}")
    return Probe(None, "; ".join(why))


def cgroups_in_container(pid: int, instance: str) -> SessionCgroups | None:
    """The cgroups of sessions in the container of a process.

    They are below the cgroup of the container. Docker removes them with it. None for a process outside of containers,
    and where this user may not make a cgroup there.
    """
    for version, controller, needed in ((2, "", "cgroup.freeze"), (1, "freezer", "freezer.state")):
        folder = container_directory(pid, controller)
        if (
            folder is not None
            and os.path.exists(f"{folder}/{needed}")
            and os.access(folder, os.W_OK | os.X_OK)
        ):
            return SessionCgroups(f"{folder}/sm-{instance[:8]}", version)
    return None


def leave_session_cgroup(cgroups: SessionCgroups) -> None:
    """Move this process out of the cgroup of a session, also of another instance, so that it does not end with it.

    An agent may have started this daemon, and what the daemon starts stays with the daemon.
    """
    inside = (path for path in _directories(os.getpid(), _mounts()) if path is not None)
    if any(re.search(r"/sm-[0-9a-f]{8}/[0-9a-f]{8}(?=/|\Z)", path) for path in inside):
        with contextlib.suppress(OSError):
            os.makedirs(f"{cgroups.base}/daemon", exist_ok=True)
            _write(f"{cgroups.base}/daemon/cgroup.procs", str(os.getpid()))


def highest_writable(own: str, mount: str) -> str | None:
    """The highest directory from `own` up to `mount` in which this user may make a cgroup and move processes."""
    top, folder = None, own
    while os.access(folder, os.W_OK | os.X_OK) and os.access(folder + "/cgroup.procs", os.W_OK):
        top = folder
        if folder == mount:
            break
        folder = os.path.dirname(folder)
    return top


def find_bases(name: str, mounts: Mapping[str, tuple[str, str]]) -> list[tuple[str, int]]:
    """The directories with this name in the hierarchies of cgroup v2 and the freezer, with their versions."""
    found = []
    for version, controller in ((2, ""), (1, "freezer")):
        mount = mounts.get(controller, ("", ""))[0]
        for folder, below, _ in os.walk(mount) if mount else ():
            if os.path.basename(folder) == name:
                found.append((folder, version))
                below.clear()
            elif folder.count("/") - mount.count("/") >= _DEPTH_MAX:
                below.clear()
    return found


def session_of(pid: int, instance: str) -> str | None:
    """The session of an instance in whose cgroup a process is; None for any other process, and for one that is gone.

    The name of a cgroup decides, so that it makes no difference where this daemon could make one.
    """
    return session_in(_read(f"/proc/{pid}/cgroup") or "", instance)


def session_in(text: str, instance: str) -> str | None:
    """The session that the text of /proc/PID/cgroup names."""
    folder = re.compile(rf"/{_name(instance)}/([0-9a-f]{{8}})(?=/|\Z)")
    paths = memberships(text)
    found = (folder.search(paths[controller]) for controller in ("", "freezer") if controller in paths)
    return next((match[1] for match in found if match is not None), None)


def _name(instance: str) -> str:
    return f"sm-{instance[:8]}"


def is_session_id(text: str) -> bool:
    return _SESSION.fullmatch(text) is not None


def _require_id(session_id: str) -> None:
    if not is_session_id(session_id):
        raise ValueError(f"not the id of a session: {session_id!r}")


def _mounts() -> dict[str, tuple[str, str]]:
    return hierarchies(_read("/proc/self/mountinfo") or "")


def _memberships(pid: int) -> dict[str, str]:
    return memberships(_read(f"/proc/{pid}/cgroup") or "")


def _directories(pid: int, mounts: Mapping[str, tuple[str, str]]) -> list[str | None]:
    paths = _memberships(pid)
    return [
        directory_of(controller, {controller: paths[controller]}, mounts)
        for controller in ("", "freezer")
        if controller in paths and controller in mounts
    ]


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")
