"""Identity of callers by their processes, variables and tokens, and what a session may do to others."""

import json
from typing import Any

from tests.fixtures import context_fixture
from tests.sim.stage import Instance

instance = context_fixture("function", Instance)


def test_forged_sm_variables_do_not_change_identity_parent_or_workspace(instance: Instance) -> None:
    other = instance.spawn("Sleeper", "x")["session_id"]
    session = instance.spawn("Sleeper", "x")
    forged = {
        "SM_TRUST_LEVEL": "direct",
        "SM_PARENT_ID": other,
        "SM_WORKSPACE_ID": "bank",
        "SM_TOKEN_FILE": "/dev/null",
    }

    def inside(*arguments: str) -> Any:
        return json.loads(instance.run_inside(session["session_id"], *arguments, "--json", env=forged).stdout)

    child, me = inside("spawn", "Sleeper", "x"), inside("me")
    assert (child["parent_session_id"], child["workspace"]) == (session["session_id"], None)
    assert (me["session_id"], me["parent_session_id"]) == (session["session_id"], None)


def test_agent_that_claims_another_session_id_is_refused(instance: Instance) -> None:
    other = instance.spawn("Sleeper", "x")["session_id"]
    caller = instance.spawn("Sleeper", "x")["session_id"]
    refused = instance.run_inside(caller, "complete", "done", env={"SM_SESSION_ID": other})
    assert refused.returncode == 5
    assert "belongs to two sessions" in refused.stderr
    assert instance.session(other)["status"] == "running"


def test_operator_with_a_session_id_and_its_token_acts_as_that_session(instance: Instance) -> None:
    session_id = instance.spawn("Sleeper", "x")["session_id"]
    as_session = instance.as_session(session_id)
    assert instance.json("me", env=as_session)["session_id"] == session_id
    assert "only the operator" in instance.refused("daemon", "stop", exit_code=5, env=as_session)
    assert "is unknown to this daemon" in instance.refused(
        "all", exit_code=5, env={"SM_SESSION_ID": "ffffffff"}
    )


def test_caller_is_refused_when_only_its_session_id_names_a_session(instance: Instance) -> None:
    session_id, other = (instance.spawn("Sleeper", "x")["session_id"] for _ in range(2))
    others_token = instance.as_session(other)["SM_TOKEN_FILE"]
    for token_file in ("", "/nowhere", others_token):
        env = {"SM_SESSION_ID": session_id, "SM_TOKEN_FILE": token_file}
        assert "no valid token of that session" in instance.refused("me", exit_code=5, env=env)
        instance.refused("complete", "forged", exit_code=5, env=env)
    assert instance.session(session_id)["status"] == "running"


def test_token_of_a_killed_session_gives_no_access(instance: Instance) -> None:
    session_id = instance.spawn("Sleeper", "x")["session_id"]
    token = instance.work / "token"
    token.write_bytes((instance.state / "launch" / f"{session_id}.token").read_bytes())
    environment = {"SM_SESSION_ID": session_id, "SM_TOKEN_FILE": str(token)}
    before = {"SM_SESSION_ID": session_id}
    instance.sm("note", "before", env=before)
    instance.sm("kill", session_id, "--force")
    for words in (
        ("note", "after"),
        ("checkpoint", "after"),
        ("send", session_id, "after"),
        ("me",),
        ("ls",),
    ):
        said = instance.refused(*words, exit_code=5, env=environment)
        assert "has ended, so nothing that is left of it may act for it" in said, words
    assert instance.session(session_id)["note"] == "before"


def test_session_can_kill_and_read_only_its_descendants(instance: Instance) -> None:
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
    assert "only the operator may use --args" in instance.refused(
        "spawn", "Sleeper", "x", "--args", "-v", exit_code=5, env=as_parent
    )
    assert "only the operator may use --env" in instance.refused(
        "spawn", "Sleeper", "x", "--env", "NODE_OPTIONS=-r x.js", exit_code=5, env=as_parent
    )


def test_complete_is_for_sessions_only_and_refused_when_the_session_has_ended(instance: Instance) -> None:
    instance.refused("complete", "done", exit_code=2)
    session_id = instance.spawn("Sleeper", "x")["session_id"]
    instance.sm("complete", "done", env={"SM_SESSION_ID": session_id})
    assert instance.session(session_id)["completion_message"] == "done"
    again = instance.refused("complete", "done", exit_code=4, env={"SM_SESSION_ID": session_id})
    assert "has already ended" in again


def test_me_and_parent_are_taken_wherever_a_session_is(instance: Instance) -> None:
    parent = instance.spawn("Sleeper", "x")["session_id"]
    child = instance.spawn("Sleeper", "x", "--parent", parent)["session_id"]
    as_child, as_parent = instance.as_session(child), instance.as_session(parent)
    assert instance.json("status", "me", env=as_child)["session_id"] == child
    assert instance.json("status", "parent", env=as_child)["session_id"] == parent
    assert instance.json("send", "parent", "hello", "--no-wait", env=as_child)["session_id"] == parent
    assert "may not kill" in instance.refused("kill", "parent", exit_code=5, env=as_child)
    assert "you have no parent" in instance.refused("status", "parent", exit_code=3, env=as_parent)
    assert "no such session: parent" in instance.refused("status", "parent", exit_code=3)
    assert "no such session: stranger" in instance.refused("kill", "stranger", exit_code=3, env=as_child)
    refused = instance.refused("kill", "operator", exit_code=3, env=as_child)
    assert refused.startswith("sm: the operator is no session\nhint: sm send operator TEXT; to ask")
