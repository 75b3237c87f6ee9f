"""The contract of KernelCalls: processes, pidfds and terminals, on this machine and played.

The tests ask the functions of the room, which read what the kernel says.
"""

import asyncio
import os
import signal
import subprocess
import termios
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from sm.core.models import Process
from sm.linux import process_endings, processes
from sm.linux.jobs import InputLoss, NoInput, input_loss
from sm.linux.kernel import kernel, replaced_kernel
from sm.linux.process_usage import read_table, read_usage
from sm.linux.ttys import has_unread_input, is_in_line_mode
from tests.sim.processes import PlayedKernel
from tests.waits import until_async

ENVIRON = {"PATH": "/usr/bin:/bin", "MARK": "a=b c", "EMPTY": ""}


class Machine(ABC):
    """Starts processes that sleep."""

    @abstractmethod
    def start(self, directory: Path) -> Process: ...

    @abstractmethod
    def reap(self, process: Process) -> None: ...

    @abstractmethod
    def terminal(self) -> tuple[str, Callable[[str], None], Callable[[int], None]]:
        """The path of a new terminal, and functions that type into it and set its local modes."""

    @abstractmethod
    def close(self) -> None: ...


class RealMachine(Machine):
    starts_processes = True

    def __init__(self) -> None:
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._stack = ExitStack()

    def start(self, directory: Path) -> Process:
        child = subprocess.Popen(["sleep", "1000"], env=ENVIRON, cwd=directory, stdin=subprocess.DEVNULL)
        self._children[child.pid] = child
        found = processes.identify(child.pid)
        assert found is not None
        return found

    def reap(self, process: Process) -> None:
        self._children[process.pid].wait()

    def terminal(self) -> tuple[str, Callable[[str], None], Callable[[int], None]]:
        master, slave = os.openpty()
        self._stack.callback(os.close, master)
        self._stack.callback(os.close, slave)

        def set_flags(flags: int) -> None:
            modes = termios.tcgetattr(slave)
            modes[3] = flags
            termios.tcsetattr(slave, termios.TCSANOW, modes)

        return os.ttyname(slave), lambda text: (os.write(master, text.encode()), None)[1], set_flags

    def close(self) -> None:
        for child in self._children.values():
            child.kill()
            child.wait()
        self._stack.close()


class PlayedMachine(Machine):
    def __init__(self) -> None:
        self._kernel = PlayedKernel(asyncio.get_running_loop())
        self._stack = ExitStack()
        self._stack.enter_context(replaced_kernel(self._kernel))

    def start(self, directory: Path) -> Process:
        return self._kernel.start(("sleep", "1000"), ENVIRON, str(directory), parent=os.getpid()).process

    def reap(self, process: Process) -> None:
        self._kernel.reap(self._kernel.processes[process.pid])

    def terminal(self) -> tuple[str, Callable[[str], None], Callable[[int], None]]:
        path = f"/dev/pts/{self._kernel.new_tty()}"

        def type_text(text: str) -> None:
            self._kernel.unread[path] = self._kernel.unread.get(path, 0) + len(text)

        return path, type_text, lambda flags: self._kernel.flags.__setitem__(path, flags)

    def close(self) -> None:
        self._stack.close()
        self._kernel.close()


async def started(machine: Machine, directory: Path) -> Process:
    """A process that has exec'ed its program."""
    process = machine.start(directory)
    await until_async(lambda: _is(processes.command_line(process.pid) == ("sleep", "1000")))
    return process


async def _is(value: bool) -> bool:
    return value


@pytest.fixture
async def machine(request: pytest.FixtureRequest) -> AsyncIterator[Machine]:
    is_played = request.node.get_closest_marker("simulation") is not None
    found = PlayedMachine() if is_played else RealMachine()
    yield found
    found.close()


async def test_kernel_shows_a_process(machine: Machine, tmp_path: Path) -> None:
    process = await started(machine, tmp_path)
    stat = processes.read_stat(process.pid)
    assert stat is not None
    assert (stat.process, stat.parent, stat.gone, stat.stopped) == (process, os.getpid(), False, False)
    assert processes.program_name(process.pid) == "sleep"
    assert processes.working_dir(process.pid) == str(tmp_path)
    assert processes.environment(process.pid) == ENVIRON
    assert processes.environ_value(process.pid, "MARK") == "a=b c"
    assert processes.environ_value(process.pid, "OTHER") is None
    assert processes.ancestry(process.pid)[:2] == [process.pid, os.getpid()]
    assert process.pid in processes.descendants([os.getpid()])
    assert process.pid in processes.other_pids()
    assert processes.namespace_pid(process.pid) == process.pid
    assert processes.process_tree(process) == [process]
    assert read_table().tree_rss(process) is not None
    assert read_usage(process.pid) is not None


async def test_kernel_shows_open_files(machine: Machine, tmp_path: Path) -> None:
    process, file = await started(machine, tmp_path), tmp_path / "file"
    file.touch()
    assert not processes.has_open(process.pid, str(file))
    assert not processes.has_open(process.pid, str(tmp_path / "missing"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
async def test_signal_ends_a_process_and_its_watch_reports_it_once(
    machine: Machine, tmp_path: Path, number: signal.Signals
) -> None:
    process, gone = await started(machine, tmp_path), list[str]()
    watch = process_endings.ProcessWatch()
    watch.watch(process, lambda: gone.append("gone"))
    assert processes.is_alive(process)
    assert processes.signal_process(process, 0)
    assert processes.signal_process(process, number)
    await until_async(lambda: _is(gone == ["gone"]))
    # A zombie counts as gone, also for a new watch.
    assert processes.identify(process.pid) is None
    assert processes.process_tree(process) == []
    assert processes.environ_entries(process.pid) == [b""]
    for link in ("cwd", "fd/0"):
        with pytest.raises(FileNotFoundError):
            kernel().link(f"/proc/{process.pid}/{link}")
    machine.reap(process)
    assert processes.read_stat(process.pid) is None
    assert processes.environ_entries(process.pid) == [b""]
    assert processes.command_line(process.pid) == ()
    assert not processes.signal_process(process, number)
    watch.watch(process, lambda: gone.append("again"))
    await until_async(lambda: _is(gone == ["gone", "again"]))
    watch.close()


async def test_watch_that_was_dropped_reports_nothing(machine: Machine, tmp_path: Path) -> None:
    dropped, kept = await started(machine, tmp_path), await started(machine, tmp_path)
    watch, gone = process_endings.ProcessWatch(), list[Process]()
    for process in (dropped, kept):
        watch.watch(process, lambda process=process: gone.append(process))  # type: ignore[misc]
    watch.unwatch(dropped)
    for process in (dropped, kept):
        processes.signal_process(process, signal.SIGKILL)
    await until_async(lambda: _is(gone == [kept]))
    watch.close()


async def test_stopped_process_reads_no_input_until_it_continues(machine: Machine, tmp_path: Path) -> None:
    process = await started(machine, tmp_path)
    assert input_loss(process, reads_terminal=False) is None
    processes.signal_process(process, signal.SIGSTOP)
    stopped = InputLoss(NoInput.STOPPED)
    await until_async(lambda: _is(input_loss(process, reads_terminal=False) == stopped))
    processes.signal_process(process, signal.SIGCONT)
    await until_async(lambda: _is(input_loss(process, reads_terminal=False) is None))


async def test_tree_of_processes_ends_with_a_kill(machine: Machine, tmp_path: Path) -> None:
    process = await started(machine, tmp_path)
    assert await process_endings.end_tree(process, 1.0, force=False) == []
    assert not processes.is_alive(process)


async def test_missing_process_and_terminal_raise_what_the_kernel_raises(machine: Machine) -> None:
    for call in (
        lambda: kernel().read("/proc/4194304/stat"),
        lambda: kernel().names("/proc/4194304/fd"),
        lambda: kernel().link("/proc/4194304/cwd"),
        lambda: kernel().status("/proc/4194304/fd/0"),
        lambda: kernel().unread_bytes("/dev/pts/99999"),
        lambda: kernel().local_flags("/dev/pts/99999"),
    ):
        with pytest.raises(FileNotFoundError):
            call()
    with pytest.raises(ProcessLookupError):
        kernel().open_pidfd(4194303)


async def test_terminal_has_unread_input_and_modes(machine: Machine) -> None:
    path, type_text, set_flags = machine.terminal()
    assert is_in_line_mode(path)
    set_flags(0)
    assert not is_in_line_mode(path)
    assert not has_unread_input(path)
    type_text("text")
    await until_async(lambda: _is(has_unread_input(path)))
    assert has_unread_input("/dev/pts/99999")
    assert not is_in_line_mode("/dev/pts/99999")
