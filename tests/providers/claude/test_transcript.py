"""Reading transcripts of Claude Code, and their paths."""

import json
from typing import Any

import pytest

from sm.core.faults import FaultKind
from sm.core.observation import Activity
from sm.core.turns import TurnWork
from sm.providers.claude.transcript import ClaudeTranscriptReader
from sm.providers.readers import AcceptedInput, ToolEnd

READER = ClaudeTranscriptReader()
ID = "5e55aaaa-0000-4000-8000-000000000001"


@pytest.mark.parametrize(
    ("environment", "home"),
    [
        ({"HOME": "/home/me"}, "/home/me/.claude"),
        ({"HOME": "/home/me", "CLAUDE_CONFIG_DIR": ""}, "/home/me/.claude"),
        ({"HOME": "/home/me", "CLAUDE_CONFIG_DIR": "/cfg"}, "/cfg"),
    ],
)
def test_transcript_is_in_the_config_directory_of_claude(environment: dict[str, str], home: str) -> None:
    assert READER.root(environment) == f"{home}/projects"
    assert READER.path(environment, "/w/a_b.c", ID) == f"{home}/projects/-w-a-b-c/{ID}.jsonl"


AT, AT_S = "2026-11-21T16:22:32.123Z", 1_795_278_152.123


def line(type: str, **more: Any) -> bytes:
    return json.dumps({"type": type, "timestamp": AT} | more).encode()


def queue(operation: str, text: str) -> bytes:
    return line("queue-operation", operation=operation, content=text)


def result(id: str, **more: Any) -> bytes:
    block = {"type": "tool_result", "tool_use_id": id, "content": "x"} | more.pop("block", {})
    return line("user", message={"content": [block]}, **more)


ENDED = line("system", subtype="turn_duration", durationMs=7)
FAILED = line("assistant", isApiErrorMessage=True, error="server_error", message={"content": "API Error"})
PROMPT = line("user", message={"content": "go on"}, promptSource="typed")
INTERRUPTED = line("user", message={"content": "[Request interrupted by user]"})


def test_delta_reports_messages_as_accepted_queued_or_withdrawn() -> None:
    message = "[sm] from a, message 7\nhi"
    lines = [
        queue("enqueue", message),
        queue("popAll", message),
        queue("enqueue", "a person's own words"),
        line("attachment", attachment={"type": "queued_command", "prompt": message}),
        line("user", message={"content": message}, promptSource="typed"),
    ]
    delta = READER.delta(lines, sidechain=False, todo=())
    assert delta.accepted == (
        AcceptedInput(message, AT_S, queued=True),
        AcceptedInput(message, AT_S, withdrawn=True),
        AcceptedInput(message, AT_S),
        AcceptedInput(message, AT_S),
    )
    assert READER.delta(lines, sidechain=True, todo=()).accepted == ()
    assert (
        READER.delta([queue("enqueue", message).replace(AT.encode(), b"")], sidechain=False, todo=()).accepted
        == ()
    )


def test_delta_reports_prompts_that_a_user_hook_refused_or_stopped() -> None:
    message = "[sm] from a, message 7\nhi"
    refused = f"UserPromptSubmit operation blocked by hook:\nno\n\nOriginal prompt: {message}"
    lines = [
        line("system", subtype="informational", content=words, preventContinuation=True)
        for words in (
            refused,
            refused.partition("\n\n")[0],
            refused.replace("[sm]", "my"),
            "Operation stopped by hook: wait",
        )
    ]
    assert READER.delta(lines, sidechain=False, todo=()).accepted == (
        AcceptedInput(message, AT_S, refused="no"),
        AcceptedInput("", AT_S, refused="no"),
        AcceptedInput("", AT_S, refused="wait", kept=True),
    )


@pytest.mark.parametrize("sidechain", [False, True])
def test_delta_reports_ended_tool_calls_and_whether_they_were_allowed(sidechain: bool) -> None:
    refused = {"block": {"is_error": True}, "toolUseResult": "User rejected tool use"}
    by_hook = {"type": "hook_permission_decision", "hookEvent": "PermissionRequest"}
    lines = [
        result("a"),
        result("b", block={"is_error": True}),
        result("c", **refused),
        line("attachment", attachment={**by_hook, "decision": "deny", "toolUseID": "d"}),
        line("attachment", attachment={**by_hook, "decision": "allow", "toolUseID": "e"}),
    ]
    assert READER.delta(lines, sidechain=sidechain, todo=()).tools_ended == (
        ToolEnd("a", True, AT_S),
        ToolEnd("b", None, AT_S),
        ToolEnd("c", False, AT_S),
        ToolEnd("d", False, AT_S),
    )


@pytest.mark.parametrize(
    ("lines", "finished"),
    [
        ([ENDED], AT_S),
        ([result("a"), ENDED], AT_S),
        ([FAILED, ENDED, ENDED], AT_S),
        ([FAILED, ENDED], None),
        ([ENDED, FAILED], None),
        ([INTERRUPTED], None),
        ([result("a")], None),
    ],
)
def test_delta_reports_no_finished_turn_when_it_failed_or_was_interrupted(
    lines: list[bytes], finished: float | None
) -> None:
    assert READER.delta(lines, sidechain=False, todo=()).turn_finished == finished
    assert READER.delta(lines, sidechain=True, todo=()).turn_finished is None


@pytest.mark.parametrize(("end", "answer"), [(ENDED, ""), (FAILED, ""), (INTERRUPTED, None)])
def test_observation_has_an_answer_when_a_turn_ended_by_itself(end: bytes, answer: str | None) -> None:
    (observation,) = READER.delta([end], sidechain=False, todo=()).observations
    assert observation.answer == answer


LIMIT = "You've hit your session limit \u00b7 resets 4:31pm (UTC)"
LIMITED = line(
    "assistant",
    isApiErrorMessage=True,
    error="rate_limit",
    apiErrorStatus=429,
    message={"model": "<synthetic>", "content": [{"type": "text", "text": LIMIT}]},
)


def test_failed_turn_is_one_observation_with_its_fault_when_its_end_is_in_the_same_lines() -> None:
    observations = READER.delta([LIMITED, ENDED], sidechain=False, todo=()).observations
    assert [o.fault and o.fault.kind for o in observations] == [FaultKind.QUOTA]
    assert observations[0].final
    assert observations[0].fault is not None
    assert observations[0].fault.text == LIMIT
    again = READER.delta([LIMITED, ENDED, PROMPT, ENDED], sidechain=False, todo=()).observations
    assert [(o.activity, o.fault is not None) for o in again] == [
        (Activity.IDLE, True),
        (Activity.BUSY, False),
        (Activity.IDLE, False),
    ]


@pytest.mark.parametrize(
    "quoting",
    [
        line(
            "assistant",
            error="rate_limit",
            message={"model": "m", "content": [{"type": "text", "text": LIMIT}]},
        ),
        line("user", error="rate_limit", isApiErrorMessage=True, message={"content": LIMIT}),
        line("user", message={"content": [{"type": "tool_result", "tool_use_id": "t", "content": LIMIT}]}),
        line("system", subtype="informational", content=LIMIT, error="rate_limit"),
        line("queue-operation", operation="enqueue", content=LIMIT),
    ],
)
def test_quoted_limit_message_is_no_fault(quoting: bytes) -> None:
    observations = READER.delta([quoting, ENDED], sidechain=False, todo=()).observations
    assert [o.fault for o in observations] == [None] * len(observations)
    assert observations


def test_failure_of_a_sub_agent_is_no_fault_of_the_turn() -> None:
    failed = LIMITED.replace(b'{"type"', b'{"isSidechain": true, "type"', 1)
    assert READER.delta([failed], sidechain=False, todo=()).observations == ()
    assert READER.delta([LIMITED], sidechain=True, todo=()).observations == ()


def test_end_of_a_failed_turn_is_no_success_when_it_is_read_after_the_failure() -> None:
    failure = READER.delta([LIMITED], sidechain=False, todo=())
    assert failure.failed
    end = READER.delta([ENDED], sidechain=False, todo=(), failed=True)
    assert (end.observations, end.turn_finished, end.failed) == ((), None, False)
    assert READER.delta([], sidechain=False, todo=(), failed=True).failed
    again = READER.delta([PROMPT, ENDED], sidechain=False, todo=(), failed=True)
    assert (again.turn_finished is not None, again.failed) == (True, False)


def tool_use(id: str, **more: Any) -> bytes:
    block = {"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "make"}}
    return line("assistant", message={"id": f"m{id}", "model": "claude", "content": [block]}, **more)


def prompt(text: str, **more: Any) -> bytes:
    return line("user", message={"content": text}, promptSource="typed", **more)


def test_delta_follows_the_work_of_the_last_turn_over_several_reads() -> None:
    failed = result("b", block={"is_error": True})
    work = READER.delta([prompt("Fix the parser"), tool_use("a"), result("a")], sidechain=False, todo=()).work
    assert work == TurnWork("Fix the parser", "", 1, 0, last_tool_failed=False, whole=True)
    work = READER.delta([tool_use("b"), failed], sidechain=False, todo=(), work=work).work
    assert work == TurnWork("Fix the parser", "", 2, 1, last_tool_failed=True, whole=True)
    queued = line("attachment", attachment={"type": "queued_command", "prompt": "Also push it"})
    assert READER.delta([queued], sidechain=False, todo=(), work=work).work.last_task == "Also push it"
    next_turn = READER.delta([prompt("continue")], sidechain=False, todo=(), work=work).work
    assert next_turn == TurnWork("Fix the parser", whole=True)


def test_work_goes_on_when_a_sub_agent_ends_and_leaves_out_its_tools() -> None:
    work = TurnWork("Fix the parser", tools_used=1, whole=True)
    notified = prompt("a sub-agent has ended its work", origin={"kind": "task-notification"})
    lines = [notified, tool_use("c", isSidechain=True), result("c", isSidechain=True)]
    assert READER.delta(lines, sidechain=False, todo=(), work=work).work == work
    assert READER.delta([tool_use("d")], sidechain=True, todo=(), work=work).work == work


def turn_line(type: str, second: int, **line: object) -> bytes:
    return json.dumps({"type": type, "timestamp": f"2026-01-02T10:00:{second:02}.000Z", **line}).encode()


def text_line(second: int, text: str) -> bytes:
    content = [{"type": "text", "text": text}]
    return turn_line("assistant", second, message={"role": "assistant", "model": "m", "content": content})


def tool_line(second: int, name: str = "Bash") -> bytes:
    content = [{"type": "tool_use", "id": f"t{second}", "name": name, "input": {}}]
    return turn_line("assistant", second, message={"role": "assistant", "model": "m", "content": content})


def result_line(second: int, use: str) -> bytes:
    content = [{"type": "tool_result", "tool_use_id": use, "content": "ok"}]
    return turn_line("user", second, message={"role": "user", "content": content})


def user_line(second: int, text: str = "go on") -> bytes:
    return turn_line("user", second, promptId="p", message={"role": "user", "content": text})


def end_line(second: int, **more: object) -> bytes:
    return turn_line("system", second, subtype="turn_duration", durationMs=1, **more)


FAILURE = turn_line(
    "assistant",
    4,
    isApiErrorMessage=True,
    error="server_error",
    message={"model": "<synthetic>", "content": [{"type": "text", "text": "API Error"}]},
)
TURN = (user_line(1), text_line(2, "I look."), tool_line(3), result_line(4, "t3"), text_line(5, "Done."))


def test_last_turn_has_the_final_message_the_times_and_the_tools() -> None:
    last = READER.last_turn([text_line(0, "Before."), *TURN, end_line(7)])
    assert last is not None
    assert (last.observation.answer, last.observation.finished, last.tools_used) == ("Done.", True, 1)
    assert (last.observation.at - last.answered_at, last.observation.source) == (2.0, "transcript")


@pytest.mark.parametrize(
    "lines",
    [
        TURN,
        (*TURN, end_line(7), user_line(8)),
        (*TURN, end_line(7), user_line(8), tool_line(9)),
        (*TURN, end_line(7, pendingBackgroundAgentCount=1)),
        (*TURN, user_line(6, "[Request interrupted by user]")),
        (*TURN[:3], FAILURE, end_line(7)),
    ],
)
def test_last_turn_that_works_failed_or_was_interrupted_is_no_finished_turn(lines: tuple[bytes, ...]) -> None:
    assert READER.last_turn(lines) is None


def test_line_of_an_unknown_type_after_the_end_of_a_turn_is_no_work() -> None:
    message = {"role": "assistant", "id": "msg_9", "content": []}
    assert READER.last_turn([*TURN, end_line(7), turn_line("recap", 8, message=message)]) is not None


def test_last_turn_whose_last_act_is_a_tool_has_no_final_message() -> None:
    last = READER.last_turn([*TURN[:4], end_line(7)])
    assert last is not None
    assert (last.observation.answer, last.answered_at) == ("", last.observation.at - 3.0)
