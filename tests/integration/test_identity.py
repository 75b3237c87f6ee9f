"""Identity of callers: an agent is recognised as its session however it starts `sm`."""

import json
import os
import sys
from pathlib import Path

import pytest

from tests.instance import Instance, until
from tests.integration.ended_agents import wait_line

CLEAN = "env -u SM_SESSION_ID -u SM_SOCKET"


def sm_me_from(instance: Instance, command: str, name: str = "out.json") -> dict[str, object]:
    """Run `command` inside an agent and return the answer of `sm me --json`."""
    session = instance.spawn("Sh", f"{command}; sleep 1000")
    out = instance.work / name
    until(lambda: out.exists() and out.read_text().endswith("\n"), f"{command} has answered")
    answer: dict[str, object] = json.loads(out.read_text())
    assert session["session_id"]
    return {"asked": session["session_id"], **answer}


@pytest.mark.parametrize(
    "way",
    [
        "sm me --json > out.json",
        f"{CLEAN} SM_SOCKET=$SM_SOCKET sm me --json > out.json",
        "setsid sm me --json > out.json",
        f"setsid {CLEAN} SM_SOCKET=$SM_SOCKET sm me --json > out.json",
        "nohup sm me --json > out.json 2> /dev/null",
        "(sm me --json > out.json &)",
        f"({CLEAN} SM_SOCKET=$SM_SOCKET nohup sm me --json > out.json 2> /dev/null &)",
        "setsid --fork sm me --json > out.json",
        "( (setsid nohup sm me --json > out.json 2> /dev/null < /dev/null &) & )",
    ],
)
def test_agent_is_identified_when_it_starts_sm_detached_or_without_its_variables(
    instance: Instance, way: str
) -> None:
    answer = sm_me_from(instance, way)
    assert answer.get("session_id") == answer["asked"], answer


def test_split_pane_of_an_agents_terminal_is_identified_as_the_agent(instance: Instance) -> None:
    session = instance.spawn("Sleeper", "x")
    out = instance.work / "split.json"
    sm = f"SM_HOME={instance.home} {instance.state}/bin/sm me --json > {out}"
    instance.tmux(
        "split-window", "-t", f"={session['tmux_session']}:", f"env -u SM_SESSION_ID {sm}; sleep 1000"
    )
    until(lambda: out.exists() and out.read_text().endswith("\n"), "the split pane has run sm")
    assert json.loads(out.read_text())["session_id"] == session["session_id"]


@pytest.mark.parametrize("command", ["split-window", "new-window"])
def test_window_or_pane_that_an_agent_opens_is_identified_as_the_agent(
    instance: Instance, command: str
) -> None:
    out = instance.work / "opened.json"
    ask = f"{CLEAN} SM_HOME={instance.home} {instance.state}/bin/sm me --json > {out}"
    tmux = f"TMUX_TMPDIR={instance.tmux_dir} tmux -L {instance.socket_name}"
    session = instance.spawn(
        "Sh", f'{tmux} {command} -t "=command-$SM_SESSION_ID:" "{ask}; sleep 1000" > err.txt 2>&1; sleep 1000'
    )
    until(lambda: out.exists() and out.read_text().endswith("\n"), f"{command} has run sm")
    assert json.loads(out.read_text())["session_id"] == session["session_id"]


def detached_note(command: str) -> str:
    """A script of an agent: a process without its ancestors and its terminal waits for a file, and then notes."""
    detached = (
        "touch away; until test -e go; do sleep 0.1; done; sm note detached > said 2>&1; echo $? > done"
    )
    # The end of the agent hangs up its terminal, which ends a process that has not left it yet.
    return f"(setsid sh -c '{detached}' &) ; until test -e away; do sleep 0.1; done; {command}"


def test_detached_process_of_an_agent_is_identified_by_its_token(instance: Instance) -> None:
    session_id = instance.spawn("Sh", detached_note("exec sleep 600"))["session_id"]
    (instance.work / "go").touch()
    assert wait_line(instance.work / "done") == "0\n"
    assert instance.session(session_id)["note"] == "detached"


def test_token_of_an_ended_session_is_refused_when_a_process_of_it_lives(instance: Instance) -> None:
    session_id = instance.spawn("Sh", detached_note("exit 0"))["session_id"]
    instance.ended(session_id)
    (instance.work / "go").touch()
    assert wait_line(instance.work / "done") == "5\n"
    assert "has ended, so nothing that is left of it may act for it" in (instance.work / "said").read_text()
    assert instance.session(session_id)["note"] is None


def test_connection_that_a_process_kept_from_before_the_end_of_its_session_gives_no_access(
    instance: Instance,
) -> None:
    script = Path(__file__).with_name("kept_connection.py")
    program = f"env -u SM_SESSION_ID -u SM_TOKEN_FILE {sys.executable} {script} < /dev/null > said 2>&1"
    waits = "until test -e asked; do sleep 0.1; done; exit 0"
    session_id = instance.spawn("Sh", f"{program} & {waits}")["session_id"]
    instance.ended(session_id)
    (instance.work / "go").touch()
    assert wait_line(instance.work / "done") == "409 403 403\n"
    assert instance.session(session_id)["note"] is None


def test_socket_of_another_user_is_refused(instance: Instance, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a socket to another user")
    instance.sm("status")
    os.chown(instance.socket, 12345, 12345)
    assert "12345" in instance.refused("status", exit_code=5)
    os.chown(instance.socket, 0, 0)
    instance.sm("status")


VANISH = """
import os, socket, sys
request = (
    f"POST /v1/sessions/{sys.argv[1]}/kill HTTP/1.1\\r\\nHost: sm\\r\\nSM-Protocol: 1\\r\\n"
    'Content-Length: 15\\r\\n\\r\\n{"force": true}'
).encode()
for _ in range(100):
    if os.fork() == 0:
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(os.environ["SM_SOCKET"])
        sock.send(request)
        os._exit(0)
    os.wait()
print("tried", flush=True)
"""


def test_caller_that_exits_before_identification_is_not_taken_for_the_operator(instance: Instance) -> None:
    other = instance.spawn("Sleeper", "x")["session_id"]
    (instance.work / "vanish.py").write_text(VANISH)
    instance.spawn("Sh", f"python3 vanish.py {other} > tried.txt; sleep 1000")
    tried = instance.work / "tried.txt"
    until(lambda: tried.exists() and tried.read_text() == "tried\n", "a hundred requests were sent")
    instance.sm("status")  # answered after the earlier requests
    assert instance.session(other)["status"] == "running"
    assert "killed" not in {e["type"] for e in instance.events()}


def test_agent_that_gets_a_reused_terminal_number_is_identified_as_itself(instance: Instance) -> None:
    """The kernel reuses the number of a closed terminal."""
    first = instance.spawn("Sh", "tty > first; exit 0")["session_id"]
    instance.ended(first)
    number = (instance.work / "first").read_text()
    for n in range(10):
        instance.spawn(
            "Sh",
            f"tty > tty-{n}; sm me > me-{n} 2>&1; echo done >> me-{n}; exec sleep 1000",
            "--name",
            f"n{n}",
        )
        me = instance.work / f"me-{n}"
        until(lambda me=me: me.exists() and me.read_text().endswith("done\n"), "sm has run")  # type: ignore[misc]  # a default binds the loop's value
        assert me.read_text().startswith(f"sh-n{n} "), me.read_text()
        if (instance.work / f"tty-{n}").read_text() == number:
            return  # otherwise other tests took the number; the terminal contract tests this without them
