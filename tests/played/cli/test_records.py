"""reparent, rename, archive, unarchive and rm: requests, output and exit codes."""

import json
from typing import Any

import pytest

from tests.cli.peer import answer, error
from tests.cli.samples import session
from tests.played.cli.command import Sm
from tests.played.cli.peer import Peer

COMMANDS = [
    ("archive", "archive", session("aaaaaaaa", archived=True), "Archived engineer-aaaaaaaa"),
    ("unarchive", "unarchive", session("aaaaaaaa"), "Unarchived engineer-aaaaaaaa"),
    ("rm", "remove", {"removed": "aaaaaaaa", "label": "engineer-x"}, "Removed engineer-x"),
]


@pytest.mark.parametrize(("command", "action", "done", "expected"), COMMANDS)
def test_record_command_changes_the_session_and_reports_the_change(
    run: Sm, peer: Peer, command: str, action: str, done: dict[str, Any], expected: str
) -> None:
    peer.script(f"POST /v1/sessions/engineer-x/{action}", answer(done))
    shown = run(command, "engineer-x")
    assert (shown.out, shown.err) == (f"{expected}\n", "")
    assert json.loads(run(command, "engineer-x", "--json").out) == done
    first, second = [received for received in peer.received if received.method == "POST"]
    assert first.json == {}
    assert first.key != second.key


@pytest.mark.parametrize(("command", "action", "done", "expected"), COMMANDS)
def test_record_command_tries_every_session_and_exits_with_first_failure(
    run: Sm, peer: Peer, command: str, action: str, done: dict[str, Any], expected: str
) -> None:
    peer.script(f"POST /v1/sessions/a/{action}", error("illegal_state", "a is live", 409, "sm kill a"))
    peer.script(f"POST /v1/sessions/b/{action}", error("not_found", "no such session: b", 404))
    peer.script(f"POST /v1/sessions/c/{action}", answer(done))
    shown = run(command, "a", "b", "c", code=4)
    assert shown.out == f"{expected}\n"
    assert shown.err == "sm: a is live\nhint: sm kill a\nsm: no such session: b\n"
    as_json = run(command, "a", "c", "b", "--json", code=4)
    assert json.loads(as_json.out) == [done]
    assert [json.loads(line)["error"]["code"] for line in as_json.err.splitlines()] == [
        "illegal_state",
        "not_found",
    ]
    assert run(command, "a", "b", "--json", code=4).out == "[]\n"
    assert json.loads(run(command, "c", "c", "--json").out) == [done, done]


@pytest.mark.parametrize(("command", "action", "done", "expected"), COMMANDS)
def test_record_command_prints_no_json_when_its_only_session_is_refused(
    run: Sm, peer: Peer, command: str, action: str, done: dict[str, Any], expected: str
) -> None:
    peer.script(f"POST /v1/sessions/a/{action}", error("not_permitted", "no", 403))
    shown = run(command, "a", "--json", code=5)
    assert shown.out == ""
    assert json.loads(shown.err) == {"error": {"code": "not_permitted", "message": "no", "hint": None}}
    assert run(command, "..", code=3).err == "sm: no such session: '..'\nhint: list sessions: sm all\n"
    missing = "sm: give either SESSION or --ended" if command == "rm" else "sm: missing argument"
    assert run(command, code=2).err.startswith(missing)


def test_record_command_removes_control_characters_from_names(run: Sm, peer: Peer) -> None:
    evil = "x\x1b[2J\nRemoved y"
    peer.script("POST /v1/sessions/a/archive", answer(session("aaaaaaaa", friendly_name=evil)))
    peer.script("POST /v1/sessions/a/remove", answer({"removed": "aaaaaaaa", "label": evil}))
    assert run("archive", "a").out == "Archived x [2J Removed y\n"
    assert run("rm", "a").out == "Removed x [2J Removed y\n"


def test_reparent_prints_the_new_parent(run: Sm, peer: Peer) -> None:
    moved = session("aaaaaaaa", parent_session_id="bbbbbbbb", parent_label="engineer-lead")
    peer.script("POST /v1/sessions/a/reparent", answer(moved), answer(moved), answer(session("aaaaaaaa")))
    assert run("reparent", "a", "b").out == "engineer-aaaaaaaa now belongs to engineer-lead\n"
    assert json.loads(run("reparent", "a", "b", "--json").out) == moved
    assert run("reparent", "a", "--operator").out == ("engineer-aaaaaaaa now belongs to the operator\n")
    assert [received.json for received in peer.received] == [
        {"parent": "b"},
        {"parent": "b"},
        {"parent": None},
    ]
    assert len({received.key for received in peer.received}) == 3


def test_rename_prints_the_new_name(run: Sm, peer: Peer) -> None:
    renamed = session("aaaaaaaa", friendly_name="engineer-signup")
    peer.script("POST /v1/sessions/a/rename", answer(renamed))
    assert run("rename", "a", "signup").out == "Renamed to engineer-signup (aaaaaaaa)\n"
    assert [received.json for received in peer.received] == [{"name": "signup"}]


@pytest.mark.parametrize("words", [["a"], ["a", "b", "--operator"]])
def test_reparent_requires_exactly_one_parent(run: Sm, peer: Peer, words: list[str]) -> None:
    assert run("reparent", *words, code=2).err == (
        "sm: give either PARENT or --operator\nhint: sm reparent --help\n"
    )
    assert peer.received == []


def test_reparent_exits_with_the_error_of_the_daemon(run: Sm, peer: Peer) -> None:
    peer.script("POST /v1/sessions/a/reparent", error("illegal_state", "b is below a", 409))
    assert run("reparent", "a", "b", code=4).err == "sm: b is below a\n"
