"""`wait_for_sessions` is held in the daemon until the caller can act, or cancels."""

from typing import Any

from sm.services.waits import REPORT_EVERY_S
from tests.fixtures import context_fixture
from tests.played.mcp.mcp_client import CONFIG, HeldCall, McpClient, McpSession
from tests.sim.stage import Instance, until

instance = context_fixture("function", Instance, CONFIG)


def waiting(client: McpClient, **arguments: Any) -> HeldCall:
    return client.start_call("wait_for_sessions", **arguments)


def team(instance: Instance) -> tuple[McpSession, McpSession]:
    parent = McpSession(instance)
    return parent, McpSession(instance, "--parent", parent.id)


def is_held(instance: Instance, session: McpSession) -> bool:
    """A waiting session without turns is idle."""
    return bool(instance.session(session.id)["status"] == "idle")


def test_wait_returns_the_results_of_the_children(instance: Instance) -> None:
    parent, child = team(instance)
    held = waiting(parent, timeout_s=600)
    until(lambda: is_held(instance, parent), "the wait is held")
    child.call("complete_session", message="All tests pass")
    ended = held.result()
    assert (ended["reached"], ended["why"]) == (True, "reached")
    assert ended["sessions"] == [
        {
            "session_id": child.id,
            "name": instance.session(child.id)["name"],
            "status": "completed",
            "result": '"All tests pass"',
        }
    ]
    assert instance.json("inbox", env=instance.as_session(parent.id)) == []


def test_wait_for_all_does_not_end_for_the_notice_of_the_first(instance: Instance) -> None:
    parent, first = team(instance)
    second = McpSession(instance, "--parent", parent.id)
    held = waiting(parent, timeout_s=600)
    until(lambda: is_held(instance, parent), "the wait is held")
    first.call("complete_session", message="one")
    instance.wait(30)
    assert not held.done()
    second.call("complete_session", message="two")
    ended = held.result()
    assert (ended["why"], len(ended["sessions"])) == ("reached", 2)
    assert instance.json("inbox", env=instance.as_session(parent.id)) == []


def test_wait_is_the_reason_of_the_status_with_the_number_of_the_sessions(instance: Instance) -> None:
    parent, first = team(instance)
    second = McpSession(instance, "--parent", parent.id)
    held = waiting(parent, timeout_s=600)

    def says(reason: str) -> None:
        until(lambda: instance.session(parent.id)["status_reason"] == reason, reason)

    says("waits for 2 sessions")
    assert "waits for 2 sessions" in instance.sm("why", parent.id)
    assert "waits for 2 sessions" in instance.sm("status", parent.id)
    first.call("complete_session", message="one")
    says("waits for 1 session")
    second.call("complete_session", message="two")
    held.result()
    says("no longer waiting")


def test_wait_for_any_ends_with_the_first(instance: Instance) -> None:
    parent, first = team(instance)
    McpSession(instance, "--parent", parent.id)
    held = waiting(parent, any=True, timeout_s=600)
    until(lambda: is_held(instance, parent), "the wait is held")
    first.call("complete_session", message="one")
    assert held.result()["why"] == "reached"


def test_wait_ends_early_for_a_question_of_a_child(instance: Instance) -> None:
    parent, child = team(instance)
    held = waiting(parent, timeout_s=600)
    until(lambda: is_held(instance, parent), "the wait is held")
    asked = child.call("ask", question="red or blue?", options=["red", "blue"])
    ended = held.result()
    assert (ended["reached"], ended["why"]) == (False, "request")
    (request,) = ended["requests"]
    assert (request["request_id"], request["questions"][0]["question"]) == (
        asked["request_id"],
        "red or blue?",
    )
    answered = parent.call("answer_request", request_id=asked["request_id"], answers=["1"])
    assert answered["answer"]["answers"] == ["red"]
    assert instance.json("inbox", env=instance.as_session(parent.id)) == []


def test_request_that_the_caller_was_told_ends_no_later_wait(instance: Instance) -> None:
    parent, child = team(instance)
    other = McpSession(instance, "--parent", parent.id)
    child.call("ask", question="for the operator?")
    assert parent.call("wait_for_sessions", timeout_s=600)["why"] == "request"
    held = waiting(parent, session_ids=[other.id], timeout_s=600)
    until(lambda: is_held(instance, parent), "the wait is held")
    asked = other.call("ask", question="another one?")
    ended = held.result()
    assert ended["why"] == "request"
    assert asked["request_id"] in [request["request_id"] for request in ended["requests"]]
    instance.restart()
    held = waiting(parent, session_ids=[], any=True, timeout_s=600)
    until(lambda: is_held(instance, parent), "the wait is held")
    other.call("complete_session", message="done")
    assert held.result()["why"] == "reached"


def test_wait_ends_early_for_a_message(instance: Instance) -> None:
    parent, _ = team(instance)
    held = waiting(parent, timeout_s=600)
    until(lambda: is_held(instance, parent), "the wait is held")
    McpClient(instance).call("send_message", session_id=parent.id, message="stop", wait_s=0)
    ended = held.result()
    assert (ended["why"], ended["unread"]) == ("message", 1)


def test_wait_tells_a_timeout_and_an_impossible_status(instance: Instance) -> None:
    parent, child = team(instance)
    ended = parent.call("wait_for_sessions", timeout_s=1)
    assert (ended["reached"], ended["why"]) == (False, "timeout")
    assert "ending your turn" in ended["next"]
    child.call("complete_session", message="done")
    error = parent.refused("wait_for_sessions")
    name = instance.session(child.id)["name"]
    assert (error["code"], error["message"]) == (
        "illegal_state",
        f"all children have ended: {name} (completed)",
    )
    assert error["hint"] == f"see the result: sm status {name} [tool get_progress]"
    assert child.refused("wait_for_sessions")["message"] == "there is no child to wait for"
    instance.sm("kill", "--force", child.id)
    instance.wait(2)  # until the archive is written
    instance.age(child.id)
    assert parent.refused("wait_for_sessions") == error
    over = parent.call("wait_for_sessions", session_ids=[child.id], until="waiting_input", timeout_s=60)
    assert over["why"] == "impossible"


def test_held_question_returns_its_answer(instance: Instance) -> None:
    parent, child = team(instance)
    held = child.start_call("ask", question="red or blue?", wait_s=600)
    (request,) = until(lambda: parent.call("list_requests")["requests"], "the question")
    parent.call("answer_request", request_id=request["request_id"], answers=["a dark red"])
    answered = held.result()
    assert (answered["state"], answered["answer"]["answers"]) == ("answered", ["a dark red"])
    assert instance.json("inbox", env=instance.as_session(child.id)) == []


def test_wait_for_oneself_is_refused(instance: Instance) -> None:
    session = McpSession(instance)
    assert session.refused("wait_for_sessions", session_ids=[session.id])["code"] == "usage"


def test_cancelled_wait_is_answered_without_a_response(instance: Instance) -> None:
    parent, _ = team(instance)
    call = {"name": "wait_for_sessions", "arguments": {"timeout_s": 600}}
    message = {"jsonrpc": "2.0", "id": "held", "method": "tools/call", "params": call}
    held = parent.start_post(message)
    until(lambda: is_held(instance, parent), "the wait is held")
    assert parent.post(message).messages[0]["error"]["message"] == "a request with this id is in flight"
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "held"}}
    stranger = parent.client()
    assert stranger.post(cancel).status == 202
    instance.wait(30)
    assert not held.done()
    parent.post(cancel)
    assert (held.result().status, held.result().body) == (202, "")
    until(lambda: not is_held(instance, parent), "the session works again")


def test_repeated_call_with_its_key_takes_the_place_of_the_first(instance: Instance) -> None:
    parent, child = team(instance)
    call = {"name": "wait_for_sessions", "arguments": {"timeout_s": 600}}
    message = {"jsonrpc": "2.0", "id": "held", "method": "tools/call", "params": call}
    key = {"Idempotency-Key": "toolu_1"}
    first = parent.start_post(message, key)
    until(lambda: is_held(instance, parent), "the wait is held")
    second = parent.start_post(message, key)
    assert first.result().status == 202
    child.call("complete_session", message="done")
    assert second.result().messages[0]["result"]["structuredContent"]["why"] == "reached"


def test_wait_reports_its_progress_to_a_client_that_asks_for_it(instance: Instance) -> None:
    parent, child = team(instance)
    call = {"name": "wait_for_sessions", "arguments": {"timeout_s": 600}, "_meta": {"progressToken": "t"}}
    held = parent.start_post({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
    instance.wait(1.5 * REPORT_EVERY_S)
    child.call("complete_session", message="done")
    answer = held.result()
    first, last = answer.messages
    assert answer.kind == "text/event-stream"
    assert first["method"] == "notifications/progress"
    assert first["params"]["progressToken"] == "t"
    name = instance.session(child.id)["name"]
    assert first["params"]["message"] == f"waits for 1 session: {name} (running)"
    assert last["result"]["structuredContent"]["why"] == "reached"


def test_held_message_does_not_end_a_wait() -> None:
    with Instance(f"{CONFIG}warnings: {{ping_pong: {{limit: 2}}}}\n") as instance:
        parent, child = team(instance)
        pair = (parent, child)
        for n in range(4):
            pair[n % 2].call("send_message", session_id=pair[1 - n % 2].id, message="again", wait_s=0)
        # The last one, to the parent, is held for a decision.
        assert [m["held_until"] for m in instance.json("log", parent.id)][-1] == ""
        instance.json("inbox", "--take", env=instance.as_session(parent.id))
        held = waiting(parent, timeout_s=600)
        until(lambda: is_held(instance, parent), "the wait is held")
        child.call("complete_session", message="done")
        assert held.result()["why"] == "reached"
