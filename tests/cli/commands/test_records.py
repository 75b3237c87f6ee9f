"""reparent, archive, unarchive, rm: what they ask of the daemon, what they say, how they end."""

import json
from typing import Any

import pytest

from tests.cli.conftest import Sm
from tests.cli.peer import Peer, answer, error
from tests.cli.samples import session

EACH = [
    ("archive", "archive", session("aaaaaaaa", archived=True), "Archived engineer-aaaaaaaa (aaaaaaaa)"),
    ("unarchive", "unarchive", session("aaaaaaaa"), "Unarchived engineer-aaaaaaaa (aaaaaaaa)"),
    ("rm", "remove", {"removed": "aaaaaaaa"}, "Removed aaaaaaaa"),
]


@pytest.mark.parametrize(("command", "action", "done", "said"), EACH)
def test_a_record_is_put_away_or_taken_out_and_it_is_said(
    run: Sm, peer: Peer, command: str, action: str, done: dict[str, Any], said: str
) -> None:
    peer.script(f"POST /v1/sessions/engineer-x/{action}", answer(done))
    shown = run(command, "engineer-x")
    assert (shown.out, shown.err) == (f"{said}\n", "")
    assert peer.asked[0].json == {}
    assert json.loads(run(command, "engineer-x", "--json").out) == done
    keys = [asked.headers["idempotency-key"] for asked in peer.asked]
    assert keys[0] != keys[1]


@pytest.mark.parametrize(("command", "action", "done", "said"), EACH)
def test_every_record_is_tried_and_the_first_failure_is_the_exit_code(
    run: Sm, peer: Peer, command: str, action: str, done: dict[str, Any], said: str
) -> None:
    peer.script(f"POST /v1/sessions/a/{action}", error("illegal_state", "a is live", 409, "sm kill a"))
    peer.script(f"POST /v1/sessions/b/{action}", error("not_found", "no such session: b", 404))
    peer.script(f"POST /v1/sessions/c/{action}", answer(done))
    shown = run(command, "a", "b", "c", code=4)
    assert shown.out == f"{said}\n"
    assert shown.err == "sm: a is live\nhint: sm kill a\nsm: no such session: b\n"
    in_json = run(command, "a", "c", "b", "--json", code=4)
    assert json.loads(in_json.out) == [done]
    assert [json.loads(line)["error"]["code"] for line in in_json.err.splitlines()] == [
        "illegal_state",
        "not_found",
    ]
    assert run(command, "a", "b", "--json", code=4).out == "[]\n"
    assert json.loads(run(command, "c", "c", "--json").out) == [done, done]


@pytest.mark.parametrize(("command", "action", "done", "said"), EACH)
def test_one_record_that_is_refused_prints_no_document(
    run: Sm, peer: Peer, command: str, action: str, done: dict[str, Any], said: str
) -> None:
    peer.script(f"POST /v1/sessions/a/{action}", error("not_permitted", "no", 403))
    shown = run(command, "a", "--json", code=5)
    assert shown.out == ""
    assert json.loads(shown.err) == {"error": {"code": "not_permitted", "message": "no", "hint": None}}
    assert run(command, "..", code=3).err == "sm: no session '..'\nhint: sm all\n"
    assert run(command, code=2).err.startswith("sm: missing argument")


def test_what_the_daemon_calls_a_session_can_drive_no_terminal(run: Sm, peer: Peer) -> None:
    evil = "x\x1b[2J\nRemoved y"
    peer.script("POST /v1/sessions/a/archive", answer(session("aaaaaaaa", friendly_name=evil)))
    peer.script("POST /v1/sessions/a/remove", answer({"removed": evil}))
    assert run("archive", "a").out == "Archived x [2J Removed y (aaaaaaaa)\n"
    assert run("rm", "a").out == "Removed x [2J Removed y\n"


def test_reparent_says_to_whom_a_session_belongs_now(run: Sm, peer: Peer) -> None:
    moved = session("aaaaaaaa", parent_session_id="bbbbbbbb")
    peer.script("POST /v1/sessions/a/reparent", answer(moved), answer(moved), answer(session("aaaaaaaa")))
    assert run("reparent", "a", "b").out == "engineer-aaaaaaaa (aaaaaaaa) belongs to bbbbbbbb now\n"
    assert json.loads(run("reparent", "a", "b", "--json").out) == moved
    assert run("reparent", "a", "--operator").out == (
        "engineer-aaaaaaaa (aaaaaaaa) belongs to the operator now\n"
    )
    assert [asked.json for asked in peer.asked] == [{"parent": "b"}, {"parent": "b"}, {"parent": None}]
    assert len({asked.headers["idempotency-key"] for asked in peer.asked}) == 3


@pytest.mark.parametrize("words", [["a"], ["a", "b", "--operator"]])
def test_reparent_wants_exactly_one_parent(run: Sm, peer: Peer, words: list[str]) -> None:
    assert run("reparent", *words, code=2).err == (
        "sm: either PARENT or --operator is needed\nhint: sm reparent --help\n"
    )
    assert peer.asked == []


def test_reparent_ends_with_the_daemons_refusal(run: Sm, peer: Peer) -> None:
    peer.script("POST /v1/sessions/a/reparent", error("illegal_state", "b is below a", 409))
    assert run("reparent", "a", "b", code=4).err == "sm: b is below a\n"
