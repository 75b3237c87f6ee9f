"""`sm tail`: the last actions of a session, and new actions with --follow."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from sm.cli.commands.tail import Cursor
from sm.cli.display.evidence import action_line
from tests.cli.conftest import SESSION
from tests.cli.peer import HANG_UP, Answer, Script, answer, error
from tests.cli.samples import AT, session
from tests.played.cli.command import Sm
from tests.played.cli.peer import Peer

ACTIONS = f"/v1/sessions/{SESSION}/actions"


def act(second: float, text: str = "Bash: npm test", kind: str = "tool") -> dict[str, Any]:
    at = datetime.fromtimestamp(datetime(2026, 1, 27, 15, 10, tzinfo=UTC).timestamp() + second, UTC)
    return {
        "timestamp": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "kind": kind,
        "text": text,
    }


def script_actions(peer: Script, *answers: Answer, status: str = "running") -> None:
    """The answers to `sm tail x --follow`."""
    peer.script("GET /v1/health", answer({}))
    for ref in ("x", SESSION):
        peer.script(f"GET /v1/sessions/{ref}", answer(session(status=status)))
    peer.script(f"GET {ACTIONS}", *answers)


def texts(actions: Iterable[Mapping[str, Any]]) -> list[str]:
    return [action["text"] for action in actions]


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ("tool", "Bash: npm test"),
        ("prompt", "> Bash: npm test"),
        ("text", '"Bash: npm test"'),
        ("event", "* Bash: npm test"),
        ("error", "error: Bash: npm test"),
        ("mark", "mark: Bash: npm test"),
        ("news", "news: Bash: npm test"),
    ],
)
def test_action_line_marks_each_kind_of_action(kind: str, shown: str) -> None:
    assert action_line(act(2, kind=kind), AT, None, UTC) == f"[15:10:02] {shown}"


def test_action_line_is_one_line_within_the_terminal_width() -> None:
    evil = act(2, "a\x1b[2Jb\nc\u2028[sm] from operator " + "日" * 100)
    shown = action_line(evil, AT, 40, UTC)
    assert shown.startswith("[15:10:02] a [2Jb c [sm] from operator")
    assert shown.endswith("…")
    assert not [c for c in shown if c < " "]


def test_tail_prints_the_last_actions_newest_last(run: Sm, peer: Peer) -> None:
    actions = [act(1, "Fix it", "prompt"), act(2)]
    peer.script("GET /v1/sessions/x/actions", answer(actions))
    assert (
        run("tail", "x", "-n", "2").out
        == "[2026-01-27 15:10:01] > Fix it\n[2026-01-27 15:10:02] Bash: npm test\n"
    )
    assert json.loads(run("tail", "x", "--json").out) == actions
    assert [received.query for received in peer.received] == ["lines=2&seen=1", "lines=10"]


def test_tail_follow_prints_each_action_once_and_ends_with_the_session(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/health", answer({}))
    peer.script("GET /v1/sessions/x", answer(session()))
    peer.script(
        f"GET /v1/sessions/{SESSION}",
        answer(session()),
        answer(session()),
        answer(session(status="completed")),
    )
    peer.script(
        f"GET {ACTIONS}",
        answer([act(1), act(2), act(3)]),
        answer([act(2), act(2.5, "late"), act(3), act(3), act(4)]),
        answer([act(4), act(5, "last words", "text")]),
        answer([act(5, "last words", "text"), act(6, "exit 0", "event")]),
    )
    assert run("tail", "x", "-n", "2", "-f").out.splitlines() == [
        "[2026-01-27 15:10:02] Bash: npm test",
        "[2026-01-27 15:10:03] Bash: npm test",
        "[2026-01-27 15:10:02] late",
        "[2026-01-27 15:10:03] Bash: npm test",
        "[2026-01-27 15:10:04] Bash: npm test",
        '[2026-01-27 15:10:05] "last words"',
        "[2026-01-27 15:10:06] * exit 0",
    ]
    queries = [received.query for received in peer.requests_to(ACTIONS)]
    after = ["15:09:03", "15:09:04", "15:09:05"]
    assert queries == [
        "lines=500&seen=1",
        *(f"lines=500&after=2026-01-27T{t.replace(':', '%3A')}.000Z" for t in after),
    ]


def test_tail_follow_prints_one_json_object_per_line(run: Sm, peer: Peer) -> None:
    script_actions(peer, answer([]), answer([act(1), act(2)]), status="killed")
    out = run("tail", "x", "-f", "--json").out
    assert [json.loads(line) for line in out.splitlines()] == [act(1), act(2)]
    assert [received.query for received in peer.requests_to(ACTIONS)] == ["lines=500"] * 2


def test_tail_follow_waits_and_reports_when_daemon_is_away(run: Sm, peer: Peer) -> None:
    script_actions(peer, answer([act(1)]), HANG_UP, answer([act(1), act(2)]), status="killed")
    done = run("tail", "x", "-f")
    assert len(done.out.splitlines()) == 2
    assert done.err == "the daemon is not running; waiting for it\nthe daemon is running again\n"


def test_tail_follow_ends_on_an_error_of_the_daemon(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/health", answer({}))
    peer.script("GET /v1/sessions/y", error("not_found", "no such session: y", 404))
    assert run("tail", "y", "-f", code=3).err == "sm: no such session: y\n"


def test_tail_follow_ends_on_ctrl_c(run: Sm, peer: Peer) -> None:
    script_actions(peer, answer([act(1)]))
    process = run.start("tail", "x", "--follow")
    peer.wait_received(5)
    process.interrupt()
    assert process.communicate(timeout=30) == ("[2026-01-27 15:10:01] Bash: npm test\n", "")
    assert process.returncode == 130


def test_tail_follow_ends_silently_when_output_pipe_closes(run: Sm, peer: Peer) -> None:
    script_actions(peer, answer([act(1)]))
    # The command must end without another action to write.
    run.unread_after_a_line("tail", "x", "--follow")


# The cursor


def test_cursor_skips_older_actions_that_appear_late() -> None:
    cursor = Cursor([act(100), act(110)], whole=False)
    assert cursor.after == "2026-01-27T15:10:50.000Z"
    assert texts(cursor.new_actions([act(60, "older"), act(100), act(105, "late"), act(110)])) == ["late"]
    assert texts(cursor.new_actions([act(100), act(105, "late"), act(110)])) == []


def test_cursor_returns_every_action_when_the_first_list_was_empty() -> None:
    assert Cursor([], whole=True).after is None
    cursor = Cursor([], whole=True)
    assert texts(cursor.new_actions([act(1, "a"), act(2, "b")])) == ["a", "b"]
    assert cursor.after == "2026-01-27T15:09:02.000Z"
    assert texts(cursor.new_actions([act(0, "c"), act(1, "a"), act(2, "b")])) == ["c"]
