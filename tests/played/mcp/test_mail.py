"""The tools that send messages."""

from tests.fixtures import context_fixture
from tests.played.mcp.mcp_client import CONFIG, McpClient, McpSession
from tests.sim.stage import Instance

instance = context_fixture("function", Instance, CONFIG)


def test_message_to_an_inbox_is_queued_until_it_is_taken(instance: Instance) -> None:
    sender, recipient = McpSession(instance), McpSession(instance)
    sent = sender.call("send_message", session_id=recipient.id, message="hello", wait_s=0)
    assert (sent["status"], sent["session_id"], sent["message_length"]) == ("queued", recipient.id, 5)
    assert "delivered_at" not in sent
    (letter,) = instance.json("inbox", env=instance.as_session(recipient.id))
    assert letter["message_id"] == sent["message_id"]


def test_message_with_one_key_is_sent_once(instance: Instance) -> None:
    sender, recipient = McpSession(instance), McpSession(instance)
    values = {"session_id": recipient.id, "message": "once", "wait_s": 0}
    first = sender.call("send_message", key="k", **values)
    assert sender.call("send_message", key="k", **values)["message_id"] == first["message_id"]
    assert len(instance.json("inbox", env=instance.as_session(recipient.id))) == 1


def test_message_to_oneself_and_to_an_ended_session_is_refused(instance: Instance) -> None:
    sender = McpSession(instance)
    itself = sender.refused("send_message", session_id=sender.id, message="x")
    assert (itself["code"], itself["hint"]) == (
        "not_permitted",
        "to remember something: sm note TEXT [tool report_note]",
    )
    ended = instance.spawn("Sh", "exit 0")["session_id"]
    instance.ended(ended)
    error = sender.refused("send_message", session_id=ended, message="x")
    assert error["code"] == "illegal_state"
    assert error["hint"]


def test_message_to_an_archived_child_unarchives_it_once_and_says_so(instance: Instance) -> None:
    parent = McpSession(instance)
    child = instance.spawn("Sh", "sm complete done; exec sleep 1000", "--parent", parent.id)["session_id"]
    instance.in_status(child, "completed")
    parent.call("control_session", session_id=child, action="archive")
    for _ in range(2):
        values = {"session_id": child, "message": "go on", "wait_s": 0}
        assert parent.call("send_message", key="k", **values)["unarchived"] is True
    assert instance.session(child)["archived"] is False
    assert "unarchived" not in parent.call("send_message", session_id=child, message="and on", wait_s=0)


def test_broadcast_reaches_every_child_once(instance: Instance) -> None:
    parent = McpSession(instance)
    children = [McpSession(instance, "--parent", parent.id) for _ in range(2)]
    for _ in range(2):
        sent = parent.call("broadcast", key="all", message="pull first")["sent"]
        assert {entry["session_id"] for entry in sent} == {child.id for child in children}
    for child in children:
        assert len(instance.json("inbox", env=instance.as_session(child.id))) == 1


def test_question_is_answered_by_a_message_of_the_operator(instance: Instance) -> None:
    session, operator = McpSession(instance), McpClient(instance)
    asked = session.call("ask", key="q", question="red or blue?", options=["red", "blue"])
    assert asked["state"] == "open"
    assert asked["next"] == "end your turn, or go on with other work: the answer comes as a message"
    sent = operator.call("send_message", session_id=session.id, message="2")
    assert (sent["evidence"], sent["request_id"]) == (f"answered {asked['request_id']}", asked["request_id"])
    answered = session.call("ask", key="q", question="red or blue?", options=["red", "blue"])
    assert (answered["state"], answered["answer"]["answers"]) == ("answered", ["blue"])
