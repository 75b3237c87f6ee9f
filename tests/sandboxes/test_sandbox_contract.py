"""The contract of Sandbox (sandboxes/base.py), on real processes of this host and of a real container.

A plain child process replaces the terminal: it runs the argv from `prepare` in a directory other than the agent's,
with an environment that must not reach the agent.

A container differs in three properties. The process of the terminal is `docker exec` and not the agent. The engine
reports a signal as exit code 128 + n. The environment has the mark by which `end` finds the processes of a session.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import pytest

from sm.core.models import Launch, Process, Session
from sm.core.states import TrustLevel
from sm.errors import AgentStartFailed
from sm.linux import processes
from sm.linux.process_limits import soft_limits
from sm.paths import AgentPaths, InstancePaths
from sm.sandboxes.base import Sandbox
from sm.sandboxes.docker.docker_sandbox import ContainerSandbox
from sm.sandboxes.docker.engine import Engine
from sm.sandboxes.docker.image import Images
from sm.sandboxes.host import HostSandbox
from tests import samples
from tests.memory_files import disk_directory
from tests.sandboxes.docker.real_container import USER, RealContainers
from tests.sandboxes.terminal import Terminal, without_cgroups
from tests.waits import NEVER_S

pytestmark = pytest.mark.processes

ID = "1a2b3c4d"

_RECORDER = (
    "import json, os, sys\n"
    "record = {'argv': sys.argv[1:], 'cwd': os.getcwd(), 'pid': os.getpid(), 'env': dict(os.environb)}\n"
    "record['env'] = {os.fsdecode(k): os.fsdecode(v) for k, v in record['env'].items()}\n"
    "with open('record.new', 'w') as file: json.dump(record, file)\n"
    "os.rename('record.new', 'record')\n"
    "sys.stdin.read()"
)


class HostPids(Protocol):
    """The processes of a container."""

    def host_pid(self, inside: int) -> int | None: ...


class AnyTerminal(Protocol):
    def open(self, argv: Sequence[str]) -> int:
        """Run a command, and return the pid of its process."""

    async def exited(self, pid: int | None = None) -> int:
        """Wait for the end of a process, or of the last one if None."""


@dataclass(frozen=True)
class Place:
    """Where the contract runs: on this host with one of its shells, or in a container."""

    sandbox: Sandbox
    session: Session
    launch: Path
    """The directory of the files that the agent reads."""
    seen: AgentPaths
    """Their paths as the agent sees them."""
    base: Path
    """A directory that the agent sees at the same path."""
    python: str
    container: HostPids | None = None

    @property
    def recorder(self) -> tuple[str, ...]:
        """An agent that records its arguments and environment, and then waits."""
        return (self.python, "-c", _RECORDER)

    def host_pid(self, pid: int) -> int:
        """The pid on the host of a process that the agent knows as `pid`."""
        found = pid if self.container is None else self.container.host_pid(pid)
        assert found is not None
        return found

    def exit_code_of(self, signum: signal.Signals) -> int:
        return -signum if self.container is None else 128 + signum


@pytest.fixture
def terminal(tmp_path: Path, place: Place) -> Iterator[Terminal]:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    terminal = Terminal(elsewhere, is_pty=place.container is not None)
    yield terminal
    terminal.close()


@pytest.fixture
def work(place: Place) -> Path:
    folder = place.base / "work 'of' $HOME ünï\n"
    folder.mkdir()
    if place.container is not None:
        os.chown(folder, USER, USER)
    return folder


SHELLS = {name: path for name in ("bash", "busybox") if (path := shutil.which(name)) is not None}
"""Installed shells that other machines may have as /bin/sh."""


@pytest.fixture(scope="module")
def containers(request: pytest.FixtureRequest) -> Iterator[RealContainers]:
    engine, image = (request.getfixturevalue(name) for name in ("engine", "sandbox_image"))
    with (
        disk_directory() as directory,
        contextlib.closing(RealContainers(engine, image, directory)) as containers,
    ):
        yield containers


IN_CONTAINER = pytest.param("container", marks=pytest.mark.xdist_group("containers of the contract"))
"""In one worker, so that there is one container."""


@pytest.fixture(params=["sh", *SHELLS, IN_CONTAINER])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    if request.param == "container":
        async for place in _in_container(request.getfixturevalue("containers")):
            yield place
        return
    shell = "/bin/sh"
    if request.param in SHELLS:
        # With the name sh, bash follows POSIX and busybox runs its shell.
        shell = str(tmp_path / "sh")
        os.symlink(SHELLS[request.param], shell)
    paths = InstancePaths(str(tmp_path / "config.yaml"), str(tmp_path / "st'ate"))
    sandbox = HostSandbox(paths, without_cgroups(), NEVER_S, shell=shell)
    seen = paths.agent_paths(ID, sandboxed=False)
    yield Place(sandbox, samples.session(ID), Path(paths.launch), seen, tmp_path, sys.executable)
    sandbox.close()


async def _in_container(containers: RealContainers) -> AsyncIterator[Place]:
    base = containers.project / uuid.uuid4().hex
    base.mkdir()
    engine = Engine(containers.engine)
    sandbox = ContainerSandbox(
        engine,
        containers,
        Images(engine, containers.config.sandbox),
        containers.config,
        containers.paths,
        lambda slug: containers.workspace,
        without_cgroups(),
        NEVER_S,
    )
    session = replace(samples.session(ID), workspace="w", effective_mode=TrustLevel.SANDBOXED)
    launch = Path(containers.paths.sandbox("w").launch)
    seen = containers.paths.agent_paths(ID, sandboxed=True)
    yield Place(sandbox, session, launch, seen, base, "/usr/bin/python3", containers)
    containers.clear()
    await sandbox.forget(ID)
    sandbox.close()
    engine.close()


@pytest.mark.parametrize("name", ["bash", "busybox"])
def test_contract_runs_with_another_shell_when_it_is_installed(name: str) -> None:
    if name not in SHELLS:
        pytest.skip(f"{name} is not installed: the contract did not run with it")


def launch(
    work: Path, *argv: str, environment: dict[str, str] | None = None, prompt_file: str | None = None
) -> Launch:
    return Launch(
        argv=argv,
        working_dir=str(work),
        environment={"PATH": os.environ["PATH"]} if environment is None else environment,
        inherited={},
        prompt_file=prompt_file,
    )


async def start_agent(place: Place, terminal: AnyTerminal, agent: Launch) -> Process:
    pid = terminal.open(await place.sandbox.prepare(place.session, agent))
    process = await place.sandbox.wait_started(place.session, pid)
    assert process is not None
    assert (process.pid == pid) == (place.container is None)
    return process


async def read_record(work: Path) -> dict[str, object]:
    """The record of the agent `Place.recorder`."""
    file = work / "record"
    while not file.exists():  # noqa: ASYNC110 - another process creates the file
        await asyncio.sleep(0.001)
    answer = json.loads(file.read_text())
    assert isinstance(answer, dict)
    return answer


async def start_failure(place: Place, terminal: AnyTerminal, agent: Launch) -> str:
    pid = terminal.open(await place.sandbox.prepare(place.session, agent))
    with pytest.raises(AgentStartFailed) as caught:
        await place.sandbox.wait_started(place.session, pid)
    return caught.value.message


async def test_agent_is_the_process_of_the_terminal_in_its_working_directory(
    place: Place, terminal: AnyTerminal, work: Path
) -> None:
    process = await start_agent(place, terminal, launch(work, *place.recorder))
    answer = await read_record(work)
    assert (answer["pid"], answer["cwd"]) == (processes.namespace_pid(process.pid), str(work))
    assert processes.is_alive(process)
    assert processes.command_line(process.pid) == place.recorder


async def test_agent_gets_exactly_its_environment_and_the_TERM_of_the_terminal(
    place: Place, terminal: AnyTerminal, work: Path
) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": "/home of/'me'",
        "EMPTY": "",
        "QUOTES": """'"'"'`$(touch x)`\\""",
        "LINES": "one\n\n two\t\n",
        "_under1": "ünï \udcff",
        "SM_TOKEN_FILE": "/x",
        "LC_ALL": "C.UTF-8",
    }
    await start_agent(place, terminal, launch(work, *place.recorder, environment=environment))
    answer = (await read_record(work))["env"]
    assert isinstance(answer, dict)
    # Shells set PWD and SHLVL themselves; both are correct and not inherited.
    for name in ("PWD", "SHLVL"):
        extra = answer.pop(name, None)
        assert extra is None or extra in (str(work), "0")
    mark = {} if place.container is None else {"SM_SESSION_ID": ID}
    assert answer == {**environment, "TERM": "sm-256color $x", **mark}


async def test_agent_has_the_umask_and_the_soft_limits_of_its_launch(
    place: Place, terminal: AnyTerminal, work: Path
) -> None:
    limits = {
        "umask": 0o026,
        "nofile": 240,
        "core": 1_024_000,
        "stack": 4 << 20,
        "fsize": 1 << 30,
        "nproc": 5000,
    }
    agent = replace(launch(work, "sleep", "1000"), process_limits=limits)
    found = soft_limits((await start_agent(place, terminal, agent)).pid)
    assert found["umask"] == 0o026
    if place.container is None:
        assert {name: found[name] for name in limits} == limits
    else:  # the limits of a container are its own
        assert not {name for name in limits if name != "umask" and found[name] == limits[name]}


async def test_agent_without_limits_has_those_of_its_terminal(
    place: Place, terminal: AnyTerminal, work: Path
) -> None:
    process = await start_agent(place, terminal, launch(work, "sleep", "1000"))
    if place.container is None:
        assert soft_limits(process.pid) == soft_limits()
    else:
        assert soft_limits(process.pid)["umask"] == 0o022


async def test_kernel_prefers_an_agent_when_memory_runs_out(
    place: Place, terminal: AnyTerminal, work: Path
) -> None:
    process = await start_agent(place, terminal, launch(work, "sleep", "1000"))
    assert Path(f"/proc/{process.pid}/oom_score_adj").read_text() == "200\n"


async def test_agent_finds_programs_when_its_environment_is_empty(
    place: Place, terminal: AnyTerminal, work: Path
) -> None:
    process = await start_agent(place, terminal, launch(work, "sleep", "1000", environment={}))
    assert processes.command_line(process.pid) == ("sleep", "1000")


@pytest.mark.parametrize(
    "arguments",
    [
        ["", "", "last"],
        ["-c", "--", "-x", "-"],
        ["two\nlines\n", "tab\tand \\n"],
        ["it's", '"quoted"', "$HOME `id` $(id) ${x}", "*", "~", "!!", "#", "&", ";", "|", ">x"],
        ["ünï", "\u202e", "🦀", "\udcff"],
        ["x" * 100_000],
        [str(number) for number in range(2000)],
    ],
    ids=["empty", "dashes", "newlines", "shell words", "unicode", "long", "many"],
)
async def test_agent_gets_its_arguments_unchanged(
    place: Place, terminal: AnyTerminal, work: Path, arguments: list[str]
) -> None:
    await start_agent(place, terminal, launch(work, *place.recorder, *arguments))
    assert (await read_record(work))["argv"] == arguments


async def test_command_of_the_terminal_contains_no_data_of_the_agent(place: Place, work: Path) -> None:
    environment = {"ANTHROPIC_API_KEY": "the secret"}
    agent = launch(work, "xagentx", "the prompt", environment=environment, prompt_file="the prompt in a file")
    argv = " ".join(await place.sandbox.prepare(place.session, agent, "the token"))
    for part in ("the secret", "ANTHROPIC_API_KEY", "the prompt", "xagentx", "the token"):
        assert part not in argv
    for part in ("the secret", "the prompt"):
        assert part not in repr(agent).replace("argv=('xagentx', 'the prompt')", "")


async def test_prepare_returns_the_same_command_again(
    place: Place, terminal: AnyTerminal, work: Path
) -> None:
    agent = launch(work, *place.recorder)
    first = await place.sandbox.prepare(place.session, agent)
    assert await place.sandbox.prepare(place.session, agent) == first
    pid = terminal.open(first)
    # As after a crash: `prepare` is repeated while the agent starts or already runs.
    await read_record(work)
    assert await place.sandbox.prepare(place.session, agent) == first
    process = await place.sandbox.wait_started(place.session, pid)
    assert process is not None
    assert processes.command_line(process.pid) == place.recorder


async def test_wait_started_finds_the_agent_until_it_ends_when_repeated(
    place: Place, terminal: AnyTerminal, work: Path
) -> None:
    pid = terminal.open(await place.sandbox.prepare(place.session, launch(work, *place.recorder)))
    process = await place.sandbox.wait_started(place.session, pid)
    assert process is not None
    await read_record(work)
    assert await place.sandbox.wait_started(place.session, pid) == process
    await place.sandbox.end(place.session, process, force=True)
    assert await place.sandbox.wait_started(place.session, pid) is None


@pytest.mark.parametrize("code", [0, 3, 125, 126, 127])
async def test_wait_started_succeeds_when_the_agent_ends_immediately(
    place: Place, terminal: AnyTerminal, work: Path, code: int
) -> None:
    pid = terminal.open(await place.sandbox.prepare(place.session, launch(work, "sh", "-c", f"exit {code}")))
    process = await place.sandbox.wait_started(place.session, pid)
    assert process is None or place.container is not None or process.pid == pid
    assert await terminal.exited(pid) == code
    assert await place.sandbox.wait_started(place.session, pid) is None


async def test_concurrent_starts_are_distinguished(place: Place, terminal: AnyTerminal, work: Path) -> None:
    async def start_result(session_id: str, argv: tuple[str, ...]) -> str:
        session = replace(place.session, id=session_id)
        pid = terminal.open(await place.sandbox.prepare(session, launch(work, *argv)))
        try:
            process = await place.sandbox.wait_started(session, pid)
        except AgentStartFailed as error:
            return error.message
        assert process is not None
        return processes.command_line(process.pid)[-1]

    last_arguments = [f"{1000 + number}" if number % 3 else f"./nothing{number}" for number in range(30)]
    answers = await asyncio.gather(
        *(
            start_result(f"{number:08x}", ("sleep", last) if number % 3 else (last,))
            for number, last in enumerate(last_arguments)
        )
    )
    assert answers == [
        last if number % 3 else f"cannot run {last}: no such file"
        for number, last in enumerate(last_arguments)
    ]


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (
            "nothing-of-that-name",
            "cannot run nothing-of-that-name: no such program on the agent's PATH",
        ),
        ("-x", "cannot run -x: no such program on the agent's PATH"),
        ("./nothing.py", "cannot run ./nothing.py: no such file"),
        ("/nothing/at/all", "cannot run /nothing/at/all: no such file"),
        ("two\nlines", "cannot run 'two\\nlines': no such program on the agent's PATH"),
        ("", "cannot run '': the program has no name"),
        ("./plain", "cannot run ./plain: permission denied, the file is not executable"),
        ("plain", "cannot run plain: permission denied, the file is not executable"),
        ("./folder", "cannot run ./folder: the path is a directory"),
        ("./dangling", "cannot run ./dangling: no such file"),
        ("./plain/below", "cannot run ./plain/below: not a directory"),
        (
            "./interpreter",
            "cannot run ./interpreter: its interpreter /nothing/python is missing or not executable",
        ),
        ("twice", "cannot run twice: its interpreter /nothing/python is missing or not executable"),
        ("./loader", "cannot run ./loader: the program is for another system, or its loader is missing"),
        (
            "./damaged",
            "cannot run ./damaged: Exec format error: the program is damaged or for another machine",
        ),
    ],
)
async def test_start_fails_with_the_reason_when_the_program_cannot_run(
    place: Place, terminal: AnyTerminal, work: Path, program: str, message: str
) -> None:
    (work / "plain").write_text("#!/bin/sh\n")
    (work / "folder").mkdir()
    (work / "dangling").symlink_to("nowhere")
    damaged = Path(os.path.realpath("/bin/sh")).read_bytes()[:18] + b"\xff\xff"
    contents = {"interpreter": b"#! /nothing/python -u\n", "loader": without_loader(), "damaged": damaged}
    for name, content in contents.items():
        (work / name).write_bytes(content)
        (work / name).chmod(0o755)
    (work / "folder" / "twice").touch()
    (work / "twice").symlink_to("interpreter")
    path = f"{os.environ['PATH']}:{work}/folder:{work}"
    assert await start_failure(place, terminal, launch(work, program, environment={"PATH": path})) == message


def without_loader() -> bytes:
    """A real program with a missing loader (ld.so)."""
    content = Path(os.path.realpath("/bin/sh")).read_bytes()
    name = content[content.index(b"/lib") :].split(b"\0")[0]
    return content.replace(name + b"\0", b"/no" + name[3:] + b"\0", 1)


async def test_start_fails_when_an_argument_is_too_long_for_the_kernel(
    place: Place, terminal: AnyTerminal, work: Path
) -> None:
    message = await start_failure(place, terminal, launch(work, "true", "x" * 200_000))
    assert message == "cannot run true: the start failed with exit code 126"


async def test_start_fails_when_the_working_directory_is_missing(
    place: Place, terminal: AnyTerminal, tmp_path: Path
) -> None:
    gone, file = place.base / "gone", place.base / "file"
    file.touch()
    gone.mkdir()
    argv = await place.sandbox.prepare(place.session, launch(gone, "touch", "started"))
    gone.rmdir()
    pid = terminal.open(argv)
    with pytest.raises(AgentStartFailed) as caught:
        await place.sandbox.wait_started(place.session, pid)
    assert caught.value.message == f"cannot enter working directory {gone}: no such directory"
    assert (
        await start_failure(place, terminal, launch(file, "true"))
        == f"cannot enter working directory {file}: not a directory"
    )
    assert list((tmp_path / "elsewhere").iterdir()) == []


async def test_start_failure_is_kept_until_the_next_start(
    place: Place, terminal: AnyTerminal, work: Path
) -> None:
    pid = terminal.open(await place.sandbox.prepare(place.session, launch(work, "./nothing")))
    for _ in range(2):  # the second time as after a restart of the daemon
        with pytest.raises(AgentStartFailed, match="no such file"):
            await place.sandbox.wait_started(place.session, pid)
    # `prepare` after a crash, with the failed start still in its terminal: the error stays.
    await place.sandbox.prepare(place.session, launch(work, "./nothing"))
    with pytest.raises(AgentStartFailed, match="no such file"):
        await place.sandbox.wait_started(place.session, pid)
    pid = terminal.open(await place.sandbox.prepare(place.session, launch(work, "true")))
    assert await terminal.exited(pid) == 0
    assert await place.sandbox.wait_started(place.session, pid) is None


async def test_agent_file_without_an_interpreter_line_runs_as_a_shell_script(
    place: Place, terminal: AnyTerminal, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if place.container is None:
        # bash reads the file itself, so its process always looks like the launch script. The shell inside is dash.
        monkeypatch.setattr("sm.sandboxes.host.START_BOUND_S", 0.5)
    (work / "agent").write_text("read -r line\n")
    (work / "agent").chmod(0o755)
    process = await start_agent(place, terminal, launch(work, "./agent"))
    assert processes.is_alive(process)


async def test_prompt_servers_and_token_are_private_files_until_forget(
    place: Place, terminal: AnyTerminal, work: Path
) -> None:
    prompt, servers, token = (place.launch / f"{ID}{suffix}" for suffix in (".prompt", ".mcp.json", ".token"))
    agent = launch(work, *place.recorder, prompt_file="two\nlines, ünï, 'quotes'\n")
    agent = replace(agent, mcp_config='{"mcpServers": {}}')
    pid = terminal.open(await place.sandbox.prepare(place.session, agent, "secret"))
    await place.sandbox.wait_started(place.session, pid)
    await place.sandbox.prepare(place.session, agent)  # no token: the agent keeps the one it has
    assert (prompt.read_text(), token.read_text()) == (agent.prompt_file, "secret")
    assert servers.read_text() == agent.mcp_config
    assert [file.stat().st_mode & 0o777 for file in (prompt, servers, token)] == [0o600] * 3
    owner = os.geteuid() if place.container is None else USER
    assert [file.stat().st_uid for file in (prompt, servers, token)] == [owner] * 3
    # After a crash before the start, only their file still lists the servers, and the agent's arguments name it.
    await place.sandbox.prepare(
        place.session,
        replace(agent, mcp_config=None, argv=(*agent.argv, "--mcp-config", place.seen.mcp_file)),
    )
    assert servers.read_text() == agent.mcp_config
    await place.sandbox.prepare(
        place.session, replace(agent, mcp_config=None)
    )  # the next process has no servers
    assert not servers.exists()
    await place.sandbox.prepare(place.session, agent)
    for _ in range(2):
        await place.sandbox.forget(ID)
        assert not any(file.exists() for file in (prompt, servers, token))


async def test_end_also_ends_the_processes_that_the_agent_started(
    place: Place, terminal: AnyTerminal, work: Path
) -> None:
    process = await start_agent(
        place,
        terminal,
        launch(work, "sh", "-c", "sleep 1000 & echo $! >child.new; mv child.new child; wait"),
    )
    while not (work / "child").exists():  # noqa: ASYNC110 - another process creates the file
        await asyncio.sleep(0.001)
    child = processes.identify(place.host_pid(int((work / "child").read_text())))
    assert child is not None
    await place.sandbox.end(place.session, process, force=False)
    assert not processes.is_alive(child)
    assert await terminal.exited() == place.exit_code_of(signal.SIGTERM)
    await place.sandbox.end(place.session, process, force=False)


async def test_end_sends_sigkill_when_forced(place: Place, terminal: AnyTerminal, work: Path) -> None:
    process = await start_agent(place, terminal, launch(work, *place.recorder))
    await place.sandbox.end(place.session, process, force=True)
    assert await terminal.exited() == place.exit_code_of(signal.SIGKILL)
