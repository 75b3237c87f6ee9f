"""Endings that sm detects in the last messages of the real Claude Code."""

import json
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.claude_fixtures import claude_instance, scripted_api
from tests.claude_instance import ClaudeInstance
from tests.instance import until
from tests.scripted_api import ScriptedApi, tool
from tests.waits import PATIENT

DONE = "Done. All 26 tests pass."

api = scripted_api("module")
claudes = claude_instance(
    "module",
    completion="{completion_quiet_s: 1, idle_timeout: 1000}",
    more='    Flow: {args: ["--allowedTools", "Workflow"]}',
)


def in_status(claudes: ClaudeInstance, session_id: str, status: str, within_s: float = 60) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        session = claudes.session(session_id)
        return session if session["status"] == status else None

    return until(look, f"the session is {status}")


def endings(claudes: ClaudeInstance, session_id: str) -> list[str]:
    """The events that end the session."""
    events = [e for e in claudes.events(session_id) if e["session_id"] == session_id]
    return [e["message"] for e in events if e["type"] in ("completed", "error")]


def quiet(claudes: ClaudeInstance) -> None:
    """Wait until another session has passed a whole quiet window."""
    in_status(claudes, claudes.spawn("Editor", f"[[text:{DONE}]]")["session_id"], "completed")


def test_claude_that_says_done_is_completed_and_goes_on_with_the_next_message(
    claudes: ClaudeInstance,
) -> None:
    session_id = claudes.spawn("Editor", f"[[text:{DONE}]]", "--name", "done")["session_id"]
    done = in_status(claudes, session_id, "completed")
    assert (done["status_source"], done["completion_message"]) == ("completion", DONE)
    assert done["exit_code"] is None
    claudes.sm("send", session_id, "[[text:Done. The linter is clean too.]]", "--wait", PATIENT)
    until(lambda: len(endings(claudes, session_id)) == 2, "the session is completed again")
    assert claudes.session(session_id)["completion_message"] == "Done. The linter is clean too."


def test_question_of_claude_in_prose_is_answered_with_sm_answer(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    question = "Which database should I use, sqlite or postgres?"
    session_id = claudes.spawn("Editor", f"[[text:I looked at the code. {question}]]")["session_id"]

    def asked() -> dict[str, Any] | None:
        return next((r for r in claudes.get("/v1/requests") if r["session_id"] == session_id), None)

    request = until(asked, "a request with the question")
    assert (request["kind"], request["evidence"]) == ("question", "completion")
    assert question in request["questions"][0]["question"]
    claudes.sm("answer", request["request_id"], "sqlite")
    until(lambda: any("sqlite" in r.prompt for r in api.requests if r.kind == "turn"), "the answer arrives")


def test_coordinator_is_completed_only_after_its_child_has_ended(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    marker = claudes.work / "go"
    wait = f"while [ ! -e {marker} ]; do sleep 0.1; done"
    spawns = tool("Bash", command=f"sm spawn Sh '{wait}' --name part")
    session_id = claudes.spawn("Editor", f"{spawns}[[then]][[text:{DONE}]]", "--name", "lead")["session_id"]
    claudes.says(session_id, "idle", "waiting for 1 child")
    quiet(claudes)
    assert claudes.session(session_id)["status"] == "idle"
    assert endings(claudes, session_id) == []
    marker.touch()

    def is_told() -> bool:
        return any(
            m["status"] == "acknowledged" and m["from"] == "sm"
            for m in claudes.get("/v1/messages", session=session_id)
        )

    # The notice of the end begins a turn, whose answer by the scripted API says nothing.
    until(is_told, "the lead is told of the end")
    claudes.idle(session_id)
    claudes.sm("send", session_id, f"Is all done? [[text:{DONE}]]")
    in_status(claudes, session_id, "completed")
    assert len(endings(claudes, session_id)) == 1


def test_interrupted_turn_completes_nothing(claudes: ClaudeInstance, api: ScriptedApi) -> None:
    session_id = claudes.spawn("Editor", "[[text:Done. All works.]][[hold:never]]")["session_id"]
    claudes.says(session_id, "running", "")
    until(lambda: any(r.held == "never" for r in api.requests), "the turn is at work")
    claudes.sm("interrupt", session_id)
    in_status(claudes, session_id, "idle")
    quiet(claudes)
    assert (claudes.session(session_id)["status"], endings(claudes, session_id)) == ("idle", [])


def test_failed_turn_completes_nothing(claudes: ClaudeInstance) -> None:
    session_id = claudes.spawn("Editor", "[[error:400:*]][[text:Done.]]")["session_id"]
    in_status(claudes, session_id, "idle")
    quiet(claudes)
    assert (claudes.session(session_id)["status"], endings(claudes, session_id)) == ("idle", [])


def test_background_shell_delays_the_completion(claudes: ClaudeInstance) -> None:
    shell_s = 10.0  # it outlives the turn
    shell = tool("Bash", command=f"sleep {shell_s:.1f}", run_in_background=True)
    session_id = claudes.spawn("Editor", f"{shell}[[then]][[text:{DONE}]]")["session_id"]
    claudes.says(session_id, "idle", "waiting for 1 background task")
    assert endings(claudes, session_id) == []
    in_status(claudes, session_id, "completed", 60 + shell_s)


def test_workflow_in_the_background_delays_the_completion(claudes: ClaudeInstance, api: ScriptedApi) -> None:
    part = 'return await agent("part [" + "[hold:part]" + "]", {});'
    script = f'export const meta = {{name: "w", description: "d"}}; {part}'
    workflow = tool("Workflow", script=script)
    session_id = claudes.spawn("Flow", f"{workflow}[[then]][[text:{DONE}]]")["session_id"]
    until(lambda: "background agents: 1" in str(claudes.why(session_id)), "the workflow runs")
    quiet(claudes)
    assert (claudes.session(session_id)["status"], endings(claudes, session_id)) == ("running", [])
    api.release("part")
    in_status(claudes, session_id, "completed")


def test_open_entry_of_its_task_list_delays_the_completion(claudes: ClaudeInstance) -> None:
    creates = tool("TaskCreate", subject="Write the docs", description="d", activeForm="Writing")
    session_id = claudes.spawn("Editor", f"{creates}[[then]][[text:{DONE}]]")["session_id"]
    claudes.says(session_id, "idle", "waiting for 1 open task")
    assert endings(claudes, session_id) == []


@pytest.mark.parametrize(
    "text", [DONE, "Which database should I use, sqlite or postgres?", "I could not fix it: the build fails."]
)
def test_turn_that_ends_while_no_daemon_runs_is_read(claudes: ClaudeInstance, text: str) -> None:
    with stop_hook(claudes, str(len(text))) as (begun, over):
        parent = claudes.spawn("Sh", "sleep 1000")["session_id"]
        session_id = claudes.spawn("Editor", f"[[text:{text}]]", "--parent", parent)["session_id"]
        until(begun.exists, "the hook of the user runs")
        until(lambda: _kept_end(claudes, session_id), "the end is stored")
        claudes.kill_daemon()
        over.touch()
        claudes.run("daemon", "start")
        until(lambda: _told(claudes, parent, session_id), "the parent is told")
    assert len(_told(claudes, parent, session_id)) == 1


def test_old_end_of_a_turn_completes_neither_the_restored_session_nor_a_fork(claudes: ClaudeInstance) -> None:
    with stop_hook(claudes, "restored") as (begun, _):
        spawned = claudes.spawn("Editor", f"[[text:{DONE}]]")
        session_id = spawned["session_id"]
        until(begun.exists, "the hook of the user runs")
        until(lambda: _kept_end(claudes, session_id), "the end is stored")
        claudes.kill_daemon()
        os.kill(spawned["pid"], signal.SIGKILL)
        claudes.run("daemon", "start")
        assert claudes.ended(session_id)["status"] == "error"
        assert not _kept_end(claudes, session_id)
    claudes.sm("restore", session_id)
    fork_id = claudes.json("fork", session_id)["session_id"]
    for number in range(2):
        for resumed in (session_id, fork_id):
            claudes.idle(resumed)
        quiet(claudes)
        assert [e for s in (session_id, fork_id) for e in endings(claudes, s) if "completed" in e] == []
        if number == 0:  # the next daemon searches the transcripts for an end that it has not read
            claudes.kill_daemon()
            claudes.run("daemon", "start")
    for resumed in (session_id, fork_id):
        claudes.sm("send", resumed, f"[[text:{DONE}]]", "--wait", PATIENT)
        assert in_status(claudes, resumed, "completed")["completion_message"] == DONE


@contextmanager
def stop_hook(claudes: ClaudeInstance, name: str) -> Iterator[tuple[Path, Path]]:
    """Give the user a Stop hook that makes the first file of the result, and ends when the second one is there.

    It runs in parallel to that of sm, and claude says that it works until both have ended.
    """
    begun, over = (claudes.work / f"{word}-{name}" for word in ("begun", "over"))
    waits = f"touch {begun}; while [ ! -e {over} ]; do sleep 0.05; done"
    settings = claudes.claude_home / "settings.json"
    before = settings.read_text() if settings.exists() else "{}"
    stop = [{"hooks": [{"type": "command", "command": waits}]}]
    claudes.write_settings(json.dumps({**json.loads(before), "hooks": {"Stop": stop}}))
    try:
        yield begun, over
    finally:
        over.touch()
        claudes.write_settings(before)


def _kept_end(claudes: ClaudeInstance, session_id: str) -> bool:
    with closing(sqlite3.connect(claudes.state / "sm.db")) as db:
        return (
            db.execute("SELECT 1 FROM turn_ends WHERE session_id = ?", (session_id,)).fetchone() is not None
        )


def _told(claudes: ClaudeInstance, parent: str, child: str) -> list[str]:
    texts = [m["text"] for m in claudes.get("/v1/messages", session=parent) if m["from"] == "sm"]
    return [line for text in texts for line in text.split("\n") if f"({child})" in line]
