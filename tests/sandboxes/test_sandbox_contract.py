"""What every Sandbox promises (sandboxes/base.py), on real processes.

A plain child process stands in for the terminal: it runs the argv that `prepare` gave, in another directory
than the agent's and with an environment full of things that are not meant for the agent.
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
from sm.paths import Places
from sm.sandboxes.base import Sandbox
from sm.sandboxes.host import HostSandbox
from tests.load import scaled

pytestmark = pytest.mark.processes

ID = "1a2b3c4d"

TELL = (
    sys.executable,
    "-c",
    "import json, os, sys\n"
    "told = {'argv': sys.argv[1:], 'cwd': os.getcwd(), 'pid': os.getpid(), 'env': dict(os.environb)}\n"
    "told['env'] = {os.fsdecode(k): os.fsdecode(v) for k, v in told['env'].items()}\n"
    "with open('told.new', 'w') as file: json.dump(told, file)\n"
    "os.rename('told.new', 'told')\n"
    "sys.stdin.read()",
)
"""An agent that writes down what it was given, and then waits to be ended."""


class Terminal:
    """Runs argvs as a terminal would, and ends what is left of them."""

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
        return next(each for each in self._children if each.pid == pid).wait(scaled())

    def close(self) -> None:
        for child in self._children:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.communicate()


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    one = Terminal(elsewhere)
    yield one
    one.close()


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work 'of' $HOME ünï\n"
    folder.mkdir()
    return folder


@pytest.fixture
def place(tmp_path: Path) -> Places:
    return Places(str(tmp_path / "config.yaml"), str(tmp_path / "st'ate"))


SHELLS = {name: path for name in ("bash", "busybox") if (path := shutil.which(name)) is not None}
"""Other shells that may be a machine's /bin/sh, where they are installed."""


@pytest.fixture(params=["sh", *SHELLS])
async def sandbox(request: pytest.FixtureRequest, tmp_path: Path, place: Places) -> AsyncIterator[Sandbox]:
    shell = "/bin/sh"
    if request.param in SHELLS:
        # By the name of sh, bash keeps to POSIX, and busybox is a shell at all.
        shell = str(tmp_path / "sh")
        os.symlink(SHELLS[request.param], shell)
    one = HostSandbox(place, scaled(), shell=shell)
    yield one
    one.close()


@pytest.mark.parametrize("name", ["bash", "busybox"])
def test_contract_holds_for_another_shell(name: str) -> None:
    if name not in SHELLS:
        pytest.skip(f"{name} is not installed: the contract was not tried with it")


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


async def started(sandbox: Sandbox, terminal: Terminal, what: Launch) -> Process:
    pid = terminal.open(await sandbox.prepare(ID, what))
    process = await sandbox.wait_started(ID, pid)
    assert process is not None
    assert process.pid == pid
    return process


async def told(work: Path) -> dict[str, object]:
    """What the agent TELL wrote down."""
    file = work / "told"
    async with asyncio.timeout(scaled()):
        while not file.exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.001)
    answer = json.loads(file.read_text())
    assert isinstance(answer, dict)
    return answer


async def failure(sandbox: Sandbox, terminal: Terminal, what: Launch) -> str:
    pid = terminal.open(await sandbox.prepare(ID, what))
    with pytest.raises(AgentStartFailed) as caught:
        await sandbox.wait_started(ID, pid)
    return caught.value.message


async def test_agent_is_the_terminals_own_process_in_its_own_directory(
    sandbox: Sandbox, terminal: Terminal, work: Path
) -> None:
    process = await started(sandbox, terminal, launch(work, *TELL))
    answer = await told(work)
    assert (answer["pid"], answer["cwd"]) == (process.pid, str(work))
    assert processes.is_alive(process)
    assert processes.command_line(process.pid) == TELL


async def test_agent_gets_exactly_the_environment_it_was_given_and_the_terminals_term(
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
    await started(sandbox, terminal, launch(work, *TELL, environment=environment))
    answer = (await told(work))["env"]
    assert isinstance(answer, dict)
    # Shells say where they are and how deep, by themselves; all of that is true, and none of it is inherited.
    for name in ("PWD", "SHLVL"):
        extra = answer.pop(name, None)
        assert extra is None or extra in (str(work), "0")
    assert answer == {**environment, "TERM": "sm-256color $x"}


async def test_agents_without_any_environment_finds_programs(
    sandbox: Sandbox, terminal: Terminal, work: Path
) -> None:
    process = await started(sandbox, terminal, launch(work, "sleep", "1000", environment={}))
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
async def test_arguments_arrive_as_they_are(
    sandbox: Sandbox, terminal: Terminal, work: Path, arguments: list[str]
) -> None:
    await started(sandbox, terminal, launch(work, *TELL, *arguments))
    assert (await told(work))["argv"] == arguments


async def test_nothing_of_the_agent_is_in_what_the_terminal_runs(sandbox: Sandbox, work: Path) -> None:
    environment = {"ANTHROPIC_API_KEY": "the secret"}
    what = launch(work, "xagentx", "the prompt", environment=environment, prompt_file="the prompt in a file")
    argv = " ".join(await sandbox.prepare(ID, what, "the token"))
    for part in ("the secret", "ANTHROPIC_API_KEY", "the prompt", "xagentx", "the token"):
        assert part not in argv
    for part in ("the secret", "the prompt"):
        assert part not in repr(what).replace("argv=('xagentx', 'the prompt')", "")


async def test_preparing_twice_gives_the_same_answer(
    sandbox: Sandbox, terminal: Terminal, work: Path
) -> None:
    what = launch(work, *TELL)
    first = await sandbox.prepare(ID, what)
    assert await sandbox.prepare(ID, what) == first
    pid = terminal.open(first)
    # As after a crash: prepared again while the agent starts or runs already.
    await told(work)
    assert await sandbox.prepare(ID, what) == first
    assert await sandbox.wait_started(ID, pid) == processes.identify(pid)


async def test_started_agent_is_found_again_however_often_one_asks(
    sandbox: Sandbox, terminal: Terminal, work: Path
) -> None:
    process = await started(sandbox, terminal, launch(work, *TELL))
    await told(work)
    assert await sandbox.wait_started(ID, process.pid) == process
    await sandbox.end(process, force=True)
    assert await sandbox.wait_started(ID, process.pid) is None


@pytest.mark.parametrize("code", [0, 3, 125, 126, 127])
async def test_agent_that_ends_at_once_was_started(
    sandbox: Sandbox, terminal: Terminal, work: Path, code: int
) -> None:
    pid = terminal.open(await sandbox.prepare(ID, launch(work, "sh", "-c", f"exit {code}")))
    process = await sandbox.wait_started(ID, pid)
    assert process is None or process.pid == pid
    assert terminal.exit_code(pid) == code
    assert await sandbox.wait_started(ID, pid) is None


async def test_many_starts_at_once_are_told_apart(sandbox: Sandbox, terminal: Terminal, work: Path) -> None:
    async def one(session_id: str, argv: tuple[str, ...]) -> str:
        pid = terminal.open(await sandbox.prepare(session_id, launch(work, *argv)))
        try:
            process = await sandbox.wait_started(session_id, pid)
        except AgentStartFailed as error:
            return error.message
        assert process is not None
        return processes.command_line(process.pid)[-1]

    wanted = [f"{1000 + number}" if number % 3 else f"./nothing{number}" for number in range(30)]
    answers = await asyncio.gather(
        *(
            one(f"{number:08x}", ("sleep", last) if number % 3 else (last,))
            for number, last in enumerate(wanted)
        )
    )
    assert answers == [
        last if number % 3 else f"cannot run {last}: there is no such file"
        for number, last in enumerate(wanted)
    ]


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (
            "nothing-of-that-name",
            "cannot run nothing-of-that-name: there is no such program on the agent's PATH",
        ),
        ("-x", "cannot run -x: there is no such program on the agent's PATH"),
        ("./nothing.py", "cannot run ./nothing.py: there is no such file"),
        ("/nothing/at/all", "cannot run /nothing/at/all: there is no such file"),
        ("two\nlines", "cannot run 'two\\nlines': there is no such program on the agent's PATH"),
        ("", "cannot run '': it has no name"),
        ("./plain", "cannot run ./plain: permission denied, it is not executable"),
        ("plain", "cannot run plain: permission denied, it is not executable"),
        ("./folder", "cannot run ./folder: it is a directory"),
        ("./dangling", "cannot run ./dangling: there is no such file"),
        ("./plain/below", "cannot run ./plain/below: not a directory"),
        ("./interpreter", "cannot run ./interpreter: its interpreter /nothing/python cannot be run"),
        ("twice", "cannot run twice: its interpreter /nothing/python cannot be run"),
        ("./loader", "cannot run ./loader: it is a program for another system, or its loader is missing"),
    ],
)
async def test_program_that_cannot_be_executed_is_an_error_that_says_why(
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
    assert await failure(sandbox, terminal, launch(work, program, environment={"PATH": path})) == message


def without_loader() -> bytes:
    """A real program whose loader (ld.so) is not there."""
    content = Path(os.path.realpath("/bin/sh")).read_bytes()
    name = content[content.index(b"/lib") :].split(b"\0")[0]
    return content.replace(name + b"\0", b"/no" + name[3:] + b"\0", 1)


async def test_arguments_that_are_too_long_for_the_kernel_are_an_error(
    sandbox: Sandbox, terminal: Terminal, work: Path
) -> None:
    message = await failure(sandbox, terminal, launch(work, "true", "x" * 200_000))
    assert message == "cannot run true: the system refused it (exit code 126)"


async def test_working_directory_that_vanished_is_an_error(
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
    assert caught.value.message == f"cannot start in {gone}: there is no such directory"
    assert (
        await failure(sandbox, terminal, launch(file, "true"))
        == f"cannot start in {file}: it is not a directory"
    )
    assert list((tmp_path / "elsewhere").iterdir()) == []


async def test_failure_is_remembered_for_who_asks_later_and_forgotten_for_the_next_start(
    sandbox: Sandbox, terminal: Terminal, work: Path
) -> None:
    pid = terminal.open(await sandbox.prepare(ID, launch(work, "./nothing")))
    for _ in range(2):  # the second time as after a restart of the daemon
        with pytest.raises(AgentStartFailed, match="there is no such file"):
            await sandbox.wait_started(ID, pid)
    # Prepared again after a crash, with the failed start still in its terminal: the same answer.
    await sandbox.prepare(ID, launch(work, "./nothing"))
    with pytest.raises(AgentStartFailed, match="there is no such file"):
        await sandbox.wait_started(ID, pid)
    pid = terminal.open(await sandbox.prepare(ID, launch(work, "true")))
    assert terminal.exit_code(pid) == 0
    assert await sandbox.wait_started(ID, pid) is None


async def test_text_file_without_a_first_line_for_the_kernel_runs_as_a_shell_script(
    sandbox: Sandbox, terminal: Terminal, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # bash reads such a file in place, and looks like the launch script for ever.
    monkeypatch.setattr("sm.sandboxes.host.START_BOUND_S", 0.5)
    (work / "agent").write_text("read -r line\n")
    (work / "agent").chmod(0o755)
    process = await started(sandbox, terminal, launch(work, "./agent"))
    assert processes.is_alive(process)


async def test_prompt_servers_and_token_are_private_files_that_stay_until_forgotten(
    sandbox: Sandbox, terminal: Terminal, work: Path, place: Places
) -> None:
    prompt, servers, token = (
        Path(file(ID)) for file in (place.prompt_file, place.mcp_file, place.token_file)
    )
    what = launch(work, *TELL, prompt_file="two\nlines, ünï, 'quotes'\n")
    what = replace(what, mcp_config='{"mcpServers": {}}')
    pid = terminal.open(await sandbox.prepare(ID, what, "secret"))
    await sandbox.wait_started(ID, pid)
    await sandbox.prepare(ID, what)  # no token: the agent keeps the one it has
    assert (prompt.read_text(), token.read_text()) == (what.prompt_file, "secret")
    assert servers.read_text() == what.mcp_config
    assert [each.stat().st_mode & 0o777 for each in (prompt, servers, token)] == [0o600] * 3
    # After a crash before the start nobody knows the servers any more but their file, which the agent is told of.
    await sandbox.prepare(ID, replace(what, mcp_config=None, argv=(*what.argv, "--mcp-config", str(servers))))
    assert servers.read_text() == what.mcp_config
    await sandbox.prepare(ID, replace(what, mcp_config=None))  # the next process is told of none
    assert not servers.exists()
    await sandbox.prepare(ID, what)
    for _ in range(2):
        await sandbox.forget(ID)
        assert not any(each.exists() for each in (prompt, servers, token))


async def test_end_takes_what_the_agent_started_with_it(
    sandbox: Sandbox, terminal: Terminal, work: Path
) -> None:
    process = await started(
        sandbox,
        terminal,
        launch(work, "sh", "-c", "sleep 1000 & echo $! >child.new; mv child.new child; wait"),
    )
    async with asyncio.timeout(scaled()):
        while not (work / "child").exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.001)
    child = processes.identify(int((work / "child").read_text()))
    assert child is not None
    await sandbox.end(process, force=False)
    assert not processes.is_alive(child)
    assert terminal.exit_code(process.pid) == -signal.SIGTERM
    await sandbox.end(process, force=False)


async def test_end_with_force_does_not_ask(sandbox: Sandbox, terminal: Terminal, work: Path) -> None:
    process = await started(sandbox, terminal, launch(work, *TELL))
    await sandbox.end(process, force=True)
    assert terminal.exit_code(process.pid) == -signal.SIGKILL
