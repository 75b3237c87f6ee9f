"""The contract of Sandbox (sandboxes/base.py), on real processes.

A plain child process replaces the terminal: it runs the argv from `prepare` in a directory other than the agent's,
with an environment that must not reach the agent.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sm.core.models import Launch, Process
from sm.errors import AgentStartFailed
from sm.linux import processes
from sm.paths import InstancePaths
from sm.sandboxes.base import Sandbox
from sm.sandboxes.host import HostSandbox
from tests.load import scaled

pytestmark = pytest.mark.processes

ID = "1a2b3c4d"

RECORDER = (
    sys.executable,
    "-c",
    "import json, os, sys\n"
    "record = {'argv': sys.argv[1:], 'cwd': os.getcwd(), 'pid': os.getpid(), 'env': dict(os.environb)}\n"
    "record['env'] = {os.fsdecode(k): os.fsdecode(v) for k, v in record['env'].items()}\n"
    "with open('record.new', 'w') as file: json.dump(record, file)\n"
    "os.rename('record.new', 'record')\n"
    "sys.stdin.read()",
)
"""An agent that records its arguments and environment, and then waits."""


class Terminal:
    """Runs commands as a terminal does, and kills the remaining processes at the end."""

    def __init__(self, working_dir: Path) -> None:
        self._working_dir = working_dir
        self._children: list[subprocess.Popen[bytes]] = []
        self.environment = {
            "PATH": "/nonsense",
            "TERM": "sm-256color $x",
            "TMUX": "/tmp/x,1,0",
            "TMUX_PANE": "%1",
            "HOME": "/",
            "SECRET_OF_ANOTHER": "1",
            "A-B": "no shell name",
            "OLDPWD": "/var",
            "ENV": "/nothing",
            "BASH_ENV": "/nothing",
            "CDPATH": "/",
            "LONG": "two\nlines",
        }

    def open(self, argv: Sequence[str]) -> int:
        child = subprocess.Popen(
            argv,
            cwd=self._working_dir,
            env=self.environment,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._children.append(child)
        return child.pid

    def exit_code(self, pid: int) -> int:
        return next(child for child in self._children if child.pid == pid).wait(scaled())

    def close(self) -> None:
        for child in self._children:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.communicate()


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    terminal = Terminal(elsewhere)
    yield terminal
    terminal.close()


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work 'of' $HOME ünï\n"
    folder.mkdir()
    return folder


@pytest.fixture
def place(tmp_path: Path) -> InstancePaths:
    return InstancePaths(str(tmp_path / "config.yaml"), str(tmp_path / "st'ate"))


SHELLS = {name: path for name in ("bash", "busybox") if (path := shutil.which(name)) is not None}
"""Installed shells that other machines may have as /bin/sh."""


@pytest.fixture(params=["sh", *SHELLS])
async def sandbox(
    request: pytest.FixtureRequest, tmp_path: Path, place: InstancePaths
) -> AsyncIterator[Sandbox]:
    shell = "/bin/sh"
    if request.param in SHELLS:
        # With the name sh, bash follows POSIX and busybox runs its shell.
        shell = str(tmp_path / "sh")
        os.symlink(SHELLS[request.param], shell)
    sandbox = HostSandbox(place, scaled(), shell=shell)
    yield sandbox
    sandbox.close()


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


async def start_agent(sandbox: Sandbox, terminal: Terminal, agent: Launch) -> Process:
    pid = terminal.open(await sandbox.prepare(ID, agent))
    process = await sandbox.wait_started(ID, pid)
    assert process is not None
    assert process.pid == pid
    return process


async def read_record(work: Path) -> dict[str, object]:
    """The record of the agent RECORDER."""
    file = work / "record"
    async with asyncio.timeout(scaled()):
        while not file.exists():  # noqa: ASYNC110 - another process creates the file
            await asyncio.sleep(0.001)
    answer = json.loads(file.read_text())
    assert isinstance(answer, dict)
    return answer


async def start_failure(sandbox: Sandbox, terminal: Terminal, agent: Launch) -> str:
    pid = terminal.open(await sandbox.prepare(ID, agent))
    with pytest.raises(AgentStartFailed) as caught:
        await sandbox.wait_started(ID, pid)
    return caught.value.message


async def test_agent_is_the_process_of_the_terminal_in_its_working_directory(
    sandbox: Sandbox, terminal: Terminal, work: Path
) -> None:
    process = await start_agent(sandbox, terminal, launch(work, *RECORDER))
    answer = await read_record(work)
    assert (answer["pid"], answer["cwd"]) == (process.pid, str(work))
    assert processes.is_alive(process)
    assert processes.command_line(process.pid) == RECORDER


async def test_agent_gets_exactly_its_environment_and_the_TERM_of_the_terminal(
    sandbox: Sandbox, terminal: Terminal, work: Path
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
    await start_agent(sandbox, terminal, launch(work, *RECORDER, environment=environment))
    answer = (await read_record(work))["env"]
    assert isinstance(answer, dict)
    # Shells set PWD and SHLVL themselves; both are correct and not inherited.
    for name in ("PWD", "SHLVL"):
        extra = answer.pop(name, None)
        assert extra is None or extra in (str(work), "0")
    assert answer == {**environment, "TERM": "sm-256color $x"}


async def test_agent_finds_programs_when_its_environment_is_empty(
    sandbox: Sandbox, terminal: Terminal, work: Path
) -> None:
    process = await start_agent(sandbox, terminal, launch(work, "sleep", "1000", environment={}))
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
    sandbox: Sandbox, terminal: Terminal, work: Path, arguments: list[str]
) -> None:
    await start_agent(sandbox, terminal, launch(work, *RECORDER, *arguments))
    assert (await read_record(work))["argv"] == arguments


async def test_command_of_the_terminal_contains_no_data_of_the_agent(sandbox: Sandbox, work: Path) -> None:
    environment = {"ANTHROPIC_API_KEY": "the secret"}
    agent = launch(work, "xagentx", "the prompt", environment=environment, prompt_file="the prompt in a file")
    argv = " ".join(await sandbox.prepare(ID, agent, "the token"))
    for part in ("the secret", "ANTHROPIC_API_KEY", "the prompt", "xagentx", "the token"):
        assert part not in argv
    for part in ("the secret", "the prompt"):
        assert part not in repr(agent).replace("argv=('xagentx', 'the prompt')", "")


async def test_prepare_returns_the_same_command_again(
    sandbox: Sandbox, terminal: Terminal, work: Path
) -> None:
    agent = launch(work, *RECORDER)
    first = await sandbox.prepare(ID, agent)
    assert await sandbox.prepare(ID, agent) == first
    pid = terminal.open(first)
    # As after a crash: `prepare` is repeated while the agent starts or already runs.
    await read_record(work)
    assert await sandbox.prepare(ID, agent) == first
    assert await sandbox.wait_started(ID, pid) == processes.identify(pid)


async def test_wait_started_finds_the_agent_until_it_ends_when_repeated(
    sandbox: Sandbox, terminal: Terminal, work: Path
) -> None:
    process = await start_agent(sandbox, terminal, launch(work, *RECORDER))
    await read_record(work)
    assert await sandbox.wait_started(ID, process.pid) == process
    await sandbox.end(process, force=True)
    assert await sandbox.wait_started(ID, process.pid) is None


@pytest.mark.parametrize("code", [0, 3, 125, 126, 127])
async def test_wait_started_succeeds_when_the_agent_ends_immediately(
    sandbox: Sandbox, terminal: Terminal, work: Path, code: int
) -> None:
    pid = terminal.open(await sandbox.prepare(ID, launch(work, "sh", "-c", f"exit {code}")))
    process = await sandbox.wait_started(ID, pid)
    assert process is None or process.pid == pid
    assert terminal.exit_code(pid) == code
    assert await sandbox.wait_started(ID, pid) is None


async def test_concurrent_starts_are_distinguished(sandbox: Sandbox, terminal: Terminal, work: Path) -> None:
    async def start_result(session_id: str, argv: tuple[str, ...]) -> str:
        pid = terminal.open(await sandbox.prepare(session_id, launch(work, *argv)))
        try:
            process = await sandbox.wait_started(session_id, pid)
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
    ],
)
async def test_start_fails_with_the_reason_when_the_program_cannot_run(
    sandbox: Sandbox, terminal: Terminal, work: Path, program: str, message: str
) -> None:
    (work / "plain").write_text("#!/bin/sh\n")
    (work / "folder").mkdir()
    (work / "dangling").symlink_to("nowhere")
    for name, content in (("interpreter", b"#! /nothing/python -u\n"), ("loader", without_loader())):
        (work / name).write_bytes(content)
        (work / name).chmod(0o755)
    (work / "folder" / "twice").touch()
    (work / "twice").symlink_to("interpreter")
    path = f"{os.environ['PATH']}:{work}/folder:{work}"
    assert (
        await start_failure(sandbox, terminal, launch(work, program, environment={"PATH": path})) == message
    )


def without_loader() -> bytes:
    """A real program with a missing loader (ld.so)."""
    content = Path(os.path.realpath("/bin/sh")).read_bytes()
    name = content[content.index(b"/lib") :].split(b"\0")[0]
    return content.replace(name + b"\0", b"/no" + name[3:] + b"\0", 1)


async def test_start_fails_when_an_argument_is_too_long_for_the_kernel(
    sandbox: Sandbox, terminal: Terminal, work: Path
) -> None:
    message = await start_failure(sandbox, terminal, launch(work, "true", "x" * 200_000))
    assert message == "cannot run true: the start failed with exit code 126"


async def test_start_fails_when_the_working_directory_is_missing(
    sandbox: Sandbox, terminal: Terminal, tmp_path: Path
) -> None:
    gone, file = tmp_path / "gone", tmp_path / "file"
    file.touch()
    gone.mkdir()
    argv = await sandbox.prepare(ID, launch(gone, "touch", "started"))
    gone.rmdir()
    pid = terminal.open(argv)
    with pytest.raises(AgentStartFailed) as caught:
        await sandbox.wait_started(ID, pid)
    assert caught.value.message == f"cannot enter working directory {gone}: no such directory"
    assert (
        await start_failure(sandbox, terminal, launch(file, "true"))
        == f"cannot enter working directory {file}: not a directory"
    )
    assert list((tmp_path / "elsewhere").iterdir()) == []


async def test_start_failure_is_kept_until_the_next_start(
    sandbox: Sandbox, terminal: Terminal, work: Path
) -> None:
    pid = terminal.open(await sandbox.prepare(ID, launch(work, "./nothing")))
    for _ in range(2):  # the second time as after a restart of the daemon
        with pytest.raises(AgentStartFailed, match="no such file"):
            await sandbox.wait_started(ID, pid)
    # `prepare` after a crash, with the failed start still in its terminal: the error stays.
    await sandbox.prepare(ID, launch(work, "./nothing"))
    with pytest.raises(AgentStartFailed, match="no such file"):
        await sandbox.wait_started(ID, pid)
    pid = terminal.open(await sandbox.prepare(ID, launch(work, "true")))
    assert terminal.exit_code(pid) == 0
    assert await sandbox.wait_started(ID, pid) is None


async def test_agent_file_without_an_interpreter_line_runs_as_a_shell_script(
    sandbox: Sandbox, terminal: Terminal, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # bash reads the file itself, so its process always looks like the launch script.
    monkeypatch.setattr("sm.sandboxes.host.START_BOUND_S", 0.5)
    (work / "agent").write_text("read -r line\n")
    (work / "agent").chmod(0o755)
    process = await start_agent(sandbox, terminal, launch(work, "./agent"))
    assert processes.is_alive(process)


async def test_prompt_servers_and_token_are_private_files_until_forget(
    sandbox: Sandbox, terminal: Terminal, work: Path, place: InstancePaths
) -> None:
    prompt, servers, token = (
        Path(file(ID)) for file in (place.prompt_file, place.mcp_file, place.token_file)
    )
    agent = launch(work, *RECORDER, prompt_file="two\nlines, ünï, 'quotes'\n")
    agent = replace(agent, mcp_config='{"mcpServers": {}}')
    pid = terminal.open(await sandbox.prepare(ID, agent, "secret"))
    await sandbox.wait_started(ID, pid)
    await sandbox.prepare(ID, agent)  # no token: the agent keeps the one it has
    assert (prompt.read_text(), token.read_text()) == (agent.prompt_file, "secret")
    assert servers.read_text() == agent.mcp_config
    assert [file.stat().st_mode & 0o777 for file in (prompt, servers, token)] == [0o600] * 3
    # After a crash before the start, only their file still lists the servers, and the agent's arguments name it.
    await sandbox.prepare(
        ID, replace(agent, mcp_config=None, argv=(*agent.argv, "--mcp-config", str(servers)))
    )
    assert servers.read_text() == agent.mcp_config
    await sandbox.prepare(ID, replace(agent, mcp_config=None))  # the next process has no servers
    assert not servers.exists()
    await sandbox.prepare(ID, agent)
    for _ in range(2):
        await sandbox.forget(ID)
        assert not any(file.exists() for file in (prompt, servers, token))


async def test_end_also_ends_the_processes_that_the_agent_started(
    sandbox: Sandbox, terminal: Terminal, work: Path
) -> None:
    process = await start_agent(
        sandbox,
        terminal,
        launch(work, "sh", "-c", "sleep 1000 & echo $! >child.new; mv child.new child; wait"),
    )
    async with asyncio.timeout(scaled()):
        while not (work / "child").exists():  # noqa: ASYNC110 - another process creates the file
            await asyncio.sleep(0.001)
    child = processes.identify(int((work / "child").read_text()))
    assert child is not None
    await sandbox.end(process, force=False)
    assert not processes.is_alive(child)
    assert terminal.exit_code(process.pid) == -signal.SIGTERM
    await sandbox.end(process, force=False)


async def test_end_sends_sigkill_when_forced(sandbox: Sandbox, terminal: Terminal, work: Path) -> None:
    process = await start_agent(sandbox, terminal, launch(work, *RECORDER))
    await sandbox.end(process, force=True)
    assert terminal.exit_code(process.pid) == -signal.SIGKILL
