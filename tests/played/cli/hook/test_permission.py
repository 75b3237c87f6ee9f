"""`sm hook claude` for a permission dialog: the hook waits for the answer, prints the answer and ends."""

import json
import os
import re
from pathlib import Path

import pytest

from tests.cli.hook.dialogs import DECIDED, DIALOG, EVENT, OPENED, OUTPUT, OVER, RAW, TAKEN
from tests.cli.peer import HANG_UP, SILENCE, Answer, Open, answer, chunked, error
from tests.played.cli.hook.command import Hook
from tests.played.cli.peer import Peer


@pytest.fixture
def dialogs(peer: Peer) -> Peer:
    """A daemon without scripted answers to a dialog."""
    peer.script(TAKEN, answer({}))
    return peer


def output(hook: Hook, raw: bytes = RAW) -> str:
    return hook.begin(raw).printed()


def test_hook_prints_the_answer_and_then_marks_the_answer_as_taken(hook: Hook, dialogs: Peer) -> None:
    dialogs.script(DIALOG, DECIDED)
    assert output(hook) == OUTPUT
    first, second = dialogs.received
    assert (first.path, second.path) == ("/v1/hooks/dialog", "/v1/hooks/dialog/taken")
    assert re.fullmatch("[0-9a-f]{32}", first.key)
    assert second.key == first.key
    assert second.json == {}
    body = first.json
    assert body.pop("emitted_at")
    assert body == {"provider": "claude", "payload": EVENT, "wait_s": 20}
    assert hook.spooled() == []


def test_hook_polls_with_the_same_key_while_request_is_open(hook: Hook, dialogs: Peer) -> None:
    dialogs.script(DIALOG, OPENED, OPENED, DECIDED)
    assert output(hook) == OUTPUT
    tries = dialogs.requests_to("/v1/hooks/dialog")
    assert len(tries) == 3
    assert len({received.key for received in tries}) == 1
    assert len({received.body for received in tries}) == 1
    assert hook.spooled() == []


@pytest.mark.parametrize(
    "response",
    [
        OVER,
        error("usage", "no", 400),
        error("not_permitted", "no", 403),
        error("not_found", "no such route", 404),
        error("illegal_state", "it has ended", 409),
        b"HTTP/1.1 404 Not Found\r\n\r\nno JSON",
    ],
)
def test_hook_ends_silently_when_there_is_nothing_to_answer(
    hook: Hook, dialogs: Peer, response: bytes
) -> None:
    dialogs.script(DIALOG, response)
    assert output(hook) == ""
    assert len(dialogs.received) == 1
    assert hook.spooled() == []


@pytest.mark.parametrize(
    "response",
    [
        HANG_UP,
        b"HTTP/1.1 2",
        b"no HTTP at all\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nContent-Length: none\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\n\r\n\xff",
        chunked(b"{}"),
        answer(None),
        answer({}),
        answer({"state": ["open"]}),
        answer({"state": "decided", "output": 1}),
        error("timeout", "late", 408),
        error("limit_reached", "too much", 429),
        error("bug", "a defect", 500),
        error("daemon_unavailable", "it is just stopping", 503),
    ],
)
def test_hook_retries_and_spools_event_once_when_daemon_fails(
    hook: Hook, dialogs: Peer, response: Answer
) -> None:
    dialogs.script(DIALOG, response, DECIDED)
    assert output(hook) == OUTPUT
    tries = dialogs.requests_to("/v1/hooks/dialog")
    assert len(tries) == 2
    (kept,) = hook.spooled()
    assert kept["key"] == tries[0].key
    assert kept["body"]["payload"] == EVENT
    assert "wait_s" not in kept["body"]


def test_hook_spools_event_once_when_daemon_fails_twice(hook: Hook, dialogs: Peer) -> None:
    dialogs.script(DIALOG, HANG_UP, error("bug", "a defect", 500), DECIDED)
    assert output(hook) == OUTPUT
    assert len(hook.spooled()) == 1


def test_hook_asks_again_with_the_same_key_when_daemon_restarts(hook: Hook, state: Path) -> None:
    path = str(state / "run" / "sm.sock")
    with Peer(hook.instance, path) as first:
        first.script(DIALOG, OPENED, SILENCE)
        running = hook.begin(RAW)
        first.wait_received(2)
    with Peer(hook.instance, path) as second:
        second.script(TAKEN, answer({}))
        second.script(DIALOG, DECIDED)
        assert running.printed() == OUTPUT
    assert second.received[0].key == first.received[0].key
    assert hook.spooled() == [], "the first daemon received the event"


def test_hook_reads_response_by_its_length_when_connection_stays_open(hook: Hook, dialogs: Peer) -> None:
    dialogs.script(DIALOG, Open(OPENED), Open(DECIDED))
    assert output(hook) == OUTPUT
    # A hook that waits for the end of the connection would time out and ask again.
    assert [received.path for received in dialogs.received] == [
        "/v1/hooks/dialog",
        "/v1/hooks/dialog",
        "/v1/hooks/dialog/taken",
    ]


def test_hook_sends_no_token_when_token_file_is_a_pipe(hook: Hook, home: Path, state: Path) -> None:
    hook.environ["SM_SOCKET"] = str(home / "state/run/w/0123/s")
    (state / "token").unlink()
    os.mkfifo(state / "token")
    with Peer(hook.instance, hook.environ["SM_SOCKET"]) as peer:
        peer.script(DIALOG, error("unauthenticated", "who are you?", 401))
        assert output(hook) == ""
    assert "authorization" not in peer.received[0].headers


@pytest.mark.parametrize("response", [SILENCE, HANG_UP, error("bug", "a defect", 500)])
def test_hook_ends_without_waiting_when_taken_is_not_acknowledged(
    hook: Hook, peer: Peer, response: Answer
) -> None:
    peer.script(DIALOG, DECIDED)
    peer.script(TAKEN, response)
    assert output(hook) == OUTPUT  # the hook ends without the answer of the daemon


def test_hook_cuts_large_event_and_asks(hook: Hook, dialogs: Peer) -> None:
    dialogs.script(DIALOG, DECIDED)
    large = EVENT | {"tool_name": "Write", "tool_input": {"file_path": "/a", "content": "x" * 3_000_000}}
    assert output(hook, json.dumps(large).encode()) == OUTPUT
    body = dialogs.received[0].json
    assert body["cut"] is True
    assert body["payload"]["hook_event_name"] == "PermissionRequest"


def test_hook_sends_the_token_with_each_request_to_an_agent_socket(hook: Hook, home: Path) -> None:
    hook.environ["SM_SOCKET"] = str(home / "state/run/w/0123/s")
    with Peer(hook.instance, hook.environ["SM_SOCKET"]) as peer:
        peer.script(DIALOG, OPENED, DECIDED)
        peer.script(TAKEN, answer({}))
        assert output(hook) == OUTPUT
    assert [received.headers["authorization"] for received in peer.received] == ["Bearer s3cret"] * 3
