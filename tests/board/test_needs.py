"""Entries that need a person, the workspace switcher and the words of rows."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sm.board import ACTIONS, NO_WORDS, NeedKind, Quiet, Target, board_row, chips, needs
from sm.board.details import count_line, needs_title
from sm.board.words import context_bar, shown
from sm.core.messages import TYPED_WHOLE
from tests.board.samples import AT_S, message, row, row_data
from tests.cli.samples import request

NOTHING: dict[str, Any] = {"trouble": [], "dead_letters": 0}


def test_needs_are_requests_by_age_then_messages_stale_sessions_and_trouble() -> None:
    rows = {
        r.id: r
        for r in (
            row("a", status_stale=True),
            row("b", status_stale=True, open_requests=["r57"]),
            row("c", status_stale=True, archived=True),
        )
    }
    found = needs(
        rows,
        [
            request(58, created_at="2026-01-27T15:09:00Z"),
            request(57, created_at="2026-01-27T15:08:00Z", kind="permission", tool="Bash", questions=[])
            | {"arguments": {"command": "npm install\nrm -rf /"}},
            request(59, state="answered"),
            request(60, answer={"approved": True, "answers": [], "message": None}),
        ],
        [
            message(1, "submitted"),
            message(2, "unconfirmed", reason="no answer"),
            message(3, "failed", **{"from": "b"}),
            message(4, "failed", created_at="2026-01-20T15:10:00Z"),
            message(5, "queued"),
            message(6, "unconfirmed", reason=TYPED_WHOLE),
        ],
        {"trouble": ["the disk is full"], "dead_letters": 2},
        AT_S,
    )
    assert [(need.kind, need.key) for need in found] == [
        (NeedKind.REQUEST, "r57"),
        (NeedKind.REQUEST, "r58"),
        (NeedKind.MESSAGE, "message 2"),
        (NeedKind.STALE, "stale a"),
        (NeedKind.DAEMON, "trouble 0"),
        (NeedKind.DAEMON, "dead letters"),
    ]
    assert found[0].text == "Bash: npm install⏎rm -rf /"
    assert found[0].digest == f"{57:032x}"
    assert found[2].text == "unconfirmed (no answer): go on"


def test_unread_message_to_the_operator_needs_a_person_until_it_is_read() -> None:
    waiting = {"session_id": None, "label": "operator", "from": "b", "from_label": "engineer-b (b)"}
    found = needs(
        {},
        [],
        [
            message(1, "queued", text="done\nso far", **waiting),
            message(2, "submitted", **waiting),
            message(3, "queued", **{**waiting, "from": "sm"}),
        ],
        NOTHING,
        AT_S,
    )
    assert [(n.key, n.session_id, n.label, n.text) for n in found] == [
        ("message 1", "b", "engineer-b (b)", "to you: done⏎so far")
    ]
    target = Target(None, found[0])
    read = ACTIONS["read"]
    assert read.refusal(target) is None
    assert read.command_line(target) == "sm inbox --read 1"
    assert read.call is not None
    assert read.call(target, NO_WORDS).body == {"message_ids": [1]}
    assert read.refusal(Target()) == "select a message to you"


FAILED = {
    "status": "error",
    "attention": "failed",
    "status_reason": "exit code 3",
    "completion_message": "exit code 3",
    "exit_code": 3,
}
DONE = {"status": "completed", "attention": "done", "completion_message": "All pass."}


def test_unseen_failure_needs_a_person_and_an_unseen_result_only_a_look() -> None:
    rows = {
        r.id: r
        for r in (
            row("a", **DONE),
            row("b", **FAILED, task="exit code 3: \"KeyError: 'x'\"", task_kind="reason"),
            row("c", status="completed", attention="ended"),
            row("d", children_failed=2, children_done=3, note="builds"),
        )
    }
    found = needs(rows, [request()], [], NOTHING, AT_S)
    assert [(need.key, need.text, need.is_urgent) for need in found] == [
        ("r57", found[0].text, True),
        ("failed b", "exit code 3: \"KeyError: 'x'\"", True),
        ("done a", "All pass.", False),
    ]
    assert needs_title(found, None, AT_S) == "Needs you: 2; done, not seen yet: 1"
    assert count_line(rows.values()) == "1 live, 1 failed, 1 done, 1 ended, $2.00"
    assert rows["d"].task() == "2 failed, 3 done; builds"
    assert [rows[name].is_over for name in "abcd"] == [False, False, True, False]
    quiet = Quiet()
    quiet.update(found[2:], 10.0)
    assert quiet.since_s == 0.0
    assert needs_title(found[2:], quiet.since_s, AT_S) == "Nothing needs you; done, not seen yet: 1"
    assert [chip.needs for chip in chips(rows, found, [], "x")] == [1]


def test_lost_sessions_are_one_entry_with_the_command_that_restarts_them() -> None:
    rows = {name: row(name, **FAILED, lost=True) for name in "ab"}
    (loss,) = needs(rows, [], [], NOTHING, AT_S)
    assert (loss.kind, loss.session_id) == (NeedKind.LOSS, None)
    assert loss.text.startswith("sm restore --all  # restarts 2 sessions ")


def test_quiet_is_since_the_last_need_was_gone() -> None:
    quiet, some = Quiet(), needs({}, [request()], [], NOTHING, AT_S)
    since = []
    for found, now_s in (([], 10.0), ([], 20.0), (some, 30.0), ([], 40.0)):
        quiet.update(found, now_s)
        since.append(quiet.since_s)
    assert since == [0.0, 0.0, None, 40.0], "0: since before the first look"


def test_chips_count_needs_outside_of_the_chosen_workspace() -> None:
    rows = {r.id: r for r in (row("a", workspace="shop"), row("b", workspace="blog"), row("c"))}
    found = needs(rows, [request(n, session_id=s) for n, s in enumerate("aabc", 1)], [], NOTHING, AT_S)
    shown_chips = chips(rows, found, ["shop", "blog"], "shop")
    assert [(c.label, c.key, c.sessions, c.needs) for c in shown_chips] == [
        ("All", "0", 3, 2),
        ("blog", "1", 1, 1),
        ("shop", "2", 1, 0),
    ]
    assert all(chip.needs == 0 for chip in chips(rows, found, ["shop", "blog"], None))
    assert [c.key for c in chips({}, [], (f"w{n:02}" for n in range(12)), None)] == [*"0123456789", *[""] * 3]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\nb", "a⏎b"),
        ("\x1b[31mred\x9b", "<U+001B>[31mred<U+009B>"),
        ("\u202eevil\u2066", "<U+202E>evil<U+2066>"),
        ("数" * 600, "数" * 500 + "…"),
    ],
)
def test_agents_text_is_shown_on_one_line_with_code_points(text: str, line: str) -> None:
    assert shown(text) == line


@settings(deadline=None)
@given(st.text())
def test_shown_text_is_printable(text: str) -> None:
    assert shown(text).isprintable()
    noted = row(note=text, name=text, status_reason=text)
    assert noted.task().isprintable()
    assert noted.label.isprintable()


def test_numbers_of_a_row_are_short() -> None:
    tokens = {"input": 900_000, "output": 100_000, "cache_read": 9, "cache_write": 9}
    assert [row(tokens=None).tokens(), row(tokens=tokens).tokens()] == ["-", "1.0M"]
    assert [context_bar(None), context_bar(40), context_bar(250)] == ["-", "▰▰▱▱▱ 40%", "▰▰▰▰▰ 250%"]
    assert row(model="claude-haiku-4-5-20251001", provider="claude").model() == "haiku-4-5"


def test_task_is_the_one_of_the_daemon_unless_the_session_is_still() -> None:
    more: dict[str, Any] = {"task": "Bash: npm test", "task_kind": "activity"}
    assert row(**more).task() == "Bash: npm test"
    assert row(**more, children_failed=1).task() == "1 failed; Bash: npm test"
    assert row(task="All 26 tests pass.", task_kind="answer").task() == '"All 26 tests pass."'
    pause = {"reason": "too dear", "state": "paused", "held": "frozen"}
    assert row(**more, paused=pause).task() == "paused: its processes are frozen until sm resume"
    assert row(**more, paused={**pause, "held": "told"}).task() == "paused: too dear"
    assert row(**more, paused={**pause, "state": "pausing", "held": None}).task() == "Bash: npm test"
    asks: dict[str, Any] = {"task": "r1 asks: Which way?", "task_kind": "request", "open_requests": ["r1"]}
    assert row(**asks, paused=pause).task() == "r1 asks: Which way?"


def test_task_of_an_older_daemon_is_the_reason_of_the_status() -> None:
    data = row_data("a", status_reason="works")
    del data["task"], data["task_kind"]
    assert board_row(data).task() == "works"
