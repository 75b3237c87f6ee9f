"""What a command does when its session is too fast: it waits and says why, or gives up in time."""

import json
from pathlib import Path

import pytest

from sm import errors
from sm.client.http import Client
from tests.cli.conftest import Sm
from tests.cli.peer import HANG_UP, Peer, answer
from tests.cli.samples import message, session

WHY = "one child per second (limits.spawn_interval_s)"
HINT = "session 1a2b3c4d may have the next in 0.05 s"
SPAWN, SEND = "POST /v1/sessions", "POST /v1/messages"


@pytest.fixture
def agent(run: Sm, state: Path) -> Sm:
    """`sm` as an agent has it."""
    run.environ |= run.as_session(state)
    return run


def limited(retry_after_s: object = 0.05, code: str = "rate_limited") -> bytes:
    body = {"code": code, "message": WHY, "hint": HINT, "retry_after_s": retry_after_s}
    return answer({"error": body}, 429)


def keys(peer: Peer) -> set[str]:
    return {asked.headers["idempotency-key"] for asked in peer.asked}


@pytest.mark.parametrize("words", [[], ["--rate-wait", "5"]])
def test_a_spawn_that_is_too_fast_waits_and_says_why_once(agent: Sm, peer: Peer, words: list[str]) -> None:
    peer.script(SPAWN, limited(), limited(), limited(), answer(session()))
    done = agent("spawn", "Engineer", *words)
    assert done.out.startswith("Spawned engineer-1a2b3c4d")
    assert done.err == f"waiting: {WHY}\n"
    assert len(peer.asked) == 4
    assert len(keys(peer)) == 1
    assert len({asked.body for asked in peer.asked}) == 1


@pytest.mark.parametrize(
    ("words", "retry_after_s"), [(["--rate-wait", "0"], 0.05), (["--rate-wait", "2"], 2.5), ([], 30.5)]
)
def test_a_spawn_gives_up_at_once_where_the_wait_would_be_too_long(
    agent: Sm, peer: Peer, words: list[str], retry_after_s: float
) -> None:
    peer.script(SPAWN, limited(retry_after_s))
    done = agent("spawn", "Engineer", *words, code=6)
    assert (done.out, done.err) == ("", f"sm: {WHY}\nhint: {HINT}\n")
    assert len(peer.asked) == 1


def test_all_waits_of_a_command_together_are_not_longer_than_it_may_wait(agent: Sm, peer: Peer) -> None:
    peer.script(SPAWN, limited(0.2))
    done = agent("spawn", "Engineer", "--rate-wait", "0.9", code=6)
    assert done.err == f"waiting: {WHY}\nsm: {WHY}\nhint: {HINT}\n"
    assert 2 <= len(peer.asked) <= 5  # 0.9 s have no room for more than four waits of 0.2 s
    assert len(keys(peer)) == 1


def test_a_limit_that_no_waiting_helps_against_is_said_at_once(agent: Sm, peer: Peer) -> None:
    peer.script(SPAWN, limited(0.05, "limit_reached"))
    done = agent("spawn", "Engineer", code=6)
    assert done.err == f"sm: {WHY}\nhint: {HINT}\n"
    assert len(peer.asked) == 1


def test_a_script_reads_when_to_come_again(agent: Sm, peer: Peer) -> None:
    peer.script(SPAWN, limited(0.73))
    done = agent("spawn", "Engineer", "--rate-wait", "0", "--json", code=6)
    said = {"code": "rate_limited", "message": WHY, "hint": HINT, "retry_after_s": 0.73}
    assert json.loads(done.err) == {"error": said}


def test_a_daemon_that_goes_away_while_it_waits_changes_nothing(agent: Sm, peer: Peer) -> None:
    peer.script(SPAWN, limited(), HANG_UP, limited(), answer(session()))
    assert agent("spawn", "Engineer").err == f"waiting: {WHY}\n"
    assert len(keys(peer)) == 1


@pytest.mark.parametrize("words", [["send", "1a2b3c4d", "x"], ["broadcast", "x"]])
def test_a_message_waits_for_its_turn(agent: Sm, peer: Peer, words: list[str]) -> None:
    peer.script("GET /v1/audience", answer([session()]))
    peer.script(SEND, limited(), answer(message(status="submitted")))
    done = agent(*words)
    assert (done.out, done.err) == ("Input sent to session 1a2b3c4d\n", f"waiting: {WHY}\n")
    assert (
        len({asked.headers["idempotency-key"] for asked in peer.asked if asked.path == "/v1/messages"}) == 1
    )


def test_messages_to_several_wait_together_no_longer_than_they_may(agent: Sm, peer: Peer) -> None:
    peer.script(SEND, answer(message(status="submitted")), limited(0.3), limited(0.3), limited(60))
    done = agent("send", "a", "b", "c", "x", "--rate-wait", "1", code=6)
    assert done.out == "Input sent to session 1a2b3c4d\n"
    assert done.err == f"waiting: {WHY}\n" + 2 * f"sm: {WHY}\nhint: {HINT}\n"


def test_a_fork_waits_too(agent: Sm, peer: Peer) -> None:
    peer.script("POST /v1/sessions/1a2b3c4d/fork", limited(), answer(session()))
    assert agent("fork", "1a2b3c4d").err == f"waiting: {WHY}\n"


@pytest.mark.parametrize(
    ("sent", "read"), [(0.73, 0.73), (2, 2.0), (None, 1.0), ("soon", 1.0), (-1, 1.0), (True, 1.0), ([], 1.0)]
)
def test_when_to_come_again_is_read_as_far_as_it_can_be(peer: Peer, sent: object, read: float) -> None:
    peer.script(SPAWN, limited(sent))
    with pytest.raises(errors.RateLimited) as raised:
        Client(peer.path).post("/v1/sessions")
    assert (raised.value.retry_after_s, raised.value.message, raised.value.hint) == (read, WHY, HINT)
