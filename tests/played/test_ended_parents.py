"""Notices for a parent that has ended while its process runs: they open nothing, and reach somebody else."""

import asyncio
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures import context_fixture
from tests.played_agent import Agent
from tests.sim.programs import Running
from tests.sim.stage import BOX, Stage, until

SETTINGS = """
child_agents: {auto_complete: {completion_quiet_s: 1000, idle_timeout: 1000}}
daemon: {ignore_evidence: [screen, title]}
"""

stage = context_fixture("function", Stage, SETTINGS, BOX)
abandoning = context_fixture("function", Stage, "child_agents: {on_parent_end: abandon}", BOX)


async def slow_to_end(program: Running) -> int:
    """Take a second for the end after SIGTERM."""
    ending = asyncio.Event()
    program.process.handlers[signal.SIGTERM] = ending.set
    await ending.wait()
    await asyncio.sleep(1)
    return 143


def child_of(stage: Stage, parent: str) -> tuple[str, Path]:
    """A child that ends when the file exists."""
    go = stage.work / f"go-{parent}"
    program = f"while [ ! -e {go} ]; do sleep 0.05; done"
    return stage.spawn("Sh", program, "--parent", parent)["session_id"], go


def recipients(stage: Stage, child: str) -> list[str | None]:
    """To whom the end of the child is told."""
    with closing(sqlite3.connect(stage.state / "sm.db")) as db:
        rows = db.execute(
            "SELECT recipient FROM notices WHERE session_id = ? AND kind = 'ending' AND state <> 'pending'",
            (child,),
        ).fetchall()
    return [row[0] for row in rows]


def told(stage: Stage, child: str) -> list[str | None]:
    return until(lambda: recipients(stage, child), "the end of the child is told")


def unread(stage: Stage, session_id: str) -> list[dict[str, Any]]:
    log = stage.json("log", session_id)
    return [m for m in log if m["from"] == "sm" and m["status"] == "expired"]


def work_events(stage: Stage, session_id: str) -> list[str]:
    moves = ("completed", "reopened", "running", "idle")
    own = [e["type"] for e in stage.events(session_id) if e["session_id"] == session_id]
    return [type for type in own[own.index("completed") :] if type in moves]


def finish(stage: Stage, agent: Agent) -> None:
    stage.sm("complete", "my result", env=stage.as_session(agent.id))


def idle(stage: Stage) -> Agent:
    agent = stage.agent()
    agent.send_event("UserPromptSubmit", prompt="go on", prompt_id="p1")
    agent.send_event("Stop", last_assistant_message="I wait.")
    return agent


@pytest.mark.parametrize("grandparent", [False, True])
def test_parent_that_has_completed_stays_completed_when_its_child_ends(
    stage: Stage, grandparent: bool
) -> None:
    above = stage.spawn("Sh", "sleep 1000")["session_id"] if grandparent else None
    parent = stage.agent("Plain", *(() if above is None else ("--parent", above)))
    child, go = child_of(stage, parent.id)
    finish(stage, parent)
    go.touch()
    assert told(stage, child) == [above]
    (left,) = unread(stage, parent.id)
    assert (child in left["text"], "has ended (completed)" in left["reason"]) == (True, True)
    session = stage.session(parent.id)
    assert (session["status"], session["completion_message"]) == ("completed", "my result")
    assert work_events(stage, parent.id) == ["completed"]


def test_notice_that_waits_when_its_recipient_completes_is_passed_on(stage: Stage) -> None:
    parent = stage.agent()
    child, go = child_of(stage, parent.id)
    dialog = parent.open_dialog("Bash", {"command": "make"})  # holds all messages
    go.touch()
    until(lambda: [m for m in stage.json("log", parent.id) if child in m["text"]], "the notice is a message")
    finish(stage, parent)
    parent.end_tool(dialog)
    assert told(stage, child) == [None]
    assert [child in m["text"] for m in unread(stage, parent.id)] == [True]
    assert work_events(stage, parent.id) == ["completed"]


def test_notice_in_the_queue_of_an_agent_does_not_open_its_session_again(stage: Stage) -> None:
    """Claude keeps a message that is typed while it works, and reads the message after the turn."""
    parent = stage.agent()
    child, go = child_of(stage, parent.id)
    parent.send_event("UserPromptSubmit", prompt="go on", prompt_id="p1")
    go.touch()

    def typed() -> list[dict[str, Any]]:
        return [m for m in stage.json("log", parent.id) if child in m["text"] and m["status"] != "queued"]

    (notice,) = until(typed, "the notice is typed")
    finish(stage, parent)
    header = f"[sm] from sm, message {notice['message_id']}"
    parent.send_event("Stop", last_assistant_message="Done.")
    parent.send_event("UserPromptSubmit", prompt=f"{header}\n{notice['text']}", prompt_id="p2")
    parent.send_event("Stop", last_assistant_message="Good to know.")
    assert stage.session(parent.id)["status"] == "completed"
    assert work_events(stage, parent.id) == ["completed"]
    parent.send_event("UserPromptSubmit", prompt=f"{header}\nand now fix the build", prompt_id="p3")
    assert work_events(stage, parent.id) == ["completed", "reopened"]


def test_message_that_somebody_sends_opens_a_completed_session_again(stage: Stage) -> None:
    parent = stage.agent()
    finish(stage, parent)
    stage.run("send", parent.id, "one more thing", "--no-wait")
    until(lambda: "reopened" in work_events(stage, parent.id), "the session is open again")


def test_child_that_is_killed_with_its_parent_is_killed_and_not_abandoned(abandoning: Stage) -> None:
    """The parent ends first, while the daemon still ends the child."""
    abandoning.world.programs.installed["sleep"] = slow_to_end
    parent = abandoning.spawn("Sh", "sleep 1000")["session_id"]
    child = abandoning.spawn("Inbox", "work", "--parent", parent)["session_id"]
    abandoning.sm("kill", "--tree", parent)
    assert [abandoning.session(s)["status"] for s in (parent, child)] == ["killed", "killed"]
    ends = [e["type"] for e in abandoning.events(child) if e["type"] in ("abandoned", "killed")]
    assert ends == ["killed"]
