"""The last line of `sm top`: the keys that matter for what is selected."""

from typing import Any

import pytest

from sm.board import BoardNeed, BoardRow, Target, needs
from sm.board.details import shown_target
from sm.cli.tui import texts
from sm.cli.tui.key_hints import hint_line, page_hints, page_line
from tests.board.samples import AT_S, message, row
from tests.cli.samples import request

ENDED: dict[str, Any] = {"pid": None, "exit_code": 1, "attention": "failed", "status": "error"}
QUESTION: dict[str, Any] = {"questions": [{"question": "Which?", "options": ["a", "b"], "multiple": False}]}


def hints(target: Target, *found: BoardNeed, width: int = 80) -> list[str]:
    line = hint_line(target, found, width)
    assert len(line) <= width
    return line.split("  ")


def entry(shown: BoardRow, *requests: dict[str, Any], messages: tuple[dict[str, Any], ...] = ()) -> BoardNeed:
    return needs({shown.id: shown}, requests, messages, {}, AT_S)[0]


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ({}, ["i: interrupt", "o: attach", "Enter: details"]),
        ({"status": "idle"}, ["o: attach", "K: kill", "Enter: details"]),
        (ENDED, ["r: restore", "w: why", "Enter: details"]),
        ({**ENDED, "attention": "over"}, ["r: restore", "x: archive", "Enter: details"]),
    ],
)
def test_hints_of_a_session_fit_its_state(more: dict[str, Any], wanted: list[str]) -> None:
    shown = hints(Target(row(**more)))
    assert (shown[:3], shown[-2:]) == (wanted, ["?: help", "q: quit"])


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        (request(kind="permission"), ["a: approve", "d: deny", "Enter: details"]),
        (request(**QUESTION), ["1-2: choose", "t: answer", "d: deny"]),
        (request(kind="dialog"), ["o: attach", "Enter: details", "Tab: list"]),
    ],
)
def test_hints_of_a_request_answer_it(asked: dict[str, Any], wanted: list[str]) -> None:
    waiting = row(str(asked["session_id"]), open_requests=[asked["request_id"]])
    need = entry(waiting, asked)
    shown = hints(Target(waiting, need), need)
    assert (shown[:3], shown[-1]) == (wanted, "q: quit")


def test_hints_of_a_waiting_session_lead_to_its_request() -> None:
    asked = request(kind="permission")
    waiting = row(str(asked["session_id"]), open_requests=[asked["request_id"]])
    need = entry(waiting, asked)
    assert hints(Target(waiting), need)[0] == f"a: go to {need.key}"
    shown = shown_target(Target(waiting), [need])
    assert shown.need == need
    assert texts.keys_of_request(Target(waiting), shown).startswith(f"a: go to {need.key}, then a: approve")
    assert texts.keys_of_request(Target(waiting, need), shown).startswith("a: approve")


def test_hints_of_other_entries() -> None:
    failed = row(**ENDED)
    assert hints(Target(failed, entry(failed)))[:3] == ["r: restore", "Enter: details", "m: mark as seen"]
    unread = message(1, "queued", session_id=None, **{"from": "1a2b3c4d"})
    live = row()
    need = entry(live, messages=(unread,))
    assert hints(Target(live, need))[:2] == ["M: mark as read", "s: reply"]
    assert hints(Target())[0] == "n: start an agent"


def test_wider_screens_have_more_hints_and_narrow_ones_keep_help_and_quit() -> None:
    live = Target(row())
    assert len(hints(live, width=200)) > len(hints(live, width=80)) > len(hints(live, width=40))
    assert hint_line(live, (), 20) == "?: help  q: quit"


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        (request(kind="permission"), ["a: approve", "d: deny", "i: interrupt", "o: attach"]),
        (request(**QUESTION), ["t: answer", "d: deny", "i: interrupt", "o: attach"]),
        (request(kind="dialog"), ["o: attach", "i: interrupt", "s: send"]),
    ],
)
def test_page_of_a_waiting_session_names_the_keys_for_its_request(
    asked: dict[str, Any], wanted: list[str]
) -> None:
    waiting = row(str(asked["session_id"]), open_requests=[asked["request_id"]])
    need = entry(waiting, asked)
    line = page_line(page_hints(Target(waiting, need), [need]), 80)
    assert line.split("  ")[: len(wanted)] == wanted
    if asked["kind"] == "permission":  # on a tab that does not show the request
        assert page_line(page_hints(Target(waiting), [need]), 80).startswith(f"a: go to {need.key}  i: ")


def test_line_of_keys_of_a_page_has_only_whole_hints() -> None:
    found = page_hints(Target(row()), [])
    hints_of_all = {f"{key}: {effect}" for key, effect in found}
    assert len(hints_of_all) == len(found) == len({key for key, _ in found})
    for width in (20, 40, 60, 80, 100, 120, 200):
        *first, tab, keys = page_line(found, width).split("  ") if width > 20 else ("", *"ab")
        assert len(page_line(found, width)) <= max(width, 28)
        if width > 20:
            assert (tab, keys) == ("[ ]: other tab", "?: keys")
            assert set(first) <= hints_of_all
