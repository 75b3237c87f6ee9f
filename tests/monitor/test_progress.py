from dataclasses import asdict, replace
from typing import Any

import pytest

from sm.core.models import Checkpoint, Session
from sm.core.pauses import Pause
from sm.core.statuses import Status
from sm.core.usage import TokenCounts, ToolUse, Usage
from sm.monitor.progress import Measurements, seconds_between
from sm.monitor.progress import report as progress_report
from tests.samples import AT, session


def report(*args: Any, **more: Any) -> dict[str, Any]:
    return asdict(progress_report(*args, **more))


@pytest.mark.parametrize(
    ("messages", "percentage"),
    [
        ([], None),
        (["Started"], None),
        (["Data model done (3/5 tasks)"], 60),
        (["(1/5 tasks)", "(2/5 tasks done)", "writing tests"], 40),
        (["all (5/5)"], 100),
        (["nothing yet (0/7 tasks)"], 0),
        (["wrong (7/5 tasks)"], None),
        (["empty (0/0 tasks)"], None),
        (["a date 3/5 is no task"], None),
    ],
)
def test_percentage_comes_from_the_newest_task_count(messages: list[str], percentage: int | None) -> None:
    checkpoints = [Checkpoint(AT, m, {}) for m in messages]
    assert report(session("aaaa1111"), checkpoints, [], AT)["completion_percentage"] == percentage


def test_seconds_between_is_never_negative() -> None:
    assert seconds_between("2026-01-27T15:10:00.900Z", "2026-01-27T15:13:00.000Z") == 179
    assert seconds_between("2026-01-27T15:10:00Z", "2026-01-27T15:00:00Z") == 0


def test_report_of_a_running_session_has_no_numbers_without_measurements() -> None:
    result = report(
        replace(session("aaaa1111", status=Status.RUNNING), started_at=AT, note="writing tests"),
        [Checkpoint(AT, "half (1/2 tasks)", {"k": "v"})],
        ["last line"],
        "2026-01-27T15:13:00.000Z",
    )
    assert result["status"] == "working"
    assert result["elapsed_seconds"] == 180
    assert result["completion_percentage"] == 50
    assert result["current_activity"] == "writing tests"
    assert result["last_output"] == ["last line"]
    assert [result[k] for k in ("tokens_used", "tokens_remaining_estimate", "cost_usd", "last_tool")] == [
        None
    ] * 4
    assert not result["is_complete"]


@pytest.mark.parametrize(
    ("settled_at", "held", "state", "activity"),
    [(None, None, "pausing", "Bash: make"), (AT, "frozen", "paused", None), (AT, "told", "paused", None)],
)
def test_report_of_a_paused_session_says_so_and_has_no_activity_once_it_is_still(
    settled_at: str | None, held: str | None, state: str, activity: str | None
) -> None:
    pause = Pause(AT, "operator", "too dear", settled_at=settled_at, held=held)
    paused = replace(session("aaaa1111", status=Status.RUNNING), paused=pause)
    result = report(paused, [], [], AT, Measurements(current_activity="Bash: make"))
    assert (result["paused"]["state"], result["paused"]["held"]) == (state, held)
    assert result["current_activity"] == activity


def test_elapsed_time_of_an_ended_session_stops_at_its_end() -> None:
    ended = replace(
        session("aaaa1111", status=Status.ERROR), started_at=AT, completed_at="2026-01-27T15:11:00.000Z"
    )
    result = report(ended, [], [], "2026-01-28T00:00:00.000Z")
    assert result["elapsed_seconds"] == 60
    assert result["is_complete"]


def test_elapsed_time_and_estimate_keep_the_work_before_a_restart() -> None:
    restarted = replace(session("aaaa1111", status=Status.RUNNING), started_at=AT, worked_s=500.0)
    reported = [Checkpoint(AT, "(3/5 tasks)", {})]
    result = report(restarted, reported, [], "2026-01-27T15:11:00.000Z", elapsed_work_s=50.0)
    assert result["elapsed_seconds"] == 550
    assert result["estimate"]["seconds"] == {"p50": 917, "p90": 917}


# Measurements

RUNNING = session("aaaa1111", status=Status.RUNNING)
NOW = "2026-01-27T15:20:40.000Z"


def report_with(
    measured: Measurements | None, *, session: Session = RUNNING, checkpoint: str | None = None
) -> dict[str, Any]:
    return report(session, [Checkpoint(AT, checkpoint, {})] if checkpoint else [], [], NOW, measured)


def measurements(tokens: int, **more: Any) -> Measurements:
    return Measurements(tokens=TokenCounts(input=tokens // 2, output=tokens - tokens // 2), **more)


def outlook(measured: Measurements | None, **more: Any) -> tuple[int | None, int | None]:
    result = report_with(measured, **more)
    return result["tokens_remaining_estimate"], result["completion_percentage"]


def test_report_has_the_documented_fields_and_values() -> None:
    tool = ToolUse("t1", "Write", "2026-01-27T15:20:30.000Z", {"file_path": "tests/api.test.ts"})
    result = report_with(
        Measurements(
            tokens=TokenCounts(input=450, output=2000, cache_read=90_000, cache_write=5_000),
            tools={"Read": 5, "Write": 3, "Bash": 2, "Edit": 1},
            last_tool=tool,
            context_tokens=76_000,
            context_window=200_000,
            cost_usd=0.1 + 0.2,
            current_activity="Writing unit tests for API endpoint",
            todo=[("completed", "model"), ("in_progress", "tests")],
            estimate=10_000,
        )
    )
    expected = {
        "tokens_used": 2450,
        "tokens": {"input": 450, "output": 2000, "cache_read": 90_000, "cache_write": 5_000},
        "tools_used": {"Read": 5, "Write": 3, "Bash": 2, "Edit": 1},
        "total_tools": 11,
        "last_tool": {
            "name": "Write",
            "args": {"file_path": "tests/api.test.ts"},
            "timestamp": "2026-01-27T15:20:30.000Z",
            "seconds_ago": 10,
        },
        "current_activity": "Writing unit tests for API endpoint",
        "context_tokens": 76_000,
        "context_window": 200_000,
        "context_percent": 38,
        "cost_usd": 0.3,
        "todo": [{"status": "completed", "text": "model"}, {"status": "in_progress", "text": "tests"}],
    }
    assert {key: result[key] for key in expected} == expected
    assert list(result["tools_used"]) == ["Read", "Write", "Bash", "Edit"]


def test_tokens_of_sub_agents_are_in_the_total_and_listed_separately() -> None:
    usages = [Usage("m1", "opus", AT, 10, 20, 30, 40), Usage("m2", "opus", AT, 1, 2, 3, 4)]
    result = report_with(Measurements(tokens=TokenCounts.of(usages), subagents=TokenCounts(5, 6, 7, 8)))
    assert result["tokens"] == {"input": 16, "output": 28, "cache_read": 40, "cache_write": 52}
    assert result["subagents"] == {"tokens": {"input": 5, "output": 6, "cache_read": 7, "cache_write": 8}}
    assert result["tokens_used"] == 44


def test_unused_values_are_zero_and_unmeasured_values_are_null() -> None:
    fresh, program = report_with(Measurements()), report_with(None)
    assert (fresh["tokens_used"], fresh["tokens"]["input"], fresh["tools_used"]) == (0, 0, {})
    unknown = ("tokens_used", "tokens", "subagents", "cost_usd", "context_percent", "last_tool", "todo")
    assert [program[key] for key in unknown] == [None] * len(unknown)
    assert fresh["todo"] is fresh["cost_usd"] is fresh["context_percent"] is None
    assert report_with(Measurements(todo=()))["todo"] == []


@pytest.mark.parametrize(
    ("tokens", "estimate", "expected"),
    [
        (2450, 10_000, (7550, 24)),
        (0, 10_000, (10_000, 0)),
        (9_999, 10_000, (1, 99)),
        (10_000, 10_000, (0, 99)),
        (50_000, 10_000, (0, 99)),
        (2450, None, (None, None)),
        (2450, 0, (None, None)),
    ],
)
def test_estimate_from_earlier_sessions_stays_below_100_percent(
    tokens: int, estimate: int | None, expected: tuple[int | None, int | None]
) -> None:
    assert outlook(measurements(tokens, estimate=estimate)) == expected


TODO = [("completed", "a"), ("in_progress", "b"), ("pending", "c"), ("pending", "d")]


def test_estimate_prefers_the_checkpoint_then_the_todo_list_then_earlier_sessions() -> None:
    assert outlook(measurements(3000, todo=TODO, estimate=10_000), checkpoint="(3/5 tasks)") == (2000, 60)
    assert outlook(measurements(3000, todo=TODO, estimate=10_000)) == (9000, 25)
    assert outlook(measurements(3000, todo=[], estimate=10_000)) == (7000, 30)
    assert outlook(measurements(3000, todo=[("completed", "a")])) == (0, 100)


def test_remaining_tokens_are_unknown_when_no_task_is_done() -> None:
    assert outlook(measurements(3000, todo=TODO[1:])) == (None, 0)
    assert outlook(measurements(3000, todo=TODO[1:], estimate=10_000)) == (7000, 0)
    assert outlook(measurements(0), checkpoint="(1/2 tasks)") == (None, 50)
    assert outlook(None, checkpoint="(1/2 tasks)") == (None, 50)


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.ERROR, Status.ABANDONED, Status.KILLED])
def test_report_has_no_estimate_when_the_session_has_ended(status: Status) -> None:
    ended = session("aaaa1111", status=status)
    done = (100, 100) if status is Status.COMPLETED else (None, 60)
    assert outlook(measurements(3000, estimate=10_000), session=ended) == (None, done[0])
    assert outlook(measurements(3000, estimate=10_000), session=ended, checkpoint="(3/5 tasks)") == (
        None,
        done[1],
    )


@pytest.mark.parametrize(
    ("status", "note", "activity"),
    [
        (Status.RUNNING, None, "Bash: npm test"),
        (Status.WAITING_INPUT, None, "Bash: npm test"),
        (Status.RUNNING, "testing", "testing"),
        (Status.COMPLETED, "testing", "testing"),
        (Status.IDLE, None, None),
        (Status.COMPLETED, None, None),
    ],
)
def test_current_activity_is_the_note_or_else_the_measured_activity(
    status: Status, note: str | None, activity: str | None
) -> None:
    noted = replace(session("aaaa1111", status=status), note=note)
    assert (
        report_with(Measurements(current_activity="Bash: npm test"), session=noted)["current_activity"]
        == activity
    )


def test_context_percent_is_at_most_100_and_null_when_a_number_is_missing() -> None:
    assert report_with(Measurements(context_tokens=250, context_window=200))["context_percent"] == 100
    assert report_with(Measurements(context_tokens=250))["context_percent"] is None
    assert report_with(Measurements(context_window=200))["context_percent"] is None


def test_report_shows_null_for_tokens_that_are_not_counted() -> None:
    result = report_with(
        Measurements(tokens=None, tools={"Bash": 2}, todo=[("completed", "a"), ("pending", "b")])
    )
    unknown = ("tokens", "subagents", "tokens_used", "tokens_remaining_estimate", "cost_usd")
    assert {result[name] for name in unknown} == {None}
    assert (result["total_tools"], result["completion_percentage"]) == (2, 50)
