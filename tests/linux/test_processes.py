"""Identity, tree, watch and end of real processes."""

import asyncio
import os
import pty
import resource
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sm.core.models import Process
from sm.linux import platform, process_endings, processes, ttys
from tests.linux.child_process import IDLE, Start, python
from tests.waits import NEVER_S, until

pytestmark = pytest.mark.processes


async def wait_until_gone(process: Process) -> None:
    gone = asyncio.Event()
    watch = process_endings.ProcessWatch()
    watch.watch(process, gone.set)
    await gone.wait()
    watch.close()


def test_identify_uses_pid_boot_id_and_start_time(start: Start) -> None:
    child = start(*IDLE)
    boot, _, ticks = child.process.started.partition("/")
    assert boot == Path("/proc/sys/kernel/random/boot_id").read_text().strip() == platform.boot_id()
    assert ticks == Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
    assert processes.identify(child.pid) == child.process
    assert processes.is_alive(child.process)


def test_stat_is_parsed_when_the_program_name_has_spaces_and_parentheses(
    start: Start, tmp_path: Path
) -> None:
    program = tmp_path / "a) S 1 (b"
    program.symlink_to("/bin/sh")
    child = start(str(program), "-c", "echo ready; read -r line")
    assert b"(a) S 1 (b)" in Path(f"/proc/{child.pid}/stat").read_bytes()
    assert processes.ancestry(child.pid)[:2] == [child.pid, os.getpid()]
    assert processes.identify(child.pid) == child.process


def test_queries_about_an_unused_pid_return_nothing() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert processes.identify(ended.pid) is None
    assert processes.ancestry(ended.pid) == []
    assert processes.command_line(ended.pid) == ()
    assert processes.environ_value(ended.pid, "PATH") is None
    assert ttys.tty_of(ended.pid) is None
    assert not processes.has_open(ended.pid, "/")


def test_is_alive_is_false_when_the_pid_has_another_boot_or_start(start: Start) -> None:
    child = start(*IDLE)
    assert not processes.is_alive(Process(child.pid, platform.boot_id() + "/1"))
    assert not processes.is_alive(
        Process(child.pid, "00000000-0000/" + child.process.started.partition("/")[2])
    )


def test_zombie_is_not_alive(start: Start) -> None:
    child = start(*IDLE)
    os.kill(child.pid, signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # wait for the end without reaping
    assert processes.identify(child.pid) is None
    assert not processes.is_alive(child.process)
    assert processes.is_ending(child.process)
    assert not processes.signal_process(child.process, signal.SIGTERM)


def test_live_process_is_not_ending_and_has_started_in_the_past(start: Start) -> None:
    child = start(*IDLE)
    assert not processes.is_ending(child.process)
    assert 0 < processes.start_s(child.process) <= time.clock_gettime(time.CLOCK_BOOTTIME)


async def test_process_is_alive_when_only_its_main_thread_has_ended(start: Start) -> None:
    child = start(
        *python(
            "import ctypes, sys, threading\n"
            "threading.Thread(target=sys.stdin.read).start()\n"
            "print('ready', flush=True)\n"
            "ctypes.CDLL(None).pthread_exit(None)"
        )
    )
    path = Path(f"/proc/{child.pid}/stat")
    while b") Z " not in path.read_bytes():  # noqa: ASYNC110 - no event reports the end of a thread
        await asyncio.sleep(0)
    assert processes.is_alive(child.process)
    gone = asyncio.Event()
    watch = process_endings.ProcessWatch()
    watch.watch(child.process, gone.set)
    assert not gone.is_set()
    os.kill(child.pid, signal.SIGKILL)
    await gone.wait()


def test_ancestry_lists_all_parents_up_to_process_1(start: Start) -> None:
    child = start("sh", "-c", "sh -c 'echo \"$$\"; read -r line'; true")
    grandchild = int(child.printed[0])
    line = processes.ancestry(grandchild)
    assert line[:3] == [grandchild, child.pid, os.getpid()]
    assert line[-1] == 1


@pytest.mark.parametrize("value", ["", "plain", "with = sign", "two\nlines", "ünï", "x" * 100_000])
def test_environ_value_reads_a_variable_of_another_process(start: Start, value: str) -> None:
    child = start(*IDLE, env={"PATH": os.environ["PATH"], "XSM_THING": "no", "SM_THING": value})
    assert processes.environ_value(child.pid, "SM_THING") == value
    assert processes.environ_value(child.pid, "SM_THIN") is None


def test_environ_value_finds_a_variable_after_a_megabyte_of_others(start: Start) -> None:
    child = start(*IDLE, env={**{f"FILL{i}": "x" * 100_000 for i in range(12)}, "SM_THING": "found"})
    assert processes.environ_value(child.pid, "SM_THING") == "found"


def test_environment_and_open_files_of_another_user_are_unknown(start: Start) -> None:
    if os.geteuid() == 0:
        # Root reads everything, so a child that becomes `nobody` reads the process of the test.
        code = (
            f"import os, sys; sys.path[:0] = {sys.path!r}\n"
            "from sm.linux import processes; os.setuid(65534)\n"
            f"print(processes.environ_value({os.getpid()}, 'PATH'), processes.has_open({os.getpid()}, '/'))\n"
            "sys.stdin.read()"
        )
        assert start(*python(code)).printed == ["None", "False"]
    else:
        assert processes.environ_value(1, "PATH") is None
        assert not processes.has_open(1, "/")


def test_command_line_keeps_empty_and_non_ascii_arguments(start: Start) -> None:
    argv = (*IDLE, "", "two\nlines", "ünï", "")
    assert processes.command_line(start(*argv).pid) == argv


def test_has_open_compares_the_file_and_not_its_name(start: Start, tmp_path: Path) -> None:
    file, other = tmp_path / "file", tmp_path / "other"
    file.touch()
    other.touch()
    child = start("sh", "-c", f"exec 7<{file}; echo ready; read -r line")
    moved = file.rename(tmp_path / "moved")
    assert processes.has_open(child.pid, str(moved))
    assert not processes.has_open(child.pid, str(other))
    assert not processes.has_open(child.pid, str(file))


def test_tty_of_returns_the_controlling_terminal() -> None:
    # /proc splits the number of a terminal in two: open so many that both parts matter. Numbers that other processes
    # release meanwhile are reused first, so they are kept open too.
    taken = [os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY) for _ in range(260)]
    number = 0
    pids: list[int] = []
    try:
        while number <= 256 and len(pids) < 100:
            pid, master = pty.fork()
            if pid == 0:  # pragma: no cover
                os.execvp("sh", ["sh", "-c", "tty; read -r line"])
            pids.append(pid)
            taken.append(master)
            assert select.select([master], [], [])[0]
            tty = os.read(master, 1000).decode().split()[0]
            number = int(tty.removeprefix("/dev/pts/"))
        assert number > 256
        assert ttys.tty_of(pids[-1]) == tty
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        for fd in taken:
            os.close(fd)


def test_tty_of_is_none_when_the_process_has_no_terminal(start: Start) -> None:
    assert ttys.tty_of(start(*IDLE).pid) is None


# ------------------------------------------------------------------------------------------- ProcessWatch


async def test_process_watch_reports_the_end_before_the_zombie_is_reaped(start: Start) -> None:
    child = start(*IDLE)
    states: list[int | None] = []
    gone = asyncio.Event()

    def on_gone() -> None:
        # The process is not reaped yet: its exit status is still available.
        states.append(os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT).si_status)  # type: ignore[union-attr]
        gone.set()

    watch = process_endings.ProcessWatch()
    watch.watch(child.process, on_gone)
    os.kill(child.pid, signal.SIGTERM)
    await gone.wait()
    assert states == [signal.SIGTERM]
    watch.close()


async def test_process_watch_reports_an_ended_process_from_the_event_loop(start: Start) -> None:
    child = start(*IDLE)
    child.stop()
    reports: list[str] = []
    watch = process_endings.ProcessWatch()
    watch.watch(child.process, lambda: reports.append("gone"))
    assert reports == []
    await asyncio.sleep(0)
    assert reports == ["gone"]


async def test_process_watch_reports_the_end_when_the_pid_is_reused(start: Start) -> None:
    child = start(*IDLE)
    earlier = Process(child.pid, platform.boot_id() + "/1")
    await wait_until_gone(earlier)
    assert processes.is_alive(child.process)


async def test_process_watch_reports_an_end_once_and_never_after_unwatch(start: Start) -> None:
    kept, dropped, ended = start(*IDLE), start(*IDLE), start(*IDLE)
    ended.stop()
    reports: list[str] = []
    watch = process_endings.ProcessWatch()
    watch.watch(kept.process, lambda: reports.append("replaced"))
    watch.watch(kept.process, lambda: reports.append("kept"))
    for child in (dropped, ended):
        watch.watch(child.process, lambda: reports.append("dropped"))
        watch.unwatch(child.process)
        watch.unwatch(child.process)
    dropped.stop()
    kept.stop()
    await wait_until_gone(kept.process)
    await wait_until_gone(dropped.process)
    assert reports == ["kept"]
    watch.close()
    watch.close()


async def test_closed_process_watch_releases_its_file_descriptors(start: Start) -> None:
    before = len(os.listdir("/proc/self/fd"))
    watch = process_endings.ProcessWatch()
    children = [start(*IDLE) for _ in range(5)]
    pipes = len(os.listdir("/proc/self/fd")) - before
    for child in children:
        watch.watch(child.process, lambda: None)
    assert len(os.listdir("/proc/self/fd")) - before == pipes + 5
    watch.close()
    assert len(os.listdir("/proc/self/fd")) - before == pipes


# --------------------------------------------------------------------------------------------- end_tree


def test_signal_process_spares_another_process_with_the_same_pid(start: Start) -> None:
    child = start(*IDLE)
    assert not processes.signal_process(Process(child.pid, platform.boot_id() + "/1"), signal.SIGKILL)
    assert processes.is_alive(child.process)
    assert processes.signal_process(child.process, signal.SIGKILL)
    assert child.popen.wait() == -signal.SIGKILL


# A shell with a child and a grandchild, a process forked twice that stayed in the kernel session, and a leader of
# another kernel session with an orphan in it.
FAMILY = python(
    """
import os, subprocess, sys
pids_of_tree = []
child = subprocess.Popen(["sh", "-c", "sleep 1000 & echo $!; wait"], stdout=subprocess.PIPE)
pids_of_tree += [child.pid, int(child.stdout.readline())]
double = subprocess.run(["sh", "-c", "sleep 1001 >/dev/null & echo $!"], stdout=subprocess.PIPE)
pids_of_tree.append(int(double.stdout))
leader = subprocess.Popen(
    ["sh", "-c", "(sleep 1002 >/dev/null & echo $!); exec sleep 1003"],
    start_new_session=True,
    stdout=subprocess.PIPE,
)
pids_of_tree += [leader.pid, int(leader.stdout.readline())]
while b"1003" not in open(f"/proc/{leader.pid}/cmdline", "rb").read().split(b"\\0"):
    pass
print(*pids_of_tree, flush=True)
sys.stdin.read()
"""
)


def test_process_tree_has_descendants_and_members_of_the_kernel_session(start: Start) -> None:
    bystander, child = start(*IDLE), start(*FAMILY)
    tree = processes.process_tree(child.process)
    assert tree[0] == child.process
    assert {process.pid for process in tree} == {child.pid, *map(int, child.printed)}
    assert bystander.process not in tree
    assert processes.process_tree(Process(child.pid, platform.boot_id() + "/1")) == []
    for process in tree[1:]:
        processes.signal_process(process, signal.SIGKILL)


async def test_process_tree_of_an_ended_process_has_its_orphans(start: Start) -> None:
    child = start("sh", "-c", "sleep 1000 >/dev/null & echo $!; read -r line")
    os.kill(child.pid, signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    for reaped in (False, True):
        if reaped:
            child.popen.wait()
        assert [process.pid for process in processes.process_tree(child.process)] == [int(child.printed[0])]
    boot, _, ticks = child.process.started.partition("/")
    for stranger in (f"{boot}/{int(ticks) + 1_000_000}", f"another-boot/{ticks}", "gone"):
        assert processes.process_tree(Process(child.pid, stranger)) == []
    assert await process_endings.end_tree(child.process, NEVER_S, force=False) == []
    assert processes.identify(int(child.printed[0])) is None


def test_process_tree_never_contains_the_calling_process() -> None:
    parent = processes.identify(os.getppid())
    assert parent is not None
    assert os.getpid() not in {process.pid for process in processes.process_tree(parent)}


@pytest.mark.parametrize("force", [False, True])
async def test_end_tree_ends_the_whole_tree_and_no_other_process(start: Start, force: bool) -> None:
    bystander, child = start(*IDLE), start(*FAMILY)
    tree = processes.process_tree(child.process)
    assert len(tree) == 6
    assert await process_endings.end_tree(child.process, NEVER_S, force=force) == []
    assert [process for process in tree if processes.is_alive(process)] == []
    assert child.popen.wait() == -(signal.SIGKILL if force else signal.SIGTERM)
    assert processes.is_alive(bystander.process)


async def test_end_tree_lets_a_process_handle_sigterm(start: Start, tmp_path: Path) -> None:
    code = (
        "import signal, subprocess, sys, pathlib\n"
        "def end(*_):\n"
        f"    subprocess.run(['touch', {str(tmp_path / 'saved')!r}], check=True)\n"
        "    sys.exit(3)\n"
        "signal.signal(signal.SIGTERM, end); print('ready'); sys.stdin.read()"
    )
    child = start(*python(code))
    assert await process_endings.end_tree(child.process, NEVER_S, force=False) == []
    assert child.popen.wait() == 3
    assert (tmp_path / "saved").exists()


async def test_end_tree_sends_no_sigterm_when_forced(start: Start, tmp_path: Path) -> None:
    child = start("sh", "-c", f"trap 'touch {tmp_path}/asked' TERM; echo ready; read -r line; read -r line")
    assert await process_endings.end_tree(child.process, NEVER_S, force=True) == []
    assert child.popen.wait() == -signal.SIGKILL
    assert not (tmp_path / "asked").exists()


async def test_end_tree_kills_a_process_that_ignores_sigterm(start: Start) -> None:
    child = start("sh", "-c", "trap '' TERM; echo ready; read -r line")
    assert await process_endings.end_tree(child.process, 0.05, force=False) == []
    assert child.popen.wait() == -signal.SIGKILL


async def test_end_tree_continues_a_stopped_process_before_sigterm(start: Start) -> None:
    child = start("sh", "-c", "trap 'exit 7' TERM; echo ready; read -r line")
    os.kill(child.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED)
    assert await process_endings.end_tree(child.process, NEVER_S, force=False) == []
    assert child.popen.wait() == 7


@pytest.mark.parametrize("new_session", [False, True])
async def test_end_tree_ends_a_process_that_starts_during_the_end(
    start: Start, tmp_path: Path, new_session: bool
) -> None:
    # On SIGTERM the process starts a child that ignores SIGTERM, and ends. With `new_session` it has its own kernel
    # session, so that nothing connects the child with the first process.
    answering = (
        "import os, signal, subprocess, sys\n"
        "def end(*_):\n"
        "    child = subprocess.Popen(['sh', '-c', \"trap '' TERM; echo > $0/up; sleep 1000; true\", "
        f"{str(tmp_path)!r}], stdout=subprocess.DEVNULL)\n"
        f"    while not os.path.exists({str(tmp_path / 'up')!r}): pass\n"
        f"    open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))\n"
        "    os._exit(0)\n"
        "signal.signal(signal.SIGTERM, end); print('ready'); sys.stdin.read()"
    )
    code = (
        "import subprocess, sys\n"
        f"subprocess.run([sys.executable, '-u', '-c', {answering!r}], start_new_session={new_session})"
    )
    child = start(*python(code))
    assert await process_endings.end_tree(child.process, 2, force=False) == []
    assert processes.identify(int((tmp_path / "pid").read_text())) is None


async def test_end_tree_looks_twice_before_a_tree_counts_as_ended(start: Start) -> None:
    """The list of a container that is read between a fork and the end of the parent lacks the child."""
    child, orphan = start(*IDLE), start(*IDLE)
    lists = iter([[], [orphan.process]])
    child.popen.kill()
    child.popen.wait()
    assert (
        await process_endings.end_tree(child.process, NEVER_S, force=True, others=lambda: next(lists, []))
        == []
    )
    assert not processes.is_alive(orphan.process)


async def test_end_tree_ends_a_process_that_keeps_forking_and_ignores_sigterm(start: Start) -> None:
    code = (
        "import os, signal\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "os.dup2(os.open('/dev/null', os.O_WRONLY), 2)\n"
        "print('ready', flush=True)\n"
        "for _ in range(400):\n"
        "    if not os.fork():\n"
        "        break\n"
        "signal.pause()\n"
    )
    child = start(*python(code))
    assert await process_endings.end_tree(child.process, 0.02, force=False) == []
    assert processes.process_tree(child.process) == []


async def test_end_tree_reports_a_process_of_another_user_without_waiting(start: Start) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can start a process of another user")
    # As with sudo: a process becomes `nobody`, but its child belongs to root. The first `end_tree` runs before that,
    # because `nobody` may not be allowed to read the modules that Python loads on first use.
    code = (
        "import asyncio, os, subprocess, sys\n"
        f"sys.path[:0] = {sys.path!r}\n"
        "from sm.linux import process_endings, processes\n"
        "async def main():\n"
        "    mine, roots = (subprocess.Popen(['sleep', '1000'], start_new_session=True) for _ in range(2))\n"
        "    await process_endings.end_tree(processes.identify(mine.pid), 1.0, force=True)\n"
        "    process = processes.identify(roots.pid)\n"
        "    os.setresuid(65534, 65534, 0)\n"
        "    left = await process_endings.end_tree(process, 1000.0, force=False)\n"
        "    os.setresuid(0, 0, 0)\n"
        "    roots.kill()\n"
        "    print(left == [process])\n"
        "asyncio.run(main())\n"
        "sys.stdin.read()"
    )
    child = start(*python(code))
    assert child.printed[0] == "True"


async def test_end_tree_returns_immediately_when_the_process_has_ended(start: Start) -> None:
    child = start(*IDLE)
    child.stop()
    assert await process_endings.end_tree(child.process, NEVER_S, force=False) == []


def test_check_in_the_background_can_clean_up_when_its_daemon_is_killed(start: Start) -> None:
    """The command of `run_check` is replaced by one that handles SIGTERM, as `sm check` does to remove its instance."""
    # No print: a signal handler must not enter a buffer in which its own thread may be.
    command = (
        "import os, signal, sys\n"
        "told = os.open(sys.argv[1], os.O_WRONLY)\n"
        "signal.signal(signal.SIGTERM, lambda *_: (os.write(told, b'cleaned up\\n'), os._exit(0)))\n"
        "os.write(told, b'runs\\n')\n"
        "while True: signal.pause()"
    )
    parent = start(
        *python(
            f"import asyncio, os, sys, tempfile; sys.path[:0] = {sys.path!r}\n"
            "from sm.daemon import check_runner\n"
            "path = tempfile.mkdtemp() + '/told'\n"
            "os.mkfifo(path)\n"
            "execute = asyncio.create_subprocess_exec\n"
            "async def start(*argv, **options):\n"
            f"    return await execute(sys.executable, '-c', {command!r}, path, **options)\n"
            "asyncio.create_subprocess_exec = start\n"
            "print(path, flush=True)\n"
            "asyncio.run(check_runner.run_check('claude', '/x'))"
        )
    )
    with Path(parent.printed[0]).open(encoding="utf-8") as told_lines:
        assert told_lines.readline() == "runs\n"
        os.kill(parent.pid, signal.SIGKILL)
        assert told_lines.readline() == "cleaned up\n"


def test_limit_and_name_of_a_process_are_read_from_proc() -> None:
    assert processes.open_files_max(os.getpid()) == resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert processes.program_name(os.getpid()) == Path("/proc/self/comm").read_text().strip()
    assert processes.open_files_max(2**22 + 1) is None
    assert processes.program_name(2**22 + 1) == ""


def test_namespace_pid_is_the_pid_of_the_host_outside_of_containers(start: Start) -> None:
    child = start(*IDLE)
    assert processes.namespace_pid(child.pid) == child.pid
    assert processes.namespace_pid(2**22 + 1) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a pid namespace")
def test_namespace_pid_is_the_pid_that_a_process_has_itself(start: Start) -> None:
    outer = start("unshare", "--pid", "--fork", "--kill-child", "--", *IDLE)
    children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children")
    until(lambda: children.read_text().split(), "the process in the namespace runs")
    (inner,) = map(int, children.read_text().split())
    until(lambda: processes.namespace_pid(inner) == 1, "the process is the first of its namespace")
