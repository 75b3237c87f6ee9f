"""Reading hook events: payloads of the real program, 2.1.197, shortened."""

from typing import Any

import pytest

from sm.core.faults import Fault, FaultKind
from sm.core.observation import Activity
from sm.core.turns import FINAL_MESSAGE_MAX
from sm.providers.claude.hooks import EVENTS, read_hook
from sm.providers.readers import AcceptedInput, HookEvent

OLD, NEW = "0b0e7c1e-0000-4000-8000-000000000001", "0b0e7c1e-0000-4000-8000-000000000002"
COMMON = {
    "session_id": OLD,
    "transcript_path": "/home/me/.claude/projects/-work/0b0e.jsonl",
    "cwd": "/work",
    "prompt_id": "p1",
    "permission_mode": "default",
}
DATABASE = {"question": "Which database?", "header": "DB", "options": [{"label": "a"}]}
QUESTION = {"tool_name": "AskUserQuestion", "tool_input": {"questions": [DATABASE]}}
PLAN = {"tool_name": "ExitPlanMode", "tool_input": {"plan": "1"}}
API_ERROR = {"error": "server_error", "last_assistant_message": "API Error: 529"}
BUSY, BLOCKED, IDLE = Activity.BUSY, Activity.BLOCKED, Activity.IDLE


def bash(command: str) -> dict[str, Any]:
    return {"tool_name": "Bash", "tool_input": {"command": command}}


def running(task: str) -> dict[str, Any]:
    return {"background_tasks": [{"type": task, "status": "running"}]}


def read_event(name: str, *, expects_turn: bool = False, **payload: Any) -> HookEvent:
    return read_hook({**COMMON, "hook_event_name": name, **payload}, 5.0, expects_turn=expects_turn)


@pytest.mark.parametrize(
    ("name", "payload", "activity", "final", "words"),
    [
        ("UserPromptSubmit", {"prompt": "go"}, BUSY, False, "a turn began"),
        ("PreToolUse", bash("npm test"), BUSY, False, "Bash: npm test"),
        ("PermissionRequest", bash("rm -r x"), BLOCKED, False, "claude asks for permission: Bash: rm -r x"),
        ("PermissionRequest", QUESTION, BLOCKED, False, "claude asks: Which database?"),
        ("PermissionRequest", PLAN, BLOCKED, False, "claude asks for approval of its plan"),
        ("PostToolUse", {"tool_name": "Bash"}, BUSY, False, "Bash"),
        ("PostToolUseFailure", {"tool_name": "Bash"}, BUSY, False, "Bash"),
        ("PermissionDenied", {"tool_name": "Bash"}, BUSY, False, "Bash"),
        ("Stop", {"background_tasks": []}, IDLE, True, "the turn ended"),
        ("Stop", running("shell"), IDLE, True, "the turn ended, shells in the background: 1"),
        ("Stop", running("subagent"), BUSY, False, "the turn ended, sub-agents in the background: 1"),
        ("Stop", running("workflow"), BUSY, False, "the turn ended, workflows in the background: 1"),
        ("Stop", running("MCP task"), IDLE, True, "the turn ended, MCP tasks in the background: 1"),
        ("Stop", running("monitor"), IDLE, True, "the turn ended, monitors in the background: 1"),
        ("Stop", running("dream"), IDLE, True, "the turn ended, other tasks in the background: 1"),
        ("Stop", {"session_crons": [{"id": "a"}]}, IDLE, True, "the turn ended, scheduled wake-ups: 1"),
        ("StopFailure", API_ERROR, IDLE, True, "the turn failed: the API is overloaded: API Error: 529"),
        ("Notification", {"notification_type": "idle_prompt"}, IDLE, True, "claude waits for input"),
        ("SubagentStart", {"agent_type": "Explore"}, BUSY, False, "a sub-agent started: Explore"),
        ("PreCompact", {"trigger": "manual"}, BUSY, False, "claude is compacting the conversation"),
        ("PostCompact", {"trigger": "manual"}, IDLE, True, "the conversation was compacted"),
    ],
)
def test_hook_event_has_its_activity_and_reason(
    name: str, payload: dict[str, Any], activity: Activity, final: bool, words: str
) -> None:
    seen = read_event(name, **payload).observation
    assert seen is not None
    assert (seen.activity, seen.final, seen.reason, seen.turn) == (activity, final, f"{words} ({name})", "p1")
    assert seen.at == 5.0


@pytest.mark.parametrize(
    ("name", "payload"),
    [
        ("SubagentStop", {"agent_id": "a1"}),
        ("Stop", {"agent_id": "a1"}),  # the end of a sub-agent
        ("PostCompact", {"trigger": "auto"}),  # during a turn
        ("SessionStart", {"source": "compact"}),
        ("Notification", {"notification_type": "permission_prompt"}),  # reported by PermissionRequest
        ("SessionEnd", {"reason": "other"}),
        ("SomethingNew", {}),
        ("", {}),
    ],
)
def test_hook_event_without_activity_has_no_observation(name: str, payload: dict[str, Any]) -> None:
    assert read_event(name, **payload).observation is None


def test_session_start_is_ready_and_busy_only_when_a_turn_is_expected() -> None:
    idle = read_event("SessionStart", source="startup", model="claude-opus-4-8[1m]")
    assert idle.ready
    assert idle.observation is not None
    assert (idle.observation.activity, idle.observation.final, idle.model) == (
        Activity.IDLE,
        True,
        "claude-opus-4-8[1m]",
    )
    busy = read_event("SessionStart", source="startup", expects_turn=True)
    assert busy.ready
    assert busy.observation is not None
    assert busy.observation.activity is Activity.BUSY


def test_clear_starts_another_conversation_in_the_same_process() -> None:
    assert read_event("SessionEnd", reason="clear").ending is None
    cleared = read_event("SessionStart", source="clear", session_id=NEW, transcript_path="/t/new.jsonl")
    assert (cleared.conversation, cleared.transcript, cleared.started) == (NEW, "/t/new.jsonl", True)
    assert cleared.observation is not None
    assert (cleared.observation.activity, cleared.observation.final) == (Activity.IDLE, True)


def test_session_start_of_a_fork_has_no_conversation_until_the_first_prompt() -> None:
    assert read_event("SessionStart", source="resume", session_id=OLD).conversation is None
    assert read_event("UserPromptSubmit", session_id=NEW).conversation == NEW


def test_hook_of_a_sub_agent_has_no_transcript() -> None:
    assert read_event("PreToolUse", tool_name="Read", agent_id="a1").transcript is None


def test_session_end_has_its_reason() -> None:
    assert read_event("SessionEnd", reason="prompt_input_exit").ending == "prompt_input_exit"


@pytest.mark.parametrize("name", EVENTS)
@pytest.mark.parametrize("value", [None, 7, [], {}, "x", ["\x1b[2J"], {"command": ["x"]}, "\ud800"])
def test_read_hook_never_raises_and_removes_escape_characters(name: str, value: object) -> None:
    fields = (
        "prompt_id", "agent_id", "source", "reason", "tool_name", "tool_input", "notification_type", "message",
        "error", "last_assistant_message", "background_tasks", "trigger", "model", "session_id",
    )  # fmt: skip
    for expects_turn in (True, False):
        found = read_hook(
            {"hook_event_name": name, **dict.fromkeys(fields, value)}, 5.0, expects_turn=expects_turn
        )
        if found.observation is not None:
            assert "\x1b" not in found.observation.reason


def test_reason_has_no_control_characters_of_a_tool_call() -> None:
    observation = read_event(
        "PreToolUse", tool_name="Bash", tool_input={"command": "a\x1b[2J\nb"}
    ).observation
    assert observation is not None
    assert "\x1b" not in observation.reason
    assert "\n" not in observation.reason


@pytest.mark.parametrize("value", ["--dangerously-skip-permissions", "x", OLD.upper(), f"{OLD}\n", 7, None])
def test_conversation_is_none_when_it_is_not_a_uuid(value: object) -> None:
    """The id becomes part of the command line of the session's next process."""
    assert read_event("UserPromptSubmit", session_id=value).conversation is None


@pytest.mark.parametrize("value", ["relative/x.jsonl", "/a\x1b[2J", "/" + 5000 * "x", 7])
def test_transcript_is_none_when_it_is_not_a_plausible_absolute_path(value: object) -> None:
    assert read_event("UserPromptSubmit", transcript_path=value).transcript is None


def test_session_start_is_idle_when_a_person_resumes_a_conversation() -> None:
    observation = read_event("SessionStart", source="resume", expects_turn=True).observation
    assert observation is not None
    assert observation.activity is Activity.IDLE


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("startup", "claude waits for its first input (SessionStart)"),
        ("resume", "claude has resumed its conversation and waits for input (SessionStart)"),
        ("fork", "claude has resumed its conversation and waits for input (SessionStart)"),
    ],
)
def test_reason_at_start_says_whether_claude_has_an_earlier_conversation(source: str, reason: str) -> None:
    observation = read_event("SessionStart", source=source).observation
    assert observation is not None
    assert observation.reason == reason


@pytest.mark.parametrize(
    ("prompt", "peer"),
    [
        (
            '<cross-session-message from="uds:/tmp/1.sock" from-name="alpha" from-mode="prompting">\nhi',
            "alpha",
        ),
        ("\n<cross-session-message>hi", ""),
        ("say <cross-session-message> to alpha", None),
        ("<cross-session-messages>", None),
        ("<cross-session-message " + 2000 * "x" + ">", None),
        ("hi", None),
    ],
)
def test_prompt_of_another_claude_has_its_name(prompt: str, peer: str | None) -> None:
    assert read_event("UserPromptSubmit", prompt=prompt).peer == peer


def test_notification_of_a_background_task_opens_no_turn() -> None:
    notification = read_event(
        "UserPromptSubmit", prompt="<task-notification>\n<task-id>b</task-id>"
    ).observation
    prompt = read_event("UserPromptSubmit", prompt="go on").observation
    assert notification is not None
    assert prompt is not None
    assert (notification.opens, prompt.opens) == (False, True)


def test_failed_turn_has_the_fault_of_its_own_fields() -> None:
    limit = "You've hit your session limit \u00b7 resets 5:59am (UTC)"
    failed = read_event("StopFailure", error="rate_limit", last_assistant_message=limit).observation
    assert failed is not None
    assert failed.fault == Fault(FaultKind.QUOTA, limit, "session limit", 6 * 3600.0 - 60)
    ended = read_event("Stop", error="rate_limit", last_assistant_message=limit).observation
    assert ended is not None
    assert ended.fault is None


def test_reason_and_ending_are_bounded() -> None:
    failed = read_event(
        "StopFailure", error="x\x1b" * 50_000, last_assistant_message="y" * 50_000
    ).observation
    assert failed is not None
    assert len(failed.reason) < 400
    assert len(read_event("SessionEnd", reason="z" * 50_000).ending or "") <= 200


# ------------------------------------------------------------------------------------------------- other reports


def test_prompt_hook_reports_accepted_input() -> None:
    assert read_event("UserPromptSubmit", prompt="[sm] from a, message 7\nhi ").accepted == AcceptedInput(
        "[sm] from a, message 7\nhi ", 5.0, hook="UserPromptSubmit"
    )


def test_prompt_hook_reports_a_paste_without_the_tags_of_claude() -> None:
    prompt = '\n\n<pasted_content id="8885">\n[sm] from a, message 7\nhi\n</pasted_content id="8885">\n'
    accepted = read_event("UserPromptSubmit", prompt=prompt).accepted
    assert accepted is not None
    assert (accepted.text, accepted.pasted) == ("[sm] from a, message 7\nhi", True)


@pytest.mark.parametrize(
    "payload",
    [
        {"prompt": "<task-notification>[sm] from a, message 7\nhi</task-notification>"},
        {"prompt": "x" * 60_000},  # the hook may cut the text: the transcript has all of it
        {"prompt": "[sm] from a, message 7\nhi", "agent_id": "a1"},
    ],
)
def test_prompt_hook_ignores_notifications_cut_texts_and_sub_agents(payload: dict[str, Any]) -> None:
    assert read_event("UserPromptSubmit", **payload).accepted is None


@pytest.mark.parametrize("agent", [{}, {"agent_id": "a1"}])
@pytest.mark.parametrize(
    ("name", "started", "ended"),
    [
        ("PreToolUse", "toolu_1", None),
        ("PostToolUse", None, "toolu_1"),
        ("PostToolUseFailure", None, "toolu_1"),
        ("PermissionDenied", None, None),
        ("PermissionRequest", None, None),
    ],
)
def test_tool_hooks_report_the_start_and_end_of_a_tool_call(
    name: str, started: str | None, ended: str | None, agent: dict[str, Any]
) -> None:
    found = read_event(name, tool_name="Bash", tool_use_id="toolu_1", **agent)
    assert (found.tool_started, found.tool_ended) == (started, ended)


@pytest.mark.parametrize("odd", [None, 7, [], ""])
def test_tool_hook_without_an_id_reports_no_tool_call(odd: Any) -> None:
    assert read_event("PreToolUse", tool_use_id=odd).tool_started is None
    assert read_event("PostToolUse", tool_use_id=odd).tool_ended is None


@pytest.mark.parametrize(
    ("name", "payload", "finished"),
    [
        ("Stop", {}, True),
        ("Stop", {"background_tasks": [{"type": "subagent", "status": "running"}]}, True),
        ("Stop", {"agent_id": "a1"}, False),
        ("SubagentStop", {"agent_id": "a1"}, False),
        ("StopFailure", {"error": "server_error"}, False),
        ("SessionStart", {"source": "startup"}, False),
    ],
)
def test_only_the_stop_hook_of_the_main_agent_ends_a_turn(
    name: str, payload: dict[str, Any], finished: bool
) -> None:
    assert read_event(name, **payload).turn_finished is finished


@pytest.mark.parametrize(
    ("name", "payload", "answer"),
    [
        ("Stop", {"last_assistant_message": "All\ndone."}, "All\ndone."),
        ("Stop", {"last_assistant_message": None}, ""),
        ("Stop", {"background_tasks": [{"type": "subagent", "status": "running"}]}, None),
        ("StopFailure", {"error": "rate_limit"}, ""),
        ("SessionStart", {"source": "startup"}, None),
        ("SessionStart", {"source": "clear"}, None),
        ("Notification", {"notification_type": "idle_prompt"}, None),
    ],
)
def test_answer_is_given_only_by_the_end_of_a_turn(
    name: str, payload: dict[str, Any], answer: str | None
) -> None:
    observation = read_event(name, **payload).observation
    assert observation is not None
    assert observation.answer == answer


def test_stop_hook_reports_a_finished_turn_and_its_background_shells() -> None:
    shells = [{"type": "shell", "status": "running"}, {"type": "shell", "status": "completed"}]
    observation = read_event("Stop", last_assistant_message="Done.", background_tasks=shells).observation
    assert observation is not None
    assert (observation.finished, observation.background) == (True, 1)


def test_failed_turn_is_not_finished() -> None:
    observation = read_event("StopFailure", error="server_error").observation
    assert observation is not None
    assert not observation.finished


def test_long_final_message_keeps_both_ends() -> None:
    observation = read_event("Stop", last_assistant_message="a" * 60_000 + "z" * 60_000).observation
    assert observation is not None
    assert observation.answer is not None
    assert len(observation.answer) == FINAL_MESSAGE_MAX
    assert observation.answer.startswith("a" * 20_000)
    assert observation.answer.endswith("z" * 20_000)


@pytest.mark.parametrize(
    ("name", "failed"),
    [
        ("PreToolUse", None),
        ("PostToolUse", False),
        ("PostToolUseFailure", True),
        ("PermissionDenied", True),
        ("PermissionRequest", None),
    ],
)
def test_tool_hook_of_the_agent_itself_tells_whether_the_tool_failed(name: str, failed: bool | None) -> None:
    use: dict[str, Any] = {"tool_name": "Bash", "tool_use_id": "toolu_1"}
    assert read_event(name, **use).tool_failed is failed
    assert read_event(name, **use, agent_id="a1").tool_failed is None


def test_prompt_hook_tells_the_task() -> None:
    assert (
        read_event("UserPromptSubmit", prompt="[sm] from a, message 7\nFix the parser").task
        == "Fix the parser"
    )
    assert read_event("UserPromptSubmit", prompt="x y " * 30_000).task is not None
    for payload in ({"prompt": "continue"}, {"prompt": 7}, {"prompt": "Fix the parser", "agent_id": "a1"}):
        assert read_event("UserPromptSubmit", **payload).task is None
