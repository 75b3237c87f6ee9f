"""Played processes, and the kernel that shows them: `/proc`, pidfds, signals and terminal devices."""

import asyncio
import errno
import os
import signal
import termios
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Protocol

from sm.core.models import Exit, Process
from sm.linux.kernel import FileIdentity, RootDirectory
from sm.linux.platform import boot_id
from sm.linux.processes import TICKS_PER_S

_FIRST_PID = 5_000_001
"""Above the largest pid of a kernel (proc(5), pid_max): a signal that misses the simulation finds no process."""
_PTS_MAJOR = 136
_IGNORED = frozenset({signal.SIGCHLD, signal.SIGCONT, signal.SIGWINCH, signal.SIGURG})
_NO_LIFE = Context()
_STOPPING = frozenset({signal.SIGSTOP, signal.SIGTSTP})


class Place(Protocol):
    """The container in which a process runs, as the kernel knows it."""

    @property
    def cgroup(self) -> str:
        """The path in the hierarchy."""

    @property
    def reaper(self) -> int:
        """The pid of the process that gets orphans."""

    @property
    def is_frozen(self) -> bool: ...

    def enter(self) -> int:
        """Return the pid inside of the next process."""

    def open_root(self) -> RootDirectory: ...

    def mount_points(self) -> Mapping[str, str]:
        """The mounted path of each mount point, as the kernel shows it."""


@dataclass(slots=True)
class PlayedProcess:
    """One process. `tty` is the number of its pseudo terminal, `files` are the paths it has open.

    `place` is its container, and `inside` its pid there.
    """

    pid: int
    parent: int
    argv: tuple[str, ...]
    environ: Mapping[str, str]
    cwd: str
    start: int
    tty: int | None = None
    group: int = 0
    is_stopped: bool = False
    exit: Exit | None = None
    files: list[str] = field(default_factory=list)
    cpu_s: float = 0.0
    place: Place | None = None
    inside: int | None = None
    script: str = ""
    """The launch script that became this process."""
    held: list[int] = field(default_factory=list)
    """The signals that it gets when its container is continued."""
    handlers: dict[int, Callable[[], None]] = field(default_factory=dict)
    """The reactions of the program to signals. Without a handler the signal ends the process."""
    on_end: list[Callable[[], None]] = field(default_factory=list)

    @property
    def process(self) -> Process:
        return Process(self.pid, f"{boot_id()}/{self.start}")

    @property
    def tty_path(self) -> str:
        return f"/dev/pts/{self.tty}"


class PlayedKernel:
    """`KernelCalls` of the played processes. It outlives every daemon."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._next_pid = _FIRST_PID
        self._next_tty = 0
        self.processes: dict[int, PlayedProcess] = {}
        self.changes = 0
        """Rises with each process that begins, ends or loses its parent."""
        self._ends: dict[int, int] = {}
        """For each process that somebody watches a descriptor that is readable after its end."""
        self._pidfds: dict[int, int] = {}
        """The process of each open pidfd."""
        self.unread: dict[str, int] = {}
        """Unread bytes of terminals by path."""
        self.flags: dict[str, int] = {}
        """Local modes of terminals by path."""
        self.file_systems: dict[str, Callable[[str], bytes]] = {}
        """Read the files of the mounted hierarchies of cgroups, by mount point."""
        self._add(1, 0, ("init",), {}, "/", None)
        self._add(os.getpid(), 1, ("test",), {}, "/", None)

    def close(self) -> None:
        for fd in self._ends.values():
            os.close(fd)
        self._ends.clear()

    # Making and ending processes

    def start(
        self,
        argv: Sequence[str],
        environ: Mapping[str, str],
        cwd: str,
        *,
        parent: int = 1,
        tty: int | None = None,
        place: Place | None = None,
    ) -> PlayedProcess:
        """Start a process. It is in the container `place`, or in that of its parent."""
        pid = self._next_pid
        self._next_pid += 1
        made = self._add(pid, parent, tuple(argv), environ, cwd, tty)
        made.place = place or (self.processes[parent].place if parent in self.processes else None)
        made.inside = None if made.place is None else made.place.enter()
        return made

    def new_tty(self) -> int:
        self._next_tty += 1
        self.flags[f"/dev/pts/{self._next_tty}"] = termios.ICANON | termios.ECHO | termios.ISIG
        return self._next_tty

    def _add(
        self,
        pid: int,
        parent: int,
        argv: tuple[str, ...],
        environ: Mapping[str, str],
        cwd: str,
        tty: int | None,
    ) -> PlayedProcess:
        made = PlayedProcess(
            pid, parent, argv, environ, cwd, int(self._loop.time() * TICKS_PER_S), tty, group=pid
        )
        self.processes[pid] = made
        self.changes += 1
        return made

    def end(self, process: PlayedProcess, exit: Exit) -> None:
        """End a process. It is a zombie until `reap`. Its children go on, as those of init."""
        if process.exit is not None:
            return
        process.exit = exit
        self.changes += 1
        if process.pid in self._ends:
            os.eventfd_write(self._ends[process.pid], 1)
        for child in self.processes.values():
            if child.parent == process.pid:
                child.parent = 1 if child.place is None else child.place.reaper
        for call in process.on_end:
            call()
        if process.place is not None and process.parent == process.place.reaper:
            self.reap(process)  # as the first process of the container

    def reap(self, process: PlayedProcess) -> None:
        if self.processes.pop(process.pid, None) is not None:
            self.changes += 1
            if process.pid in self._ends:
                os.close(self._ends.pop(process.pid))

    def signal(self, process: PlayedProcess, number: int) -> None:
        if process.exit is not None:
            return
        if process.place is not None and process.place.is_frozen and number != signal.SIGKILL:
            process.held.append(number)
            return
        if number == signal.SIGCONT:
            process.is_stopped = False
        if number in _STOPPING and number not in process.handlers:
            process.is_stopped = True
            return
        handler = None if number == signal.SIGKILL else process.handlers.get(number)
        if handler is not None:
            self._loop.call_soon(handler, context=_NO_LIFE)  # a sender may be gone by then
        elif number not in _IGNORED and number != 0:
            self.end(process, Exit(signal=int(number)))

    def thaw(self, place: Place) -> None:
        """Deliver the signals that waited while the processes of a container were suspended."""
        for process in [p for p in self.processes.values() if p.place is place]:
            held, process.held = process.held, []
            for number in held:
                self.signal(process, number)

    def inhabitants(self, place: Place) -> list[PlayedProcess]:
        """The live processes of a container, oldest first."""
        return [p for p in self.processes.values() if p.place is place and p.exit is None]

    def kill(self, pid: int, number: int) -> None:
        """As `os.kill`."""
        process = self.processes.get(pid)
        if process is None:
            raise ProcessLookupError(errno.ESRCH, "no such process")
        self.signal(process, number)

    # KernelCalls

    def read(self, path: str) -> bytes:
        for mount, reader in self.file_systems.items():
            if path.startswith(mount + "/"):
                return reader(path.removeprefix(mount))
        if path == "/proc/self/mountinfo":
            lines = (f"30 1 0:26 / {mount} rw - cgroup2 cgroup2 rw\n" for mount in self.file_systems)
            return "".join(lines).encode()
        process, name = self._found(path)
        if name == "stat":
            return _stat_line(process)
        if name == "environ":
            variables = {} if process.exit is not None else process.environ
            return _joined(f"{name}={value}" for name, value in variables.items())
        if name == "cmdline":
            return b"" if process.exit is not None else _joined(process.argv)
        if name == "comm":
            return os.path.basename(process.argv[0]).encode()[:15] + b"\n"
        if name == "status":
            inside = "" if process.inside is None else f"\t{process.inside}"
            return f"NSpid:\t{process.pid}{inside}\n".encode()
        if name == "cgroup":
            return f"0::{'/' if process.place is None else process.place.cgroup}\n".encode()
        if name == "mountinfo":
            points = {"/": "/"} if process.place is None else process.place.mount_points()
            mounts = (f"1 1 0:1 {_octal(root)} {_octal(p)} rw - ext4 x rw\n" for p, root in points.items())
            return "".join(mounts).encode()
        if name == f"task/{process.pid}/children":
            children = (str(p.pid) for p in self.processes.values() if p.parent == process.pid)
            return " ".join(children).encode()
        raise FileNotFoundError(errno.ENOENT, "no such file", path)

    def names(self, path: str) -> list[str]:
        if path == "/proc":
            return [str(pid) for pid in self.processes]
        process, name = self._found(path)
        if name == "fd" and process.exit is None:
            return [str(number) for number in range(3 + len(process.files))]
        raise FileNotFoundError(errno.ENOENT, "no such directory", path)

    def link(self, path: str) -> str:
        process, name = self._found(path)
        if process.exit is not None:
            raise FileNotFoundError(errno.ENOENT, "a zombie has no files", path)
        if name == "cwd":
            return process.cwd
        if name in ("fd/0", "fd/1", "fd/2"):
            return "/dev/null" if process.tty is None else process.tty_path
        raise FileNotFoundError(errno.ENOENT, "no such link", path)

    def status(self, path: str) -> FileIdentity:
        process, name = self._found(path)
        number = int(name.removeprefix("fd/"))
        if number < 3:
            device = 0 if process.tty is None else os.makedev(_PTS_MAJOR, process.tty)
            return SimpleNamespace(st_dev=-1, st_ino=process.tty or 0, st_rdev=device)
        if number < 3 + len(process.files):
            return os.stat(process.files[number - 3])
        raise FileNotFoundError(errno.ENOENT, "no such descriptor", path)

    def open_root(self, pid: int) -> RootDirectory:
        process = self.processes.get(pid)
        if process is None or process.exit is not None or process.place is None:
            raise FileNotFoundError(errno.ENOENT, "no such root", f"/proc/{pid}/root")
        return process.place.open_root()

    def open_pidfd(self, pid: int) -> int:
        process = self.processes.get(pid)
        if process is None:
            raise ProcessLookupError(errno.ESRCH, "no such process")
        if pid not in self._ends:
            self._ends[pid] = os.eventfd(int(process.exit is not None), os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        fd = os.dup(self._ends[pid])
        self._pidfds[fd] = pid
        return fd

    def send_signal(self, pidfd: int, number: int) -> None:
        process = self.processes.get(self._pidfds[pidfd])
        if process is None or process.exit is not None:
            raise ProcessLookupError(errno.ESRCH, "no such process")
        self.signal(process, number)

    def unread_bytes(self, tty: str) -> int:
        return self.unread.get(self._device(tty), 0)

    def local_flags(self, tty: str) -> int:
        return self.flags[self._device(tty)]

    def _device(self, path: str) -> str:
        if path.startswith("/proc/"):
            path = self.link(path)
        if path not in self.flags:
            raise FileNotFoundError(errno.ENOENT, "no such terminal", path)
        return path

    def _found(self, path: str) -> tuple[PlayedProcess, str]:
        _, root, pid, *rest = (*path.split("/"), "", "")
        if root != "proc" or not pid.isdecimal() or int(pid) not in self.processes:
            raise FileNotFoundError(errno.ENOENT, "no such process", path)
        return self.processes[int(pid)], "/".join(rest).rstrip("/")


def _octal(path: str) -> str:
    return path.replace("\\", "\\134").replace(" ", "\\040").replace("\t", "\\011").replace("\n", "\\012")


def _joined(words: Iterable[str]) -> bytes:
    return b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in words)


def _stat_line(process: PlayedProcess) -> bytes:
    state = "Z" if process.exit is not None else "T" if process.is_stopped else "S"
    tty = 0 if process.tty is None else _PTS_MAJOR << 8 | process.tty & 0xFF | (process.tty & 0xFFF00) << 12
    fields = ["0"] * 50
    fields[0:6] = [state, *map(str, (process.parent, process.group, process.group, tty, process.group))]
    fields[11] = str(int(process.cpu_s * TICKS_PER_S))
    fields[17] = "1"
    fields[19] = str(process.start)
    fields[21] = "1000"
    name = os.path.basename(process.argv[0])[:15]
    return f"{process.pid} ({name}) {' '.join(fields)}\n".encode()
