"""Budgets through the real command: what they count, whom they stop, and what lets the sessions go on.

The test plays the hooks and the transcripts of agents.
"""

import itertools
import json
import sqlite3
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

from tests.fixtures import context_fixture
from tests.played_agent import Agent
from tests.sim.stage import BOX, Stage, until

SETTINGS = """
child_agents:
  auto_complete: {completion_quiet_s: 0.2}
budgets: {grace_s: 0.2}
daemon: {ignore_evidence: [screen, title]}
"""
MODEL = "claude-haiku-4-5"
DOLLAR = 200_000
"""Output tokens of MODEL for one US dollar."""

stage = context_fixture("function", Stage, SETTINGS, BOX)
pausing = context_fixture(
    "function",
    Stage,
    SETTINGS.replace("{grace_s: 0.2}", "{grace_s: 0.2, on_limit: pause}"),
    BOX,
)
telling = context_fixture("function", Stage, SETTINGS.replace("{grace_s: 0.2}", "{on_limit: notice}"), BOX)
killing = context_fixture(
    "function",
    Stage,
    SETTINGS.replace("{grace_s: 0.2}", "{grace_s: 0, on_limit: kill}"),
    BOX,
)
daily = context_fixture(
    "function",
    Stage,
    SETTINGS.replace("{grace_s: 0.2}", "{grace_s: 0, daily_usd: 3, default: minutes=600}"),
    BOX,
)
numbers = itertools.count(1)


def message(input: int = 0, output: int = 0, model: str = MODEL, id: str | None = None) -> dict[str, Any]:
    usage = {"input_tokens": input, "output_tokens": output}
    name = f"msg_{next(numbers)}" if id is None else id
    return {"id": name, "model": model, "role": "assistant", "content": [], "usage": usage}


def spend(agent: Agent, dollars: float) -> None:
    """Write a message of the model with that cost, and wait until it is counted."""
    before = cost(agent)
    agent.write_message(message(output=round(dollars * DOLLAR)))
    until(lambda: cost(agent) == pytest.approx(before + dollars), "the cost is counted")


def spend_to_the_limit(agent: Agent, dollars: float) -> None:
    """As `spend`, without a wait: the session may end."""
    agent.write_message(message(output=round(dollars * DOLLAR)))
    until(lambda: agent.stage.json("progress", agent.id)["tokens_used"], "the usage is counted")


def cost(agent: Agent) -> float:
    return float(agent.stage.json("progress", agent.id)["cost_usd"] or 0)


def begin_turn(agent: Agent) -> None:
    agent.send_event("UserPromptSubmit", prompt="work", prompt_id=f"p{next(numbers)}")


def at_work(stage: Stage, *arguments: str, **options: Any) -> Agent:
    """An agent that has begun a turn."""
    agent = stage.agent("Plain", *arguments, **options)
    begin_turn(agent)
    return agent


def orphan_of(stage: Stage, state: str, budget: str) -> tuple[Agent, Agent]:
    """An agent that has ended with its budget in that state, and its child, which has spent one dollar of it."""
    top = at_work(stage, "--budget", budget)
    child = at_work(stage, "--parent", top.id)
    spend(child, 1)
    in_state(stage, top.id, state)
    stage.sm("kill", top.id)
    until(lambda: stage.session(child.id)["parent_session_id"] is None, "the child is adopted")
    return top, child


def budget_of(stage: Stage, session_id: str) -> Any:
    return stage.json("budget", session_id)["budget"]


def in_state(stage: Stage, session_id: str, state: str) -> Any:
    def look() -> Any:
        budget = budget_of(stage, session_id)
        return budget if budget is not None and budget["state"] == state else None

    return until(look, f"the budget is {state}")


def paused(stage: Stage, session_id: str) -> Any:
    return stage.session(session_id)["paused"]


def requests_of(stage: Stage, session_id: str) -> list[dict[str, Any]]:
    return [r for r in stage.json("requests") if r["session_id"] == session_id]


def last_budget_event(stage: Stage, session_id: str) -> dict[str, Any]:
    return [e for e in stage.events(session_id) if e["type"] == "budget"][-1]


def hint_of(error: str) -> str:
    return error.rpartition("hint: ")[2].strip()


def texts_to(stage: Stage, session_id: str) -> list[str]:
    return [m["text"] for m in stage.json("log", session_id) if m["session_id"] == session_id]


def test_grandchild_that_reaches_a_budget_is_paused_and_goes_on_after_an_approval(stage: Stage) -> None:
    top = at_work(stage, "--budget", "usd=5")
    child = at_work(stage, "--parent", top.id)
    grandchild = at_work(stage, "--parent", child.id)
    spend(grandchild, 5)
    stopped = in_state(stage, top.id, "stopped")
    assert (stopped["spent"]["usd"], stopped["percent"]) == (5.0, 100)
    for agent in (top, child, grandchild):
        assert paused(stage, agent.id)["reason"] == f"budget of {top.id} reached"
        assert sum("is spent. You will be stopped" in text for text in texts_to(stage, agent.id)) == 1
        agent.write_interruption()
    (request,) = requests_of(stage, top.id)
    assert (request["kind"], request["arguments"]["more"]) == ("budget", {"usd": 5.0})
    assert "no agent can start" in stage.refused("spawn", "Plain", "x", "--parent", child.id, exit_code=4)
    assert "sm approve" in stage.refused("resume", child.id, exit_code=4)
    stage.sm("approve", request["request_id"])
    assert budget_of(stage, top.id)["limits"]["usd"] == 10
    assert [paused(stage, agent.id) for agent in (top, child, grandchild)] == [None, None, None]
    assert "was answered" in stage.refused("approve", request["request_id"], exit_code=4)


def test_resume_of_a_tree_leaves_out_a_session_whose_budget_is_spent(stage: Stage) -> None:
    top = at_work(stage)
    child = at_work(stage, "--parent", top.id)
    grandchild = at_work(stage, "--parent", child.id, "--budget", "usd=1")
    spend(grandchild, 1)
    in_state(stage, grandchild.id, "stopped")
    for command in ("resume", top.id, "--tree"), ("resume", "--all"):
        stage.sm("pause", top.id, "--tree")
        done = stage.run(*command)
        assert done.returncode == 0
        assert "is paused because a budget is spent: raise the budget to let it go on (sm app" in done.stderr
        assert [paused(stage, agent.id) for agent in (top, child)] == [None, None]
        assert paused(stage, grandchild.id)["reason"] == f"budget of {grandchild.id} reached"
    stage.sm("pause", grandchild.id, "--for", "1h")
    assert "sm approve" in stage.refused("resume", grandchild.id, "--tree", exit_code=4)
    (request,) = requests_of(stage, grandchild.id)
    stage.sm("approve", request["request_id"])
    assert paused(stage, grandchild.id) is None


def test_session_that_moves_below_a_spent_budget_is_stopped(stage: Stage) -> None:
    top = at_work(stage, "--budget", "usd=1")
    spend(top, 1)
    in_state(stage, top.id, "stopped")
    moved = at_work(stage)
    child = at_work(stage, "--parent", moved.id)
    stage.sm("reparent", moved.id, top.id)
    for agent in (moved, child):
        assert paused(stage, agent.id)["reason"] == f"budget of {top.id} reached"
    (request,) = requests_of(stage, top.id)
    stage.sm("approve", request["request_id"])
    assert [paused(stage, agent.id) for agent in (top, moved, child)] == [None, None, None]


def test_spent_budget_lets_nobody_fork_its_sessions(stage: Stage) -> None:
    top, child = orphan_of(stage, "stopped", "usd=1")
    for original in (top, child):
        assert "no agent can start" in stage.refused("fork", original.id, exit_code=4)


def test_fork_of_a_session_stays_bound_by_the_budget_of_its_ended_parent(stage: Stage) -> None:
    top, child = orphan_of(stage, "ok", "usd=5")
    fork = stage.json("fork", child.id)["session_id"]
    assert [entry["session_id"] for entry in stage.json("budget", fork)["above"]] == [top.id]


def test_removal_of_a_session_closes_its_request(stage: Stage) -> None:
    top, child = orphan_of(stage, "stopped", "usd=1")
    (request,) = requests_of(stage, top.id)
    stage.sm("reparent", child.id, at_work(stage).id)
    closed = stage.json("requests", request["request_id"])
    assert (closed["state"], closed["reason"]) == ("cancelled", f"{child.id} was moved")
    stage.sm("rm", top.id)
    stage.sm("resume", child.id)
    assert paused(stage, child.id) is None


# What a budget counts


def test_usage_of_a_message_counts_once_and_never_shrinks(stage: Stage) -> None:
    agent = at_work(stage, "--budget", "usd=100,tokens=1M")
    agent.write_message(message(100, 10, id="same"))
    agent.write_message(message(100, 400, id="same"))
    agent.write_message(message(0, 400, id="same"))
    agent.write_message(message(-5, 10**30, id="absurd"))
    agent.write_message(message(1, 0, id="last"))
    until(lambda: budget_of(stage, agent.id)["spent"]["tokens"] == 501, "the tokens are counted")


def test_usage_counts_after_the_clock_was_set_back(stage: Stage) -> None:
    agent = stage.agent("Plain", "--budget", "usd=1")
    with closing(sqlite3.connect(stage.state / "sm.db")) as db:
        ((launch,),) = db.execute("SELECT launch FROM sessions WHERE id = ?", (agent.id,)).fetchall()
    argv = json.loads(launch)["argv"]
    begun = argv[argv.index("--session-id") + 1]
    agent.transcript = agent.transcript.with_name(f"{begun}.jsonl")
    agent.send_event("UserPromptSubmit", prompt="work", prompt_id="p", session_id=begun)
    agent.write_message(message(output=DOLLAR), stage.now() - timedelta(hours=2))
    assert in_state(stage, agent.id, "stopped")["spent"]["usd"] == 1


def test_spending_of_a_child_counts_after_its_end_its_removal_and_a_move(stage: Stage) -> None:
    top = at_work(stage, "--budget", "usd=100")
    child = at_work(stage, "--parent", top.id)
    spend(child, 2)
    stage.sm("kill", child.id)
    stage.sm("rm", child.id)
    moved = at_work(stage, "--parent", top.id)
    spend(moved, 1)
    until(lambda: budget_of(stage, top.id)["spent"]["usd"] == 3, "the cost is counted")


def test_budget_of_a_running_session_begins_with_what_was_spent(stage: Stage) -> None:
    top = at_work(stage)
    child = at_work(stage, "--parent", top.id)
    spend(top, 1)
    spend(child, 2)
    answer = stage.run("budget", top.id, "--set", "usd=2")
    assert "it binds at once" in answer.stderr
    stopped = in_state(stage, top.id, "stopped")
    assert stopped["spent"]["usd"] == 3
    assert paused(stage, child.id)["reason"] == f"budget of {top.id} reached"
    assert requests_of(stage, top.id)[0]["arguments"]["more"] == {"usd": 2}


def test_new_budget_counts_removed_and_adopted_sessions(stage: Stage) -> None:
    top = at_work(stage)
    removed = at_work(stage, "--parent", top.id)
    spend(removed, 2)
    stage.sm("kill", removed.id)
    stage.sm("rm", removed.id)
    stage.sm("budget", top.id, "--set", "usd=10")
    assert budget_of(stage, top.id)["spent"]["usd"] == 2
    child = at_work(stage, "--parent", top.id)
    spend(child, 3)
    stage.sm("kill", top.id)
    until(lambda: stage.session(child.id)["parent_session_id"] is None, "the child is adopted")
    stage.sm("budget", top.id, "--set", "none")
    stage.sm("budget", top.id, "--set", "usd=5")
    assert in_state(stage, top.id, "stopped")["spent"]["usd"] == 5
    assert paused(stage, child.id)["reason"] == f"budget of {top.id} reached"


def test_children_of_an_ended_session_stay_bound_by_its_budget(stage: Stage) -> None:
    lead = at_work(stage)
    top = at_work(stage, "--parent", lead.id, "--budget", "usd=5")
    child = at_work(stage, "--parent", top.id)
    stage.sm("kill", top.id)
    until(lambda: stage.session(child.id)["parent_session_id"] == lead.id, "the child is adopted")
    assert "has a budget that binds live sessions" in stage.refused("rm", top.id, exit_code=4)
    spend(child, 5)
    in_state(stage, top.id, "stopped")
    assert paused(stage, child.id)["reason"] == f"budget of {top.id} reached"
    assert paused(stage, lead.id) is None
    (request,) = requests_of(stage, top.id)
    stage.sm("approve", request["request_id"], "usd=1")
    assert paused(stage, child.id) is None


def test_every_ended_ancestor_with_a_budget_still_binds(stage: Stage) -> None:
    top = at_work(stage, "--budget", "usd=100")
    middle = at_work(stage, "--parent", top.id, "--budget", "usd=2")
    between = at_work(stage, "--parent", middle.id)
    child = at_work(stage, "--parent", between.id)
    for ended in (between, middle, top):
        stage.sm("kill", ended.id)
    until(lambda: stage.session(child.id)["parent_session_id"] is None, "the child is adopted")
    above = [entry["session_id"] for entry in stage.json("budget", child.id)["above"]]
    assert above == [middle.id, top.id]
    stage.sm("rm", between.id)  # it has no budget of its own
    assert [entry["session_id"] for entry in stage.json("budget", child.id)["above"]] == above
    spend(child, 2)
    in_state(stage, middle.id, "stopped")


def test_agent_cannot_free_its_children_by_moving_their_ended_parent(stage: Stage) -> None:
    top = at_work(stage, "--budget", "usd=5")
    env = stage.as_session(top.id)
    parent = at_work(stage, "--budget", "usd=1", env=env)
    child = at_work(stage, "--parent", parent.id)
    stage.sm("kill", parent.id)
    until(lambda: stage.session(child.id)["parent_session_id"] == top.id, "the child is adopted")
    stage.run("reparent", parent.id, child.id, env=env)
    assert top.id in [entry["session_id"] for entry in stage.json("budget", child.id)["above"]]
    assert "left" in stage.refused("budget", parent.id, "--set", "usd=1000", exit_code=2, env=env)


# Pauses of people


def test_approval_does_not_end_the_pause_of_a_person(stage: Stage) -> None:
    agent = at_work(stage, "--budget", "usd=1")
    spend(agent, 1)
    in_state(stage, agent.id, "stopped")
    stage.sm("pause", agent.id, "--reason", "mine")
    (request,) = requests_of(stage, agent.id)
    stage.sm("approve", request["request_id"])
    assert paused(stage, agent.id)["reason"] == "mine"
    stage.sm("resume", agent.id)
    assert paused(stage, agent.id) is None


def test_pause_whose_time_ends_while_a_budget_stops_the_session_ends_with_the_approval(stage: Stage) -> None:
    agent = at_work(stage, "--budget", "usd=1")
    stage.run("pause", agent.id, "--for", "1h", "--wait", "0")
    spend(agent, 1)
    in_state(stage, agent.id, "stopped")
    stage.kill_daemon()
    with closing(sqlite3.connect(stage.state / "sm.db")) as db, db:  # as if the hour were over
        query = "UPDATE timers SET due_at = '2026-01-01T00:00:00.000Z', within_s = NULL WHERE subject = ?"
        db.execute(f"{query} AND kind = 'resume'", (agent.id,))
    stage.start_daemon()
    until(
        lambda: paused(stage, agent.id)["reason"] == f"budget of {agent.id} reached", "the budget takes over"
    )
    (request,) = requests_of(stage, agent.id)
    stage.sm("approve", request["request_id"])
    assert paused(stage, agent.id) is None


def test_soft_pause_does_not_keep_a_budget_from_stopping_a_session(stage: Stage) -> None:
    program = stage.spawn("Sh", "sleep 1000; sleep 1001", "--budget", "minutes=1000")["session_id"]
    stage.sm("pause", program, "--soft")
    stage.sm("budget", program, "--set", "minutes=0.01")
    in_state(stage, program, "stopped")
    with closing(sqlite3.connect(stage.state / "sm.db")) as db:
        (stored,) = db.execute("SELECT paused FROM sessions WHERE id = ?", (program,)).fetchone()
    assert json.loads(stored)["soft"] is False


def test_minutes_that_were_used_up_while_no_daemon_ran_are_told(stage: Stage) -> None:
    gate = stage.work / "gate"
    script = f"while [ ! -e {gate} ]; do sleep 0.05; done"
    program = stage.spawn("Sh", script, "--budget", "minutes=1000")["session_id"]
    limit = budget_of(stage, program)["spent"]["minutes"] + 0.01
    stage.sm("budget", program, "--set", f"minutes={max(limit, 0.01):.3f}")
    stage.kill_daemon()
    gate.touch()
    until(lambda: not stage.lives(stage_pid(stage, program)), "the program has ended")
    with closing(sqlite3.connect(stage.state / "sm.db")) as db, db:  # as if it had worked for long
        db.execute("UPDATE sessions SET working_since = '2026-01-01T00:00:00.000Z' WHERE id = ?", (program,))
    stage.start_daemon()
    in_state(stage, program, "stopped")


def stage_pid(stage: Stage, session_id: str) -> int:
    with closing(sqlite3.connect(stage.state / "sm.db")) as db:
        (pid,) = db.execute("SELECT pid FROM sessions WHERE id = ?", (session_id,)).fetchone()
    return int(pid)


def test_unknown_price_is_reported_and_tokens_still_bind(stage: Stage) -> None:
    spawned = stage.run(
        "spawn", "Plain", "work", "--model", "mystery-1", "--budget", "usd=1,tokens=1000", "--json"
    )
    assert "the price of model mystery-1 is unknown" in spawned.stdout
    agent = at_work(stage, "--budget", "usd=1,tokens=1000")
    agent.write_message(message(500, 100, model="mystery-1"))
    until(lambda: budget_of(stage, agent.id)["unpriced_tokens"] == 600, "the usage is counted")
    assert "without a known price do not count" in stage.run("budget", agent.id).stderr
    agent.write_message(message(500, 100, model="mystery-1"))
    in_state(stage, agent.id, "stopped")


def test_minutes_are_spent_by_all_sessions_at_work(stage: Stage) -> None:
    top = at_work(stage, "--budget", "minutes=1000")
    child = at_work(stage, "--parent", top.id)
    limit = budget_of(stage, top.id)["spent"]["minutes"] + 0.03
    stage.sm("budget", top.id, "--set", f"minutes={limit:.3f}")
    stopped = in_state(stage, top.id, "stopped")
    assert stopped["spent"]["minutes"] >= round(limit, 3)
    assert paused(stage, child.id)["reason"] == f"budget of {top.id} reached"
    (request,) = requests_of(stage, top.id)
    stage.sm("approve", request["request_id"], "minutes=1000")
    assert paused(stage, child.id) is None


# What is told, and when


def test_soft_limit_is_told_once_to_the_agent_its_parent_and_the_operator(stage: Stage) -> None:
    parent = at_work(stage)
    agent = at_work(stage, "--parent", parent.id, "--budget", "usd=10")
    spend(agent, 8)
    in_state(stage, agent.id, "soft")
    spend(agent, 1)
    until(lambda: budget_of(stage, agent.id)["spent"]["usd"] == 9, "the cost is counted")
    for lowered in "usd=10", "usd=9.5":
        stage.sm("budget", "--set", lowered, env=stage.as_session(agent.id))
    assert sum("80% of your budget is spent" in text for text in texts_to(stage, agent.id)) == 1
    told = f"({agent.id}) has spent 80% of its budget"
    until(lambda: [t for t in texts_to(stage, parent.id) if told in t], "the parent is told")
    assert sum(told in text for text in texts_to(stage, parent.id)) == 1
    assert sum(told in m["text"] for m in stage.json("inbox")) == 1
    events = [e for e in stage.json("events", agent.id) if e["type"] == "budget"]
    assert [e["metadata"]["state"] for e in events] == ["soft", "soft"]
    assert [e["metadata"]["limits"]["usd"] for e in events] == [10, 9.5]


def test_message_waits_for_the_budget_but_the_order_to_report_does_not(stage: Stage) -> None:
    agent = at_work(stage, "--budget", "usd=1")
    spend(agent, 1)
    in_state(stage, agent.id, "stopped")
    agent.write_interruption()
    assert "queued" in stage.sm("send", agent.id, "hello", "--no-wait")
    held = next(m for m in stage.json("log", agent.id) if m["text"] == "hello")
    assert held["status"] == "queued"


# Other steps at the limit, and the budget of the day


def test_daemon_that_dies_after_the_limit_pauses_the_sessions_once(stage: Stage) -> None:
    agent = at_work(stage, "--budget", "usd=1")
    spend_to_the_limit(agent, 1)
    stage.kill_daemon()
    stage.run("daemon", "start")
    in_state(stage, agent.id, "stopped")
    stage.restart()
    states = [e["metadata"]["state"] for e in stage.json("events", agent.id) if e["type"] == "budget"]
    assert states == ["grace"]
    paused = [e["metadata"] for e in stage.json("events", agent.id) if e["type"] == "paused"]
    assert len([order for order in paused if "held" not in order]) == 1
    assert len(requests_of(stage, agent.id)) == 1
    assert sum("You will be stopped" in text for text in texts_to(stage, agent.id)) == 1


def test_budget_that_only_tells_stops_nobody(telling: Stage) -> None:
    agent = at_work(telling, "--budget", "usd=1")
    spend(agent, 2)
    in_state(telling, agent.id, "told")
    assert paused(telling, agent.id) is None
    assert sum("Your budget is spent" in text for text in texts_to(telling, agent.id)) == 1
    assert telling.json("requests") == []
    at_work(telling, "--parent", agent.id)


def test_budget_that_kills_ends_the_sessions_below_it(killing: Stage) -> None:
    top = at_work(killing, "--budget", "usd=1")
    child = at_work(killing, "--parent", top.id)
    bystander = at_work(killing)
    spend_to_the_limit(child, 1)
    for agent in (top, child):
        ended = killing.in_status(agent.id, "killed")
        assert ended["status_reason"] == f"budget of {top.id} reached"
    assert killing.session(bystander.id)["status"] == "running"
    assert "no agent can start" in killing.refused("restore", top.id, exit_code=4)


def test_budget_that_only_pauses_opens_no_request(pausing: Stage) -> None:
    agent = at_work(pausing, "--budget", "usd=1")
    spend(agent, 2.5)
    in_state(pausing, agent.id, "stopped")
    assert paused(pausing, agent.id)["reason"] == f"budget of {agent.id} reached"
    assert requests_of(pausing, agent.id) == []
    refused = pausing.refused("resume", agent.id, exit_code=4)
    assert hint_of(refused) == f"sm budget {agent.id} --add usd=2"  # as much as it takes
    pausing.sm(*hint_of(refused).split()[1:])
    assert paused(pausing, agent.id) is None


def test_budget_of_the_day_stops_every_session_and_asks_once(daily: Stage) -> None:
    first, second = at_work(daily), at_work(daily)
    spend(first, 1)
    report = daily.json("budget", "daily")
    assert (report["session_id"], report["budget"]["spent"]["usd"]) == (None, 1)
    daily.restart()
    assert daily.json("budget", "daily")["budget"]["spent"]["usd"] == 1
    assert daily.json("budget", second.id)["above"][0]["left"]["usd"] == 2
    assert daily.refused("budget", "daily", exit_code=5, env=daily.as_session(first.id))
    spend_to_the_limit(second, 2)
    until(lambda: daily.json("budget", "daily")["budget"]["state"] == "stopped", "the day is over budget")
    assert paused(daily, first.id)["reason"] == "budget of the day reached"
    (request,) = daily.json("requests")
    assert (request["session_id"], request["arguments"]["budget"]) == (second.id, "daily")
    assert "no agent can start" in daily.refused("spawn", "Plain", "x", exit_code=4)
    daily.sm("reparent", second.id, first.id)
    as_parent = daily.as_session(first.id)
    assert daily.refused("approve", request["request_id"], "usd=1000", exit_code=5, env=as_parent)
    daily.sm("kill", second.id)
    daily.sm("approve", request["request_id"], "usd=1")
    assert paused(daily, first.id) is None


def test_new_day_lets_the_sessions_go_on_and_closes_the_request() -> None:
    settings = SETTINGS.replace("{grace_s: 0.2}", "{grace_s: 0, daily_usd: 1}")
    with Stage(settings, BOX) as stage:
        agent = at_work(stage)
        spend(agent, 1)
        until(lambda: stage.json("budget", "daily")["budget"]["state"] == "stopped", "the day is over budget")
        (request,) = stage.json("requests")
        stage.kill_daemon()
        with closing(sqlite3.connect(stage.state / "sm.db")) as db, db:  # as if all that was yesterday
            db.execute("UPDATE usage SET at = '2020-01-01T00:00:00.000Z'")
            db.execute("UPDATE budgets SET day = '2020-01-01'")
        stage.start_daemon()
        until(lambda: paused(stage, agent.id) is None, "the session goes on")
        after = stage.json("budget", "daily")["budget"]
        assert (after["state"], after["spent"]["usd"]) == ("ok", 0)
        assert stage.json("requests", request["request_id"])["state"] == "cancelled"


def test_request_for_the_day_moves_to_another_session_when_its_session_is_removed() -> None:
    settings = SETTINGS.replace("{grace_s: 0.2}", "{grace_s: 0, daily_usd: 1}")
    with Stage(settings, BOX) as stage:
        first, other = at_work(stage), at_work(stage)
        spend(first, 1)
        until(lambda: stage.json("budget", "daily")["budget"]["state"] == "stopped", "the day is over budget")
        stage.sm("kill", first.id)
        (request,) = requests_of(stage, first.id)
        stage.sm("rm", first.id)
        (again,) = stage.json("requests")
        assert (again["session_id"], again["arguments"]) == (other.id, request["arguments"])
        stage.sm("approve", again["request_id"])
        assert paused(stage, other.id) is None
        assert stage.json("requests", request["request_id"])["state"] == "cancelled"


def test_default_budget_applies_once_in_a_tree_and_is_lowered_to_what_is_left(daily: Stage) -> None:
    daily.sm("budget", "daily", "--set", "usd=100")
    spawned = daily.json("spawn", "Limited", "work")
    assert spawned["budget"]["limits"]["usd"] == 50
    lowered = daily.run(
        "spawn", "Limited", "x", "--parent", spawned["session_id"], "--budget", "usd=7", "--json"
    )
    child = daily.json("spawn", "Limited", "x", "--parent", json.loads(lowered.stdout)["session_id"])
    assert child["budget"]["limits"]["usd"] == 7
    assert any("was lowered to what is left above: usd=7" in warning for warning in child["warnings"])
    assert daily.json("spawn", "Sh", "sleep 1000")["budget"]["limits"] == {
        "usd": None,
        "tokens": None,
        "minutes": 600,
    }
    assert daily.json("spawn", "Sh", "sleep 1000", "--parent", child["session_id"])["budget"] is None


# Changes


def test_invalid_budget_is_refused(stage: Stage) -> None:
    for text, words in (
        ("usd=0", "not between"),
        ("usd=-1", "not a positive number"),
        ("usd=nan", "not a positive number"),
        ("usd=inf", "not a positive number"),
        ("usd=1e400", "not a positive number"),
        ("usd=99999999999", "not between"),
        ("tokens=1.5", "not a whole number"),
        ("hours=3", "not one of"),
        ("usd=1,usd=2", "named twice"),
        ("", "not one of"),
    ):
        assert words in stage.refused("spawn", "Plain", "x", "--budget", text, exit_code=2), text


def test_budget_needs_a_session_outside_of_one(stage: Stage) -> None:
    assert "give a SESSION, or daily" in stage.refused("budget", exit_code=2)


def test_budget_of_a_child_is_at_most_what_is_left_above(stage: Stage) -> None:
    top = at_work(stage, "--budget", "usd=5")
    spend(top, 1)
    until(lambda: budget_of(stage, top.id)["spent"]["usd"] == 1, "the cost is counted")
    env = stage.as_session(top.id)
    refusal = stage.refused("spawn", "Plain", "x", "--budget", "usd=5", exit_code=2, env=env)
    assert "usd=4 left" in refusal
    child = at_work(stage, "--budget", "usd=4", env=env)
    refusal = stage.refused("budget", child.id, "--set", "usd=4.5", exit_code=2, env=env)
    assert "usd=4 left" in refusal
    stage.sm("budget", child.id, "--set", "usd=3", env=env)
    refusal = stage.refused("budget", child.id, "--add", "usd=2", exit_code=2, env=env)
    assert hint_of(refusal) == f"sm budget {child.id} --add usd=1"
    stage.sm(*hint_of(refusal).split()[1:], env=env)
    assert budget_of(stage, child.id)["limits"]["usd"] == 4
    report = stage.json("budget", child.id, env=stage.as_session(child.id))
    assert report["above"][0]["left"]["usd"] == 4
    assert "limits" not in report["above"][0]


def test_session_lowers_its_own_budget_and_never_raises_it(stage: Stage) -> None:
    agent = at_work(stage, "--budget", "usd=5,tokens=1M")
    env = stage.as_session(agent.id)
    for change in (("--add", "usd=1"), ("--set", "usd=6"), ("--set", "none"), ("--set", "tokens=none")):
        assert "cannot raise" in stage.refused("budget", agent.id, *change, exit_code=5, env=env)
    stage.sm("budget", agent.id, "--set", "usd=4,minutes=9", env=env)
    assert budget_of(stage, agent.id)["limits"] == {"usd": 4, "tokens": 1_000_000, "minutes": 9}
    other = at_work(stage, "--budget", "usd=5")
    assert stage.refused("budget", other.id, exit_code=5, env=env)
    assert stage.session(other.id)["budget"]["limits"]["usd"] == 5


def test_approval_adds_at_most_what_is_left_above(stage: Stage) -> None:
    top = at_work(stage, "--budget", "usd=10")
    env = stage.as_session(top.id)
    child = at_work(stage, "--budget", "usd=2", env=env)
    spend(child, 2)
    in_state(stage, child.id, "stopped")
    (request,) = requests_of(stage, child.id)
    name = request["request_id"]
    for person in None, env:
        refusal = stage.refused("approve", name, "usd=9", exit_code=2, env=person)
        assert "usd=10 left" in refusal
        assert hint_of(refusal) == f"sm approve {name} 'usd=8'"
    assert "was answered" not in stage.sm("approve", name, "usd=8", env=env)
    assert budget_of(stage, child.id)["limits"]["usd"] == 10


def test_two_approvals_at_the_same_time_add_once(stage: Stage) -> None:
    top = at_work(stage, "--budget", "usd=10")
    env = stage.as_session(top.id)
    child = at_work(stage, "--budget", "usd=2", env=env)
    spend(child, 2)
    in_state(stage, child.id, "stopped")
    (request,) = requests_of(stage, child.id)
    approval = (f"/v1/requests/{request['request_id']}/answer", {"approved": True, "message": "usd=3"})
    refusals = stage.post_together((env, *approval), (None, *approval))
    assert sorted(0 if error is None else error.exit_code for error in refusals) == [0, 4]
    assert budget_of(stage, child.id)["limits"]["usd"] == 5
    assert paused(stage, child.id) is None


def test_rejected_request_leaves_the_sessions_paused_until_the_budget_is_raised(stage: Stage) -> None:
    agent = at_work(stage, "--budget", "usd=1")
    spend(agent, 1.5)
    in_state(stage, agent.id, "stopped")
    (request,) = requests_of(stage, agent.id)
    assert "add more" in stage.refused("approve", request["request_id"], "usd=0.25", exit_code=2)
    stage.sm("reject", request["request_id"])
    assert paused(stage, agent.id) is not None
    hint = hint_of(stage.refused("resume", agent.id, exit_code=4))
    assert hint == f"sm budget {agent.id} --add usd=1"
    stage.sm("budget", agent.id, "--add", "usd=1")
    assert paused(stage, agent.id) is None


def test_change_of_the_budget_closes_its_request(stage: Stage) -> None:
    agent = at_work(stage, "--budget", "usd=1")
    spend(agent, 1)
    in_state(stage, agent.id, "stopped")
    (request,) = requests_of(stage, agent.id)
    stage.sm("budget", agent.id, "--set", "usd=0.5")
    told = last_budget_event(stage, agent.id)
    assert (told["metadata"]["state"], told["metadata"]["limits"]) == ("stopped", {"usd": 0.5})
    assert told["message"].endswith("has a new budget, set by operator: usd 1 of 0.5")
    (changed,) = requests_of(stage, agent.id)
    assert changed["request_id"] == request["request_id"]
    assert (request["arguments"]["more"], changed["arguments"]["more"]) == ({"usd": 1}, {"usd": 1})
    assert changed["arguments"]["limits"] == {"usd": 0.5}
    stage.sm("budget", agent.id, "--set", "none")
    told = last_budget_event(stage, agent.id)
    assert told["metadata"]["state"] == "ended"
    assert told["message"].endswith("has no budget any more, ended by operator: usd 1 of 0.5")
    assert paused(stage, agent.id) is None
    assert stage.json("requests", request["request_id"])["state"] == "cancelled"
    assert stage.session(agent.id)["budget"] is None
