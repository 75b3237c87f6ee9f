"""`sm demo`: its output, and the removal of everything that the demo creates."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sm.cli.commands import demo
from sm.client.http import Client
from tests.cli.conftest import Sm
from tests.waits import until


def left_of(name: str) -> list[str]:
    """Files, sockets and processes that carry the name of the demo."""
    remains = [
        str(path) for path in (Path("/tmp") / name, Path(f"/tmp/tmux-{os.geteuid()}") / name) if path.exists()
    ]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            continue  # ended, or owned by another user
        if name.encode() in words:
            remains.append(f"{process}: {words[:200]!r}")
    return remains


def containers_of(engine: str, name: str) -> list[str]:
    """The containers that show the agents' program of a demo, running or not."""
    argv = ("docker", "-H", engine, "ps", "--all", "--quiet", "--filter", f"volume=/tmp/{name}/agents")
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """Read the output of the demo to the line that contains `text`."""
    assert process.stdout is not None
    out = ""
    while text not in out:
        line = process.stdout.readline()
        assert line, out
        out += line
    return out


def name_in(out: str) -> str:
    match = re.search(r"sm-demo-\w+", out)
    assert match is not None, out
    return match.group()


def test_demo_runs_as_planned_and_removes_everything(run: Sm) -> None:
    done = run("demo", "--fast")
    name = name_in(done.out)
    assert f"tmux -S /tmp/tmux-{os.geteuid()}/{name} attach-session -t =" in done.out
    for line in (
        r"\] spawned: Child builder-login \(\w{8}\) started",
        r'\] checkpoint: Child builder-login - "Form and cookie written \(2/3 tasks\)"',
        r'\] error: Child [a-z]+-[a-z]+ failed - "2 of 14 tests fail"',
        r"\] error: Child [a-z]+-[a-z]+ crashed \(exit code 1\)",
        r'\] completed: Session [a-z0-9-]+ completed - "',
        r"\n  ├─ builder-login \(\w{8}\)   \| completed \|",
        r"\n  │  └─ linter-form \(\w{8}\)  \| completed \|",
        r"\n  tester-login reported: 2 of 14 tests fail",
        r"\n  fetcher-icons crashed: the process ended with exit code 1",
    ):
        assert re.search(line, done.out), (line, done.out)
    assert done.err == ""
    assert left_of(name) == []


@pytest.mark.parametrize(
    ("at", "number"),
    [
        pytest.param("Starting a daemon", signal.SIGINT, marks=pytest.mark.full),
        ("Starting a daemon", signal.SIGTERM),
        ("attach-session", signal.SIGINT),
        pytest.param("started: Child", signal.SIGINT, marks=pytest.mark.full),
        ("started: Child", signal.SIGHUP),
    ],
)
def test_demo_removes_everything_when_interrupted(run: Sm, at: str, number: signal.Signals) -> None:
    with run.start("demo") as process:
        out = read_until(process, at)
        process.send_signal(number)
        rest, err = process.communicate()
    assert process.returncode == 128 + number, (out, rest, err)
    assert err == ""
    assert left_of(name_in(out)) == []


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 0), pytest.param(signal.SIGTERM, 128 + signal.SIGTERM, marks=pytest.mark.full)],
)
def test_staying_demo_can_be_used_until_it_is_interrupted(run: Sm, number: signal.Signals, code: int) -> None:
    with run.start("demo", "--fast", "--stay") as process:
        out = read_until(process, "until you press Ctrl-C")
        home = re.search(r"\n  export SM_HOME=(\S+)\n  sm top\n", out)
        assert home is not None, out

        def sm(*arguments: str) -> Any:
            done = subprocess.run(
                run.argv(*arguments, "--json"),
                env=run.environ | {"SM_HOME": home[1]}, capture_output=True, check=True,
            )  # fmt: skip
            return json.loads(done.stdout)

        client = Client(f"{home[1]}/state/run/sm.sock")
        assert {s["agent_type"] for s in sm("ls", "--all")} == {*demo.EXPECTED, "Reviewer"}
        (request,) = until(lambda: client.get("/v1/requests"), "the question")
        sm("answer", request["request_id"], "1")
        sm("send", "reviewer-login", "look at the cookie")
        until(
            lambda: "Read: look at the cookie" in [s["note"] for s in client.get("/v1/sessions")],
            "the agent has read the message",
        )
        process.send_signal(number)
        rest, err = process.communicate()
    assert (process.returncode, err) == (code, ""), (out, rest)
    assert left_of(name_in(out)) == []


def test_demo_removes_everything_when_output_pipe_closes(run: Sm) -> None:
    with run.start("demo") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        name = name_in(process.stdout.readline())
        process.stdout.close()
        assert process.stderr.read() == ""
    assert left_of(name) == []


@pytest.fixture
def configured_engine(home: Path, engine: str, sandbox_image: str) -> str:
    """The URL of the engine that the user's configuration names."""
    (home / "config.yaml").write_text(f"sandbox: {{engine: '{engine}', image: '{sandbox_image}'}}\n")
    return engine


def test_sandboxed_demo_runs_in_a_container_and_removes_everything(run: Sm, configured_engine: str) -> None:
    with run.start("demo", "--sandboxed") as process:
        out = read_until(process, "started: Child")
        name = name_in(out)
        containers = containers_of(configured_engine, name)
        rest, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert len(containers) == 1
    assert "] warning: " not in out + rest
    for line in (
        r"\] checkpoint: Child builder-login - ",
        r"\n  fetcher-icons crashed: the process ended with ",
    ):
        assert re.search(line, out + rest), (line, out, rest)
    assert containers_of(configured_engine, name) == []
    assert left_of(name) == []


@pytest.mark.parametrize("at", ["Making a container", "started: Child"])
def test_sandboxed_demo_removes_everything_when_interrupted(run: Sm, configured_engine: str, at: str) -> None:
    with run.start("demo", "--sandboxed") as process:
        out = read_until(process, at)
        process.send_signal(signal.SIGINT)
        rest, err = process.communicate()
    assert (process.returncode, err) == (128 + signal.SIGINT, ""), (out, rest)
    assert containers_of(configured_engine, name_in(out)) == []
    assert left_of(name_in(out)) == []


def test_sandboxed_demo_fails_without_an_engine_and_runs_no_agent(run: Sm) -> None:
    done = run("demo", "--sandboxed", code=9)
    assert done.err.startswith("sm: no Docker engine runs: ")
    assert "spawned" not in done.out
    assert left_of(name_in(done.out)) == []


def test_demo_runs_without_parent_inside_a_session(run: Sm, state: Path) -> None:
    process = subprocess.run(
        run.argv("demo", "--fast"),
        env=run.environ | run.as_session(state),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (process.returncode, process.stderr) == (0, "")
