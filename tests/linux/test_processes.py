"""Real processes: identity, trees, watches, ends."""

import asyncio
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sm.core.models import Process
from sm.linux import platform, processes
from tests.linux.started import IDLE, Started, python
from tests.load import scaled


async def gone(process: Process) -> None:
    told = asyncio.Event()
    watch = processes.ProcessWatch()
    watch.watch(process, told.set)
    async with asyncio.timeout(scaled()):
        await told.wait()
    watch.close()


def test_process_is_identified_by_pid_boot_and_start_time(start: Callable[..., Started]) -> None:
    one = start(*IDLE)
    boot, _, ticks = one.process.started.partition("/")
    assert boot == Path("/proc/sys/kernel/random/boot_id").read_text().strip() == platform.boot_id()
    assert ticks == Path(f"/proc/{one.pid}/stat").read_text().rpartition(")")[2].split()[19]
    assert processes.identify(one.pid) == one.process
    assert processes.is_alive(one.process)


def test_program_name_with_spaces_and_parentheses_is_read_right(
    start: Callable[..., Started], tmp_path: Path
) -> None:
    program = tmp_path / "a) S 1 (b"
    program.symlink_to("/bin/sh")
    one = start(str(program), "-c", "echo ready; read -r line")
    assert b"(a) S 1 (b)" in Path(f"/proc/{one.pid}/stat").read_bytes()
    assert processes.ancestry(one.pid)[:2] == [one.pid, os.getpid()]
    assert processes.identify(one.pid) == one.process


def test_pid_that_nobody_has_is_nobody() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert processes.identify(ended.pid) is None
    assert processes.ancestry(ended.pid) == []
    assert processes.command_line(ended.pid) == ()
    assert processes.environ_value(ended.pid, "PATH") is None
    assert processes.tty_of(ended.pid) is None
    assert not processes.has_open(ended.pid, "/")


def test_same_pid_with_another_start_time_is_another_process(start: Callable[..., Started]) -> None:
    one = start(*IDLE)
    assert not processes.is_alive(Process(one.pid, platform.boot_id() + "/1"))
    assert not processes.is_alive(Process(one.pid, "00000000-0000/" + one.process.started.partition("/")[2]))


def test_zombie_counts_as_gone(start: Callable[..., Started]) -> None:
    one = start(*IDLE)
    os.kill(one.pid, signal.SIGKILL)
    os.waitid(os.P_PID, one.pid, os.WEXITED | os.WNOWAIT)  # ended, and left unreaped
    assert processes.identify(one.pid) is None
    assert not processes.is_alive(one.process)
    assert not processes.signal_process(one.process, signal.SIGTERM)


async def test_process_whose_main_thread_ended_is_still_alive(start: Callable[..., Started]) -> None:
    one = start(
        *python(
            "import ctypes, sys, threading\n"
            "threading.Thread(target=sys.stdin.read).start()\n"
            "print('ready', flush=True)\n"
            "ctypes.CDLL(None).pthread_exit(None)"
        )
    )
    path = Path(f"/proc/{one.pid}/stat")
    async with asyncio.timeout(scaled()):
        while b") Z " not in path.read_bytes():  # noqa: ASYNC110 - nothing tells the end of one thread
            await asyncio.sleep(0)
    assert processes.is_alive(one.process)
    told = asyncio.Event()
    watch = processes.ProcessWatch()
    watch.watch(one.process, told.set)
    assert not told.is_set()
    os.kill(one.pid, signal.SIGKILL)
    async with asyncio.timeout(scaled()):
        await told.wait()


def test_ancestry_goes_up_to_the_first_process(start: Callable[..., Started]) -> None:
    one = start("sh", "-c", "sh -c 'echo \"$$\"; read -r line'; true")
    grandchild = int(one.said[0])
    line = processes.ancestry(grandchild)
    assert line[:3] == [grandchild, one.pid, os.getpid()]
    assert line[-1] == 1


@pytest.mark.parametrize("value", ["", "plain", "with = sign", "two\nlines", "ünï", "x" * 100_000])
def test_environment_value_of_another_process(start: Callable[..., Started], value: str) -> None:
    one = start(*IDLE, env={"PATH": os.environ["PATH"], "XSM_THING": "no", "SM_THING": value})
    assert processes.environ_value(one.pid, "SM_THING") == value
    assert processes.environ_value(one.pid, "SM_THIN") is None


def test_environment_behind_a_megabyte_of_others_is_found(start: Callable[..., Started]) -> None:
    one = start(*IDLE, env={**{f"FILL{i}": "x" * 100_000 for i in range(12)}, "SM_THING": "found"})
    assert processes.environ_value(one.pid, "SM_THING") == "found"


def test_environment_of_another_user_is_unknown(start: Callable[..., Started]) -> None:
    if os.geteuid() == 0:
        # Root reads everything; nobody else reads root's. A child that became `nobody` asks about us.
        code = (
            f"import os, sys; sys.path[:0] = {sys.path!r}\n"
            "from sm.linux import processes; os.setuid(65534)\n"
            f"print(processes.environ_value({os.getpid()}, 'PATH'), processes.has_open({os.getpid()}, '/'))\n"
            "sys.stdin.read()"
        )
        assert start(*python(code)).said == ["None", "False"]
    else:
        assert processes.environ_value(1, "PATH") is None
        assert not processes.has_open(1, "/")


def test_command_line_keeps_empty_and_strange_arguments(start: Callable[..., Started]) -> None:
    argv = (*IDLE, "", "two\nlines", "ünï", "")
    assert processes.command_line(start(*argv).pid) == argv


def test_open_file_is_seen_by_identity_not_by_name(start: Callable[..., Started], tmp_path: Path) -> None:
    file, other = tmp_path / "file", tmp_path / "other"
    file.touch()
    other.touch()
    one = start("sh", "-c", f"exec 7<{file}; echo ready; read -r line")
    moved = file.rename(tmp_path / "moved")
    assert processes.has_open(one.pid, str(moved))
    assert not processes.has_open(one.pid, str(other))
    assert not processes.has_open(one.pid, str(file))


def test_controlling_terminal_is_named() -> None:
    # The number of a terminal is cut in two in /proc: take so many that both parts count. What others let go meanwhile
    # is given out first, and is kept then.
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
            assert select.select([master], [], [], scaled())[0]
            said = os.read(master, 1000).decode().split()[0]
            number = int(said.removeprefix("/dev/pts/"))
        assert number > 256
        assert processes.tty_of(pids[-1]) == said
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        for each in taken:
            os.close(each)


def test_process_without_terminal_has_none(start: Callable[..., Started]) -> None:
    assert processes.tty_of(start(*IDLE).pid) is None


# ------------------------------------------------------------------------------------------- ProcessWatch


async def test_end_of_a_process_is_told_while_it_is_still_a_zombie(start: Callable[..., Started]) -> None:
    one = start(*IDLE)
    states: list[int | None] = []
    told = asyncio.Event()

    def on_gone() -> None:
        # Nobody has reaped it yet: its exit status can still be had.
        states.append(os.waitid(os.P_PID, one.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT).si_status)  # type: ignore[union-attr]
        told.set()

    watch = processes.ProcessWatch()
    watch.watch(one.process, on_gone)
    os.kill(one.pid, signal.SIGTERM)
    async with asyncio.timeout(scaled()):
        await told.wait()
    assert states == [signal.SIGTERM]
    watch.close()


async def test_process_that_is_gone_already_is_told_soon_but_not_at_once(
    start: Callable[..., Started],
) -> None:
    one = start(*IDLE)
    one.stop()
    told: list[str] = []
    watch = processes.ProcessWatch()
    watch.watch(one.process, lambda: told.append("gone"))
    assert told == []
    await asyncio.sleep(0)
    assert told == ["gone"]


async def test_reused_pid_is_told_as_gone(start: Callable[..., Started]) -> None:
    one = start(*IDLE)
    earlier = Process(one.pid, platform.boot_id() + "/1")
    await gone(earlier)
    assert processes.is_alive(one.process)


async def test_end_is_told_once_and_unwatched_is_never_told(start: Callable[..., Started]) -> None:
    kept, dropped, ended = start(*IDLE), start(*IDLE), start(*IDLE)
    ended.stop()
    told: list[str] = []
    watch = processes.ProcessWatch()
    watch.watch(kept.process, lambda: told.append("replaced"))
    watch.watch(kept.process, lambda: told.append("kept"))
    for one in (dropped, ended):
        watch.watch(one.process, lambda: told.append("dropped"))
        watch.unwatch(one.process)
        watch.unwatch(one.process)
    dropped.stop()
    kept.stop()
    await gone(kept.process)
    await gone(dropped.process)
    assert told == ["kept"]
    watch.close()
    watch.close()


async def test_closed_watch_gives_back_its_file_descriptors(start: Callable[..., Started]) -> None:
    before = len(os.listdir("/proc/self/fd"))
    watch = processes.ProcessWatch()
    some = [start(*IDLE) for _ in range(5)]
    pipes = len(os.listdir("/proc/self/fd")) - before
    for one in some:
        watch.watch(one.process, lambda: None)
    assert len(os.listdir("/proc/self/fd")) - before == pipes + 5
    watch.close()
    assert len(os.listdir("/proc/self/fd")) - before == pipes


# -------------------------------------------------------------------------------------------- ending them


def test_signal_reaches_a_process_but_never_the_next_one_with_its_pid(start: Callable[..., Started]) -> None:
    one = start(*IDLE)
    assert not processes.signal_process(Process(one.pid, platform.boot_id() + "/1"), signal.SIGKILL)
    assert processes.is_alive(one.process)
    assert processes.signal_process(one.process, signal.SIGKILL)
    assert one.popen.wait(scaled()) == -signal.SIGKILL


# A shell with a child and a grandchild, a process that was forked twice but stayed in the kernel session,
# and one whose parent ended that leads a session of its own, started by one that is still there.
FAMILY = python(
    """
import os, subprocess, sys
said = []
child = subprocess.Popen(["sh", "-c", "sleep 1000 & echo $!; wait"], stdout=subprocess.PIPE)
said += [child.pid, int(child.stdout.readline())]
double = subprocess.run(["sh", "-c", "sleep 1001 >/dev/null & echo $!"], stdout=subprocess.PIPE)
said.append(int(double.stdout))
leader = subprocess.Popen(
    ["sh", "-c", "(sleep 1002 >/dev/null & echo $!); exec sleep 1003"],
    start_new_session=True,
    stdout=subprocess.PIPE,
)
said += [leader.pid, int(leader.stdout.readline())]
while b"1003" not in open(f"/proc/{leader.pid}/cmdline", "rb").read().split(b"\\0"):
    pass
print(*said, flush=True)
sys.stdin.read()
"""
)


def test_tree_is_descendants_and_what_stayed_in_the_kernel_session(start: Callable[..., Started]) -> None:
    bystander, one = start(*IDLE), start(*FAMILY)
    tree = processes.process_tree(one.process)
    assert tree[0] == one.process
    assert {each.pid for each in tree} == {one.pid, *map(int, one.said)}
    assert bystander.process not in tree
    assert processes.process_tree(Process(one.pid, platform.boot_id() + "/1")) == []
    for each in tree[1:]:
        processes.signal_process(each, signal.SIGKILL)


async def test_tree_of_a_process_that_is_gone_is_what_it_left_behind(start: Callable[..., Started]) -> None:
    one = start("sh", "-c", "sleep 1000 >/dev/null & echo $!; read -r line")
    os.kill(one.pid, signal.SIGKILL)
    os.waitid(os.P_PID, one.pid, os.WEXITED | os.WNOWAIT)
    for reaped in (False, True):
        if reaped:
            one.popen.wait()
        assert [each.pid for each in processes.process_tree(one.process)] == [int(one.said[0])]
    boot, _, ticks = one.process.started.partition("/")
    for stranger in (f"{boot}/{int(ticks) + 1_000_000}", f"another-boot/{ticks}", "gone"):
        assert processes.process_tree(Process(one.pid, stranger)) == []
    assert await processes.end_tree(one.process, scaled(), force=False) == []
    assert processes.identify(int(one.said[0])) is None


def test_tree_never_holds_the_one_who_asks() -> None:
    parent = processes.identify(os.getppid())
    assert parent is not None
    assert os.getpid() not in {each.pid for each in processes.process_tree(parent)}


@pytest.mark.parametrize("force", [False, True])
async def test_whole_tree_ends_and_nothing_else(start: Callable[..., Started], force: bool) -> None:
    bystander, one = start(*IDLE), start(*FAMILY)
    tree = processes.process_tree(one.process)
    assert len(tree) == 6
    assert await processes.end_tree(one.process, scaled(), force=force) == []
    assert [each for each in tree if processes.is_alive(each)] == []
    assert one.popen.wait() == -(signal.SIGKILL if force else signal.SIGTERM)
    assert processes.is_alive(bystander.process)


async def test_asked_process_may_finish_its_work(start: Callable[..., Started], tmp_path: Path) -> None:
    code = (
        "import signal, subprocess, sys, pathlib\n"
        "def end(*_):\n"
        f"    subprocess.run(['touch', {str(tmp_path / 'saved')!r}], check=True)\n"
        "    sys.exit(3)\n"
        "signal.signal(signal.SIGTERM, end); print('ready'); sys.stdin.read()"
    )
    one = start(*python(code))
    assert await processes.end_tree(one.process, scaled(), force=False) == []
    assert one.popen.wait() == 3
    assert (tmp_path / "saved").exists()


async def test_forced_process_is_not_asked(start: Callable[..., Started], tmp_path: Path) -> None:
    one = start("sh", "-c", f"trap 'touch {tmp_path}/asked' TERM; echo ready; read -r line; read -r line")
    assert await processes.end_tree(one.process, scaled(), force=True) == []
    assert one.popen.wait() == -signal.SIGKILL
    assert not (tmp_path / "asked").exists()


async def test_deaf_process_is_killed_after_the_grace_time(start: Callable[..., Started]) -> None:
    one = start("sh", "-c", "trap '' TERM; echo ready; read -r line")
    assert await processes.end_tree(one.process, 0.05, force=False) == []
    assert one.popen.wait() == -signal.SIGKILL


async def test_stopped_process_hears_that_it_should_end(start: Callable[..., Started]) -> None:
    one = start("sh", "-c", "trap 'exit 7' TERM; echo ready; read -r line")
    os.kill(one.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, one.pid, os.WSTOPPED)
    assert await processes.end_tree(one.process, scaled(), force=False) == []
    assert one.popen.wait() == 7


@pytest.mark.parametrize("new_session", [False, True])
async def test_what_starts_during_the_end_ends_too(
    start: Callable[..., Started], tmp_path: Path, new_session: bool
) -> None:
    # Answers SIGTERM by starting a deaf child, and ends: with `new_session` in a kernel session of its own,
    # so that the child is a stranger to the first process.
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
    one = start(*python(code))
    assert await processes.end_tree(one.process, 0.5, force=False) == []
    assert processes.identify(int((tmp_path / "pid").read_text())) is None


async def test_deaf_process_that_keeps_forking_deaf_ones_is_ended(start: Callable[..., Started]) -> None:
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
    one = start(*python(code))
    assert await processes.end_tree(one.process, 0.02, force=False) == []
    assert processes.process_tree(one.process) == []


async def test_process_of_another_user_is_reported_and_not_waited_for(start: Callable[..., Started]) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can start a process of another user")
    # As with sudo: a process becomes `nobody`, and what it started is root's. It becomes so only after the
    # first tree, because `nobody` may not be allowed to read the modules that Python loads on first use.
    code = (
        "import asyncio, os, subprocess, sys\n"
        f"sys.path[:0] = {sys.path!r}\n"
        "from sm.linux import processes\n"
        "async def main():\n"
        "    mine, roots = (subprocess.Popen(['sleep', '1000'], start_new_session=True) for _ in range(2))\n"
        "    await processes.end_tree(processes.identify(mine.pid), 1.0, force=True)\n"
        "    process = processes.identify(roots.pid)\n"
        "    os.setresuid(65534, 65534, 0)\n"
        "    left = await processes.end_tree(process, 1000.0, force=False)\n"
        "    os.setresuid(0, 0, 0)\n"
        "    roots.kill()\n"
        "    print(left == [process])\n"
        "asyncio.run(main())\n"
        "sys.stdin.read()"
    )
    one = start(*python(code))
    assert one.said[0] == "True"


async def test_ending_what_is_gone_returns_at_once(start: Callable[..., Started]) -> None:
    one = start(*IDLE)
    one.stop()
    assert await processes.end_tree(one.process, scaled(), force=False) == []
