"""HostSandbox: its files, its secrets, and the moments of a start that the contract cannot hold still."""

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
from sm.paths import Places
from sm.sandboxes import host
from sm.sandboxes.host import HostSandbox

pytestmark = pytest.mark.processes

ID = "1a2b3c4d"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
async def sandbox(state: Path) -> AsyncIterator[HostSandbox]:
    one = HostSandbox(Places("/nowhere/config.yaml", str(state)))
    yield one
    one.close()


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
    """In place of a terminal: the process is killed in the end, also when the test has failed."""
    with subprocess.Popen(argv, **{"env": {"TERM": "x"}, **options}) as child:  # type: ignore[call-overload]
        try:
            yield child
        finally:
            child.kill()


async def test_script_is_private_and_goes_when_the_agent_runs(sandbox: HostSandbox, state: Path) -> None:
    what = launch("sleep", "1000", environment={"KEY": "the secret"}, prompt_file="text")
    argv = await sandbox.prepare(ID, what, "token")
    assert sorted(os.listdir(state / "launch")) == [ID, ID + ".prompt", ID + ".token"]
    assert (state / "launch" / ID).stat().st_mode & 0o777 == 0o600
    assert (state / "launch").stat().st_mode & 0o777 == 0o700
    with running(argv) as child:
        assert await sandbox.wait_started(ID, child.pid)
    assert sorted(os.listdir(state / "launch")) == [ID + ".prompt", ID + ".token"]
    await sandbox.forget(ID)
    assert os.listdir(state / "launch") == []


async def test_failed_start_leaves_no_secret_and_is_forgotten_whole(
    sandbox: HostSandbox, state: Path
) -> None:
    argv = await sandbox.prepare(ID, launch("./nothing", environment={"KEY": "the secret"}))
    with running(argv, stderr=subprocess.DEVNULL) as child, pytest.raises(AgentStartFailed):
        await sandbox.wait_started(ID, child.pid)
    assert os.listdir(state / "launch") == [ID + ".failed"]
    assert b"the secret" not in (state / "launch" / (ID + ".failed")).read_bytes()
    await sandbox.forget(ID)
    assert os.listdir(state / "launch") == []


@pytest.mark.parametrize("full", ["", ".prompt", ".mcp.json", ".token"])
async def test_full_disk_is_refused_with_nothing_half_written(
    sandbox: HostSandbox, state: Path, full: str
) -> None:
    (state / "launch").mkdir(parents=True)
    # What is written to /dev/full gets the kernel's own ENOSPC (full(4)).
    (state / "launch" / f"{ID}{full}.new").symlink_to("/dev/full")
    with pytest.raises(StorageFull) as caught:
        await sandbox.prepare(ID, replace(launch("agent", prompt_file="text"), mcp_config="{}"), "token")
    assert caught.value.message == f"no space left for session {ID} in {state}/launch"
    assert os.listdir(state / "launch") == []


async def test_full_disk_leaves_what_a_running_agent_uses(sandbox: HostSandbox, state: Path) -> None:
    what = launch("agent", prompt_file="text")
    await sandbox.prepare(ID, what, "token")
    (state / "launch" / f"{ID}.token.new").symlink_to("/dev/full")
    with pytest.raises(StorageFull):
        await sandbox.prepare(ID, what, "token")
    assert sorted(os.listdir(state / "launch")) == [ID, ID + ".prompt", ID + ".token"]


@pytest.mark.parametrize(
    "what",
    [
        launch("agent", "nul\0"),
        launch("agent", environment={"KEY": "nul\0"}),
        launch("agent", environment={"A-B": ""}),
        launch("agent", environment={"": ""}),
        launch("agent", environment={"A;touch x;B": ""}),
        launch("agent", environment={"A\n": ""}),
    ],
)
async def test_what_no_script_can_pass_on_is_refused(sandbox: HostSandbox, state: Path, what: Launch) -> None:
    with pytest.raises(UsageError):
        await sandbox.prepare(ID, what)
    assert not state.exists()


@pytest.mark.parametrize("other", ["/bin/false", "/bin/echo"])
def test_way_in_without_gnu_env_is_the_slower_one(monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    assert host._way_in("/bin/sh") == ("/usr/bin/env", "-S-i TERM=${TERM} /bin/sh")
    monkeypatch.setattr(host, "_ENV", other)
    assert host._way_in("/bin/sh") == host._slow_way_in("/bin/sh")


def test_slower_way_in_gives_the_same_environment(tmp_path: Path) -> None:
    script = tmp_path / "it's a script"
    script.write_text("env\n")
    argv = (*host._slow_way_in("/bin/sh"), str(script))
    environment = {"TERM": "a $b  c", "JUNK": "1", "PATH": "/nonsense"}
    answer = subprocess.run(argv, env=environment, capture_output=True, check=True, cwd="/")
    assert set(answer.stdout.decode().splitlines()) - {"SHLVL=0", "_=/usr/bin/env"} == {
        "TERM=a $b  c",
        "PWD=/",
    }


async def test_fork_of_the_terminal_server_is_not_taken_for_the_agent(sandbox: HostSandbox) -> None:
    # A server that forks, says so, and executes the argv only when told to: what tmux does, held still.
    code = (
        "import os, sys\n"
        "pid = os.fork()\n"
        "if not pid:\n"
        "    sys.stdin.readline()\n"
        "    os.execv(sys.argv[1], sys.argv[1:])\n"
        "print(pid, flush=True)\n"
        "os.waitpid(pid, 0)"
    )
    argv = await sandbox.prepare(ID, launch("sleep", "1000"))
    command = (sys.executable, "-c", code, *argv)
    with running(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        pid = int(server.stdout.readline())
        assert host._in_launch(pid, argv[-1])
        server.stdin.write(b"\n")
        server.stdin.flush()
        process = await sandbox.wait_started(ID, pid)
        assert process is not None
        assert processes.command_line(pid) == ("sleep", "1000")
        await sandbox.end(process, force=True)


async def test_launch_that_does_not_get_to_the_agent_is_an_error_in_the_end(
    sandbox: HostSandbox, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "START_BOUND_S", 0.3)
    argv = await sandbox.prepare(ID, launch("agent"))
    (state / "launch" / ID).write_text("read -r line\n")  # as a directory that does not answer would hold it
    late = pytest.raises(AgentStartFailed, match=f"the agent of session {ID} did not start within")
    with running(argv, stdin=subprocess.PIPE) as child, late:
        await sandbox.wait_started(ID, child.pid)


async def test_somebody_else_reading_the_script_is_not_a_start(sandbox: HostSandbox, state: Path) -> None:
    argv = await sandbox.prepare(ID, launch("sleep", "1000"))
    # The shell waits for its script: a pipe in its place, which nobody has written to yet.
    script = state / "launch" / ID
    text = script.read_bytes()
    script.unlink()
    os.mkfifo(script)
    with running(argv) as child:
        waiting = asyncio.create_task(sandbox.wait_started(ID, child.pid))
        with script.open("wb") as pipe:  # opens when the shell has opened it
            for _ in range(20):
                os.close(os.open(script, os.O_RDONLY))
                await asyncio.sleep(0)
            assert not waiting.done()
            pipe.write(text)
        process = await waiting
        assert process is not None
        assert processes.command_line(child.pid) == ("sleep", "1000")


async def test_start_is_seen_without_polling(sandbox: HostSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_PAUSE_S", 3600.0)
    for number in range(20):
        argv = await sandbox.prepare(ID, launch("sleep", f"{1000 + number}"))
        with running(argv) as child:
            assert await sandbox.wait_started(ID, child.pid) is not None
            assert processes.command_line(child.pid) == ("sleep", f"{1000 + number}")


async def test_start_is_seen_without_inotify(sandbox: HostSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    def used_up() -> inotify.FileWatch:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(inotify, "FileWatch", used_up)
    argv = await sandbox.prepare(ID, launch("sleep", "1000"))
    with running(argv) as child:
        assert await sandbox.wait_started(ID, child.pid) == processes.identify(child.pid)


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[list[str]]:
    command = ["tmux", "-L", f"sm-test-{uuid.uuid4().hex}", "-f", "/dev/null"]
    yield command
    subprocess.run([*command, "kill-server"], capture_output=True, check=False)


async def test_fifty_starts_in_tmux_each_become_the_pane_process(
    sandbox: HostSandbox, tmux: list[str]
) -> None:
    # A session of its own: a server whose last session goes ends, and may do so under the next start.
    subprocess.run([*tmux, "new-session", "-d", "--", "sleep", "1000"], check=True)
    terminal = subprocess.check_output([*tmux, "show", "-gv", "default-terminal"]).strip()
    for number in range(50):
        session_id = f"{number:08x}"
        argv = await sandbox.prepare(session_id, launch("sleep", f"{1000 + number}"))
        new = [*tmux, "new-session", "-d", "-P", "-F", "#{pane_pid}", "-s", session_id, "--", *argv]
        pid = int(subprocess.run(new, check=True, capture_output=True).stdout)
        process = await sandbox.wait_started(session_id, pid)
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
        await sandbox.end(process, force=True)
