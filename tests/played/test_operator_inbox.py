"""Messages of sessions to the operator: the inbox, its limit, and who else is told."""

import json

import pytest

from tests.fixtures import context_fixture
from tests.played.mcp.mcp_client import McpSession
from tests.sim.stage import Instance

SLOW_READER = "limits: {operator_messages_per_minute: 2}"
MORE = """
  Client: {command: [sleep, "1000000"], prompt: file}
"""
WORDS = "the login works; 日本語 and 'quotes'\nsecond line"

instance = context_fixture("function", Instance, MORE)
slow = context_fixture("function", Instance, MORE + SLOW_READER)


def test_message_to_the_operator_waits_in_the_inbox_until_it_is_taken(instance: Instance) -> None:
    agent = instance.spawn("Sleeper", "x")["session_id"]
    said = instance.sm("send", "operator", WORDS, env=instance.as_session(agent))
    (shown,) = instance.json("inbox")
    assert said == f"Message {shown['message_id']} is in the operator's inbox\n"
    header = f"[sm] from sleeper-{agent} ({agent}), message {shown['message_id']}"
    assert shown["shown"] == f"{header}\n{WORDS}"
    assert (shown["session_id"], shown["label"]) == (None, "operator")
    assert "the login works; 日本語 and 'quotes' second line\"" in instance.sm("status")
    instance.sm("inbox", "--take")
    assert instance.json("inbox") == []
    (logged,) = instance.json("log", env=instance.as_session(agent))
    assert (logged["status"], logged["evidence"]) == ("submitted", "the recipient took it from the inbox")


def test_operator_marks_one_message_as_read(instance: Instance) -> None:
    agent = instance.spawn("Sleeper", "x")["session_id"]
    numbers = [
        instance.json("send", "operator", text, env=instance.as_session(agent))["message_id"]
        for text in ("first", "second")
    ]
    assert instance.sm("inbox", "--read", str(numbers[0])) == f"Message {numbers[0]} is read\n"
    assert [m["message_id"] for m in instance.json("inbox")] == [numbers[1]]
    other = instance.json("send", agent, "hello", "--no-wait")["message_id"]
    refused = instance.refused("inbox", "--read", str(other), exit_code=3)
    assert "no such message" in refused
    as_agent = instance.as_session(agent)
    assert "no such message" in instance.refused(
        "inbox", "--read", str(numbers[1]), exit_code=3, env=as_agent
    )


def test_message_that_was_taken_but_not_confirmed_is_in_the_inbox_again(instance: Instance) -> None:
    agent = instance.spawn("Sleeper", "x")["session_id"]
    instance.sm("send", "operator", WORDS, env=instance.as_session(agent))
    (taken,) = json.loads(instance.post_as(None, "/v1/inbox/take", {"limit": 1, "wait_s": None}).body)
    assert instance.json("inbox") == []
    instance.wait(25)
    assert [m["message_id"] for m in instance.json("inbox")] == [taken["message_id"]]


def test_messages_to_the_operator_are_limited_per_minute(slow: Instance) -> None:
    agent = slow.spawn("Sleeper", "x")["session_id"]
    as_agent = slow.as_session(agent)
    for text in ("first", "second"):
        slow.sm("send", "operator", text, env=as_agent)
    refused = slow.refused("send", "--rate-wait", "0", "operator", "third", exit_code=6, env=as_agent)
    limit = "may send the operator 2 messages per minute (limits.operator_messages_per_minute)"
    assert limit in refused
    assert "hint: try again in " in refused
    slow.wait(60)
    slow.sm("send", "operator", "third", env=as_agent)
    assert [m["text"] for m in slow.json("inbox")] == ["first", "second", "third"]


@pytest.mark.parametrize(
    ("words", "exit_code", "error"),
    [
        (["--answer", "yes"], 4, "the operator has no question that a text can answer"),
        (["--ttl", "60", "yes"], 2, "a message to the operator does not expire"),
        (["  "], 2, "the message is empty"),
    ],
)
def test_message_to_the_operator_is_refused_with_a_reason(
    instance: Instance, words: list[str], exit_code: int, error: str
) -> None:
    agent = instance.spawn("Sleeper", "x")["session_id"]
    refused = instance.refused(
        "send", "operator", *words, exit_code=exit_code, env=instance.as_session(agent)
    )
    assert error in refused
    assert instance.json("inbox") == []


def test_tool_sends_to_the_operator_without_waiting(instance: Instance) -> None:
    session = McpSession(instance)
    before_s = instance.loop.time()
    sent = session.call("send_message", session_id="operator", message="done with the first half")
    assert instance.loop.time() - before_s < 1
    assert (sent["status"], sent["reason"]) == ("queued", "in the operator's inbox, not read yet")
    (shown,) = instance.json("inbox")
    assert (shown["message_id"], shown["text"]) == (sent["message_id"], "done with the first half")


def test_operator_cannot_send_to_the_own_inbox(instance: Instance) -> None:
    assert "no such session: operator" in instance.refused("send", "operator", "hello", exit_code=3)
