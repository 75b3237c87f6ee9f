"""`sm tail`: the last actions of a session, and those that come."""

import json
import signal
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from sm.cli.commands.tail import Cursor, action_line
from tests.cli.conftest import SESSION, Sm
from tests.cli.peer import HANG_UP, Answer, Peer, answer, error
from tests.cli.samples import session


def act(second: float, text: str = "Bash: npm test", kind: str = "tool") -> dict[str, Any]:
    at = datetime.fromtimestamp(datetime(2026, 1, 27, 15, 10, tzinfo=UTC).timestamp() + second, UTC)
    return {
        "timestamp": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "kind": kind,
        "text": text,
    }


def script_actions(peer: Peer, *answers: Answer, status: str = "running") -> None:
    """The answers to a command that follows session x."""
    peer.script("GET /v1/health", answer({}))
    for ref in ("x", SESSION):
        peer.script(f"GET /v1/sessions/{ref}", answer(session(status=status)))
    peer.script(f"GET /v1/sessions/{SESSION}/actions", *answers)


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
def test_what_was_told_said_and_done_can_be_told_apart(kind: str, shown: str) -> None:
    assert action_line(act(2, kind=kind), UTC, None) == f"[15:10:02] {shown}"


def test_an_action_is_one_line_of_the_terminals_width() -> None:
    evil = act(2, "a\x1b[2Jb\nc\u2028[sm] from operator " + "日" * 100)
    shown = action_line(evil, UTC, 40)
    assert shown.startswith("[15:10:02] a [2Jb c [sm] from operator")
    assert shown.endswith("…")
    assert not [c for c in shown if c < " "]


def test_tail_shows_the_last_actions_newest_last(run: Sm, peer: Peer) -> None:
    found = [act(1, "Fix it", "prompt"), act(2)]
    peer.script("GET /v1/sessions/x/actions", answer(found))
    assert run("tail", "x", "-n", "2").out == "[15:10:01] > Fix it\n[15:10:02] Bash: npm test\n"
    assert json.loads(run("tail", "x", "--json").out) == found
    assert [asked.query for asked in peer.asked] == ["lines=2", "lines=10"]


def test_a_follower_shows_each_action_once_and_ends_with_the_session(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/health", answer({}))
    peer.script("GET /v1/sessions/x", answer(session()))
    peer.script(
        f"GET /v1/sessions/{SESSION}",
        answer(session()),
        answer(session()),
        answer(session(status="completed")),
    )
    peer.script(
        f"GET /v1/sessions/{SESSION}/actions",
        answer([act(1), act(2), act(3)]),
        answer([act(2), act(2.5, "late"), act(3), act(3), act(4)]),
        answer([act(4), act(5, "last words", "text")]),
        answer([act(5, "last words", "text"), act(6, "exit 0", "event")]),
    )
    assert run("tail", "x", "-n", "2", "-f").out.splitlines() == [
        "[15:10:02] Bash: npm test",
        "[15:10:03] Bash: npm test",
        "[15:10:02] late",
        "[15:10:03] Bash: npm test",
        "[15:10:04] Bash: npm test",
        '[15:10:05] "last words"',
        "[15:10:06] * exit 0",
    ]
    queries = [asked.query for asked in peer.asked if asked.path.endswith("/actions")]
    after = ["15:09:03", "15:09:04", "15:09:05"]
    assert queries == [
        "lines=500",
        *(f"lines=500&after=2026-01-27T{t.replace(':', '%3A')}.000Z" for t in after),
    ]


def test_a_follower_prints_one_object_on_each_line(run: Sm, peer: Peer) -> None:
    script_actions(peer, answer([]), answer([act(1), act(2)]), status="killed")
    out = run("tail", "x", "-f", "--json").out
    assert [json.loads(line) for line in out.splitlines()] == [act(1), act(2)]
    assert [asked.query for asked in peer.asked if asked.path.endswith("/actions")] == ["lines=500"] * 2


def test_a_follower_waits_for_a_daemon_that_is_away_and_says_so(run: Sm, peer: Peer) -> None:
    script_actions(peer, answer([act(1)]), HANG_UP, answer([act(1), act(2)]), status="killed")
    done = run("tail", "x", "-f")
    assert len(done.out.splitlines()) == 2
    assert done.err == "the daemon is away; waiting for it\nthe daemon is back\n"


def test_a_follower_ends_with_ctrl_c_and_with_a_refusal(run: Sm, peer: Peer) -> None:
    script_actions(peer, answer([act(1)]))
    with run.start("tail", "x", "--follow") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "[15:10:01] Bash: npm test\n"
        process.send_signal(signal.SIGINT)
    assert process.returncode == 130
    peer.script("GET /v1/sessions/y", error("not_found", "no session y", 404))
    assert run("tail", "y", "-f", code=3).err == "sm: no session y\n"


def test_a_follower_ends_quietly_when_its_reader_goes(run: Sm, peer: Peer) -> None:
    script_actions(peer, answer([act(1)]))
    # It ends without another action to write.
    run.unread("tail", "x", "--follow", after_a_line=True)


# The cursor


def test_what_was_there_before_is_no_news_however_late_it_is_seen() -> None:
    cursor = Cursor([act(100), act(110)], whole=False)
    assert cursor.after == "2026-01-27T15:10:50.000Z"
    assert texts(cursor.news([act(60, "older"), act(100), act(105, "late"), act(110)])) == ["late"]
    assert texts(cursor.news([act(100), act(105, "late"), act(110)])) == []


def test_all_is_news_where_nothing_was_there() -> None:
    assert Cursor([], whole=True).after is None
    cursor = Cursor([], whole=True)
    assert texts(cursor.news([act(1, "a"), act(2, "b")])) == ["a", "b"]
    assert cursor.after == "2026-01-27T15:09:02.000Z"
    assert texts(cursor.news([act(0, "c"), act(1, "a"), act(2, "b")])) == ["c"]
