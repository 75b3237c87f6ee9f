"""What refuses one more child, process or message: the whole grid, without a daemon."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from sm.core.models import Exit, Process, Session
from sm.core.statuses import Status
from sm.errors import LimitReached, RateLimited
from sm.policy.limits import (
    Counts,
    counted,
    elapsed_s,
    generation,
    height,
    refused_message,
    refused_pace,
    refused_place,
    refused_process,
)
from tests.samples import session

PROCESS = Process(42, "boot/1")


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("process", [None, PROCESS])
@pytest.mark.parametrize("exit", [None, Exit(0)])
@pytest.mark.parametrize("ours", [True, False], ids=["its child", "another's"])
@pytest.mark.parametrize("workspace", [None, "web"])
def test_a_live_child_counts_and_a_process_that_runs_or_is_about_to(
    status: Status, process: Process | None, exit: Exit | None, ours: bool, workspace: str | None
) -> None:
    found = replace(
        session("bbbb1111", parent="aaaa1111" if ours else "cccc1111", status=status),
        process=process,
        exit=exit,
        workspace=workspace,
    )
    ended = status in (Status.COMPLETED, Status.ERROR, Status.ABANDONED, Status.KILLED)
    runs = exit is None and (not ended or process is not None)
    assert counted([found], "aaaa1111", "web") == Counts(
        children=int(ours and not ended), processes=int(runs and workspace == "web")
    )
    assert counted([found], "aaaa1111", None).processes == int(runs and workspace is None)


@pytest.mark.parametrize("most", [0, 1, 10])
@pytest.mark.parametrize("children", [0, 1, 9, 10, 11])
@pytest.mark.parametrize("deepest", [0, 1, 4, 5, 6])
def test_a_parent_has_so_many_live_children_and_so_many_generations(
    most: int, children: int, deepest: int
) -> None:
    refusal = refused_place("1a2b3c4d", children, deepest, max_children=most, max_depth=4)
    assert (refusal is None) == (children < most and deepest <= 4)
    if refusal is not None:
        assert type(refusal) is LimitReached
        assert "1a2b3c4d" in refusal.message
        key = "max_depth" if deepest > 4 else "max_children"
        assert refusal.hint is not None
        assert f"limits.{key}" in refusal.hint


def test_a_refusal_says_how_many_there_are_and_may_be() -> None:
    full = refused_place("1a2b3c4d", 10, 1, max_children=10, max_depth=4)
    assert full is not None
    assert full.message == "session 1a2b3c4d has 10 live children, at most 10 are allowed"
    deep = refused_place("1a2b3c4d", 0, 5, max_children=10, max_depth=4)
    assert deep is not None
    assert deep.message == "a child of session 1a2b3c4d is generation 5, at most 4 are allowed"


@pytest.mark.parametrize(
    ("workspace", "where"), [(None, "outside of workspaces"), ("web", "in workspace web")]
)
@pytest.mark.parametrize("processes", [0, 49, 50, 51])
def test_a_workspace_has_so_many_agent_processes(workspace: str | None, where: str, processes: int) -> None:
    refusal = refused_process(workspace, processes, 50)
    assert (refusal is None) == (processes < 50)
    if refusal is not None:
        assert type(refusal) is LimitReached
        assert refusal.message == f"{processes} agent processes run {where}, at most 50 are allowed"


@pytest.mark.parametrize("interval_s", [0, 0.5, 1.0, 60])
@pytest.mark.parametrize("since_s", [None, 0, 0.001, 0.5, 0.999, 1.0, 59.999, 60, 1e9])
def test_two_children_of_a_parent_are_so_far_apart(interval_s: float, since_s: float | None) -> None:
    refusal = refused_pace("1a2b3c4d", since_s, interval_s)
    assert (refusal is None) == (since_s is None or since_s >= interval_s)
    if refusal is not None and since_s is not None:
        assert refusal.retry_after_s == pytest.approx(interval_s - since_s)


@pytest.mark.parametrize(
    ("interval_s", "words"), [(1.0, "one child per second"), (2.5, "one child every 2.5 seconds")]
)
def test_how_often_a_child_may_come_is_said_with_the_key_that_sets_it(interval_s: float, words: str) -> None:
    refusal = refused_pace("1a2b3c4d", 0.27, interval_s)
    assert isinstance(refusal, RateLimited)
    assert refusal.message == f"{words} (limits.spawn_interval_s)"
    assert refusal.hint == f"session 1a2b3c4d may have the next in {interval_s - 0.27:.2f} s"


@pytest.mark.parametrize("since_s", [None, 0, 1, 59.999, 60, 1e9])
def test_a_minute_has_so_many_messages_of_one_sender(since_s: float | None) -> None:
    refusal = refused_message("1a2b3c4d", since_s, 120)
    assert (refusal is None) == (since_s is None or since_s >= 60)
    if refusal is not None and since_s is not None:
        assert refusal.message == "120 messages per minute (limits.messages_per_minute)"
        assert refusal.retry_after_s == pytest.approx(60 - since_s)


@pytest.mark.parametrize(
    ("before", "seconds"),
    [
        (None, None),
        ("2026-01-27T15:10:00.000Z", 0),
        ("2026-01-27T15:09:59.750Z", 0.25),
        ("2026-01-26T15:10:00.000Z", 86_400),
        ("2026-01-27T15:10:00.001Z", None),  # the clock was set back: nobody waits for an hour that has been
    ],
)
def test_what_lies_ahead_keeps_nobody_waiting(before: str | None, seconds: float | None) -> None:
    assert elapsed_s(before, "2026-01-27T15:10:00.000Z") == seconds


def session_tree(*pairs: tuple[str, str | None]) -> Mapping[str, Session]:
    return {name: session(name, parent=parent) for name, parent in pairs}


LINE = session_tree(("a", None), ("b", "a"), ("c", "b"), ("d", "c"), ("e", "b"), ("x", "gone"), ("y", "x"))


@pytest.mark.parametrize(
    ("parent", "expected"), [("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 3), ("x", 1), ("y", 2)]
)
def test_a_generation_is_counted_from_the_operators_session(parent: str, expected: int) -> None:
    assert generation(LINE[parent], lambda name: LINE.get(name or "")) == expected


@pytest.mark.parametrize(("name", "expected"), [("a", 3), ("b", 2), ("c", 1), ("d", 0), ("x", 1)])
def test_a_height_is_the_longest_way_down(name: str, expected: int) -> None:
    assert height(name, LINE.values()) == expected


def test_a_circle_that_should_not_be_ends() -> None:
    circle = session_tree(("a", "c"), ("b", "a"), ("c", "b"))
    assert generation(circle["a"], lambda name: circle.get(name or "")) == 3
    assert height("a", circle.values()) == 2
