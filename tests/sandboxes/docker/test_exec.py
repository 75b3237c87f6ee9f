"""ContainerSandbox on a real engine: properties that the contract of sandboxes does not have."""

import asyncio
import contextlib
import os
import signal
import stat
import subprocess
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from sm.core.models import Exit, Launch, Process, Session
from sm.core.states import TrustLevel
from sm.errors import (
    AgentStartFailed,
    SandboxBusy,
    SandboxUnavailable,
    SandboxUnreachable,
    StorageFull,
    UsageError,
)
from sm.linux import processes
from sm.linux.cgroups import container_of
from sm.sandboxes.base import ProcessEnding
from sm.sandboxes.docker.docker_sandbox import ContainerSandbox
from sm.sandboxes.docker.engine import PING_S, Engine
from sm.sandboxes.docker.image import Images
from tests import samples
from tests.engine import EngineProcess
from tests.memory_files import disk_directory
from tests.sandboxes.docker.real_container import USER, RealContainers, pid_inside
from tests.sandboxes.terminal import Terminal, without_cgroups
from tests.waits import until

pytestmark = pytest.mark.processes

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MIB = 1 << 20


@dataclass
class Stage:
    """A sandbox with its container, and a directory that both see."""

    sandbox: ContainerSandbox
    containers: RealContainers
    terminal: Terminal
    work: Path

    def session(self, session_id: str | None = None) -> Session:
        session = samples.session(session_id or uuid.uuid4().hex[:8])
        return replace(session, workspace="w", effective_mode=TrustLevel.SANDBOXED)

    def launch(self, *argv: str, **environment: str) -> Launch:
        return Launch(argv, str(self.work), {"PATH": PATH, **environment}, {})

    async def start(self, session: Session, *argv: str) -> Process:
        pid = self.terminal.open(await self.sandbox.prepare(session, self.launch(*argv)))
        process = await self.sandbox.wait_started(session, pid)
        assert process is not None
        return process

    async def run_script(self, session: Session, script: str) -> Process:
        """Start a shell script as an agent, and wait until it has made the file `ready`."""
        process = await self.start(session, "sh", "-c", script)
        until((self.work / "ready").exists, "the agent has started its processes")
        return process

    @property
    def launch_folder(self) -> Path:
        return Path(self.containers.paths.sandbox("w").launch)

    async def start_failure(self, session: Session, *argv: str) -> AgentStartFailed:
        pid = self.terminal.open(await self.sandbox.prepare(session, self.launch(*argv)))
        with pytest.raises(AgentStartFailed) as caught:
            await self.sandbox.wait_started(session, pid)
        return caught.value


@pytest.fixture(scope="module")
def containers(engine: str, sandbox_image: str) -> Iterator[RealContainers]:
    with (
        disk_directory() as directory,
        contextlib.closing(RealContainers(engine, sandbox_image, directory)) as containers,
    ):
        yield containers


@contextlib.asynccontextmanager
async def stage_in(
    containers: RealContainers, folder: Path, grace_s: float, ping_s: float = PING_S
) -> AsyncIterator[Stage]:
    work = containers.project / uuid.uuid4().hex
    work.mkdir()
    os.chown(work, USER, USER)
    terminal = Terminal(folder, is_pty=True)
    with contextlib.closing(Engine(containers.engine, ping_s=ping_s)) as engine:
        images = Images(engine, containers.config.sandbox)
        sandbox = ContainerSandbox(
            engine,
            containers,
            images,
            containers.config,
            containers.paths,
            lambda slug: containers.workspace if slug == "w" else None,
            without_cgroups(),
            grace_s,
        )
        yield Stage(sandbox, containers, terminal, work)
        terminal.close()
        sandbox.close()


@pytest.fixture
async def stage(containers: RealContainers, tmp_path: Path) -> AsyncIterator[Stage]:
    async with stage_in(containers, tmp_path, 0.3) as stage:
        yield stage
        containers.clear()


# ------------------------------------------------------------------------------------------------------- end

IGNORES_TERM = "trap '' TERM; while :; do sleep 1000; done"

TREES = {
    "a child that ignores SIGTERM": f"sh -c '{IGNORES_TERM.replace(chr(39), chr(34))}' & touch ready; wait",
    "a session of its own": "setsid sleep 1000 & touch ready; wait",
    "a double fork": "(setsid sh -c 'sleep 1000 & sleep 1001 &' &); touch ready; exec sleep 1002",
    "a group of its own": "set -m; sleep 1000 & sleep 1001 & touch ready; wait",
    "an agent that ignores SIGTERM": f"touch ready; {IGNORES_TERM}",
    "a daemon that ignores SIGTERM": (
        "(setsid sh -c 'trap \"\" TERM; touch ready; while :; do sleep 1000; done' >/dev/null 2>&1 &) ; exec sleep 1001"
    ),
}


@pytest.mark.parametrize("script", TREES.values(), ids=TREES)
async def test_end_leaves_no_process_of_the_session_in_the_container(stage: Stage, script: str) -> None:
    session = stage.session()
    process = await stage.run_script(session, script)
    await stage.sandbox.end(session, process, force=False)
    assert stage.containers.members() == set()


async def test_end_ends_orphans_of_an_agent_that_is_gone(stage: Stage) -> None:
    session = stage.session()
    process = await stage.run_script(session, TREES["a double fork"])
    processes.signal_process(process, signal.SIGKILL)
    until(lambda: not processes.is_alive(process), "the agent has ended")
    # A look between a fork and the end of the parent finds neither.
    until(lambda: stage.containers.members() != set(), "an orphan is there")
    await stage.sandbox.end(session, process, force=True)
    assert stage.containers.members() == set()


async def test_end_leaves_the_other_sessions_of_the_container(stage: Stage) -> None:
    first, second = stage.session(), stage.session()
    process = await stage.run_script(first, TREES["a double fork"])
    neighbour = await stage.start(second, "sleep", "1003")
    await stage.sandbox.end(first, process, force=True)
    assert stage.containers.members() == {neighbour.pid}


async def test_end_unpauses_the_container(stage: Stage) -> None:
    session = stage.session()
    process = await stage.run_script(session, TREES["a child that ignores SIGTERM"])
    stage.containers.pause()
    await stage.sandbox.end(session, process, force=False)
    assert stage.containers.members() == set()


async def test_end_stops_a_fork_bomb(stage: Stage) -> None:
    session = stage.session()
    # It waits for a line: a bomb may end its own shell before a busy machine has seen the start.
    process = await stage.start(
        session, "sh", "-c", "read -r line; touch ready; bomb() { bomb & bomb & wait; }; bomb"
    )
    stage.terminal.type(b"\n")
    until((stage.work / "ready").exists, "the bomb has begun")
    await stage.sandbox.end(session, process, force=True)
    assert stage.containers.members() == set()


# --------------------------------------------------------------------------------------------------- the exit


@pytest.mark.parametrize(
    ("script", "exit"),
    [
        ("exit 0", Exit(code=0)),
        ("exit 3", Exit(code=3)),
        ("kill -TERM $$", Exit(signal=signal.SIGTERM)),
        ("kill -KILL $$", Exit(signal=signal.SIGKILL)),
    ],
)
async def test_ending_reads_the_exit_of_the_agent_from_the_code_of_the_terminal(
    stage: Stage, script: str, exit: Exit
) -> None:
    session = stage.session()
    process = await stage.start(session, "sh", "-c", f"read -r line; {script}")
    stage.terminal.type(b"\n")
    code = stage.terminal.exit_code()
    session = replace(session, process=process)
    assert await stage.sandbox.ending(session, Exit(code=code)) == ProcessEnding(exit)


async def test_agent_gets_every_key_immediately(stage: Stage) -> None:
    # By default, docker keeps ctrl-p back until the next key.
    await stage.start(stage.session(), "sh", "-c", "stty raw; dd bs=1 count=1 of=key 2>/dev/null; sleep 1000")
    stage.terminal.type(b"\x10")
    until(lambda: (stage.work / "key").read_bytes() == b"\x10", "the agent has the key")


async def test_ending_names_the_lack_of_memory_and_the_neighbour_lives(stage: Stage) -> None:
    greedy, neighbour = stage.session(), stage.session()
    quiet = await stage.start(neighbour, "sleep", "1000")
    code = "import sys; sys.stdin.readline(); x = b'x' * (600 << 20)"
    process = await stage.start(greedy, "python3", "-c", code)
    stage.terminal.type(b"\n")
    exit = Exit(code=stage.terminal.exit_code())
    assert exit == Exit(code=128 + signal.SIGKILL)
    ending = await stage.sandbox.ending(replace(greedy, process=process), exit)
    assert ending == ProcessEnding(Exit(signal=signal.SIGKILL), "the sandbox ran out of memory (0.5 GiB)")
    assert processes.is_alive(quiet)
    # The next kill is not for lack of memory.
    processes.signal_process(quiet, signal.SIGKILL)
    ending = await stage.sandbox.ending(replace(neighbour, process=quiet), exit)
    assert ending == ProcessEnding(Exit(signal=signal.SIGKILL))


async def test_ending_says_that_the_container_ended(engine: str, sandbox_image: str, tmp_path: Path) -> None:
    with contextlib.closing(RealContainers(engine, sandbox_image, tmp_path)) as containers:
        async with stage_in(containers, tmp_path, 0.3) as stage:
            session = stage.session()
            process = await stage.start(session, "sleep", "1000")
            container = containers.find("w")
            assert container is not None
            processes.signal_process(container.init, signal.SIGKILL)
            exit = Exit(code=stage.terminal.exit_code())
            ending = await stage.sandbox.ending(replace(session, process=process), exit)
            assert ending == ProcessEnding(Exit(signal=signal.SIGKILL), place_ended=True)


async def test_ending_is_unknown_when_the_engine_was_killed(
    private_engine: EngineProcess, sandbox_image: str, tmp_path: Path
) -> None:
    containers = RealContainers(private_engine.url, sandbox_image, tmp_path)
    async with stage_in(containers, tmp_path, 0.3) as stage:
        session = stage.session()
        process = await stage.start(session, "sleep", "1000")
        private_engine.kill()
        code = stage.terminal.exit_code()
        session = replace(session, process=process)
        assert await stage.sandbox.ending(session, Exit(code=code)) == ProcessEnding(Exit(), cut_off=True)
        # Without an engine, its agent can still be ended.
        assert processes.is_alive(process)
        await stage.sandbox.end(session, process, force=False)
        assert not processes.is_alive(process)
        private_engine.start()
        assert await stage.sandbox.ending(session, Exit(code=code)) == ProcessEnding(Exit(), cut_off=True)
    containers.close()


async def test_ending_is_known_when_a_hung_engine_answers_again(
    private_engine: EngineProcess, sandbox_image: str, tmp_path: Path
) -> None:
    containers = RealContainers(private_engine.url, sandbox_image, tmp_path)
    async with stage_in(containers, tmp_path, 0.3, ping_s=2) as stage:
        session = stage.session()
        process = await stage.start(session, "sh", "-c", "until [ -e go ]; do sleep 0.05; done; exit 3")
        private_engine.hang()
        (stage.work / "go").touch()
        until(lambda: not processes.is_alive(process), "the agent has ended")
        session = replace(session, process=process)
        with pytest.raises(SandboxUnreachable):
            await stage.sandbox.ending(session, Exit())
        private_engine.resume()
        assert stage.terminal.exit_code() == 3
        assert await stage.sandbox.ending(session, Exit(code=3)) == ProcessEnding(Exit(code=3))
    containers.close()


# ------------------------------------------------------------------------------------------------- no secrets


async def test_start_shows_nothing_of_the_environment_to_ps_or_the_engine(stage: Stage) -> None:
    secrets = ["the-secret-key", "the-prompt", "the-token", "SECRET_NAME", "the-server"]
    agent = replace(
        stage.launch("sh", "-c", "cat >/dev/null", "the-prompt", SECRET_NAME="the-secret-key"),
        prompt_file="the-prompt",
        mcp_config='{"the-server": {}}',
    )
    session, since = stage.session(), time.time()
    url = stage.containers.engine
    argv = await stage.sandbox.prepare(session, agent, "the-token")
    pid = stage.terminal.open(argv)
    seen = {processes.command_line(pid)}
    search = asyncio.create_task(stage.sandbox.wait_started(session, pid))
    while not search.done():
        seen |= {processes.command_line(member) for member in (pid, *stage.containers.members())}
        await asyncio.sleep(0)
    process = await search
    assert process is not None
    seen.discard(agent.argv)  # the agent's own arguments, until its shell becomes cat
    command = ["docker", "-H", url, "events", "--since", f"{since:.3f}", "--until", f"{time.time():.3f}"]
    events = subprocess.check_output(command, text=True)
    assert "exec_start" in events
    assert any(session.id in " ".join(arguments) for arguments in seen)
    shown = events + stage.containers.inspect() + repr(seen) + repr(argv)
    assert [secret for secret in secrets if secret in shown] == []


async def test_agent_does_not_get_the_environment_of_the_image_or_the_engine(stage: Stage) -> None:
    session = stage.session()
    process = await stage.start(session, "sleep", "1000")
    assert processes.environment(process.pid).keys() <= {"PATH", "TERM", "SM_SESSION_ID", "PWD", "SHLVL", "_"}
    status = os.stat(f"/proc/{process.pid}")
    assert (status.st_uid, status.st_gid) == (USER, USER)


# -------------------------------------------------------------------------------------------------- the start


async def test_agent_has_a_private_scratch_directory(stage: Stage) -> None:
    session = stage.session()
    await stage.start(session, "sleep", "1000")
    assert stage.containers.exec("stat", "-c", "%a %u", f"/scratch/{session.id}") == f"700 {USER}\n"


async def test_working_directory_in_the_scratch_space_is_made(stage: Stage) -> None:
    # That of the original after a fork: a restart of the container removes it.
    session, original = stage.session(), uuid.uuid4().hex[:8]
    agent = replace(stage.launch("sleep", "1000"), working_dir=f"/scratch/{original}")
    pid = stage.terminal.open(await stage.sandbox.prepare(session, agent))
    agent_process = await stage.sandbox.wait_started(session, pid)
    assert agent_process is not None
    found = os.stat(f"/proc/{agent_process.pid}/root/scratch/{original}")
    assert (stat.S_IMODE(found.st_mode), found.st_uid) == (0o700, USER)


async def test_start_fails_when_the_scratch_directory_cannot_be_made(stage: Stage) -> None:
    session = stage.session()
    stage.containers.exec("touch", f"/scratch/{session.id}")
    error = await stage.start_failure(session, "sleep", "1000")
    assert error.message == f"cannot make the directory /scratch/{session.id} in the sandbox"


@pytest.mark.parametrize("session_id", ["a b", "../x", "a;b", "", "$HOME", "a\nb"])
async def test_prepare_refuses_a_session_id_that_is_no_name(stage: Stage, session_id: str) -> None:
    with pytest.raises(UsageError):
        await stage.sandbox.prepare(replace(stage.session(), id=session_id), stage.launch("sleep"))


async def test_script_checks_the_id_itself(stage: Stage) -> None:
    session = stage.session()
    await stage.sandbox.prepare(session, stage.launch("touch", "started"))
    text = (stage.launch_folder / session.id).read_text()
    before = stage.containers.exec("ls", "/scratch")
    for name in ("a b", "..", "a;b", "x/"):
        stage.containers.exec("sh", "-c", text, name, "1")
    assert stage.containers.exec("ls", "/scratch") == before
    assert not (stage.work / "started").exists()


async def test_start_fails_with_the_words_of_the_engine(stage: Stage) -> None:
    session = stage.session()
    argv = await stage.sandbox.prepare(session, stage.launch("sleep", "1000"))
    container = stage.containers.find("w")
    assert container is not None
    gone = [word if word != container.id else "f" * 64 for word in argv]
    pid = stage.terminal.open(gone)
    with pytest.raises(AgentStartFailed) as caught:
        await stage.sandbox.wait_started(session, pid)
    assert f"the engine could not start the agent of session {session.id}: " in caught.value.message
    assert "No such container" in caught.value.message


async def test_agent_is_not_confused_with_a_process_that_carries_its_mark(stage: Stage) -> None:
    mine, other = stage.session(), stage.session()
    script = (
        "touch ready; until [ -e go ]; do sleep 0.01; done; "
        f"SM_SESSION_ID={mine.id} setsid sleep 1000 & until [ -e go ]; do sleep 0.01; done; "
        f"SM_SESSION_ID={mine.id} sleep 1001 & touch forged; wait"
    )
    await stage.run_script(other, script)
    pid = stage.terminal.open(await stage.sandbox.prepare(mine, stage.launch("sleep", "1002")))
    (stage.work / "go").touch()  # the forged processes are younger than the terminal
    until((stage.work / "forged").exists, "the forged processes run")
    process = await stage.sandbox.wait_started(mine, pid)
    assert process is not None
    assert processes.command_line(process.pid) == ("sleep", "1002")


async def test_agent_is_not_confused_with_an_older_agent_that_shows_its_mark(stage: Stage) -> None:
    mine = stage.session()
    await stage.start(stage.session(), "env", f"SM_SESSION_ID={mine.id}", "sleep", "1000")
    process = await stage.start(mine, "sleep", "1002")
    assert processes.command_line(process.pid) == ("sleep", "1002")


async def test_agent_without_its_mark_is_found_by_the_engine(stage: Stage) -> None:
    session = stage.session()
    pid = stage.terminal.open(
        await stage.sandbox.prepare(session, stage.launch("env", "-i", "sleep", "1004"))
    )

    def agents() -> list[int]:
        return [pid for pid in stage.containers.members() if processes.command_line(pid) == ("sleep", "1004")]

    until(agents, "the agent runs")
    process = await stage.sandbox.wait_started(session, pid)
    assert process is not None
    assert [process.pid] == agents()


async def test_thirty_concurrent_starts_find_their_own_agents(stage: Stage) -> None:
    async def start(number: int) -> tuple[str, ...]:
        process = await stage.start(stage.session(), "sleep", f"{2000 + number}")
        assert container_of(process.pid) == stage.containers.id
        return processes.command_line(process.pid)

    answers = await asyncio.gather(*(start(number) for number in range(30)))
    assert answers == [("sleep", f"{2000 + number}") for number in range(30)]


# ------------------------------------------------------------------------------------- files that agents can write


async def test_prepare_replaces_links_in_the_launch_directory(stage: Stage, tmp_path: Path) -> None:
    session, victim = stage.session(), tmp_path / "victim"
    victim.write_text("unchanged")
    for suffix in ("", ".new", ".token", ".token.new", ".prompt.new"):
        (stage.launch_folder / f"{session.id}{suffix}").symlink_to(victim)
    agent = replace(stage.launch("sleep", "1000"), prompt_file="prompt")
    await stage.sandbox.prepare(session, agent, "token")
    assert (victim.read_text(), victim.stat().st_uid) == ("unchanged", os.geteuid())
    token = stage.launch_folder / f"{session.id}.token"
    assert not token.is_symlink()
    assert (token.read_text(), token.stat().st_uid, token.stat().st_mode & 0o777) == ("token", USER, 0o600)
    await stage.sandbox.forget(session.id)
    assert victim.exists()


async def test_protected_files_that_an_agent_makes_are_found(stage: Stage) -> None:
    session = stage.session()
    project = stage.containers.project
    await stage.run_script(session, f"echo x >{project}/.envrc; touch ready; sleep 1000")
    assert await stage.sandbox.appeared(session) == (f"{project}/.envrc",)
    # A record is of the start of a session.
    later = stage.session()
    await stage.start(later, "sleep", "1000")
    assert await stage.sandbox.appeared(later) == ()
    await stage.sandbox.forget(session.id)
    assert await stage.sandbox.appeared(session) == ()
    (project / ".envrc").unlink()


async def test_idle_time_of_the_container_counts_from_the_end_of_a_session(stage: Stage) -> None:
    session = stage.session()
    await stage.start(session, "sleep", "1000")
    stage.containers.idle_starts.clear()
    stage.sandbox.ended(session)
    stage.sandbox.ended(replace(session, workspace="deleted"))  # its container is gone
    assert stage.containers.idle_starts == ["w"]


async def test_launch_directory_cannot_be_changed_from_inside(stage: Stage) -> None:
    assert "Read-only file system" in stage.containers.exec("ln", "-s", "/x", "/run/sm/launch/planted")
    assert stage.launch_folder.stat().st_mode & 0o777 == 0o700


async def test_prepare_leaves_no_files_when_the_disk_is_full(stage: Stage, tmp_path: Path) -> None:
    session = stage.session()
    full = tmp_path / "full"
    full.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", full], check=True)
    try:
        paths = stage.containers.paths
        (full / "filler").write_bytes(b"x" * 4096)
        place = paths.sandbox("w")
        os.rename(place.launch, place.launch + ".aside")
        os.symlink(full, place.launch)
        with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
            await stage.sandbox.prepare(session, stage.launch("sleep"))
        os.unlink(place.launch)
        os.mkdir(place.launch)
        subprocess.run(["mount", "--bind", full, place.launch], check=True)
        with pytest.raises(StorageFull):
            await stage.sandbox.prepare(session, stage.launch("sleep"))
        assert os.listdir(place.launch) == ["filler"]
    finally:
        subprocess.run(["umount", place.launch], check=False)
        subprocess.run(["umount", full], check=True)
        os.rmdir(place.launch)
        os.rename(place.launch + ".aside", place.launch)


async def test_report_of_another_start_is_no_reason(stage: Stage) -> None:
    session = stage.session()
    report = Path(stage.containers.paths.sandbox("w").home) / ".sm" / f"{session.id}.failed"
    report.parent.mkdir(exist_ok=True)
    report.write_bytes(b"1\x00127\0/bin\0forged\0/\0")
    pid = stage.terminal.open(await stage.sandbox.prepare(session, stage.launch("true")))
    assert stage.terminal.exit_code() == 0
    assert await stage.sandbox.wait_started(session, pid) is None
    report.unlink()


async def test_reason_of_a_failed_start_shows_no_file_of_the_host(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("#!/the/secret/of/the/host\n")
    (tmp_path / "outside").chmod(0o755)
    (stage.work / "agent").symlink_to(tmp_path / "outside")
    session = stage.session()
    error = await stage.start_failure(session, "./agent")
    assert error.message == "cannot run ./agent: no such file"


async def test_forget_removes_all_files_of_a_session_that_nobody_knows(stage: Stage) -> None:
    session = stage.session()
    await stage.start_failure(session, "./nothing")
    report = Path(stage.containers.paths.sandbox("w").home) / ".sm" / f"{session.id}.failed"
    assert report.exists()
    stage.containers.exec(
        "sh", "-c", f"cd /scratch/{session.id} && mkdir -p a/b && ln -s /home/sandbox a/link"
    )
    for _ in range(2):
        await stage.sandbox.forget(session.id)
        assert not report.exists()
        assert [name for name in os.listdir(stage.launch_folder) if name.startswith(session.id)] == []
        assert stage.containers.exec("ls", "/scratch").split().count(session.id) == 0
        assert not Path(stage.containers.paths.launch, f"{session.id}.engine").exists()


# ---------------------------------------------------------------------------------------------- availability


async def test_sandbox_is_busy_when_an_agent_might_exceed_the_memory(stage: Stage) -> None:
    workspace = stage.containers.workspace
    assert await stage.sandbox.require_available(workspace) == ()
    code = "x = b'x' * (300 << 20); open('ready', 'w'); input()"
    await stage.start(stage.session(), "python3", "-c", code)
    until((stage.work / "ready").exists, "the agent has its memory")
    with pytest.raises(SandboxBusy) as caught:
        await stage.sandbox.require_available(workspace)
    assert caught.value.message == "sandbox busy, 0.3 of 0.5 GiB"
    assert (caught.value.exit_code, caught.value.retry_after_s) == (6, 10)


async def test_page_cache_does_not_make_the_sandbox_busy(stage: Stage) -> None:
    stage.containers.exec("sh", "-c", f"head -c 400000000 /dev/zero >{stage.work}/file")
    assert await stage.sandbox.require_available(stage.containers.workspace) == ()
    (stage.work / "file").unlink()


async def test_sandbox_is_busy_when_an_agent_might_exceed_the_processes(stage: Stage) -> None:
    script = "for n in $(seq 200); do sleep 1000 & done; touch ready; wait"
    await stage.run_script(stage.session(), script)
    with pytest.raises(SandboxBusy, match=r"sandbox busy, 2\d\d of 256 processes"):
        await stage.sandbox.require_available(stage.containers.workspace)


async def test_sandbox_is_unavailable_without_the_command_docker(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    for attempt in (
        stage.sandbox.require_available(stage.containers.workspace),
        stage.sandbox.prepare(stage.session(), stage.launch("sleep")),
    ):
        with pytest.raises(SandboxUnavailable, match="the command docker is not on the daemon's PATH"):
            await attempt


async def test_sandbox_is_unavailable_in_a_deleted_workspace(stage: Stage) -> None:
    session = replace(stage.session(), workspace="deleted")
    with pytest.raises(SandboxUnavailable, match="workspace deleted was deleted"):
        await stage.sandbox.prepare(session, stage.launch("sleep"))


def test_pid_inside_differs_from_the_pid_of_the_host(containers: RealContainers) -> None:
    container = containers.find("w")
    assert container is not None
    assert pid_inside(container.init.pid) == 1
