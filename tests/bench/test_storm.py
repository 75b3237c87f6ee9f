"""How a storm accounts for its messages (`tests.claude_storm`). The run itself starts real claudes."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from bench.storm import mix
from tests.claude_storm import Sent, Storm, faults
from tests.integration.special_texts import is_delivered
from tests.scripted_api import Kind, Request

AGENT = "1a2b3c4d"
HEADER = "[sm] from operator, message 7\n"


def request(*texts: str) -> Request:
    body = {
        "system": f"You run under sm (session {AGENT}), an agent of type Editor.",
        "messages": [{"role": "user", "content": [{"type": "text", "text": text} for text in texts]}],
    }
    return Request(1, "/v1/messages", {}, body, Kind.TURN)


def faults_of(status: str, *texts: str, reason: str = "why", short: bool = False) -> list[str]:
    """The faults of message 7, of which an agent got these texts and sm reports this status."""
    api = SimpleNamespace(turns=lambda: [request("begin", *texts)])
    storm = Storm(cast(Any, SimpleNamespace(socket="none")), cast(Any, api), seed=1)
    storm.sent[7] = Sent(7, AGENT, "idle", f"{HEADER}hello", short)
    message: dict[str, Any] = {"status": status, "reason": reason}
    return [*faults(storm, {7: message} if status else {})]


@pytest.mark.parametrize("sends", [20, 40, 60, 200, 500])
def test_mix_has_as_many_messages_as_wanted(sends: int) -> None:
    kinds = mix(sends)
    groups = 4 * kinds.urgent + 5 * kinds.dialogs + 4 * kinds.interrupts
    turns = -(-kinds.busy // 10)
    assert abs(kinds.idle + kinds.busy + turns + groups + len(kinds.odd) - sends) <= 2
    assert min(kinds.idle, kinds.busy, kinds.urgent, kinds.dialogs, kinds.interrupts, len(kinds.odd)) > 0


def test_no_fault_is_found_when_the_status_is_what_the_agent_got() -> None:
    assert faults_of("acknowledged", f"{HEADER}hello") == []
    assert faults_of("unconfirmed") == []
    assert faults_of("expired", short=True) == []


@pytest.mark.parametrize(
    ("status", "texts", "fault"),
    [
        ("acknowledged", (), "no request of the agent holds it"),
        ("submitted", (), "in neither the queue nor the conversation"),
        ("submitted", (f"{HEADER}hello",), "submitted for ever"),
        ("unconfirmed", (f"{HEADER}hello",), "it arrived whole"),
        ("expired", (f"{HEADER}hello",), "expired, but it arrived"),
        ("expired", (), "lost"),
        ("failed", (), "lost"),
        ("queued", (), "lost"),
        ("", (), "lost: missing"),
        ("acknowledged", (f"{HEADER}hell",), "[7] changed"),
        ("acknowledged", (f"{HEADER}hello", f"{HEADER}hello"), "[7] doubled"),
        ("acknowledged", (f"{HEADER}hello\n{HEADER}hello",), "[7, 7] merged"),
    ],
)
def test_fault_is_found_when_the_status_is_not_what_the_agent_got(
    status: str, texts: tuple[str, ...], fault: str
) -> None:
    assert any(fault in found for found in faults_of(status, *texts))


@pytest.mark.parametrize(
    ("arrived", "sent", "same"),
    [
        ("a\nb\n", "a\nb", True),
        ("no width", "\u200bno width\u200b", True),
        ("one\ntwo", "one\u2028two", True),
        (
            'begin\n<pasted_content id="12ab">\none\ntwo\n</pasted_content id="12ab">\n',
            "begin\none\ntwo",
            True,
        ),
        ('<pasted_content id="12ab">\none\n</pasted_content id="34cd">', "one", False),
        ("one two", "one\ntwo", False),
        ("one", "one two", False),
    ],
)
def test_text_is_delivered_when_only_the_changes_of_claude_are_in_it(
    arrived: str, sent: str, same: bool
) -> None:
    assert is_delivered(arrived, sent) is same
