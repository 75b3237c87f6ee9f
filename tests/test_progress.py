from dataclasses import replace

import pytest

from sm.models import Checkpoint, Status
from sm.progress import report, seconds_between, task_percentage
from tests.samples import AT, session


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
def test_the_percentage_is_what_the_newest_checkpoint_says(
    messages: list[str], percentage: int | None
) -> None:
    assert task_percentage([Checkpoint(AT, m, {}) for m in messages]) == percentage


def test_time_never_runs_backwards() -> None:
    assert seconds_between("2026-01-27T15:10:00.900Z", "2026-01-27T15:13:00.000Z") == 179
    assert seconds_between("2026-01-27T15:10:00Z", "2026-01-27T15:00:00Z") == 0


def test_a_running_session_is_shown_as_working_and_invents_no_numbers() -> None:
    shown = report(
        replace(session("aaaa1111", status=Status.RUNNING), started_at=AT, note="writing tests"),
        [Checkpoint(AT, "half (1/2 tasks)", {"k": "v"})],
        ["last line"],
        "2026-01-27T15:13:00.000Z",
    )
    assert shown["status"] == "working"
    assert shown["elapsed_seconds"] == 180
    assert shown["completion_percentage"] == 50
    assert shown["current_activity"] == "writing tests"
    assert shown["last_output"] == ["last line"]
    assert [shown[k] for k in ("tokens_used", "tokens_remaining_estimate", "cost_usd", "last_tool")] == [
        None
    ] * 4
    assert not shown["is_complete"]


def test_the_time_of_an_ended_session_stands_still() -> None:
    ended = replace(
        session("aaaa1111", status=Status.ERROR), started_at=AT, completed_at="2026-01-27T15:11:00.000Z"
    )
    shown = report(ended, [], [], "2026-01-28T00:00:00.000Z")
    assert shown["elapsed_seconds"] == 60
    assert shown["is_complete"]
