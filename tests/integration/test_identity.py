"""Who is calling: every way out of one's session that the design names ends where it began."""

import json
from pathlib import Path

import pytest

from tests.instance import Instance, until

CLEAN = "env -u SM_SESSION_ID -u SM_SOCKET"


def asked_from(instance: Instance, command: str, name: str = "out.json") -> dict[str, object]:
    """What `sm me --json`, run inside an agent by `command`, said."""
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
def test_an_agents_call_is_its_own_however_it_is_made(instance: Instance, way: str) -> None:
    answer = asked_from(instance, way)
    assert answer.get("session_id") == answer["asked"], answer


def test_a_split_pane_of_an_agents_terminal_is_the_agents(instance: Instance) -> None:
    session = instance.spawn("Sleeper", "x")
    out = instance.work / "split.json"
    sm = f"SM_HOME={instance.home} {instance.state}/bin/sm me --json > {out}"
    instance.tmux(
        "split-window", "-t", f"={session['tmux_session']}:", f"env -u SM_SESSION_ID {sm}; sleep 1000"
    )
    until(lambda: out.exists() and out.read_text().endswith("\n"), "the split pane has asked")
    assert json.loads(out.read_text())["session_id"] == session["session_id"]


@pytest.mark.parametrize("command", ["split-window", "new-window"])
def test_what_an_agent_opens_in_its_own_terminal_is_the_agents(instance: Instance, command: str) -> None:
    out = instance.work / "opened.json"
    ask = f"{CLEAN} SM_HOME={instance.home} {instance.state}/bin/sm me --json > {out}"
    tmux = f"TMUX_TMPDIR={instance.tmux_dir} tmux -L {instance.socket_name}"
    session = instance.spawn(
        "Sh", f'{tmux} {command} -t "=command-$SM_SESSION_ID:" "{ask}; sleep 1000" > err.txt 2>&1; sleep 1000'
    )
    until(lambda: out.exists() and out.read_text().endswith("\n"), f"{command} has asked")
    assert json.loads(out.read_text())["session_id"] == session["session_id"]


def test_a_session_that_sets_what_it_was_given_is_what_it_was(instance: Instance) -> None:
    other = instance.spawn("Sleeper", "x")["session_id"]
    raised = f"SM_TRUST_LEVEL=direct SM_PARENT_ID={other} SM_WORKSPACE_ID=bank SM_TOKEN_FILE=/dev/null"
    session = instance.spawn(
        "Sh", f"{raised} sm spawn Sleeper x --json > child.json; {raised} sm me --json > me.json; sleep 1000"
    )
    me = instance.work / "me.json"
    until(lambda: me.exists() and me.read_text().endswith("\n"), "it has asked")
    child = json.loads((instance.work / "child.json").read_text())
    assert (child["parent_session_id"], child["workspace"]) == (session["session_id"], None)
    told = json.loads(me.read_text())
    assert (told["session_id"], told["parent_session_id"]) == (session["session_id"], None)


def test_a_caller_that_claims_another_session_is_refused(instance: Instance) -> None:
    other = instance.spawn("Sleeper", "x")["session_id"]
    instance.spawn(
        "Sh", f"SM_SESSION_ID={other} sm complete done > out.txt 2>&1; echo $? >> out.txt; sleep 1000"
    )
    out = instance.work / "out.txt"
    until(lambda: out.exists() and out.read_text().endswith("5\n"), "it was refused")
    assert "not clear which session" in out.read_text()
    assert instance.session(other)["status"] == "running"


def test_a_mark_lowers_the_operators_authority_but_an_unknown_one_is_refused(instance: Instance) -> None:
    session_id = instance.spawn("Sleeper", "x")["session_id"]
    as_session = {"SM_SESSION_ID": session_id}
    assert instance.json("me", env=as_session)["session_id"] == session_id
    assert "only the operator" in instance.refused("daemon", "stop", exit_code=5, env=as_session)
    assert "not known" in instance.refused("all", exit_code=5, env={"SM_SESSION_ID": "ffffffff"})


def test_a_session_ends_its_own_descendants_only(instance: Instance) -> None:
    stranger = instance.spawn("Sleeper", "x")["session_id"]
    parent = instance.spawn("Sleeper", "x")["session_id"]
    child = instance.spawn("Sleeper", "x", "--parent", parent)["session_id"]
    grandchild = instance.spawn("Sleeper", "x", "--parent", child)["session_id"]
    as_parent = {"SM_SESSION_ID": parent}
    for target in (stranger, parent):
        assert "may not kill" in instance.refused("kill", target, exit_code=5, env=as_parent)
        assert "may not read" in instance.refused("output", target, exit_code=5, env=as_parent)
    instance.sm("output", grandchild, env=as_parent)
    instance.sm("kill", grandchild, "--force", env=as_parent)
    assert instance.session(grandchild)["status"] == "killed"
    assert instance.session(stranger)["status"] == "running"
    assert "may not spawn" in instance.refused(
        "spawn", "Sleeper", "x", "--parent", stranger, exit_code=5, env=as_parent
    )
    assert "operator only" in instance.refused(
        "spawn", "Sleeper", "x", "--args", "-v", exit_code=5, env=as_parent
    )


def test_only_a_session_reports_and_only_for_itself(instance: Instance) -> None:
    instance.refused("complete", "done", exit_code=2)
    instance.refused("complete", "done", exit_code=2)
    session_id = instance.spawn("Sleeper", "x")["session_id"]
    instance.sm("complete", "done", env={"SM_SESSION_ID": session_id})
    assert instance.session(session_id)["completion_message"] == "done"
    again = instance.refused("complete", "done", exit_code=4, env={"SM_SESSION_ID": session_id})
    assert "has ended already" in again


def test_the_socket_of_another_user_is_refused(instance: Instance, tmp_path: Path) -> None:
    import os

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


def test_a_caller_that_is_gone_before_it_is_known_is_not_taken_for_the_operator(instance: Instance) -> None:
    other = instance.spawn("Sleeper", "x")["session_id"]
    (instance.work / "vanish.py").write_text(VANISH)
    instance.spawn("Sh", f"python3 vanish.py {other} > tried.txt; sleep 1000")
    tried = instance.work / "tried.txt"
    until(lambda: tried.exists() and tried.read_text() == "tried\n", "a hundred requests were sent")
    instance.sm("status")  # answered after those that came before it
    assert instance.session(other)["status"] == "running"
    assert "killed" not in {e["type"] for e in instance.events()}


def test_an_agent_on_the_terminal_number_of_an_ended_one_is_itself(instance: Instance) -> None:
    """The kernel gives the number of a closed terminal to the next one."""
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
        until(lambda me=me: me.exists() and me.read_text().endswith("done\n"), "it has asked")  # type: ignore[misc]  # a default binds the loop's value
        assert me.read_text().startswith(f"sh-n{n} "), me.read_text()
        if (instance.work / f"tty-{n}").read_text() == number:
            return  # else other tests were quicker; the contract of terminals has a test without them
