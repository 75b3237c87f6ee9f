"""Codex's protocol on 24 recorded conversations, each against the truth that its script saw."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from sm.core.faults import FaultKind
from sm.core.observation import Activity, Source
from sm.core.states import RequestKind
from sm.core.usage import TokenCounts, ToolUse, Usage
from sm.providers.codex.protocol import ProtocolReader
from sm.providers.links import (
    Answerer,
    ContextUpdate,
    ConversationEnded,
    ConversationStarted,
    LinkEvent,
    MessageUpdate,
    PlanUpdate,
    Receipt,
    RequestOpened,
    RequestResolved,
    StateUnknown,
    StateUpdate,
)
from sm.providers.readers import ToolEnd
from tests.codex_recordings import NAMES, lines_of, only, read, truth_of

STATUSES = {Activity.BUSY: "running", Activity.BLOCKED: "waiting_input", Activity.IDLE: "idle"}
ANSWERERS = {Answerer.LINK: "sm", Answerer.TERMINAL: "terminal"}
THREAD = "01a201a7-ed14-7112-8e88-ae64a2b80c4d"


def receipts(events: list[LinkEvent]) -> dict[str, list[Receipt]]:
    found: dict[str, list[Receipt]] = {}
    for update in only(events, MessageUpdate):
        found.setdefault(update.id, []).append(update.receipt)
    return found


def notification(method: str, **params: Any) -> Mapping[str, Any]:
    return {"method": method, "params": {"threadId": THREAD, **params}}


def opened(**thread: Any) -> ProtocolReader:
    """The reader of a link on which sm has started the conversation `THREAD`."""
    reader = ProtocolReader()
    reader.sent({"id": 1, "method": "thread/start", "params": {}}, 1.0)
    given = {"id": THREAD, "ephemeral": False, "status": {"type": "idle"}, **thread}
    reader.received({"id": 1, "result": {"thread": given, "model": "gpt-5.5-codex"}}, 1.0)
    return reader


def started(reader: ProtocolReader, message: str = "m-1", turn: str = "t-1") -> list[LinkEvent]:
    """Send a message with which a turn begins."""
    params = {"threadId": THREAD, "input": [], "clientUserMessageId": message}
    reader.sent({"id": 2, "method": "turn/start", "params": params}, 2.0)
    return reader.received({"id": 2, "result": {"turn": {"id": turn, "status": "inProgress"}}}, 2.0)


def ended(turn: str = "t-1", status: str = "completed", **members: Any) -> Mapping[str, Any]:
    return notification("turn/completed", turn={"id": turn, "status": status, "items": [], **members})


def approval(id: int = 0, item: str = "call-1", **params: Any) -> Mapping[str, Any]:
    given = {"threadId": THREAD, "turnId": "t-1", "itemId": item, "command": "ls", "cwd": "/w", **params}
    return {"id": id, "method": "item/commandExecution/requestApproval", "params": given}


def command(method: str, status: str, item: str = "call-1") -> Mapping[str, Any]:
    given = {"type": "commandExecution", "id": item, "command": "ls", "cwd": "/w", "status": status}
    return notification(method, item=given, turnId="t-1")


@pytest.mark.parametrize("name", NAMES)
def test_recording_ends_with_the_status_of_its_truth(name: str) -> None:
    said, truth = read(name), truth_of(name)
    states = [event for event in said if isinstance(event, StateUpdate | StateUnknown)]
    assert not only(said, StateUnknown)
    assert isinstance(states[-1], StateUpdate)
    last = states[-1].observation
    assert STATUSES[last.activity] == truth["status"]
    assert last.source is Source.PROTOCOL
    reasons = [state.observation.reason for state in only(said, StateUpdate)]
    assert any("interrupted" in reason for reason in reasons) is truth.get("interrupted", False)
    assert (last.fault is not None) is truth.get("failed", False)


@pytest.mark.parametrize("name", [name for name in NAMES if "delivered" in truth_of(name)])
def test_messages_of_the_truth_are_submitted_and_no_others(name: str) -> None:
    found = receipts(read(name))
    submitted = sorted(id for id, states in found.items() if states[-1] is Receipt.SUBMITTED)
    assert submitted == truth_of(name)["delivered"]


@pytest.mark.parametrize("name", [name for name in NAMES if "answered_by" in truth_of(name)])
def test_request_is_answered_by_the_side_of_the_truth(name: str) -> None:
    said = read(name)
    (request,), (resolved,) = only(said, RequestOpened), only(said, RequestResolved)
    assert resolved.id == request.id
    assert resolved.by is not None
    assert ANSWERERS[resolved.by] == truth_of(name)["answered_by"]


@pytest.mark.parametrize("name", [name for name in NAMES if "tools" in truth_of(name)])
def test_uses_of_tools_are_those_of_the_truth(name: str) -> None:
    said = read(name)
    assert Counter(use.name for use in only(said, ToolUse)) == truth_of(name)["tools"]
    assert [end.allowed for end in only(said, ToolEnd)] == [True]


@pytest.mark.parametrize("name", NAMES)
def test_tokens_add_up_to_the_last_total_of_each_conversation(name: str) -> None:
    totals: dict[str, int] = {}
    forked = {event.id for event in only(read(name), ConversationStarted) if event.forked_from}
    for line in lines_of(name):
        if line.msg.get("method") == "thread/tokenUsage/updated":
            params = line.msg["params"]
            total = params["tokenUsage"]["total"]
            before = 1242 if params["threadId"] in forked else 0
            totals[params["threadId"]] = total["totalTokens"] - before
    counted = TokenCounts.of(only(read(name), Usage))
    assert counted.used + counted.cache_read + counted.cache_write == sum(totals.values())


def test_message_is_accepted_and_then_submitted_at_its_item() -> None:
    assert receipts(read("text_turn")) == {"sm-1": [Receipt.ACCEPTED, Receipt.SUBMITTED]}


def test_message_that_waited_for_a_tool_is_not_delivered_when_the_turn_is_interrupted() -> None:
    said = read("interrupted_with_steer_pending")
    assert receipts(said)["sm-2"] == [Receipt.ACCEPTED, Receipt.NOT_DELIVERED]
    (lost,) = [update for update in only(said, MessageUpdate) if update.receipt is Receipt.NOT_DELIVERED]
    assert lost.reason == "the turn ended before it took the message"


def test_message_in_the_queue_survives_an_interrupt() -> None:
    assert receipts(read("interrupted_with_queue"))["sm-2"] == [Receipt.ACCEPTED]
    assert receipts(read("after_interrupt_with_queue"))["sm-2"] == [Receipt.ACCEPTED, Receipt.SUBMITTED]


def test_message_is_submitted_behind_the_answer_of_an_open_approval() -> None:
    said = read("message_while_approval")
    resolved = next(n for n, event in enumerate(said) if isinstance(event, RequestResolved))
    submitted = [n for n, e in enumerate(said) if isinstance(e, MessageUpdate) and e.id == "sm-2"]
    assert submitted[0] < resolved < submitted[-1]
    assert [end.allowed for end in only(said, ToolEnd)] == [False]


def test_message_is_not_delivered_when_the_program_refuses_it() -> None:
    reader = opened()
    params = {"threadId": THREAD, "clientUserMessageId": "m-1", "expectedTurnId": "t-0"}
    reader.sent({"id": 5, "method": "turn/steer", "params": params}, 2.0)
    (update,) = reader.received({"id": 5, "error": {"code": -32600, "message": "no active turn"}}, 2.0)
    assert update == MessageUpdate("m-1", Receipt.NOT_DELIVERED, 2.0, "no active turn")


def test_late_item_makes_a_lost_message_submitted() -> None:
    reader = opened()
    started(reader)
    assert receipts(reader.received(ended(), 3.0)) == {"m-1": [Receipt.NOT_DELIVERED]}
    item = {"type": "userMessage", "id": "i", "clientId": "m-1", "content": []}
    late = reader.received(notification("item/completed", item=item, turnId="t-1"), 3.0)
    assert receipts(late) == {"m-1": [Receipt.SUBMITTED]}


def test_message_whose_item_has_begun_is_not_said_to_be_lost() -> None:
    reader = opened()
    started(reader)
    item = {"type": "userMessage", "id": "i", "clientId": "m-1", "content": []}
    reader.received(notification("item/started", item=item, turnId="t-1"), 3.0)
    assert receipts(reader.received(ended(), 3.0)) == {}


def test_answer_behind_the_end_of_its_turn_says_that_the_message_is_lost() -> None:
    reader = opened()
    reader.received(ended(), 2.0)
    assert receipts(started(reader)) == {"m-1": [Receipt.ACCEPTED, Receipt.NOT_DELIVERED]}


def test_lost_link_makes_open_messages_and_the_state_unknown() -> None:
    reader = opened()
    started(reader)
    update, unknown = reader.lost(4.0, "the connection was closed")
    assert update == MessageUpdate(
        "m-1", Receipt.UNKNOWN, 4.0, "the link was lost: the connection was closed"
    )
    assert unknown == StateUnknown(4.0, "the link was lost: the connection was closed")


def answered(reader: ProtocolReader, id: int, method: str, result: Mapping[str, Any]) -> list[LinkEvent]:
    """Let sm call a method about the conversation `THREAD`, and the program answer."""
    reader.sent({"id": id, "method": method, "params": {"threadId": THREAD}}, 5.0)
    return reader.received({"id": id, "result": result}, 5.0)


@pytest.mark.parametrize(
    ("items", "cursor", "under_way", "expected"),
    [
        ([("m-1", "t-1")], None, "", [Receipt.SUBMITTED]),
        ([("m-1", "t-1")], "older", "t-1", [Receipt.SUBMITTED]),
        ([("another", "t-1")], None, "", [Receipt.NOT_DELIVERED]),
        ([], None, "", [Receipt.NOT_DELIVERED]),
        # The turn is under way: it may still take the message.
        ([("another", "t-1")], None, "t-1", []),
        # The list does not show where the turn begins.
        ([("another", "t-1")], "older", "", []),
        ([("another", "t-1"), ("older", "t-0")], "older", "", [Receipt.NOT_DELIVERED]),
        ([("newer", "t-2"), ("another", "t-1"), ("older", "t-0")], "older", "t-2", [Receipt.NOT_DELIVERED]),
        ([("newer", "t-2")], "older", "t-2", []),
    ],
)
def test_conversation_decides_about_a_message_after_the_link_is_back(
    items: list[tuple[str, str]], cursor: str | None, under_way: str, expected: list[Receipt]
) -> None:
    reader = opened()
    started(reader)
    reader.lost(4.0, "closed")
    status = {"type": "active", "activeFlags": []} if under_way else {"type": "idle"}
    answered(reader, 7, "thread/resume", {"thread": {"id": THREAD, "status": status}})
    newest = {"id": under_way or "t-1", "status": "inProgress" if under_way else "completed"}
    answered(reader, 8, "thread/turns/list", {"data": [newest]})
    data = [
        {"turnId": turn, "item": {"type": "userMessage", "id": "i", "clientId": client}}
        for client, turn in items
    ]
    said = answered(reader, 9, "thread/items/list", {"data": data, "nextCursor": cursor})
    assert receipts(said).get("m-1", []) == expected


def test_turn_that_began_while_the_link_was_lost_ends_as_the_one_under_way() -> None:
    reader = opened()
    started(reader)
    reader.received(approval(), 3.0)
    reader.lost(4.0, "closed")
    active = {"id": THREAD, "status": {"type": "active", "activeFlags": []}}
    answered(reader, 7, "thread/resume", {"thread": active})
    said = answered(reader, 8, "thread/turns/list", {"data": [{"id": "t-2", "status": "inProgress"}]})
    assert only(said, RequestResolved) == [RequestResolved(0, None)]
    assert reader.turn == "t-2"
    (idle,) = only(reader.received(ended("t-2"), 6.0), StateUpdate)
    assert idle.observation.final


def test_message_of_an_earlier_process_is_proved_by_the_conversation() -> None:
    reader = ProtocolReader()
    reader.expect("m-1", THREAD)
    reader.expect("m-2", THREAD)
    answered(reader, 7, "thread/resume", {"thread": {"id": THREAD, "status": {"type": "idle"}}})
    entry = {"turnId": "t-1", "item": {"type": "userMessage", "id": "i", "clientId": "m-1"}}
    said = answered(reader, 9, "thread/items/list", {"data": [entry], "nextCursor": None})
    assert receipts(said) == {"m-1": [Receipt.SUBMITTED]}


def test_end_of_a_turn_decides_nothing_about_a_message_of_a_lost_link() -> None:
    reader = opened()
    started(reader)
    reader.lost(4.0, "closed")
    assert receipts(reader.received(ended(), 5.0)) == {}


def test_approval_names_its_tool_its_decisions_and_its_kind() -> None:
    said = read("approval_accepted")
    (request,), (use,) = only(said, RequestOpened), only(said, ToolUse)
    assert (request.dialog.kind, request.dialog.tool) == (RequestKind.PERMISSION, "exec_command")
    assert request.dialog.arguments == {"cmd": "/bin/bash -lc 'touch r1'", "reason": "May I touch r1?"}
    assert [d.name for d in request.decisions] == ["accept", "acceptWithExecpolicyAmendment", "cancel"]
    amendment = {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["touch", "r1"]}}
    assert request.decisions[1].value == amendment
    assert (request.tool_use, request.dialog.working_dir) == (use.id, "/projects/d1")
    blocked = [s for s in only(said, StateUpdate) if s.observation.activity is Activity.BLOCKED]
    assert {state.requires for state in blocked} == {RequestKind.PERMISSION}
    assert blocked[-1].observation.use == use.id
    assert "touch r1" in blocked[-1].observation.reason


def test_approval_of_a_patch_shows_the_changes_of_its_item() -> None:
    (request,) = only(read("patch_approval"), RequestOpened)
    assert request.dialog.tool == "apply_patch"
    assert request.dialog.arguments["path"] == "/projects/d1/new.txt"
    assert request.dialog.arguments["changes"][0]["diff"] == "hello\n"
    assert [d.name for d in request.decisions] == ["accept", "acceptForSession", "decline", "cancel"]


def test_question_has_its_text_and_options() -> None:
    said = read("question")
    (request,) = only(said, RequestOpened)
    (question,) = request.dialog.questions
    assert (request.dialog.kind, request.decisions) == (RequestKind.QUESTION, ())
    assert (question.question, question.options) == ("Which database?", ("SQLite", "Postgres"))
    kinds = [state.requires for state in only(said, StateUpdate)]
    assert RequestKind.QUESTION in kinds
    assert RequestKind.PERMISSION not in kinds


@pytest.mark.parametrize(
    ("decision", "status", "by"),
    [
        ("accept", "completed", [Answerer.LINK]),
        ("accept", "failed", [Answerer.LINK]),
        ("decline", "declined", [Answerer.LINK]),
        ("accept", "declined", [Answerer.LINK, Answerer.TERMINAL]),
        ("decline", "completed", [Answerer.LINK, Answerer.TERMINAL]),
        ({"acceptWithExecpolicyAmendment": {}}, "completed", [Answerer.LINK]),
    ],
)
def test_tool_corrects_who_answered_when_both_sides_did(
    decision: object, status: str, by: list[Answerer]
) -> None:
    reader = opened()
    started(reader)
    reader.received(command("item/started", "inProgress"), 3.0)
    reader.received(approval(), 3.0)
    reader.sent({"id": 0, "result": {"decision": decision}}, 3.0)
    said = reader.received(notification("serverRequest/resolved", requestId=0), 3.0)
    said += reader.received(command("item/completed", status), 3.0)
    assert [resolved.by for resolved in only(said, RequestResolved)] == by


def test_answer_behind_the_resolution_changes_nothing() -> None:
    reader = opened()
    started(reader)
    reader.received(approval(), 3.0)
    said = reader.received(notification("serverRequest/resolved", requestId=0), 3.0)
    assert [resolved.by for resolved in only(said, RequestResolved)] == [Answerer.TERMINAL]
    reader.sent({"id": 0, "result": {"decision": "decline"}}, 3.0)
    assert only(reader.received(command("item/completed", "completed"), 3.0), RequestResolved) == []


def test_request_that_an_interrupt_closes_was_answered_by_nobody() -> None:
    reader = opened()
    started(reader)
    reader.received(approval(), 3.0)
    reader.sent({"id": 9, "method": "turn/interrupt", "params": {"threadId": THREAD, "turnId": "t-1"}}, 3.0)
    said = reader.received(notification("serverRequest/resolved", requestId=0), 3.0)
    assert [resolved.by for resolved in only(said, RequestResolved)] == [None]


def test_request_ends_with_its_turn_when_no_resolution_was_told() -> None:
    reader = opened()
    started(reader)
    reader.received(approval(), 3.0)
    said = reader.received(ended(status="interrupted"), 3.0)
    assert only(said, RequestResolved) == [RequestResolved(0, None)]


def test_second_approval_keeps_the_agent_blocked_when_the_first_is_answered() -> None:
    reader = opened()
    started(reader)
    reader.received(approval(1, "call-1"), 3.0)
    reader.received(approval(2, "call-2"), 3.0)
    first = reader.received(notification("serverRequest/resolved", requestId=2), 3.0)
    second = reader.received(notification("serverRequest/resolved", requestId=1), 3.0)
    assert [s.observation.activity for s in only(first, StateUpdate)] == [Activity.BLOCKED]
    assert [s.observation.use for s in only(first, StateUpdate)] == ["call-1"]
    assert [s.observation.activity for s in only(second, StateUpdate)] == [Activity.BUSY]


def test_request_that_is_sent_again_is_one_request() -> None:
    reader = opened()
    started(reader)
    assert only(reader.received(approval(), 3.0), RequestOpened)
    reader.lost(4.0, "closed")
    assert only(reader.received(approval(), 5.0), RequestOpened) == []


def test_command_that_outlives_its_turn_runs_in_the_background_until_its_end() -> None:
    reader = opened()
    started(reader)
    reader.received(command("item/started", "inProgress"), 3.0)
    idle = notification("thread/status/changed", status={"type": "idle"})
    said = reader.received(idle, 4.0) + reader.received(ended(), 4.0)
    assert [s.observation.background for s in only(said, StateUpdate)] == [1, 1]
    said = reader.received(command("item/completed", "completed"), 9.0)
    assert [s.observation.background for s in only(said, StateUpdate)] == [0]


def test_interrupt_leaves_the_running_command_in_the_background() -> None:
    last = only(read("interrupted_with_steer_pending"), StateUpdate)[-1].observation
    assert (last.background, last.finished) == (1, False)
    assert only(read("tool_long_silent"), StateUpdate)[-1].observation.background == 0


def test_commands_of_a_lost_link_are_not_said_to_run() -> None:
    reader = opened()
    started(reader)
    reader.received(command("item/started", "inProgress"), 3.0)
    reader.lost(4.0, "closed")
    (update,) = only(reader.received(ended(), 5.0), StateUpdate)
    assert update.observation.background == 0


def test_refused_tool_ends_with_its_turn_when_the_program_does_not_say_so() -> None:
    reader = opened()
    started(reader)
    reader.received(command("item/started", "inProgress"), 3.0)
    reader.received(approval(), 3.0)
    reader.sent({"id": 0, "result": {"decision": "decline"}}, 3.0)
    reader.received(notification("serverRequest/resolved", requestId=0), 3.0)
    assert only(reader.received(ended(), 4.0), ToolEnd) == [ToolEnd("call-1", False, 4.0)]


def test_request_opens_again_when_the_answer_was_lost_with_the_link() -> None:
    reader = opened()
    started(reader)
    reader.received(approval(), 3.0)
    reader.sent({"id": 0, "result": {"decision": "accept"}}, 3.0)
    reader.lost(4.0, "closed")
    assert [request.id for request in only(reader.received(approval(), 5.0), RequestOpened)] == [0]
    said = reader.received(notification("serverRequest/resolved", requestId=0), 6.0)
    assert only(said, RequestResolved) == [RequestResolved(0, Answerer.TERMINAL)]


def test_id_of_another_request_after_a_restart_of_the_program_is_a_new_request() -> None:
    reader = opened()
    started(reader)
    reader.received(approval(0, "call-1"), 3.0)
    reader.lost(4.0, "closed")
    said = reader.received(approval(0, "call-2"), 5.0)
    assert only(said, RequestResolved) == [RequestResolved(0, None)]
    assert [request.tool_use for request in only(said, RequestOpened)] == ["call-2"]


def test_question_that_does_not_block_leaves_the_agent_busy() -> None:
    reader = opened()
    started(reader)
    questions = [{"id": "q", "header": "Q", "question": "Which?", "options": []}]
    params = {"threadId": THREAD, "turnId": "t-1", "itemId": "c", "questions": questions, "isBlocking": False}
    said = reader.received({"id": 3, "method": "item/tool/requestUserInput", "params": params}, 3.0)
    assert only(said, RequestOpened)
    assert only(said, StateUpdate) == []


def test_request_of_a_sub_agent_names_it() -> None:
    reader = opened()
    started(reader)
    sub = {"id": "sub", "parentThreadId": THREAD, "ephemeral": False, "status": {"type": "idle"}}
    assert reader.received({"method": "thread/started", "params": {"thread": sub}}, 3.0) == []
    said = reader.received(approval(0, threadId="sub"), 3.0)
    assert [request.dialog.agent for request in only(said, RequestOpened)] == ["sub"]
    assert only(said, StateUpdate) == []


def test_elicitation_of_an_mcp_server_is_a_question_with_its_message() -> None:
    reader = opened()
    params = {"threadId": THREAD, "serverName": "files", "message": "Which directory?", "mode": "form"}
    (request, _) = reader.received(
        {"id": "e1", "method": "mcpServer/elicitation/request", "params": params}, 3.0
    )
    assert isinstance(request, RequestOpened)
    assert (request.id, request.dialog.tool) == ("e1", "mcp__files")
    assert [question.question for question in request.dialog.questions] == ["Which directory?"]


@pytest.mark.parametrize("method", ["item/tool/call", "attestation/generate", "someday/asked"])
def test_unknown_request_says_nothing(method: str) -> None:
    assert opened().received({"id": 3, "method": method, "params": {"threadId": THREAD}}, 3.0) == []


def test_finished_turn_has_its_last_words() -> None:
    last = only(read("text_turn"), StateUpdate)[-1].observation
    assert (last.final, last.finished, last.answer) == (True, True, "All 26 tests pass.")


def test_interrupted_turn_is_not_finished() -> None:
    last = only(read("interrupted_streaming"), StateUpdate)[-1].observation
    assert (last.final, last.finished, last.answer) == (True, False, "")


@pytest.mark.parametrize(
    ("name", "kind"),
    [("error_429", FaultKind.THROTTLED), ("stream_cut", FaultKind.NETWORK)],
)
def test_failed_turn_has_its_fault(name: str, kind: FaultKind) -> None:
    fault = only(read(name), StateUpdate)[-1].observation.fault
    assert fault is not None
    assert fault.kind is kind
    assert fault.text


def test_retry_of_the_program_leaves_the_agent_busy() -> None:
    states = [state.observation for state in only(read("error_429"), StateUpdate)]
    retries = [state for state in states if state.reason.startswith("Reconnecting")]
    assert [state.activity for state in retries] == [Activity.BUSY, Activity.BUSY]


def test_late_end_of_an_earlier_turn_does_not_make_the_agent_idle() -> None:
    reader = opened()
    started(reader, turn="t-1")
    started(reader, "m-2", turn="t-2")
    assert only(reader.received(ended("t-1"), 4.0), StateUpdate) == []
    assert only(reader.received(ended("t-2"), 4.0), StateUpdate) != []


def test_end_of_a_turn_that_nobody_saw_begin_leaves_the_agent_busy() -> None:
    reader = opened()
    started(reader)
    assert only(reader.received(ended("t-0"), 4.0), StateUpdate) == []


def test_link_that_is_lost_again_for_the_same_reason_says_so_once() -> None:
    reader = opened()
    assert len(reader.lost(4.0, "no such file")) == 1
    assert reader.lost(5.0, "no such file") == []
    assert len(reader.lost(6.0, "refused")) == 1


def test_status_that_nobody_knows_is_unknown() -> None:
    said = opened().received(notification("thread/status/changed", status={"type": "dreaming"}), 3.0)
    assert said == [StateUnknown(3.0, "the program reports an unknown status: dreaming")]


def test_observation_has_the_time_at_which_the_program_emitted_it() -> None:
    active = notification("thread/status/changed", status={"type": "active", "activeFlags": []})
    (update,) = opened().received({**active, "emittedAtMs": 1_795_324_000_250}, 1_795_324_001.0)
    assert isinstance(update, StateUpdate)
    assert update.observation.at == 1_795_324_000.25


@pytest.mark.parametrize("emitted", [1_895_324_000_000, 1_695_324_000_000, -1, 10**400, "soon", None, 1.5])
def test_arrival_counts_when_the_time_of_the_program_cannot_be_right(emitted: object) -> None:
    active = notification("thread/status/changed", status={"type": "active", "activeFlags": []})
    (update,) = opened().received({**active, "emittedAtMs": emitted}, 1_795_324_001.0)
    assert isinstance(update, StateUpdate)
    assert update.observation.at == 1_795_324_001.0


def test_conversation_that_a_person_began_is_followed() -> None:
    first, second = only(read("new_by_person"), ConversationStarted)
    assert (first.by, second.by) == (Answerer.LINK, Answerer.TERMINAL)
    assert first.id != second.id
    assert first.transcript.startswith("/home/u/.codex/sessions/")
    assert (first.model, second.model) == ("gpt-5.5-codex", "gpt-5.5-codex")


def test_states_of_the_new_conversation_follow_its_beginning() -> None:
    said = read("new_by_person")
    began = max(n for n, event in enumerate(said) if isinstance(event, ConversationStarted))
    states = [event.observation.activity for event in only(said[began:], StateUpdate)]
    assert states == [Activity.IDLE, Activity.BUSY, Activity.IDLE]


def test_conversation_that_takes_a_message_is_followed_when_its_beginning_was_not_seen() -> None:
    reader = ProtocolReader()
    said = started(reader)
    assert [conversation.id for conversation in only(said, ConversationStarted)] == [THREAD]
    assert only(said, StateUpdate)[-1].observation.activity is Activity.BUSY
    assert only(reader.received(ended(), 3.0), StateUpdate)[-1].observation.final


def test_fork_and_resume_are_conversations_of_the_link() -> None:
    conversations = only(read("fork_and_resume"), ConversationStarted)
    first, fork, again = conversations
    assert (fork.forked_from, again.id, first.forked_from) == (first.id, first.id, "")
    assert {conversation.by for conversation in conversations} == {Answerer.LINK}


def test_beginning_that_comes_before_the_answer_is_one_conversation_of_the_link() -> None:
    reader = ProtocolReader()
    reader.sent({"id": 1, "method": "thread/start", "params": {}}, 1.0)
    thread = {"id": THREAD, "ephemeral": False, "status": {"type": "idle"}}
    said = reader.received({"method": "thread/started", "params": {"thread": thread}}, 1.0)
    said += reader.received({"id": 1, "result": {"thread": thread}}, 1.0)
    assert [event.by for event in only(said, ConversationStarted)] == [Answerer.LINK]


def test_conversations_of_the_program_itself_are_ignored() -> None:
    for thread in (
        {"id": "title", "ephemeral": True, "threadSource": "thread_title"},
        {"id": "memory", "ephemeral": False, "threadSource": "memory_consolidation"},
        {"id": "odd", "threadSource": ["user"], "ephemeral": False},
        {"id": "unsaid", "threadSource": "user"},
    ):
        assert opened().received({"method": "thread/started", "params": {"thread": thread}}, 3.0) == []


def test_conversation_ends_when_the_program_unloads_it() -> None:
    reader = opened()
    assert reader.received(notification("thread/closed"), 3.0) == [ConversationEnded(THREAD, 3.0)]
    assert reader.conversation is None


def test_resumed_conversation_does_not_count_its_tokens_again() -> None:
    reader = ProtocolReader()
    reader.sent({"id": 1, "method": "thread/resume", "params": {"threadId": THREAD}}, 1.0)
    reader.received({"id": 1, "result": {"thread": {"id": THREAD, "status": {"type": "idle"}}}}, 1.0)
    told = {"total": {"totalTokens": 900, "inputTokens": 800, "outputTokens": 100}, "last": {}}
    assert reader.received(notification("thread/tokenUsage/updated", tokenUsage=told), 1.0) == []
    started(reader)
    more = {"total": {"totalTokens": 1000, "inputTokens": 850, "outputTokens": 150}, "last": {}}
    (usage,) = reader.received(notification("thread/tokenUsage/updated", tokenUsage=more), 2.0)
    assert isinstance(usage, Usage)
    assert (usage.input, usage.output) == (50, 50)


def test_tokens_that_a_lost_link_missed_are_counted_with_the_next_total() -> None:
    reader = opened()
    started(reader)
    totals = [{"totalTokens": 100, "inputTokens": 100}, {"totalTokens": 400, "inputTokens": 400}]
    usages = []
    for total in totals:
        reader.lost(3.0, "closed")
        usages += reader.received(notification("thread/tokenUsage/updated", tokenUsage={"total": total}), 3.0)
    assert [usage.input for usage in only(usages, Usage)] == [100, 300]


def test_repeated_total_counts_once() -> None:
    reader = opened()
    started(reader)
    told = notification(
        "thread/tokenUsage/updated", tokenUsage={"total": {"totalTokens": 9, "inputTokens": 9}}
    )
    assert len(reader.received(told, 3.0) + reader.received(told, 3.0)) == 1


def test_context_is_that_of_the_last_response() -> None:
    assert only(read("tool_ok"), ContextUpdate)[-1] == ContextUpdate(1174, 258_400)


def test_plan_is_the_whole_task_list() -> None:
    steps = [
        {"step": "First", "status": "completed"},
        {"step": "Second", "status": "inProgress"},
        {"step": "x"},
    ]
    (update,) = opened().received(notification("turn/plan/updated", plan=steps), 3.0)
    assert isinstance(update, PlanUpdate)
    assert [(todo.content, todo.status) for todo in update.entries] == [
        ("First", "completed"),
        ("Second", "in_progress"),
    ]


def test_large_frame_says_no_more_than_its_bounds() -> None:
    reader = opened()
    started(reader)
    item = {"type": "commandExecution", "id": "c", "command": "x" * 50_000_000, "status": "inProgress"}
    (use,) = reader.received(notification("item/started", item=item), 3.0)
    assert isinstance(use, ToolUse)
    assert len(use.arguments["cmd"]) <= 200
    (request, blocked) = reader.received(approval(command="y" * 50_000_000), 3.0)
    assert isinstance(request, RequestOpened)
    assert isinstance(blocked, StateUpdate)
    assert len(blocked.observation.reason) <= 300
