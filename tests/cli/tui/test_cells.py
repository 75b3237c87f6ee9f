"""Lines of `sm top`: their width, and texts of agents in them."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from sm.board import Line, Target, chips, needs
from sm.board.columns import Column
from sm.board.details import target_lines
from sm.board.prediction import prediction
from sm.cli.tui import texts
from sm.cli.tui.cells import (
    Cells,
    fitted,
    name_text,
    need_cells,
    need_widths,
    session_cells,
    session_header,
    widths_of,
)
from tests.board.samples import AT_S, message, row
from tests.cli.samples import request

HOSTILE = (
    "\x1b[31mred\x9b2J",
    "\u202eevil\u2066",
    "数" * 200,
    "e\u0301" * 50,
    "👩\u200d💻" * 30,
    "a\nb\tc\r",
    "\ud800",
)


CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def text_of(cells: Cells) -> str:
    return "".join(text for text, _ in cells)


def session_line(width: int, **more: Any) -> str:
    line = Line(row(**more), branch="│  " * 20 + "└─ ", depth=21, folded=3)
    states = [
        session_cells(line, widths_of(width), AT_S, state=s, fresh=f)
        for s in ("", "cursor", "marked")
        for f in (False, True)
    ]
    shown = {text_of(cells) for cells in states}
    assert len(shown) == 1
    return shown.pop()


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("width", [1, 5, 20, 40, 80, 120, 200, 500])
def test_line_has_its_width_and_no_control_characters(hostile: str, width: int) -> None:
    asked = request(label=hostile, questions=[{"question": hostile, "options": [hostile], "multiple": False}])
    need = needs({}, [asked], [], {}, AT_S)[0]
    lines = [
        session_line(width, name=hostile, note=hostile, model=hostile, status_reason=hostile, status=hostile),
        text_of(need_cells(need, need_widths(width, [need]), AT_S, state="", fresh=True)),
        session_header(widths_of(width)),
    ]
    for text in lines:
        assert cell_len(text) == width
        assert text.isprintable()


@pytest.mark.parametrize("hostile", HOSTILE)
def test_texts_around_the_list_have_no_control_characters(hostile: str) -> None:
    shown = row(name=hostile, title=hostile, note=hostile, activity=hostile, workspace=hostile)
    asked = request(
        label=hostile, kind="permission", tool=hostile, questions=[], arguments={hostile: hostile}
    )
    need = needs({}, [asked], [], {"trouble": [hostile]}, AT_S)[0]
    lines = [
        *target_lines(Target(shown, need), AT_S, 60),
        *texts.help_lines(Target(shown, need)),
        texts.chip_line(chips({shown.id: shown}, [need], ["w"], None), None).plain,
        prediction(shown),
        texts.question_text({"question": hostile, "options": [hostile]}).replace("\n", ""),
    ]
    for text in lines:
        assert not CONTROLS.search(text), text


@settings(deadline=None)
@given(st.text(), st.integers(0, 100))
def test_fitted_text_has_its_width(text: str, width: int) -> None:
    printable = "".join(c for c in text if c.isprintable())
    assert cell_len(fitted(printable, width)) == width


@pytest.mark.parametrize(
    ("cost", "of_tree", "shown"),
    [(0.5, 2.0, "$0.50 ∑$2.00"), (None, 2.0, "- ∑$2.00"), (None, None, "-")],
)
def test_cost_names_the_sum_of_a_tree_that_is_known(
    cost: float | None, of_tree: float | None, shown: str
) -> None:
    tree = {"sessions": 2, "live": 2, "tokens": None, "cost_usd": of_tree}
    line = session_line(120, cost_usd=cost, tree=tree)
    assert f" {shown} " in line and ("∑" in line) == ("∑" in shown)


@pytest.mark.parametrize("full", ["▰▰▰▰▰ 100%", "12/12", "999.0M", "$0.50"])
def test_column_is_wide_enough_for_its_longest_usual_text(full: str) -> None:
    used = {"input": 999_000_000, "output": 0, "cache_read": 0, "cache_write": 0}
    more: dict[str, Any] = {"tokens": used, "todo_done": 12, "todo_total": 12, "context_percent": 100}
    assert f" {full} " in session_line(200, **more)


def test_cost_without_room_for_the_sum_of_its_tree_is_shown_alone() -> None:
    tree = {"sessions": 2, "live": 2, "tokens": None, "cost_usd": 1234.5}
    line = session_line(200, cost_usd=123.25, tree=tree)
    assert " $123.25 " in line and "∑" not in line


def test_task_gets_the_cells_of_the_cost_when_the_detail_is_beside_the_list() -> None:
    beside = widths_of(73)  # 120 columns with a detail
    assert not beside.optional
    assert beside.task >= 24
    assert [column for column, _ in widths_of(80).optional] == [Column.COST]


def test_sum_of_a_tree_leaves_its_cells_to_the_task_in_a_narrow_list() -> None:
    tree = {"sessions": 2, "live": 2, "tokens": None, "cost_usd": 2.0}
    assert " $0.50 " in session_line(80, cost_usd=0.5, tree=tree)
    assert "∑" not in session_line(80, cost_usd=0.5, tree=tree)


def test_root_of_a_tree_shows_its_workspace_and_the_mark_of_a_missing_sandbox() -> None:
    shown_row = row(workspace="shop", trust_level="sandboxed", effective_mode="direct")
    root = text_of(session_cells(Line(shown_row), widths_of(120), AT_S, state="", fresh=True))
    assert "engineer-1a2b3c4d !direct @shop" in root
    child = text_of(session_cells(Line(shown_row, depth=1), widths_of(120), AT_S, state="", fresh=True))
    assert "@shop" not in child


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (40, "engineer-1a2b3c4d !direct ✉2 @shop"),
        (33, "engineer-1a2b3c4d !direct ✉2"),
        (24, "engineer-1a2b3c4d"),
        (10, "engineer-1a2b3c4d"),
    ],
)
def test_mark_without_room_is_left_out_and_the_name_stays_whole(width: int, expected: str) -> None:
    shown_row = row(workspace="shop", trust_level="sandboxed", effective_mode="direct", messages_held=2)
    assert name_text(Line(shown_row), width) == expected


def test_unread_message_has_the_colour_of_a_request_and_a_failed_one_does_not() -> None:
    unread = message(1, "queued", session_id=None, **{"from": "1a2b3c4d"})
    waiting, failed, unread_need = needs({}, [request()], [message(2, "failed"), unread], {}, AT_S)
    styles = [
        need_cells(need, need_widths(80, []), AT_S, state="", fresh=True)[0][1]
        for need in (waiting, unread_need, failed)
    ]
    assert styles[0] == styles[1] != styles[2]


def test_task_gets_the_width_of_columns_without_values_and_of_short_names() -> None:
    every, none = widths_of(80), widths_of(80, frozenset(), 20)
    assert [column for column, _ in every.optional] == [Column.COST]
    assert (none.optional, none.name) == ([], 20)
    assert none.task == every.task + sum(size for _, size in every.optional) + every.name - none.name
    for width in range(200):
        widths = widths_of(width)
        assert widths.name >= 12 and widths.task >= 0
        assert width < 60 or 3 + widths.name + 16 + sum(s for _, s in widths.optional) + widths.task == width


def test_failed_session_is_loud_and_a_done_one_is_quiet() -> None:
    failed = row(status="error", attention="failed", exit_code=1)
    done = row(status="completed", attention="done")
    widths = widths_of(100)
    loud, quiet = (session_cells(Line(each), widths, AT_S, state="", fresh=True) for each in (failed, done))
    assert all(style.bold and style.color and style.color.name == "red" for _, style in loud[:3])
    assert not any(style.bold or style.color for _, style in quiet)
    of_failed, of_done = needs({"f": failed, "d": done}, [], [], {}, AT_S)
    lines = [
        need_cells(need, need_widths(100, []), AT_S, state="", fresh=True) for need in (of_failed, of_done)
    ]
    assert lines[0][0][1].bold and lines[0][2][1].bold
    assert all(style.dim and not style.bold for _, style in lines[1])


def test_lines_of_a_request_without_room_begin_with_its_change_and_say_what_is_missing() -> None:
    lines = [
        "r1 | permission",
        "Tool: Edit",
        "path:",
        "  | a.py",
        "change:",
        "  |- a",
        "  |+ b",
        "  |+ c",
        "Answer: x",
    ]
    rest = ["Keys: y", "", "Status: z"]
    every = [*lines, *rest]
    assert texts.lines_in(every, 9, 12) == every
    assert texts.lines_in(every, 9, 10) == every[:10]
    assert texts.lines_in(every, 9, 5) == lines[4:]
    assert texts.lines_in(every, 9, 4) == [*lines[4:7], "… 2 more lines: Enter"]
    question = ["r2 | question", "Which?", "1: a", "2: b", "Answer: x"]
    assert texts.lines_in([*question, *rest], 5, 3) == ["Which?", "1: a", "… 2 more lines: Enter"]


def test_ended_session_has_the_time_of_its_end() -> None:
    ended = row(status="error", completed_at="2026-01-27T12:24:00.000Z")
    assert any(
        text.startswith("Ended:") and ", 2h ago" in text for text in target_lines(Target(ended), AT_S, 80)
    )
    assert not any(text.startswith("Ended:") for text in target_lines(Target(row()), AT_S, 80))


def test_detail_leaves_out_figures_that_are_not_known() -> None:
    nothing = row(tokens=None, cost_usd=None, context_percent=None, messages_held=1)
    lines = target_lines(Target(nothing), AT_S, 80)
    assert not any(text.startswith(("Tokens:", "Cost:", "Context:")) for text in lines)
    assert any(text.startswith("Held:") and "1 message (" in text for text in lines)


def test_help_goes_on_below_its_own_text() -> None:
    lines = texts.hanging(["/            Filter: one two three", "", "plain words that are long"], 24, 13)
    assert lines == [
        "/            Filter: one",
        " " * 13 + "two three",
        "",
        "plain words that are",
        " " * 13 + "long",
    ]
