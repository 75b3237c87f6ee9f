"""Reads processes from /proc, and signals them.

A pid alone does not identify a process, because the kernel reuses pids. These functions signal a
`models.Process` through a pidfd (pidfd_open(2), kernel 5.3), and identify the process *after* they opened the pidfd.
A zombie counts as gone, because it runs no code any more.

Sources: proc(5), pidfd_open(2), pidfd_send_signal(2), prctl(2).
"""

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator, Mapping

from sm.core.dataclass import dataclass
from sm.core.models import Process
from sm.linux.kernel import kernel
from sm.linux.platform import boot_id

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


_PF_EXITING = 0x4


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """The used fields of /proc/PID/stat (proc(5))."""

    process: Process
    parent: int
    group: int
    kernel_session: int
    tty: int
    foreground_group: int
    """The process group that reads the terminal; -1 without a terminal."""
    start: int
    """In ticks since the boot."""
    stack: int
    """The address at which its stack begins: a fork keeps it, and a new program has another. 0 if of another user."""
    gone: bool
    stopped: bool


def read_proc(path: str) -> bytes | None:
    """The whole file; None when its process is gone or belongs to another user."""
    try:
        return kernel().read(path)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None


def read_stat(pid: int) -> ProcessStat | None:
    """The process with this pid, also a zombie; None when there is none."""
    text = read_proc(f"/proc/{pid}/stat")
    if not text:
        return None
    # The second field is the program's name in parentheses, and may itself contain spaces and parentheses.
    fields = text[text.rindex(b")") + 2 :].split()
    # Field 3 is fields[0]. An ended main thread also shows as Z while other threads run: with threads left (field 20)
    # the process lives, and its pidfd agrees.
    gone = fields[0] in (b"Z", b"X") and int(fields[17]) <= 1
    return ProcessStat(
        process=Process(pid, f"{boot_id()}/{fields[19].decode()}"),
        parent=int(fields[1]),
        group=int(fields[2]),
        kernel_session=int(fields[3]),
        tty=int(fields[4]),
        foreground_group=int(fields[5]),
        start=int(fields[19]),
        stack=int(fields[25]),
        gone=gone,
        stopped=fields[0] == b"T",
    )


def identify(pid: int) -> Process | None:
    """The process that has this pid now; None for no process or a zombie."""
    stat = read_stat(pid)
    return None if stat is None or stat.gone else stat.process


def program_of(process: Process) -> str | None:
    """Return the absolute path of the program that a process runs; None if it is gone or belongs to another user."""
    try:
        path = kernel().link(f"/proc/{process.pid}/exe")
    except OSError:
        return None
    return path if is_alive(process) else None


def is_alive(process: Process) -> bool:
    return identify(process.pid) == process


def start_s(process: Process) -> float:
    """The start of a process of this boot, in seconds since the boot."""
    return int(process.started.partition("/")[2]) / TICKS_PER_S


def is_ending(process: Process) -> bool:
    """True if the process is gone, or will be soon: one that has begun to exit runs no code of its program."""
    text = read_proc(f"/proc/{process.pid}/stat")
    if not is_alive(process) or not text:
        return True
    flags = int(text[text.rindex(b")") + 2 :].split()[6])
    return bool(flags & _PF_EXITING)


def ancestry(pid: int) -> list[int]:
    """The pid, its parent's, and so on up to 1 (at most 256); empty when there is no such process."""
    line: list[int] = []
    while pid > 0 and len(line) < 256:
        stat = read_stat(pid)
        if stat is None:
            break
        line.append(pid)
        pid = stat.parent
    return line


def descendants(pids: Iterable[int]) -> set[int]:
    """The pids of all processes below these."""
    children: dict[int, list[int]] = {}
    for name in kernel().names("/proc"):
        if name.isdigit() and (stat := read_stat(int(name))) is not None:
            children.setdefault(stat.parent, []).append(stat.process.pid)
    found: set[int] = set()
    left = list(pids)
    while left:
        below = [pid for pid in children.get(left.pop(), ()) if pid not in found]
        found.update(below)
        left += below
    return found


def environ_value(pid: int, name: str) -> str | None:
    """Variable `name` in the initial environment of `pid`; None when unset or not readable.

    The kernel bounds an environment to 6 MiB (execve(2)).
    """
    start = name.encode() + b"="
    for entry in environ_entries(pid):
        if entry.startswith(start):
            return entry[len(start) :].decode("utf-8", "surrogateescape")
    return None


def environment(pid: int) -> dict[str, str]:
    """The variables that `pid` was started with, if they are UTF-8; empty when it is gone or not readable."""
    variables = {}
    for entry in (read_proc(f"/proc/{pid}/environ") or b"").split(b"\0"):
        with contextlib.suppress(UnicodeDecodeError):
            name, _, value = entry.decode().partition("=")
            if name:
                variables[name] = value
    return variables


def namespace_pid(pid: int) -> int | None:
    """The pid that a process has in its own pid namespace, such as that of a container; None when it is gone."""
    for line in (read_proc(f"/proc/{pid}/status") or b"").splitlines():
        if line.startswith(b"NSpid:"):
            return int(line.split()[-1])
    return None


def working_dir(pid: int) -> str | None:
    """The current directory; None when the process is gone or not readable."""
    try:
        return kernel().link(f"/proc/{pid}/cwd")
    except OSError:
        return None


def pids_with_variable(name: str, prefix: str) -> list[int]:
    """The other processes that were started with variable `name` set to a value that begins with `prefix`."""
    start = f"{name}={prefix}".encode("utf-8", "surrogateescape")
    return [
        pid
        for pid in map(int, filter(str.isdecimal, kernel().names("/proc")))
        if pid != os.getpid()
        and any(entry.startswith(start) for entry in (read_proc(f"/proc/{pid}/environ") or b"").split(b"\0"))
    ]


def environ_entries(pid: int) -> list[bytes]:
    """The initial environment of `pid`, as `NAME=value`; empty when it is gone or not readable."""
    return (read_proc(f"/proc/{pid}/environ") or b"").split(b"\0")


def other_pids() -> list[int]:
    """The pids of every process but this one."""
    return [pid for pid in map(int, filter(str.isdecimal, kernel().names("/proc"))) if pid != os.getpid()]


def environments() -> Iterator[bytes]:
    """The initial environment of every other process, in the format of proc(5); empty when not readable."""
    for name in kernel().names("/proc"):
        if name.isdecimal() and int(name) != os.getpid():
            yield read_proc(f"/proc/{name}/environ") or b""


def command_line(pid: int) -> tuple[str, ...]:
    """The argv of a process; empty when it is gone, or in the middle of an execve."""
    text = (read_proc(f"/proc/{pid}/cmdline") or b"").decode("utf-8", "surrogateescape")
    return tuple(text.removesuffix("\0").split("\0")) if text else ()


def program_name(pid: int) -> str:
    """The first 15 bytes of the name of the program; empty when the process is gone."""
    return (read_proc(f"/proc/{pid}/comm") or b"").decode("utf-8", "surrogateescape").rstrip("\n")


def open_files_max(pid: int) -> int | None:
    """The hard limit of open files (RLIMIT_NOFILE); None for no limit, and when the process is gone."""
    for line in (read_proc(f"/proc/{pid}/limits") or b"").splitlines():
        if line.startswith(b"Max open files"):
            hard = line.split()[4]
            return int(hard) if hard.isdigit() else None
    return None


def has_open(pid: int, path: str) -> bool:
    """True when the process has the file at `path` open; False also when it is gone or not readable."""
    folder = f"/proc/{pid}/fd"
    try:
        wanted = os.stat(path)
        for number in kernel().names(folder):
            with contextlib.suppress(FileNotFoundError):
                found = kernel().status(f"{folder}/{number}")
                if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
                    return True
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        pass
    return False


# ----------------------------------------------------------------------------- signals


def open_pidfd(process: Process) -> int | None:
    """A pidfd for exactly this process, or None when the process is gone."""
    try:
        fd = kernel().open_pidfd(process.pid)
    except OSError as error:
        if error.errno in (errno.ESRCH, errno.EINVAL, errno.ENOENT):  # no such process, or the id of a thread
            return None
        raise
    # Checked after the open: a pid that was reused before shows another start time, and a later reuse does not change
    # the process that the pidfd refers to.
    if is_alive(process):
        return fd
    os.close(fd)
    return None


def signal_process(process: Process, signum: int) -> bool:
    """Send a signal to exactly this process; False when it is gone. Raises PermissionError."""
    fd = open_pidfd(process)
    if fd is None:
        return False
    try:
        kernel().send_signal(fd, signum)
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)
    return True


def process_table() -> dict[int, ProcessStat]:
    """Every process by its pid, also zombies."""
    return {
        int(name): stat
        for name in kernel().names("/proc")
        if name.isdigit() and (stat := read_stat(int(name))) is not None
    }


def process_tree(*roots: Process, table: Mapping[int, ProcessStat] | None = None) -> list[Process]:
    """The live processes among the roots, their descendants, and the members of their kernel sessions.

    `table`: the processes of a `process_table`, by default those that run now.

    A process whose parent ended belongs to init, but keeps its kernel session (setsid(2)). So a child of a terminal's
    process is found by its session even when its parents are gone. This also holds for a root that is gone, because
    the kernel does not reuse a pid while a session has the same number. A process older than its supposed parent or
    session leader is excluded, as is a process of another boot.
    """
    if table is None:
        table = process_table()
    since: dict[int, int] = {}  # pid in the tree: its start in ticks
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
            and any(
                stat.start >= since[owner] for owner in (stat.parent, stat.kernel_session) if owner in since
            )
        }
        since |= more
        found_more = bool(more)
    # Never this process: a daemon that was started from inside an agent must not end with that agent.
    since.pop(os.getpid(), None)
    return [table[pid].process for pid in since if pid in table and not table[pid].gone]
