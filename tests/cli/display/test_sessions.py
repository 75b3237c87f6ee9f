"""The layout of sessions."""

from datetime import UTC, datetime
from typing import Any

import pytest

from sm.cli.display.overview import log_line
from sm.cli.display.progress_block import progress_block
from sm.cli.display.sessions import session_table, tree_rows
from sm.cli.display.text_table import table_lines
from sm.core.lines import event_line, plain_line
from sm.core.session_lines import last_words, process_of, session_block, status_of
from tests.cli.samples import AT, EVIL, FORGED_HEADERS, ago, event, progress, session

TASK = session("abc12345", friendly_name="engineer-task1042", status="completed", status_at=ago(minutes=5))


def session_rows(rows: Any, now: datetime, *, with_words: bool = True) -> list[str]:
    return table_lines(session_table(rows, now, with_words=with_words))


def test_session_table_is_aligned_as_in_seed_003() -> None:
    sessions = [
        TASK | {"completion_message": "Feature implemented"},
        session("def45678", friendly_name="engineer-task1043", status_at=ago(minutes=2), note="In progress"),
        session(
            "a1b78901",
            friendly_name="architect-review",
            status="completed",
            status_at=ago(minutes=10),
            completion_message="Approved",
        ),
    ]
    assert session_rows([("", s) for s in sessions], AT) == [
        'engineer-task1042 (abc12345) | completed | 5min ago | "Feature implemented"',
        "engineer-task1043 (def45678) | running   | 2min ago | In progress",
        'architect-review (a1b78901)  | completed | 10min ago | "Approved"',
    ]


def test_session_table_shows_in_progress_when_running_session_has_no_note() -> None:
    rows = [
        ("", session(status="running")),
        ("", session(status="running", note="reading")),
        ("", session(status="idle")),
    ]
    assert [row.split(" | ")[3:] for row in session_rows(rows, AT)] == [["In progress"], ["reading"], []]


def test_session_tree_connects_all_children_with_their_parent() -> None:
    fix = session("aaa11111", friendly_name="engineer-fix", status="completed", status_at=ago(minutes=3))
    deep = session("bbb11111", friendly_name="x", status="idle", status_at=ago(minutes=1))
    sessions = [
        TASK
        | {
            "children": [
                {**fix, "children": [deep]},
                session("ccc11111", friendly_name="y", status_at=ago(minutes=1)),
            ]
        },
        session("def45678", friendly_name="engineer-task1043", status_at=ago(minutes=2)),
    ]
    assert session_rows(tree_rows(sessions), AT, with_words=False) == [
        "engineer-task1042 (abc12345) | completed | 5min ago",
        "  ├─ engineer-fix (aaa11111) | completed | 3min ago",
        "  │  └─ x (bbb11111)         | idle      | 1min ago",
        "  └─ y (ccc11111)            | running   | 1min ago",
        "engineer-task1043 (def45678) | running   | 2min ago",
    ]


def test_tree_makes_a_root_of_a_session_whose_parent_is_unknown() -> None:
    flat = [
        session("00000001"),
        session("00000002", parent_session_id="00000001"),
        session("00000003", parent_session_id="gone0000"),
        session("00000004", parent_session_id="00000002"),
        session("00000005", parent_session_id="00000001"),
    ]
    rows = [(indent, shown["session_id"]) for indent, shown in tree_rows(flat)]
    assert rows == [
        ("", "00000001"),
        ("  ├─ ", "00000002"),
        ("  │  └─ ", "00000004"),
        ("  └─ ", "00000005"),
        ("", "00000003"),
    ]


def test_stale_status_has_a_question_mark_and_an_age() -> None:
    shown = session(status_stale=True, status_at=ago(minutes=4))
    assert status_of(shown, AT) == "running? (4m)"


def test_last_words_show_the_reason_when_a_failed_session_left_no_message() -> None:
    assert last_words(session(status="error", status_reason="the process ended with exit code 1")).endswith(
        "code 1"
    )
    assert last_words(session(status="completed", status_reason="it said so")) == ""


def test_wide_characters_take_two_columns() -> None:
    rows = session_rows([("", session(friendly_name="日本")), ("", session(friendly_name="abcd"))], AT)
    assert rows[0].startswith("日本 (1a2b3c4d) |")
    assert rows[1].startswith("abcd (1a2b3c4d) |")


@pytest.mark.parametrize(
    ("how", "shown"),
    [
        ({"exit_code": 3, "pid": 5}, "ended with exit code 3"),
        ({"exit_code": 0, "pid": 5}, "ended with exit code 0"),
        ({"exit_signal": 9, "pid": 5}, "ended by signal 9"),
        ({"pid": 5}, "pid 5"),
        ({"pid": None}, None),
    ],
)
def test_process_line_shows_pid_exit_code_or_signal(how: dict[str, Any], shown: str | None) -> None:
    assert process_of(session(**how)) == shown


def test_session_block_shows_all_details_of_a_session() -> None:
    ended = session(
        status="error",
        status_reason="the process ended with exit code 3",
        exit_code=3,
        completion_message="no key",
        trust_level="sandboxed",
        parent_session_id="99999999",
        parent_label="engineer-lead",
        last_output=["$ make", "\x1b]0;evil\x07boom"],
    )
    block = "\n".join(session_block(ended, AT))
    for part in (
        "error, 5min ago",
        "process: the process ended",
        "exit code 3",
        '"no key"',
        "Parent:    engineer-lead",
        "/work",
    ):
        assert part in block
    assert "direct (requested: sandboxed)" in block
    assert "sm attach 1a2b3c4d" in block, "an ID, because the session has no friendly name"
    assert "]0;evilboom" in block
    assert "\x1b" not in block


@pytest.mark.parametrize("header", FORGED_HEADERS)
def test_last_output_marks_forged_headers(header: str) -> None:
    marked = f"  > {plain_line(header)}"
    assert session_block(session(last_output=[header, "$"]), AT)[-2:] == [marked, "  $"]
    assert progress_block(progress(last_output=[header, "$"]), AT, UTC)[-2:] == [marked, "  $"]


def test_session_views_contain_no_control_characters() -> None:
    names = ["friendly_name", "title", "agent_type", "provider", "model", "status", "status_source", "mode"]
    names += [
        "status_reason",
        "label",
        "parent_label",
        "created_by",
        "working_dir",
        "workspace",
        "trust_level",
        "effective_mode",
    ]
    texts: dict[str, Any] = dict.fromkeys([*names, "tmux_session", "completion_message", "note"], EVIL)
    evil = session(**texts, last_output=[EVIL])
    moves = progress(
        name=EVIL,
        status=EVIL,
        current_activity=EVIL,
        completion_message=EVIL,
        tools_used={EVIL: 1},
        last_tool={"name": EVIL, "args": {"x": EVIL}, "timestamp": ago(seconds=1)},
        todo=[{"status": EVIL, "text": EVIL}],
        checkpoints=[{"timestamp": ago(seconds=1), "message": EVIL}],
        last_output=[EVIL],
    )
    shown = [
        *session_block(evil, AT),
        *session_rows([("", evil)], AT),
        *progress_block(moves, AT, UTC),
        event_line(event(type=EVIL, message=EVIL), AT, UTC),
        log_line({"time": ago(seconds=1), "level": EVIL, "logger": EVIL, "message": EVIL, "sm_x": EVIL}, UTC),
    ]
    assert not [c for text in shown for c in text if c < " " or "\x7f" <= c <= "\x9f"]
