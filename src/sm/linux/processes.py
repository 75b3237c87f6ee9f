"""Processes: what /proc tells of them, waiting for their end, ending them.

A pid alone never names a process here, because the kernel reuses pids. These functions signal and wait for a
`models.Process`, which they reach through a pidfd (pidfd_open(2), kernel 5.3) whose process was
identified *after* the pidfd was open. A zombie counts as gone: nothing of it can run any more.

Sources: proc(5), pidfd_open(2), pidfd_send_signal(2), prctl(2).
"""

import asyncio
import contextlib
import errno
import functools
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from sm.core.models import Process
from sm.linux.platform import boot_id, libc


@dataclass(frozen=True, slots=True)
class _Stat:
    """What we use of /proc/PID/stat (proc(5))."""

    process: Process
    parent: int
    kernel_session: int
    tty: int
    start: int
    """In ticks since the boot."""
    gone: bool


def _read(path: str) -> bytes | None:
    """The whole file; None when its process is gone or belongs to somebody else."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None


def _stat(pid: int) -> _Stat | None:
    text = _read(f"/proc/{pid}/stat")
    if not text:
        return None
    # The second field is the program's name in parentheses, and may itself hold spaces and parentheses;
    # nothing after it does.
    fields = text[text.rindex(b")") + 2 :].split()
    # Field 3 is fields[0]. A main thread that ended while others run is shown as Z too: with threads left
    # (field 20) the process lives, and its pidfd says the same.
    gone = fields[0] in (b"Z", b"X") and int(fields[17]) <= 1
    return _Stat(
        process=Process(pid, f"{boot_id()}/{fields[19].decode()}"),
        parent=int(fields[1]),
        kernel_session=int(fields[3]),
        tty=int(fields[4]),
        start=int(fields[19]),
        gone=gone,
    )


def identify(pid: int) -> Process | None:
    """The process that has this pid now; None when there is none, or only a zombie."""
    stat = _stat(pid)
    return None if stat is None or stat.gone else stat.process


def is_alive(process: Process) -> bool:
    return identify(process.pid) == process


def ancestry(pid: int) -> list[int]:
    """The pid, its parent's, and so on up to 1 (at most 256); empty when there is no such process."""
    line: list[int] = []
    while pid > 0 and len(line) < 256:
        stat = _stat(pid)
        if stat is None:
            break
        line.append(pid)
        pid = stat.parent
    return line


def environ_value(pid: int, name: str) -> str | None:
    """Variable `name` in the environment that `pid` was started with; None when unset or not ours to read.

    The kernel bounds what is read: an environment has at most 6 MiB (execve(2)).
    """
    start = name.encode() + b"="
    for entry in (_read(f"/proc/{pid}/environ") or b"").split(b"\0"):
        if entry.startswith(start):
            return entry[len(start) :].decode("utf-8", "surrogateescape")
    return None


def environment(pid: int) -> dict[str, str]:
    """What `pid` was started with, but for what is no text; empty when it is gone or not ours to read."""
    found = {}
    for entry in (_read(f"/proc/{pid}/environ") or b"").split(b"\0"):
        with contextlib.suppress(UnicodeDecodeError):
            name, _, value = entry.decode().partition("=")
            if name:
                found[name] = value
    return found


def working_dir(pid: int) -> str | None:
    """Where the process is now; None when it is gone or not ours to look at."""
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return None


def environments() -> Iterator[bytes]:
    """What every other process that is ours to read was started with (proc(5))."""
    for name in os.listdir("/proc"):
        if name.isdecimal() and int(name) != os.getpid():
            yield _read(f"/proc/{name}/environ") or b""


def command_line(pid: int) -> tuple[str, ...]:
    """The argv of a process; empty when it is gone, or in the middle of an execve."""
    text = (_read(f"/proc/{pid}/cmdline") or b"").decode("utf-8", "surrogateescape")
    return tuple(text.removesuffix("\0").split("\0")) if text else ()


def has_open(pid: int, path: str) -> bool:
    """Whether the process has the file at `path` open; False when it is gone or not ours to look at."""
    folder = f"/proc/{pid}/fd"
    try:
        wanted = os.stat(path)
        for number in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.stat(f"{folder}/{number}"), wanted):
                    return True
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        pass
    return False


# Documentation/admin-guide/devices.txt of the kernel: the sides of pseudo terminals that programs run on.
_PTS_MAJORS = range(136, 144)


def tty_of(pid: int) -> str | None:
    """The controlling terminal as "/dev/pts/N"; None without one, or when it is no pseudo terminal."""
    stat = _stat(pid)
    if stat is None:
        return None
    # tty_nr: minor in bits 31..20 and 7..0, major in bits 19..8 (proc(5)).
    major, minor = stat.tty >> 8 & 0xFFF, stat.tty & 0xFF | stat.tty >> 12 & 0xFFF00
    return f"/dev/pts/{(major - _PTS_MAJORS.start) * 256 + minor}" if major in _PTS_MAJORS else None


# ----------------------------------------------------------------------------- waiting for, ending processes


def _open_pidfd(process: Process) -> int | None:
    """A pidfd for exactly this process; None when it is gone."""
    try:
        fd = os.pidfd_open(process.pid)
    except OSError as error:
        if error.errno in (errno.ESRCH, errno.EINVAL, errno.ENOENT):  # no such process, or a thread by now
            return None
        raise
    # Checked only now: a pid that was taken over before the pidfd was open shows another start time, and
    # one that is taken over later is not what the pidfd refers to.
    if is_alive(process):
        return fd
    os.close(fd)
    return None


class ProcessWatch:
    """Tells when processes end, without polling: one file descriptor per live process.

    It belongs to the event loop that runs when it is made.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._fds: dict[Process, int] = {}
        self._soon: dict[Process, asyncio.Handle] = {}

    def watch(self, process: Process, on_gone: Callable[[], None]) -> None:
        """Call `on_gone` once when the process has ended, from the loop, also when that was long ago.

        A second watch of a process replaces the first. Raises OSError when no file descriptor is left.
        """
        self.unwatch(process)
        fd = _open_pidfd(process)
        if fd is None:
            self._soon[process] = self._loop.call_soon(self._tell, process, on_gone)
        else:
            self._fds[process] = fd
            # A pidfd becomes readable when its process is a zombie, which is when it has an exit status.
            self._loop.add_reader(fd, self._tell, process, on_gone)

    def _tell(self, process: Process, on_gone: Callable[[], None]) -> None:
        self.unwatch(process)
        on_gone()

    def unwatch(self, process: Process) -> None:
        """`on_gone` is not called after this. Idempotent."""
        fd = self._fds.pop(process, None)
        if fd is not None:
            self._loop.remove_reader(fd)
            os.close(fd)
        handle = self._soon.pop(process, None)
        if handle is not None:
            handle.cancel()

    def close(self) -> None:
        """Unwatch everything. Idempotent."""
        for process in (*self._fds, *self._soon):
            self.unwatch(process)


def signal_process(process: Process, signum: int) -> bool:
    """Send a signal to exactly this process; False when it is gone. Raises PermissionError."""
    fd = _open_pidfd(process)
    if fd is None:
        return False
    try:
        signal.pidfd_send_signal(fd, signum)
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)
    return True


def process_tree(*roots: Process) -> list[Process]:
    """The live ones of: these processes, their descendants, and what stayed in a kernel session of theirs.

    A process whose parent ended belongs to init, but keeps the session (setsid(2)) that it was started in,
    so a child of a terminal's process is found by that even when its parents are gone. This also holds
    for a root that is gone itself, because a pid is not used again while a session carries its number.
    What is older than the one it would belong to is never taken for its own, nor is anything of another boot.
    """
    table: dict[int, _Stat] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (stat := _stat(int(name))) is not None:
            table[stat.process.pid] = stat
    since: dict[int, int] = {}  # pid of ours: its start
    for root in roots:
        boot, _, ticks = root.started.partition("/")
        if boot == boot_id() and (root.pid not in table or table[root.pid].process == root):
            since[root.pid] = int(ticks)
    found_more = True
    while found_more:
        more = {
            pid: stat.start
            for pid, stat in table.items()
            if pid not in since
            and any(stat.start >= since[of] for of in (stat.parent, stat.kernel_session) if of in since)
        }
        since |= more
        found_more = bool(more)
    # Never ourselves: a daemon that was started from inside an agent must not end with that agent.
    since.pop(os.getpid(), None)
    return [table[pid].process for pid in since if pid in table and not table[pid].gone]


async def _wait_gone(processes: Iterable[Process], timeout_s: float) -> None:
    """Return when all of them are gone, or after `timeout_s`."""
    waiting = set(processes)
    nothing_left = asyncio.Event()

    def strike(process: Process) -> None:
        waiting.discard(process)
        if not waiting:
            nothing_left.set()

    watch = ProcessWatch()
    try:
        for process in tuple(waiting):
            watch.watch(process, functools.partial(strike, process))
        if waiting:
            async with asyncio.timeout(timeout_s):
                await nothing_left.wait()
    except TimeoutError:
        pass
    finally:
        watch.close()


# Waited for at once, so that a very large tree does not use up our file descriptors.
_BATCH = 128
_KILL_S = 10.0


async def end_tree(process: Process, grace_s: float, *, force: bool) -> list[Process]:
    """End a process and its `process_tree`: SIGTERM, up to `grace_s` seconds of patience, then SIGKILL.

    With `force` SIGKILL comes at once. What the tree starts meanwhile is asked, and in the end killed, too.
    Returns when all of it is gone (an empty list), or after 10 more seconds with what did not go: processes
    stuck in the kernel, and those of another user (sudo), which are not ours to signal and not waited for.
    """
    loop = asyncio.get_running_loop()
    known = {process: None}
    foreign: set[Process] = set()

    async def look() -> list[Process]:
        # In a thread: /proc of a busy machine takes some milliseconds. All that was ever part of the tree
        # counts, because a process that ended leaves its children to init.
        left = await asyncio.to_thread(process_tree, *known)
        known.update(dict.fromkeys(left))
        return [each for each in left if each not in foreign]

    def tell(each: Process, *signums: int) -> None:
        try:
            for signum in signums:
                signal_process(each, signum)
        except PermissionError:
            foreign.add(each)

    deadline = loop.time() + (0 if force else grace_s)
    while (left := await look()) and loop.time() < deadline:
        for each in left:
            # A stopped process hears SIGTERM only when it is continued.
            tell(each, signal.SIGTERM, signal.SIGCONT)
        await _wait_gone([each for each in left if each not in foreign][:_BATCH], deadline - loop.time())
    deadline = loop.time() + _KILL_S
    while left and loop.time() < deadline:
        for each in left:
            tell(each, signal.SIGKILL)
        await _wait_gone([each for each in left if each not in foreign][:_BATCH], deadline - loop.time())
        left = await look()
    return [*left, *filter(is_alive, foreign)]


_PR_SET_PDEATHSIG = 1


def death_with_parent() -> Callable[[], None]:
    """What a child calls between fork and exec so that it is killed when its parent dies (PR_SET_PDEATHSIG, prctl(2)).

    When the thread that forked it dies, to be exact: fork in the main thread. Its own children are not bound.
    """
    prctl = libc().prctl  # looked up here: between fork and exec as little as possible should happen

    def bind() -> None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))

    return bind
