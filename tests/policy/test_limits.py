"""Limits of children, processes and messages: all combinations, without a daemon."""

import itertools
from collections.abc import Mapping
from dataclasses import replace

import pytest

from sm.core.models import Exit, Process, Session
from sm.core.statuses import Status
from sm.errors import LimitReached, RateLimited
from sm.policy.limits import (
    Counts,
    child_limit_error,
    count_sessions,
    elapsed_s,
    generation,
    height,
    message_rate_error,
    process_limit_error,
    report_rate_error,
    spawn_rate_error,
)
from tests.samples import session

PROCESS = Process(42, "boot/1")
NAMED = replace(session("1a2b3c4d"), friendly_name="engineer-login")


@pytest.mark.parametrize("status", Status)
def test_count_sessions_counts_live_children_and_running_or_starting_processes(status: Status) -> None:
    ended = status in (Status.COMPLETED, Status.ERROR, Status.ABANDONED, Status.KILLED)
    for parent, process, exit, workspace in itertools.product(
        ("aaaa1111", "cccc1111"), (None, PROCESS), (None, Exit(0)), (None, "web")
    ):
        found = replace(
            session("bbbb1111", parent=parent, status=status),
            process=process,
            exit=exit,
            workspace=workspace,
        )
        runs = exit is None and (not ended or process is not None)
        assert count_sessions([found], "aaaa1111", "web") == Counts(
            children=int(parent == "aaaa1111" and not ended), processes=int(runs and workspace == "web")
        ), found
        counted = count_sessions([found], "aaaa1111", None)
        assert counted.processes == int(runs and workspace is None), found


@pytest.mark.parametrize("most", [0, 1, 10])
@pytest.mark.parametrize("deepest", [0, 1, 4, 5, 6])
def test_child_limit_error_limits_children_and_generations(most: int, deepest: int) -> None:
    for children in (0, 1, 9, 10, 11):
        refusal = child_limit_error(NAMED, children, deepest, max_children=most, max_depth=4)
        assert (refusal is None) == (children < most and deepest <= 4), children
        if refusal is not None:
            assert type(refusal) is LimitReached
            assert "engineer-login" in refusal.message
            key = "max_depth" if deepest > 4 else "max_children"
            assert refusal.hint is not None
            assert f"limits.{key}" in refusal.hint


def test_child_limit_error_names_the_current_number_and_the_limit() -> None:
    full = child_limit_error(NAMED, 10, 1, max_children=10, max_depth=4)
    assert full is not None
    assert full.message == "session engineer-login already has 10 live children, at most 10 are allowed"
    deep = child_limit_error(NAMED, 0, 5, max_children=10, max_depth=4)
    assert deep is not None
    assert deep.message == "a child of session engineer-login would be at depth 5, at most 4 is allowed"


@pytest.mark.parametrize(
    ("workspace", "where"), [(None, "outside of workspaces"), ("web", "in workspace web")]
)
@pytest.mark.parametrize("processes", [0, 49, 50, 51])
def test_process_limit_error_limits_the_agent_processes_of_a_workspace(
    workspace: str | None, where: str, processes: int
) -> None:
    refusal = process_limit_error(workspace, processes, 50)
    assert (refusal is None) == (processes < 50)
    if refusal is not None:
        assert type(refusal) is LimitReached
        assert refusal.message == f"{processes} agent processes already run {where}, at most 50 are allowed"


@pytest.mark.parametrize("interval_s", [0, 0.5, 1.0, 60])
@pytest.mark.parametrize("since_s", [None, 0, 0.001, 0.5, 0.999, 1.0, 59.999, 60, 1e9])
def test_spawn_rate_error_limits_the_spawn_interval(interval_s: float, since_s: float | None) -> None:
    refusal = spawn_rate_error(NAMED, since_s, interval_s)
    assert (refusal is None) == (since_s is None or since_s >= interval_s)
    if refusal is not None and since_s is not None:
        assert refusal.retry_after_s == pytest.approx(interval_s - since_s)


@pytest.mark.parametrize(
    ("interval_s", "words"), [(1.0, "one child per second"), (2.5, "one child every 2.5 seconds")]
)
def test_spawn_rate_error_names_the_interval_and_its_config_key(interval_s: float, words: str) -> None:
    refusal = spawn_rate_error(NAMED, 0.27, interval_s)
    assert isinstance(refusal, RateLimited)
    assert refusal.message == f"session engineer-login may start {words} (limits.spawn_interval_s)"
    assert refusal.hint == f"try again in {interval_s - 0.27:.2f} s"


@pytest.mark.parametrize("since_s", [None, 0, 1, 59.999, 60, 1e9])
def test_message_rate_error_limits_the_messages_of_a_sender_per_minute(since_s: float | None) -> None:
    refusal = message_rate_error(NAMED, since_s, 120)
    assert (refusal is None) == (since_s is None or since_s >= 60)
    if refusal is not None and since_s is not None:
        assert (
            refusal.message
            == "session engineer-login may send 120 messages per minute (limits.messages_per_minute)"
        )
        assert refusal.retry_after_s == pytest.approx(60 - since_s)


def test_report_rate_error_names_the_session_and_the_config_key() -> None:
    refusal = report_rate_error(NAMED, 15.0, 60)
    assert isinstance(refusal, RateLimited)
    assert refusal.message == (
        "session engineer-login may report 60 checkpoints and notes per minute (limits.reports_per_minute)"
    )
    assert report_rate_error(NAMED, 60.0, 60) is None


def test_limit_errors_name_the_id_of_a_session_without_a_friendly_name() -> None:
    refusal = message_rate_error(session("1a2b3c4d"), 0, 120)
    assert refusal is not None
    assert refusal.message.startswith("session 1a2b3c4d may send ")


@pytest.mark.parametrize(
    ("before", "seconds"),
    [
        (None, None),
        ("2026-01-27T15:10:00.000Z", 0),
        ("2026-01-27T15:09:59.750Z", 0.25),
        ("2026-01-26T15:10:00.000Z", 86_400),
        ("2026-01-27T15:10:00.001Z", None),  # the clock was set back
    ],
)
def test_elapsed_s_is_none_when_the_time_is_in_the_future(before: str | None, seconds: float | None) -> None:
    assert elapsed_s(before, "2026-01-27T15:10:00.000Z") == seconds


def session_tree(*pairs: tuple[str, str | None]) -> Mapping[str, Session]:
    return {name: session(name, parent=parent) for name, parent in pairs}


LINE = session_tree(("a", None), ("b", "a"), ("c", "b"), ("d", "c"), ("e", "b"), ("x", "gone"), ("y", "x"))


@pytest.mark.parametrize(
    ("parent", "expected"), [("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 3), ("x", 1), ("y", 2)]
)
def test_generation_is_the_distance_from_the_top_session(parent: str, expected: int) -> None:
    assert generation(LINE[parent], lambda name: LINE.get(name or "")) == expected


@pytest.mark.parametrize(("name", "expected"), [("a", 3), ("b", 2), ("c", 1), ("d", 0), ("x", 1)])
def test_height_is_the_longest_path_to_a_descendant(name: str, expected: int) -> None:
    assert height(name, LINE.values()) == expected


def test_generation_and_height_terminate_when_the_tree_has_a_cycle() -> None:
    cycle = session_tree(("a", "c"), ("b", "a"), ("c", "b"))
    assert generation(cycle["a"], lambda name: cycle.get(name or "")) == 3
    assert height("a", cycle.values()) == 2
