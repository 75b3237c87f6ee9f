"""`sm hook claude --await-tools`: the hook of a prompt holds the turn until the agent has the tools of sm."""

import pytest

from tests.cli.hook.events import EVENT, HOOKS
from tests.cli.peer import HANG_UP, SILENCE, Answer, answer, error
from tests.played.cli.hook.command import Hook
from tests.played.cli.peer import Peer

TOOLS = "POST /v1/hooks/tools"
PROMPT = EVENT | {"hook_event_name": "UserPromptSubmit", "prompt": "go on"}
AWAY_S = 2.2
ALL_S = 9.2


@pytest.fixture
def awaiting(hook: Hook) -> Hook:
    hook.options = ("--await-tools",)
    return hook


def test_hook_waits_for_the_tools_after_its_event(awaiting: Hook, peer: Peer) -> None:
    peer.script(HOOKS, answer({}))
    peer.script(TOOLS, answer({}))
    awaiting(PROMPT)
    event, tools = peer.received
    assert event.json.pop("awaits_tools") is True
    assert tools.json == {"emitted_at": event.json["emitted_at"]}
    assert awaiting.spooled() == []


def test_hook_of_an_agent_without_the_tools_does_not_wait(hook: Hook, peer: Peer) -> None:
    peer.script(HOOKS, answer({}))
    hook(PROMPT)
    (event,) = peer.received
    assert "awaits_tools" not in event.json


def test_hook_does_not_wait_when_its_event_is_spooled(awaiting: Hook, peer: Peer) -> None:
    peer.script(HOOKS, HANG_UP)
    awaiting(PROMPT)
    (kept,) = awaiting.spooled()
    assert kept["body"]["awaits_tools"] is True
    assert len(peer.received) == 1


@pytest.mark.parametrize(
    ("response", "within_s"),
    [
        (error("not_found", "no such route", 404), 0.2),
        (error("not_permitted", "no", 403), 0.2),
        (HANG_UP, AWAY_S),
        (error("daemon_unavailable", "it is just stopping", 503), AWAY_S),
        (SILENCE, ALL_S),
    ],
)
def test_hook_ends_in_time_when_the_daemon_does_not_answer(
    awaiting: Hook, peer: Peer, response: Answer, within_s: float
) -> None:
    peer.script(HOOKS, answer({}))
    peer.script(TOOLS, response)
    began = awaiting.instance.loop.time()
    awaiting(PROMPT)
    assert awaiting.instance.loop.time() - began < within_s
    assert awaiting.spooled() == []


def test_hook_asks_the_daemon_again_after_its_restart(awaiting: Hook, peer: Peer) -> None:
    peer.script(HOOKS, answer({}))
    peer.script(TOOLS, HANG_UP, answer({}))
    awaiting(PROMPT)
    assert [received.json for received in peer.received[1:]] == 2 * [peer.received[1].json]
