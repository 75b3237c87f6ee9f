"""Rate limits: a command waits and prints the reason, or fails in time."""

import json

import pytest

from sm import errors
from sm.client.http import Client
from tests.cli.peer import HANG_UP, answer
from tests.cli.samples import message, session
from tests.played.cli.command import Sm
from tests.played.cli.peer import Peer

WHY = "session 1a2b3c4d may start one child per second (limits.spawn_interval_s)"
HINT = "try again in 0.05 s"
SPAWN, SEND = "POST /v1/sessions", "POST /v1/messages"


def limited(retry_after_s: object = 0.05, code: str = "rate_limited") -> bytes:
    body = {"code": code, "message": WHY, "hint": HINT, "retry_after_s": retry_after_s}
    return answer({"error": body}, 429)


def keys(peer: Peer) -> set[str]:
    return {received.key for received in peer.received}


@pytest.mark.parametrize("words", [[], ["--rate-wait", "5"]])
def test_spawn_waits_and_prints_the_reason_once_when_rate_limited(
    agent: Sm, peer: Peer, words: list[str]
) -> None:
    peer.script(SPAWN, limited(), limited(), limited(), answer(session()))
    done = agent("spawn", "Engineer", *words)
    assert done.out.startswith("Spawned engineer-1a2b3c4d")
    assert done.err == f"waiting: {WHY}\n"
    assert len(peer.received) == 4
    assert len(keys(peer)) == 1
    assert len({received.body for received in peer.received}) == 1


@pytest.mark.parametrize(
    ("words", "retry_after_s"), [(["--rate-wait", "0"], 0.05), (["--rate-wait", "2"], 2.5), ([], 30.5)]
)
def test_spawn_fails_immediately_when_the_wait_would_be_too_long(
    agent: Sm, peer: Peer, words: list[str], retry_after_s: float
) -> None:
    peer.script(SPAWN, limited(retry_after_s))
    done = agent("spawn", "Engineer", *words, code=6)
    assert (done.out, done.err) == ("", f"sm: {WHY}\nhint: {HINT}\n")
    assert len(peer.received) == 1


def test_spawn_waits_no_longer_in_total_than_rate_wait(agent: Sm, peer: Peer) -> None:
    peer.script(SPAWN, limited(0.2))
    done = agent("spawn", "Engineer", "--rate-wait", "0.9", code=6)
    assert done.err == f"waiting: {WHY}\nsm: {WHY}\nhint: {HINT}\n"
    assert 2 <= len(peer.received) <= 5  # 0.9 s have no room for more than four waits of 0.2 s
    assert len(keys(peer)) == 1


def test_spawn_waits_for_a_busy_sandbox_only_when_told_to(agent: Sm, peer: Peer) -> None:
    busy = limited(0.05, "sandbox_busy")
    peer.script(SPAWN, busy, busy, answer(session()))
    done = agent("spawn", "Engineer", code=6)
    assert done.err == f"sm: {WHY}\nhint: {HINT}\n"
    assert len(peer.received) == 1
    assert agent("spawn", "Engineer", "--rate-wait", "5").err == f"waiting: {WHY}\n"
    assert len(peer.received) == 3


def test_spawn_fails_immediately_when_a_fixed_limit_is_reached(agent: Sm, peer: Peer) -> None:
    peer.script(SPAWN, limited(0.05, "limit_reached"))
    done = agent("spawn", "Engineer", code=6)
    assert done.err == f"sm: {WHY}\nhint: {HINT}\n"
    assert len(peer.received) == 1


def test_spawn_prints_retry_after_as_json(agent: Sm, peer: Peer) -> None:
    peer.script(SPAWN, limited(0.73))
    done = agent("spawn", "Engineer", "--rate-wait", "0", "--json", code=6)
    expected = {"code": "rate_limited", "message": WHY, "hint": HINT, "retry_after_s": 0.73}
    assert json.loads(done.err) == {"error": expected}


def test_spawn_keeps_its_key_when_daemon_goes_away_during_the_wait(agent: Sm, peer: Peer) -> None:
    peer.script(SPAWN, limited(), HANG_UP, limited(), answer(session()))
    assert agent("spawn", "Engineer").err == f"waiting: {WHY}\n"
    assert len(keys(peer)) == 1


@pytest.mark.parametrize("words", [["send", "1a2b3c4d", "x"], ["broadcast", "x"]])
def test_send_and_broadcast_wait_when_rate_limited(agent: Sm, peer: Peer, words: list[str]) -> None:
    peer.script("GET /v1/audience", answer([session()]))
    peer.script(SEND, limited(), answer(message(status="submitted")))
    done = agent(*words)
    assert (done.out, done.err) == ("Input sent to session 1a2b3c4d\n", f"waiting: {WHY}\n")
    assert len({received.key for received in peer.requests_to("/v1/messages")}) == 1


def test_send_to_several_waits_no_longer_in_total_than_rate_wait(agent: Sm, peer: Peer) -> None:
    for name in "abc":
        peer.script(f"GET /v1/sessions/{name}", answer({}))
    peer.script(SEND, answer(message(status="submitted")), limited(0.3), limited(0.3), limited(60))
    done = agent("send", "a", "b", "c", "x", "--rate-wait", "1", code=6)
    assert done.out == "Input sent to session 1a2b3c4d\n"
    assert done.err == f"waiting: {WHY}\n" + 2 * f"sm: {WHY}\nhint: {HINT}\n"


def test_fork_waits_when_rate_limited(agent: Sm, peer: Peer) -> None:
    peer.script("POST /v1/sessions/1a2b3c4d/fork", limited(), answer(session()))
    assert agent("fork", "1a2b3c4d").err == f"waiting: {WHY}\n"


@pytest.mark.parametrize(
    ("sent", "read"), [(0.73, 0.73), (2, 2.0), (None, 1.0), ("soon", 1.0), (-1, 1.0), (True, 1.0), ([], 1.0)]
)
def test_retry_after_defaults_to_one_second_when_value_is_invalid(
    peer: Peer, sent: object, read: float
) -> None:
    peer.script(SPAWN, limited(sent))
    with pytest.raises(errors.RateLimited) as raised:
        Client(peer.path).post("/v1/sessions")
    assert (raised.value.retry_after_s, raised.value.message, raised.value.hint) == (read, WHY, HINT)
