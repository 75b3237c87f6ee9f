"""The attention that sessions need, and the description of their tasks."""

from dataclasses import replace
from typing import Any

import pytest

from sm.core.attention import Attention, EndedChildren, attention, current_task, request_line
from sm.core.models import Session
from sm.core.pauses import Pause
from sm.core.requests import Question, Request
from sm.core.states import RequestKind, RequestState
from sm.core.statuses import Status
from sm.core.task_kinds import TaskKind
from tests.samples import AT, session

RUNNING = session("1a2b3c4d", status=Status.RUNNING)
LUNCH = Pause(AT, "operator", "lunch")
QUESTION = Request(
    57,
    RUNNING.id,
    RequestKind.QUESTION,
    RequestState.OPEN,
    AT,
    AT,
    questions=(Question("Which database?", ("sqlite", "postgres")),),
)
PERMISSION = replace(
    QUESTION,
    id=58,
    kind=RequestKind.PERMISSION,
    tool="Bash",
    arguments={"timeout": 5, "command": "npm install", "description": "Install"},
    questions=(),
)
COMPLETION = replace(QUESTION, id=59, kind=RequestKind.COMPLETION, questions=(Question("all 26 tests pass"),))

SETUP = replace(
    QUESTION, id=60, kind=RequestKind.SETUP, questions=(Question("Trust /srv/shop for Claude Code?"),)
)


@pytest.mark.parametrize(
    ("status", "requests", "expected"),
    [
        (Status.SPAWNED, [], Attention.WORKING),
        (Status.STARTING, [], Attention.WORKING),
        (Status.RUNNING, [], Attention.WORKING),
        (Status.RUNNING, [QUESTION], Attention.WAITING),
        (Status.IDLE, [], Attention.IDLE),
        (Status.IDLE, [QUESTION], Attention.WAITING),
        (Status.WAITING_INPUT, [], Attention.WAITING),
        *((status, [], Attention.ENDED) for status in ("completed", "error", "abandoned", "killed")),
    ],
)
def test_attention_follows_from_status_and_open_requests(
    status: Status, requests: list[Request], expected: Attention
) -> None:
    assert attention(replace(RUNNING, status=Status(status)), requests, None) is expected


ENDED = replace(session("1a2b3c4d", status=Status.ERROR), status_at="2026-01-27T15:10:00.000Z")
SINCE = "2026-01-20T15:10:00.000Z"
CHILD = replace(ENDED, parent_id="9f8e7d6c", created_by="session:9f8e7d6c")


@pytest.mark.parametrize(
    ("ended", "expected"),
    [
        (ENDED, Attention.FAILED),
        (replace(ENDED, status=Status.ABANDONED), Attention.FAILED),
        (replace(ENDED, status=Status.COMPLETED), Attention.DONE),
        (replace(ENDED, status=Status.KILLED), Attention.ENDED),
        (replace(ENDED, archived=True), Attention.ENDED),
        (replace(ENDED, seen_at="2026-01-27T15:09:59.999Z"), Attention.FAILED),
        (replace(ENDED, seen_at=ENDED.status_at), Attention.ENDED),
        (replace(ENDED, status_at="2026-01-20T15:09:59.999Z"), Attention.OLDER),
        (CHILD, Attention.ENDED),
        (replace(CHILD, told_operator=True), Attention.FAILED),
        (replace(CHILD, created_by="operator"), Attention.FAILED),
        (replace(CHILD, created_by="telegram:4711"), Attention.FAILED),
    ],
)
def test_unseen_end_needs_the_operator_unless_a_parent_was_told(ended: Session, expected: Attention) -> None:
    assert attention(ended, [], SINCE) is expected
    assert attention(ended, [], None) is Attention.ENDED


def test_ended_children_are_counted_for_their_parent() -> None:
    other = replace(CHILD, id="00000002", status=Status.COMPLETED)
    counts = EndedChildren([ENDED, CHILD, other, replace(other, id="00000003", archived=True)])
    assert (counts.failed("9f8e7d6c"), counts.done("9f8e7d6c")) == (1, 1)
    assert counts.put(replace(other, status=Status.RUNNING)) == {"9f8e7d6c"}
    assert counts.put(replace(CHILD, parent_id="00000009")) == {"9f8e7d6c", "00000009"}
    assert counts.put(replace(CHILD, parent_id="00000009")) == set()
    assert (counts.failed("9f8e7d6c"), counts.done("9f8e7d6c")) == (0, 0)
    assert counts.remove(CHILD.id) == {"00000009"}
    assert counts.failed("00000009") == 0


def test_task_of_a_failed_session_has_its_reason_and_its_last_words() -> None:
    failed = replace(ENDED, status_reason="exit code 3", completion_message="exit code 3")
    assert current_task(failed, "", None, "KeyError: 'x'", "task").text == "exit code 3: \"KeyError: 'x'\""
    assert current_task(failed, "", None, None, "task").text == "exit code 3"
    reported = replace(failed, completion_message="the tests fail")
    assert current_task(reported, "", None, "bye", "task").text == "the tests fail"


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        ([QUESTION], "r57 asks: Which database?"),
        ([PERMISSION], "r58 wants Bash: npm install"),
        ([replace(PERMISSION, arguments=None)], "r58 wants Bash"),
        ([replace(PERMISSION, tool=None, arguments={"n": 1})], "r58 wants a tool"),
        (
            [replace(PERMISSION, tool="ExitPlanMode", arguments={"plan": "# Pay\n\n1. Retry\n2. Log"})],
            "r58 proposes a plan: Pay: Retry · Log",
        ),
        ([COMPLETION], "r59 proposes its completion: all 26 tests pass"),
        ([SETUP], "r60 Trust /srv/shop for Claude Code?"),
        ([QUESTION, PERMISSION, COMPLETION], "r57 asks: Which database? (and 2 more)"),
    ],
)
def test_task_of_a_waiting_session_is_its_oldest_request(requests: list[Request], expected: str) -> None:
    task = current_task(
        replace(RUNNING, note="reading"), request_line(requests), "Bash: npm test", "hello", "task"
    )
    assert (task.kind, task.text) == (TaskKind.REQUEST, expected)


@pytest.mark.parametrize(
    ("changes", "known", "kind", "text"),
    [
        ({"status": Status.WAITING_INPUT}, ("Read", "hi"), "reason", "made for a test"),
        ({"note": "reading"}, ("Bash: npm test", "hi"), "note", "reading"),
        ({}, ("Bash: npm test", "hi"), "activity", "Bash: npm test"),
        ({"title": "login"}, (None, "hi"), "answer", "hi"),
        ({"title": "login"}, (None, None), "title", "login"),
        ({"status": Status.STARTING}, (None, None), "reason", "made for a test"),
        ({"status": Status.IDLE, "note": "reading"}, (None, "All done."), "answer", "All done."),
        ({"status": Status.IDLE, "note": "reading"}, (None, " \n"), "note", "reading"),
        ({"status": Status.IDLE}, (None, None), "reason", "made for a test"),
        ({"status": Status.COMPLETED, "completion_message": "ok"}, (None, "hi"), "result", "ok"),
        ({"status": Status.KILLED}, (None, "hi"), "reason", "made for a test"),
        ({"status": Status.RUNNING, "status_reason": ""}, (None, None), "reason", "running"),
        ({"paused": LUNCH, "note": "reading"}, ("Bash: npm test", "hi"), "reason", "lunch"),
        ({"paused": LUNCH, "status": Status.IDLE}, (None, "hi"), "reason", "lunch"),
    ],
)
def test_task_is_never_empty(
    changes: dict[str, Any], known: tuple[str | None, str | None], kind: str, text: str
) -> None:
    task = current_task(replace(RUNNING, **changes), "", *known, None)
    assert (task.kind, task.text) == (kind, text)


def test_task_of_an_agent_that_has_said_nothing_is_the_one_that_it_was_started_with() -> None:
    for status in (Status.RUNNING, Status.IDLE):
        told = replace(RUNNING, status=status, note=None, title=None)
        task = current_task(told, "", None, None, "Build the login page")
        assert (task.kind, task.text) == (TaskKind.PROMPT, "Build the login page")
        assert current_task(told, "", None, "Hello", "Build the login page").text == "Hello"
