"""HostSandbox: its files, its secrets, and moments of a start that the contract suite cannot reproduce."""

import asyncio
import os
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from sm.core.models import Launch
from sm.errors import AgentStartFailed, StorageFull, UsageError
from sm.linux import inotify, processes
from sm.linux.process_limits import hard_limits, soft_limits
from sm.paths import InstancePaths
from sm.sandboxes import host
from sm.sandboxes import launch as launches
from sm.sandboxes.host import HostSandbox
from tests import samples
from tests.sandboxes.terminal import without_cgroups

pytestmark = pytest.mark.processes

ID = "1a2b3c4d"
SESSION = samples.session(ID)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
async def sandbox(state: Path) -> AsyncIterator[HostSandbox]:
    sandbox = HostSandbox(InstancePaths("/nowhere/config.yaml", str(state)), without_cgroups())
    yield sandbox
    sandbox.close()


def launch(
    *argv: str,
    environment: dict[str, str] | None = None,
    prompt_file: str | None = None,
    working_dir: str = "/",
) -> Launch:
    return Launch(
        argv=argv,
        working_dir=working_dir,
        environment=environment or {"PATH": os.environ["PATH"]},
        inherited={},
        prompt_file=prompt_file,
    )


@contextmanager
def running(argv: Sequence[str], **options: object) -> Iterator[subprocess.Popen[bytes]]:
    """Run the process in place of a terminal, and kill it at the end of the test."""
    with subprocess.Popen(argv, **{"env": {"TERM": "x"}, **options}) as child:  # type: ignore[call-overload]
        try:
            yield child
        finally:
            child.kill()


async def test_launch_script_is_private_and_deleted_after_the_start(
    sandbox: HostSandbox, state: Path
) -> None:
    agent = launch("sleep", "1000", environment={"KEY": "the secret"}, prompt_file="text")
    argv = await sandbox.prepare(SESSION, agent, "token")
    assert sorted(os.listdir(state / "launch")) == [ID, ID + ".prompt", ID + ".token"]
    assert (state / "launch" / ID).stat().st_mode & 0o777 == 0o600
    assert (state / "launch").stat().st_mode & 0o777 == 0o700
    with running(argv) as child:
        assert await sandbox.wait_started(SESSION, child.pid)
    assert sorted(os.listdir(state / "launch")) == [ID + ".prompt", ID + ".token"]
    await sandbox.forget(ID)
    assert os.listdir(state / "launch") == []


async def test_soft_limits_are_at_most_the_hard_limits_of_the_terminal(sandbox: HostSandbox) -> None:
    limits = {"nofile": 1_000_000, "stack": -1, "fsize": 1 << 40, "nproc": 1 << 40}
    argv = await sandbox.prepare(SESSION, replace(launch("sleep", "1000"), process_limits=limits))
    lower = 'ulimit -n 300; ulimit -s 4096; ulimit -f 1024; exec "$@"'
    with running(("sh", "-c", lower, "sh", *argv), stderr=subprocess.PIPE) as child:
        assert await sandbox.wait_started(SESSION, child.pid)
        found, most = soft_limits(child.pid), hard_limits(child.pid)
        child.kill()
        assert child.stderr is not None and child.stderr.read() == b""
    assert {name: found[name] for name in limits} == {name: most[name] for name in limits}
    assert (found["nofile"], found["stack"], found["fsize"]) == (300, 4096 * 1024, 1024 * 512)


async def test_agent_keeps_a_higher_oom_score_of_its_terminal(sandbox: HostSandbox) -> None:
    argv = await sandbox.prepare(SESSION, launch("sleep", "1000"))
    higher = 'echo 300 >/proc/self/oom_score_adj; exec "$@"'
    with running(("sh", "-c", higher, "sh", *argv)) as child:
        assert await sandbox.wait_started(SESSION, child.pid)
        assert Path(f"/proc/{child.pid}/oom_score_adj").read_text() == "300\n"


async def test_failed_start_leaves_no_secret_and_no_files(sandbox: HostSandbox, state: Path) -> None:
    argv = await sandbox.prepare(SESSION, launch("./nothing", environment={"KEY": "the secret"}))
    with running(argv, stderr=subprocess.DEVNULL) as child, pytest.raises(AgentStartFailed):
        await sandbox.wait_started(SESSION, child.pid)
    assert os.listdir(state / "launch") == [ID + ".failed"]
    assert b"the secret" not in (state / "launch" / (ID + ".failed")).read_bytes()
    await sandbox.forget(ID)
    assert os.listdir(state / "launch") == []


@pytest.mark.parametrize("full", ["", ".prompt", ".mcp.json", ".token"])
async def test_prepare_leaves_no_files_when_the_disk_is_full(
    sandbox: HostSandbox, state: Path, full: str
) -> None:
    (state / "launch").mkdir(parents=True)
    # The kernel refuses writes to /dev/full with ENOSPC (full(4)).
    (state / "launch" / f"{ID}{full}.new").symlink_to("/dev/full")
    with pytest.raises(StorageFull) as caught:
        await sandbox.prepare(SESSION, replace(launch("agent", prompt_file="text"), mcp_config="{}"), "token")
    assert (
        caught.value.message == f"the disk is full: cannot write the files of session {ID} to {state}/launch"
    )
    assert os.listdir(state / "launch") == []


async def test_prepare_keeps_existing_files_when_the_disk_is_full(sandbox: HostSandbox, state: Path) -> None:
    agent = launch("agent", prompt_file="text")
    await sandbox.prepare(SESSION, agent, "token")
    (state / "launch" / f"{ID}.token.new").symlink_to("/dev/full")
    with pytest.raises(StorageFull):
        await sandbox.prepare(SESSION, agent, "token")
    assert sorted(os.listdir(state / "launch")) == [ID, ID + ".prompt", ID + ".token"]


@pytest.mark.parametrize(
    "agent",
    [
        launch("agent", "nul\0"),
        launch("agent", environment={"KEY": "nul\0"}),
        launch("agent", environment={"A-B": ""}),
        launch("agent", environment={"": ""}),
        launch("agent", environment={"A;touch x;B": ""}),
        launch("agent", environment={"A\n": ""}),
    ],
)
async def test_prepare_refuses_arguments_and_variables_that_a_shell_cannot_pass_on(
    sandbox: HostSandbox, state: Path, agent: Launch
) -> None:
    with pytest.raises(UsageError):
        await sandbox.prepare(SESSION, agent)
    assert not state.exists()


@pytest.mark.parametrize("other", ["/bin/false", "/bin/echo"])
def test_way_in_is_the_slower_variant_without_gnu_env(monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    assert host._launch_command("/bin/sh") == ("/usr/bin/env", "-S-i TERM=${TERM} /bin/sh")
    monkeypatch.setattr(host, "_ENV", other)
    assert host._launch_command("/bin/sh") == host._slow_launch_command("/bin/sh")


def test_slower_way_in_passes_the_same_environment(tmp_path: Path) -> None:
    script = tmp_path / "it's a script"
    script.write_text("env\n")
    argv = (*host._slow_launch_command("/bin/sh"), str(script))
    environment = {"TERM": "a $b  c", "JUNK": "1", "PATH": "/nonsense"}
    answer = subprocess.run(argv, env=environment, capture_output=True, check=True, cwd="/")
    assert set(answer.stdout.decode().splitlines()) - {"SHLVL=0", "_=/usr/bin/env"} == {
        "TERM=a $b  c",
        "PWD=/",
    }


async def test_wait_started_ignores_the_forked_server_before_its_exec(sandbox: HostSandbox) -> None:
    # A server that forks like tmux, prints the pid, and executes the argv only after a line on stdin.
    code = (
        "import os, sys\n"
        "pid = os.fork()\n"
        "if not pid:\n"
        "    sys.stdin.readline()\n"
        "    os.execv(sys.argv[1], sys.argv[1:])\n"
        "print(pid, flush=True)\n"
        "os.waitpid(pid, 0)"
    )
    argv = await sandbox.prepare(SESSION, launch("sleep", "1000"))
    command = (sys.executable, "-c", code, *argv)
    with running(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        pid = int(server.stdout.readline())
        assert host._in_launch(pid, argv[-1])
        server.stdin.write(b"\n")
        server.stdin.flush()
        process = await sandbox.wait_started(SESSION, pid)
        assert process is not None
        assert processes.command_line(pid) == ("sleep", "1000")
        await sandbox.end(SESSION, process, force=True)


async def test_wait_started_fails_when_the_agent_does_not_start_in_time(
    sandbox: HostSandbox, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "START_BOUND_S", 0.3)
    argv = await sandbox.prepare(SESSION, launch("agent"))
    (state / "launch" / ID).write_text("read -r line\n")  # blocks like an unreachable directory
    late = pytest.raises(AgentStartFailed, match=f"the agent of session {ID} did not start within")
    with running(argv, stdin=subprocess.PIPE) as child, late:
        await sandbox.wait_started(SESSION, child.pid)


async def test_wait_started_ignores_other_readers_of_the_script(sandbox: HostSandbox, state: Path) -> None:
    argv = await sandbox.prepare(SESSION, launch("sleep", "1000"))
    # The shell waits for its script, because a pipe without data replaces it.
    script = state / "launch" / ID
    text = script.read_bytes()
    script.unlink()
    os.mkfifo(script)
    with running(argv) as child:
        waiting = asyncio.create_task(sandbox.wait_started(SESSION, child.pid))
        with script.open("wb") as pipe:  # opens when the shell has opened its end
            for _ in range(20):
                os.close(os.open(script, os.O_RDONLY))
                await asyncio.sleep(0)
            assert not waiting.done()
            pipe.write(text)
        process = await waiting
        assert process is not None
        assert processes.command_line(child.pid) == ("sleep", "1000")


async def test_wait_started_sees_the_start_without_polling(
    sandbox: HostSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launches, "_PAUSE_S", 3600.0)
    for number in range(20):
        argv = await sandbox.prepare(SESSION, launch("sleep", f"{1000 + number}"))
        with running(argv) as child:
            assert await sandbox.wait_started(SESSION, child.pid) is not None
            assert processes.command_line(child.pid) == ("sleep", f"{1000 + number}")


async def test_wait_started_sees_the_start_without_inotify(
    sandbox: HostSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> inotify.FileWatch:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(inotify, "FileWatch", fail)
    argv = await sandbox.prepare(SESSION, launch("sleep", "1000"))
    with running(argv) as child:
        assert await sandbox.wait_started(SESSION, child.pid) == processes.identify(child.pid)


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[list[str]]:
    command = ["tmux", "-L", f"sm-test-{uuid.uuid4().hex}", "-f", "/dev/null"]
    yield command
    subprocess.run([*command, "kill-server"], capture_output=True, check=False)


async def test_agent_is_the_pane_process_in_fifty_tmux_starts(sandbox: HostSandbox, tmux: list[str]) -> None:
    # One session stays open, because a server without sessions exits, perhaps during the next start.
    subprocess.run([*tmux, "new-session", "-d", "--", "sleep", "1000"], check=True)
    terminal = subprocess.check_output([*tmux, "show", "-gv", "default-terminal"]).strip()
    for number in range(50):
        session_id = f"{number:08x}"
        argv = await sandbox.prepare(samples.session(session_id), launch("sleep", f"{1000 + number}"))
        new = [*tmux, "new-session", "-d", "-P", "-F", "#{pane_pid}", "-s", session_id, "--", *argv]
        pid = int(subprocess.run(new, check=True, capture_output=True).stdout)
        process = await sandbox.wait_started(samples.session(session_id), pid)
        assert process is not None
        assert process.pid == pid
        assert processes.command_line(pid) == ("sleep", f"{1000 + number}")
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        assert {entry.split(b"=")[0] for entry in environment} <= {
            b"",
            b"PATH",
            b"TERM",
            b"PWD",
            b"SHLVL",
            b"_",
        }
        assert b"TERM=" + terminal in environment
        await sandbox.end(SESSION, process, force=True)
