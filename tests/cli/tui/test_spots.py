"""The cursor of the timeline: which span it is on, with keys, with the pointer and while spans are added."""

from sm.board.lanes import Lane, LaneMark, LaneSpan
from sm.cli.tui.pictures import lane_lines, lane_spots
from sm.cli.tui.spots import Spot, SpotCursor

BEGIN_S, END_S = 1769526600.0, 1769530200.0  # an hour
FIRST = [Spot(0, 4, "a"), Spot(5, 5, "b", 3), Spot(5, 9, "c")]
SPOTS = {1: FIRST, 2: [], 3: [Spot(6, 9, "d")]}


def walk(cursor: SpotCursor) -> str:
    return "" if cursor.current is None else cursor.current[1].words


def test_cursor_begins_at_the_newest_spot_and_stays_in_the_picture() -> None:
    cursor = SpotCursor()
    cursor.show(SPOTS)
    words = [walk(cursor)]
    for steps in (-1, -1, -1, -1, 1, 1):
        cursor.step(steps)
        words.append(walk(cursor))
    assert words == ["", "c", "b", "a", "a", "b", "c"]
    for lines in (1, 1, -1, -1):
        cursor.move(lines)
        words.append(walk(cursor))
    assert words[7:] == ["d", "d", "b", "b"]


def test_cursor_stays_on_its_spot_when_others_are_added() -> None:
    cursor = SpotCursor()
    cursor.show(SPOTS)
    cursor.move(0)
    cursor.show({**SPOTS, 1: [*FIRST, Spot(10, 12, "new")]})
    assert walk(cursor) == "c"
    cursor.show({3: SPOTS[3]})
    assert cursor.current is None


def test_pointer_finds_the_spot_that_has_to_be_seen() -> None:
    cursor = SpotCursor()
    cursor.show(SPOTS)
    assert cursor.point(1, 5)
    assert walk(cursor) == "b"
    assert not cursor.point(1, 10)
    assert not cursor.point(2, 0)
    assert walk(cursor) == "b"


def test_spots_are_the_cells_that_the_picture_draws() -> None:
    spans = [
        LaneSpan("running", BEGIN_S, BEGIN_S + 1800, ""),
        LaneSpan("waiting_input", BEGIN_S + 1800, END_S, "Bash ls"),
    ]
    marks = [LaneMark(BEGIN_S + 900, "message", "two words")]
    lanes = [Lane("a", "数" * 3, "", "", spans, marks)]
    line = lane_lines(lanes, BEGIN_S, END_S, 60)[1]
    (spots,) = lane_spots(lanes, BEGIN_S, END_S, 60).values()
    cells = str(line).replace("数", "数 ")  # two cells each
    shown = [cells[spot.start : spot.end + 1] for spot in spots]
    assert [set(text) for text in shown] == [{"█", "✉", "▓"}, {"✉"}, {"▓"}]
    times = [spot.words.partition(": ")[2] for spot in spots]
    assert times[0].startswith("running for 30min, ")
    assert times[1].startswith("message at ")
    assert times[1].endswith(": two words")
    assert times[2].endswith(" to now: Bash ls")
