"""The timeline of `sm top`: its lengths of time, and what it says first."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from sm.board.lane_summary import summary_of
from sm.board.lanes import Lane, LaneMark, LaneSpan
from sm.cli.tui.pictures import lane_lines, summary_lines
from tests.board.samples import AT_S
from tests.cli.tui.view import top
from tests.instance import Instance

FAILS = """
  Breaks: {command: [sh, -c, "echo no such table: orders >&2; exit 3"], prompt: file}
"""


@pytest.fixture
def home() -> Iterator[Instance]:
    with Instance(FAILS) as instance:
        instance.start_daemon()
        yield instance


def age(home: Instance, session_id: str, hours: float) -> None:
    """Let a session have run so many hours ago."""
    home.kill_daemon()

    def earlier(at: str | None) -> str | None:
        if at is None:
            return None
        moved = datetime.fromisoformat(at).astimezone(UTC) - timedelta(hours=hours)
        return moved.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    with closing(sqlite3.connect(home.state / "sm.db")) as db, db:
        db.create_function("earlier", 1, earlier)
        db.execute("UPDATE events SET timestamp = earlier(timestamp) WHERE session_id = ?", (session_id,))
        db.execute(
            "UPDATE sessions SET created_at = earlier(created_at), started_at = earlier(started_at), "
            "status_at = earlier(status_at), completed_at = earlier(completed_at) WHERE id = ?",
            (session_id,),
        )
    home.start_daemon()


async def test_timeline_shows_failures_of_the_night_and_lengths_of_time_to_choose(home: Instance) -> None:
    broken = home.spawn("Breaks", "x", "--name", "night")["session_id"]
    home.ended(broken)
    age(home, broken, 7)
    async with top(home, (120, 30)) as view:
        await view.press("T")
        await view.shows(
            "Timeline of the last 24 hours",
            "1 Last hour  2 Last 24 h  3 Last 7 d  4 Table",
            "Waiting for you: never",
            "1 failure:",
            "breaks-night  exit code 3",
        )
        await view.press("1")
        await view.shows("Timeline of the last hour", "Nothing failed")
        await view.press("right_square_bracket", "right_square_bracket")
        await view.shows("Timeline of the last 7 days", "1 failure:")
        await view.press("4")
        await view.shows("Timeline of the last 7 days", "breaks-night: ", "error at ")


def test_summary_has_the_latest_failures_each_in_one_line() -> None:
    lanes = [
        Lane(
            f"s{number}",
            f"agent-{number}",
            "",
            "",
            [LaneSpan("waiting_input", AT_S, AT_S + 60 * number, "")],
            [LaneMark(AT_S + number, "error", "failed")],
        )
        for number in range(6)
    ]
    summary = summary_of(lanes)
    failures = [(mark.at_s, lane.label, "long words " * 20) for lane, mark in summary.failures]
    lines = [str(line) for line in summary_lines(summary, failures, AT_S + 3600, 60)]
    assert all(len(line) == 60 for line in lines[:-1])
    assert [line.split()[2] for line in lines if "✗" in line] == [f"agent-{n}" for n in range(2, 6)]
    assert lines[0].startswith("Waiting for you: 15min in total, 6 times")
    assert lines[1].strip() == "6 failures, the latest 4:"


def test_axis_of_a_new_session_has_seconds() -> None:
    lanes = [Lane("a", "a", "", "", [LaneSpan("running", AT_S, AT_S + 20, "")])]
    first, *_, last = str(lane_lines(lanes, AT_S, AT_S + 20, 60)[0]).split()
    assert (first[-3:], last[-3:]) == (":00", ":20")


@pytest.mark.parametrize(("columns", "times"), [(120, 5), (40, 3), (24, 2)])
def test_axis_has_times_between_begin_and_end_when_there_is_room(columns: int, times: int) -> None:
    lanes = [Lane("a", "a", "", "", [LaneSpan("running", AT_S, AT_S + 7200, "")])]
    axis = str(lane_lines(lanes, AT_S, AT_S + 7200, columns)[0])
    assert len(axis.split()) == times
    assert len(axis) == columns
