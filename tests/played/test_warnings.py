"""Warnings through the real command: told once, ended by themselves, kept over a crash of the daemon. Played claude."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fixtures import context_fixture
from tests.played_agent import Agent
from tests.sim.stage import BOX, Stage, until

SETTINGS = """
child_agents:
  auto_complete: {completion_quiet_s: 0.2, remind_after_s: [1]}
daemon: {ignore_evidence: [screen, title]}
"""

stage = context_fixture("function", Stage, SETTINGS, BOX)


@pytest.fixture
def agent(stage: Stage) -> Agent:
    agent = stage.agent("Plain")
    agent.send_event("UserPromptSubmit", prompt="work", prompt_id=f"{agent.id}-1")
    stage.in_status(agent.id, "running")
    return agent


def call(
    agent: Agent, number: int, command: str = "make", error: str | None = "no rule", text: str = "ok"
) -> None:
    """Let the agent call Bash, and write the result."""
    id = f"toolu_{agent.id}_{number}"
    use = {"type": "tool_use", "id": id, "name": "Bash", "input": {"command": command}}
    agent.write_message({"role": "assistant", "content": [use]})
    agent.write_tool_result(id, text if error is None else error, is_error=error is not None)


def warnings(stage: Stage, agent: Agent) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = stage.json("events", agent.id, "--type", "warning")
    return [event["metadata"] for event in events if "kind" in event["metadata"]]


def nudges(stage: Stage, agent: Agent) -> list[str]:
    return [text for text in stage.messages(agent) if "repeat yourself" in text]


def inbox(stage: Stage, agent: Agent) -> int:
    """The number of notices about the agent in the operator's inbox."""
    return str(stage.json("log")).count(f"({agent.id}) repeats itself")


def test_agent_that_fails_again_and_again_is_told_first_and_then_the_operator(
    stage: Stage, agent: Agent
) -> None:
    call(agent, 1)
    call(agent, 2)
    assert stage.session(agent.id)["warnings"] == []
    call(agent, 3)
    until(lambda: stage.session(agent.id)["warnings"], "the loop is found")
    (found,) = stage.session(agent.id)["warnings"]
    assert (found["kind"], found["value"], found["limit"]) == ("loop", 3, 3)
    assert found["evidence"] == "Bash: make failed 3 times with: no rule"
    assert len(nudges(stage, agent)) == 1
    call(agent, 4)
    call(agent, 5)
    call(agent, 6)
    until(lambda: inbox(stage, agent) == 1, "the operator is told")
    call(agent, 7)
    assert len(nudges(stage, agent)) == 1
    call(agent, 8, "make all", error=None)
    until(lambda: not stage.session(agent.id)["warnings"], "the loop has ended")
    assert [w["ended"] for w in warnings(stage, agent)] == [False, True]


def test_commands_work_on_a_session_with_an_open_warning(stage: Stage, agent: Agent) -> None:
    for number in range(1, 4):
        call(agent, number)
    until(lambda: stage.session(agent.id)["warnings"], "the loop is found")
    parent = stage.spawn("Sh", "exec sleep 1000")["session_id"]
    for command in ("interrupt",), ("rename", "loops"), ("reparent", parent), ("pause",), ("resume",):
        done = stage.run(command[0], agent.id, *command[1:])
        assert (done.returncode, done.stderr) == (0, ""), done
    as_agent = stage.as_session(agent.id)
    assert stage.run("complete", "done", env=as_agent).stderr == ""
    stage.sm("kill", parent)


def test_loop_is_told_once_although_the_daemon_is_killed(stage: Stage, agent: Agent) -> None:
    for number in range(1, 4):
        call(agent, number)
        stage.restart()
    until(lambda: stage.session(agent.id)["warnings"], "the loop is found")
    for number in range(4, 7):
        call(agent, number)
        stage.restart()
    until(lambda: inbox(stage, agent) == 1, "the operator is told")
    call(agent, 7)
    assert [w["ended"] for w in warnings(stage, agent)] == [False]
    assert len(nudges(stage, agent)) == 1
    assert inbox(stage, agent) == 1


def test_loop_that_ends_may_come_again(stage: Stage, agent: Agent) -> None:
    for number in (1, 2, 3):
        call(agent, number)
    call(agent, 4, "ls", error=None)
    for number in (5, 6, 7):
        call(agent, number)
    until(lambda: len(warnings(stage, agent)) == 3, "the loop is found again")
    assert [w["ended"] for w in warnings(stage, agent)] == [False, True, False]


def test_end_of_the_turn_ends_a_loop(stage: Stage, agent: Agent) -> None:
    for number in (1, 2, 3):
        call(agent, number)
    agent.send_event("Stop", last_assistant_message="I give up.")
    stage.in_status(agent.id, "idle")
    until(lambda: not stage.session(agent.id)["warnings"], "the loop has ended")
    assert inbox(stage, agent) == 0


@pytest.mark.parametrize("command", ["sleep 1; make", "sm wait 1a2b3c4d"])
def test_poll_that_waits_is_no_loop(stage: Stage, agent: Agent, command: str) -> None:
    for number in range(1, 8):
        call(agent, number, command)
    assert stage.session(agent.id)["warnings"] == []


def test_equal_calls_with_equal_results_are_a_loop_and_changing_results_are_none(
    stage: Stage, agent: Agent
) -> None:
    for number in range(1, 8):
        call(agent, number, "git status", error=None, text=f"{number} files")
    assert warnings(stage, agent) == []
    for number in range(8, 13):
        call(agent, number, "git status", error=None)
    until(lambda: stage.session(agent.id)["warnings"], "the loop is found")
    assert "git status was called 5 times" in stage.session(agent.id)["warnings"][0]["evidence"]


def test_paused_agent_is_not_warned_of(stage: Stage, agent: Agent) -> None:
    stage.sm("pause", agent.id, "--soft")  # else the process that plays the agent would be frozen
    for number in range(1, 8):
        call(agent, number)
    assert stage.session(agent.id)["warnings"] == []
    assert nudges(stage, agent) == []


def test_full_context_is_told_and_ends_with_a_compaction(stage: Stage, agent: Agent) -> None:
    def use(number: int, tokens: int) -> None:
        usage = {"input_tokens": tokens, "output_tokens": 0}
        message = {"id": f"m{number}", "role": "assistant", "model": "claude-haiku-4-5", "content": []}
        agent.write_message(message | {"usage": usage})

    use(1, 150_000)
    assert stage.session(agent.id)["warnings"] == []
    use(2, 180_000)
    until(lambda: stage.session(agent.id)["warnings"], "the context is full")
    (found,) = stage.session(agent.id)["warnings"]
    assert (found["kind"], found["value"], found["limit"]) == ("context", 90, 85)
    use(3, 185_000)
    use(4, 20_000)
    until(lambda: not stage.session(agent.id)["warnings"], "the warning has ended")
    assert [(w["kind"], w["ended"]) for w in warnings(stage, agent)] == [
        ("context", False),
        ("context", True),
    ]


def test_open_warnings_are_counted_and_shown(stage: Stage, agent: Agent) -> None:
    before = stage.json("status")["warnings"]
    for number in (1, 2, 3):
        call(agent, number)
    until(lambda: stage.session(agent.id)["warnings"], "the loop is found")
    assert stage.json("status")["warnings"] == before + 1
    assert "Warnings:     " in stage.sm("status")
    shown = stage.sm("status", agent.id)
    assert re.search(r"Warnings: +loop, \S+ ago: Bash: make failed 3 times with: no rule", shown)
    (row,) = [s for s in stage.json("all") if s["session_id"] == agent.id]
    assert [w["kind"] for w in row["warnings"]] == ["loop"]


# Rules that look at the time. The first look is 5 s after work has begun.

TIMED = """
daemon: {ignore_evidence: [screen, title]}
warnings:
  no_progress: {after: 1, tool_after: 1}
  unanswered: {after: 1}
  memory: {limit: 1}
  silent: {do: off}
"""

timed = context_fixture("function", Stage, TIMED, BOX)


@pytest.fixture
def worker(timed: Stage) -> Iterator[Agent]:
    agent = timed.agent("Plain")
    agent.send_event("UserPromptSubmit", prompt="work", prompt_id=f"{agent.id}-1")
    timed.in_status(agent.id, "running")
    yield agent
    timed.run("kill", agent.id)  # a test may have killed it


def kinds(stage: Stage, session_id: str) -> set[str]:
    return {w["kind"] for w in stage.session(session_id)["warnings"]}


def times_told(stage: Stage, session_id: str, words: str) -> int:
    return str(stage.json("log")).count(f"({session_id}) {words}")


def test_working_agent_without_progress_is_told_once_over_a_crash_and_ends_with_the_turn(
    timed: Stage, worker: Agent
) -> None:
    timed.restart()
    until(lambda: "no_progress" in kinds(timed, worker.id), "no progress is found")
    timed.restart()
    until(lambda: times_told(timed, worker.id, "makes no progress") == 1, "the operator is told")
    worker.send_event("Stop", last_assistant_message="Reading on.")
    timed.in_status(worker.id, "idle")
    until(lambda: "no_progress" not in kinds(timed, worker.id), "the warning has ended")
    found = [w["ended"] for w in warnings(timed, worker) if w["kind"] == "no_progress"]
    assert found == [False, True]
    assert times_told(timed, worker.id, "makes no progress") == 1


def test_long_tool_is_named(timed: Stage, worker: Agent) -> None:
    use = {"type": "tool_use", "id": "toolu_long", "name": "Bash", "input": {"command": "make world"}}
    worker.write_message({"role": "assistant", "content": [use]})
    until(lambda: "no_progress" in kinds(timed, worker.id), "no progress is found")
    (found,) = [w for w in timed.session(worker.id)["warnings"] if w["kind"] == "no_progress"]
    assert found["evidence"].startswith("Bash: make world has been running for ")


def test_memory_of_the_processes_is_told(timed: Stage, worker: Agent) -> None:
    until(lambda: "memory" in kinds(timed, worker.id), "the memory is found")
    worker.send_event("Stop", last_assistant_message="Reading on.")
    timed.in_status(worker.id, "idle")
    assert "memory" in kinds(timed, worker.id)
    timed.sm("kill", worker.id)
    assert timed.session(worker.id)["warnings"] == []
    assert "memory" in {w["kind"] for w in warnings(timed, worker) if w["ended"]}


def test_program_that_prints_nothing_makes_no_progress(timed: Stage) -> None:
    session = timed.spawn("Sh", "sleep 1000")
    until(lambda: "no_progress" in kinds(timed, session["session_id"]), "no progress is found")
    timed.sm("kill", session["session_id"])


def test_open_request_is_told_once_over_a_crash_and_its_answer_ends_the_warning(
    timed: Stage, worker: Agent
) -> None:
    dialog = worker.open_dialog("Bash", {"command": "make"})
    timed.restart()
    until(lambda: "unanswered" in kinds(timed, worker.id), "the request is open for long")
    (found,) = [w for w in timed.session(worker.id)["warnings"] if w["kind"] == "unanswered"]
    assert dialog.name in found["evidence"]
    until(lambda: times_told(timed, worker.id, "waits for an answer") == 1, "the operator is told")
    dialog = worker.open_dialog("Bash", {"command": "make again"})
    assert "unanswered" in kinds(timed, worker.id)


def test_answer_ends_the_warning_of_its_request_and_the_next_request_is_watched(
    timed: Stage, worker: Agent
) -> None:
    first = worker.open_dialog("Bash", {"command": "make"})
    second = worker.open_dialog("Bash", {"command": "make all"})
    until(lambda: "unanswered" in kinds(timed, worker.id), "the request is open for long")
    worker.end_tool(first)  # a person has answered in the terminal

    def named() -> list[str]:
        return [w["evidence"].split()[1] for w in warnings(timed, worker) if w["kind"] == "unanswered"]

    until(lambda: named() == [first.name, first.name, second.name], "the next request is open for long")


# What follows

ACTS = """
daemon: {ignore_evidence: [screen, title]}
warnings:
  loop: {do: pause}
  context: {do: "off"}
  no_progress: {after: 1, do: off}
  memory: {limit: 1, do: nudge}
notify: {webhooks: [{url: "http://127.0.0.1:9/x", events: [warning]}]}
"""

acts = context_fixture("function", Stage, ACTS, BOX)


def test_loop_pauses_the_session(acts: Stage) -> None:
    agent = acts.agent("Plain")
    agent.send_event("UserPromptSubmit", prompt="work", prompt_id="p1")
    acts.in_status(agent.id, "running")
    for number in (1, 2, 3):
        call(agent, number)
    until(lambda: acts.session(agent.id)["paused"], "the session is paused")
    paused = acts.session(agent.id)["paused"]
    assert (paused["by"], paused["reason"]) == ("sm", "warning loop: Bash: make failed 3 times with: no rule")
    agent.write_interruption()
    acts.in_status(agent.id, "idle")
    until(lambda: inbox(acts, agent) == 1, "the operator is told")
    assert f"go on with: sm resume {agent.id}" in str(acts.json("log"))
    assert nudges(acts, agent) == []
    assert kinds(acts, agent.id) == {"loop"}  # it shows why the session is paused
    acts.sm("resume", agent.id)
    assert kinds(acts, agent.id) == set()


def test_memory_is_told_to_the_agent_first_and_rules_that_are_off_do_nothing(acts: Stage) -> None:
    agent = acts.agent("Plain")
    agent.send_event("UserPromptSubmit", prompt="work", prompt_id="p2")
    acts.in_status(agent.id, "running")
    until(lambda: "use much memory" in str(acts.messages(agent)), "the agent is told")
    assert [w["kind"] for w in warnings(acts, agent)] == ["memory"]
    assert times_told(acts, agent.id, "uses much memory") == 0
