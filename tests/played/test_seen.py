"""Ended sessions that the operator has seen, and the acts that say so."""

import signal
from typing import Any

import pytest

from tests.fixtures import context_fixture
from tests.played_agent import Agent
from tests.played_client import REPORTED_S, TmuxClient
from tests.sim.stage import BOX, Stage, until

stage = context_fixture("function", Stage, "", BOX)


def row(stage: Stage, session_id: str) -> dict[str, Any]:
    """A session in a list, which marks no session as seen."""
    listed: list[dict[str, Any]] = stage.json("all")
    return next(session for session in listed if session["session_id"] == session_id)


def crashed(stage: Stage, *options: str) -> str:
    session_id: str = stage.spawn("Sh", "echo KeyError; exit 3", *options)["session_id"]
    until(lambda: row(stage, session_id)["exit_code"] == 3, "the agent has crashed")
    return session_id


@pytest.mark.parametrize(
    "act",
    [
        ("status",),
        ("output",),
        ("tail",),
        ("log",),
        ("restore",),
        ("archive",),
        ("seen",),
    ],
)
def test_act_of_the_operator_marks_the_session_as_seen(stage: Stage, act: tuple[str, ...]) -> None:
    session_id = crashed(stage)
    assert row(stage, session_id)["seen_at"] is None
    stage.run(*act, session_id)
    listed = stage.json("all", "--archived")
    assert next(s for s in listed if s["session_id"] == session_id)["seen_at"] is not None


@pytest.mark.parametrize("command", ["status", "output", "tail", "log"])
def test_program_that_reads_json_marks_no_session_as_seen(stage: Stage, command: str) -> None:
    session_id = crashed(stage)
    stage.json(command, session_id)
    assert row(stage, session_id)["seen_at"] is None


@pytest.mark.parametrize("path", ["", "/output", "/actions", "/attach"])
def test_request_for_a_session_marks_it_as_seen_only_if_it_says_so(stage: Stage, path: str) -> None:
    agent = stage.agent()
    complete(stage, agent)
    stage.get(f"/v1/sessions/{agent.id}{path}")
    stage.get(f"/v1/messages?session={agent.id}")
    assert not is_seen(stage, agent)
    stage.get(f"/v1/sessions/{agent.id}{path}?seen=1")
    assert is_seen(stage, agent)


def test_commands_that_look_a_session_up_do_not_mark_it_as_seen(stage: Stage) -> None:
    session_id = crashed(stage)
    for command in (("events", session_id), ("why", session_id), ("checkpoints", session_id)):
        stage.sm(*command)
    assert row(stage, session_id)["seen_at"] is None


def test_lists_mark_no_session_as_seen(stage: Stage) -> None:
    session_id = crashed(stage)
    for command in (("ls",), ("ls", "-a"), ("all",), ("children",), ("status",), ("digest",), ("events",)):
        stage.run(*command)
    assert row(stage, session_id)["seen_at"] is None


def test_message_to_a_completed_agent_marks_it_as_seen(stage: Stage) -> None:
    agent = stage.agent()
    stage.sm("complete", "done", env=stage.as_session(agent.id))
    assert row(stage, agent.id)["seen_at"] is None
    stage.sm("send", "--no-wait", agent.id, "one more thing")
    assert row(stage, agent.id)["seen_at"] is not None


def test_kill_of_a_completed_agent_marks_it_as_seen(stage: Stage) -> None:
    agent = stage.agent()
    stage.sm("complete", "done", env=stage.as_session(agent.id))
    stage.sm("kill", agent.id)
    killed = row(stage, agent.id)
    assert (killed["status"], killed["seen_at"] is None) == ("completed", False)


def test_looks_of_agents_mark_no_session_as_seen(stage: Stage) -> None:
    agent = stage.agent()
    child = crashed(stage, "--parent", agent.id)
    for command in ("status", "output", "tail", "log"):
        stage.run(command, child, env=stage.as_session(agent.id))
    assert row(stage, child)["seen_at"] is None


def test_agent_cannot_mark_sessions_as_seen(stage: Stage) -> None:
    agent = stage.agent()
    child = crashed(stage, "--parent", agent.id)
    for target in (child, "--all"):
        stage.refused("seen", target, exit_code=5, env=stage.as_session(agent.id))
    assert row(stage, child)["seen_at"] is None


def test_seen_names_only_sessions_that_were_not_seen_before(stage: Stage) -> None:
    first, second = crashed(stage), crashed(stage)
    assert stage.sm("seen", first) == f"Marked sh-{first} as seen\n"
    assert [s["session_id"] for s in stage.json("seen", "--all")] == [second]
    assert stage.sm("seen", "--all") == "Marked 0 sessions as seen\n"
    stage.refused("seen", exit_code=2)


def in_overview(stage: Stage, session_id: str) -> dict[str, Any] | None:
    found: list[dict[str, Any]] = stage.json("ls")
    return next((session for session in found if session["session_id"] == session_id), None)


def attention_of(stage: Stage, session_id: str) -> str | None:
    found = in_overview(stage, session_id)
    return None if found is None else str(found["attention"])


def test_failed_session_is_listed_with_its_last_words_until_it_is_seen(stage: Stage) -> None:
    session_id = crashed(stage)
    found = in_overview(stage, session_id)
    assert found is not None
    assert (found["attention"], found["task"]) == (
        "failed",
        'exit code 3: "KeyError"',
    )
    stage.sm("output", session_id)
    assert in_overview(stage, session_id) is None


def test_completed_agent_that_lives_is_listed_until_it_is_seen(stage: Stage) -> None:
    agent = stage.agent()
    stage.sm("complete", "done", env=stage.as_session(agent.id))
    assert attention_of(stage, agent.id) == "done"
    stage.sm("seen", agent.id)
    assert in_overview(stage, agent.id) is None


def test_overview_counts_what_the_operator_has_not_seen(stage: Stage) -> None:
    before = stage.json("status")["not_seen"]
    failed, agent = crashed(stage), stage.agent()
    stage.sm("complete", "done", env=stage.as_session(agent.id))
    assert stage.json("status")["not_seen"] == {"failed": before["failed"] + 1, "done": before["done"] + 1}
    assert stage.json("status", env=stage.as_session(agent.id))["not_seen"] == {"failed": 0, "done": 0}
    stage.sm("seen", failed, agent.id)
    assert stage.json("status")["not_seen"] == before


def test_children_of_a_live_agent_are_counted_in_its_row(stage: Stage) -> None:
    agent = stage.agent()
    env = stage.as_session(agent.id)
    child = stage.json("spawn", "Sh", "exit 3", env=env)["session_id"]
    until(lambda: row(stage, child)["exit_code"] == 3, "the agent has crashed")
    listed = in_overview(stage, agent.id)
    assert listed is not None
    assert (listed["children_failed"], listed["children_done"]) == (1, 0)
    assert in_overview(stage, child) is None


def test_child_is_listed_if_its_parent_ended_before_it_was_told(stage: Stage) -> None:
    agent = stage.agent()
    agent.open_dialog("Bash", {"command": "make"})  # holds all messages
    child = stage.json("spawn", "Sh", "exit 3", env=stage.as_session(agent.id))["session_id"]
    until(lambda: row(stage, child)["exit_code"] == 3, "the agent has crashed")
    assert in_overview(stage, child) is None
    stage.sm("kill", agent.id, "--force")
    assert attention_of(stage, child) == "failed"


def test_child_that_the_operator_started_is_listed(stage: Stage) -> None:
    agent = stage.agent()
    assert attention_of(stage, crashed(stage, "--parent", agent.id)) == "failed"


def test_list_begins_with_the_restore_of_agents_that_a_lost_server_ended(stage: Stage) -> None:
    lost = [stage.spawn("Sh", "sleep 1000")["session_id"] for _ in range(3)]
    stage.world.server.kill()
    until(lambda: all(row(stage, s)["status"] == "error" for s in lost), "the loss is known")
    first, _, *rows = stage.sm("ls").splitlines()
    assert first.startswith("sm restore --all  # restarts 3 sessions ")
    assert len(rows) == 3
    stage.sm("restore", "--all")
    assert "restore --all" not in stage.sm("ls")


def test_list_ends_with_the_number_of_ended_sessions_that_it_leaves_out(stage: Stage) -> None:
    first = crashed(stage)
    stage.sm("seen", first)
    stage.sm("kill", stage.spawn("Sh", "sleep 1000")["session_id"])
    assert stage.sm("ls") == "2 more: 1 failed, 1 killed (sm ls -a)\n"
    stage.spawn("Sh", "sleep 1000")
    assert stage.sm("ls").splitlines()[-1] == "2 more: 1 failed, 1 killed (sm ls -a)"
    assert "more:" not in stage.sm("ls", "-a")


def test_ids_of_the_list_are_those_of_live_agents(stage: Stage) -> None:
    crashed(stage)
    assert stage.sm("ls", "--quiet") == ""


def complete(stage: Stage, agent: Agent) -> None:
    stage.sm("complete", "done", env=stage.as_session(agent.id))
    stage.settle()


def is_seen(stage: Stage, agent: Agent) -> bool:
    return row(stage, agent.id)["seen_at"] is not None


def test_agent_that_completes_while_the_operator_is_attached_is_seen(stage: Stage) -> None:
    agent, other = stage.agent(), stage.agent()
    TmuxClient(stage, agent)
    complete(stage, agent)
    complete(stage, other)
    assert (is_seen(stage, agent), is_seen(stage, other)) == (True, False)


def test_agent_that_crashes_while_the_operator_is_attached_is_seen(stage: Stage) -> None:
    agent = stage.agent()
    TmuxClient(stage, agent)
    stage.world.kernel.signal(stage.world.programs.running[agent.id].process, signal.SIGKILL)
    stage.settle()
    assert (row(stage, agent.id)["status"], is_seen(stage, agent)) == ("error", True)


def test_agent_that_the_operator_left_before_its_end_is_not_seen(stage: Stage) -> None:
    agent = stage.agent()
    TmuxClient(stage, agent).detach()
    stage.wait(REPORTED_S)
    complete(stage, agent)
    assert not is_seen(stage, agent)


def test_agent_that_the_operator_attaches_to_after_its_end_is_seen(stage: Stage) -> None:
    agent = stage.agent()
    complete(stage, agent)
    TmuxClient(stage, agent)
    assert is_seen(stage, agent)


def test_agent_that_another_agent_watches_is_not_seen(stage: Stage) -> None:
    agent, parent = stage.agent(), stage.agent()
    client = TmuxClient(stage, agent, started_by=parent)
    complete(stage, agent)
    client.detach()
    stage.wait(REPORTED_S)
    assert not is_seen(stage, agent)


def test_agent_that_ends_while_the_daemon_is_away_is_seen_by_the_attached_operator(stage: Stage) -> None:
    agent = stage.agent()
    TmuxClient(stage, agent)
    stage.kill_daemon()
    stage.world.kernel.signal(stage.world.programs.running[agent.id].process, signal.SIGKILL)
    stage.start_daemon()
    stage.wait(REPORTED_S)
    stage.settle()
    assert (row(stage, agent.id)["status"], is_seen(stage, agent)) == ("error", True)


def test_agent_that_completes_twice_is_seen_twice(stage: Stage) -> None:
    agent = stage.agent()
    TmuxClient(stage, agent)
    complete(stage, agent)
    stage.wait(REPORTED_S)
    agent.send_event("UserPromptSubmit", prompt="more")
    stage.settle()
    assert row(stage, agent.id)["status"] == "idle"
    stage.wait(REPORTED_S)
    complete(stage, agent)
    assert is_seen(stage, agent)
