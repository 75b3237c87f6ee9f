"""What hook events of the real program mean: their payloads as 2.1.197 sends them, shortened."""

from typing import Any

import pytest

from sm.core.observation import Activity
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
QUESTION = {"questions": [{"question": "Which database?", "header": "DB", "options": [{"label": "a"}]}]}


def news(name: str, *, expects_turn: bool = False, **payload: Any) -> HookEvent:
    return read_hook({**COMMON, "hook_event_name": name, **payload}, 5.0, expects_turn=expects_turn)


@pytest.mark.parametrize(
    ("name", "payload", "activity", "final", "words"),
    [
        ("UserPromptSubmit", {"prompt": "go"}, Activity.BUSY, False, "a turn begins"),
        (
            "PreToolUse",
            {"tool_name": "Bash", "tool_input": {"command": "npm test"}},
            Activity.BUSY,
            False,
            "Bash: npm test",
        ),
        (
            "PermissionRequest",
            {"tool_name": "Bash", "tool_input": {"command": "rm -r x"}},
            Activity.BLOCKED,
            False,
            "it asks for permission: Bash: rm -r x",
        ),
        (
            "PermissionRequest",
            {"tool_name": "AskUserQuestion", "tool_input": QUESTION},
            Activity.BLOCKED,
            False,
            "it asks: Which database?",
        ),
        (
            "PermissionRequest",
            {"tool_name": "ExitPlanMode", "tool_input": {"plan": "1"}},
            Activity.BLOCKED,
            False,
            "it asks to approve its plan",
        ),
        ("PostToolUse", {"tool_name": "Bash"}, Activity.BUSY, False, "Bash"),
        ("PostToolUseFailure", {"tool_name": "Bash"}, Activity.BUSY, False, "Bash"),
        ("PermissionDenied", {"tool_name": "Bash"}, Activity.BUSY, False, "Bash"),
        ("Stop", {"background_tasks": []}, Activity.IDLE, True, "its turn ended"),
        (
            "Stop",
            {"background_tasks": [{"type": "shell", "status": "running"}]},
            Activity.IDLE,
            True,
            "its turn ended, shells in the background: 1",
        ),
        (
            "Stop",
            {"background_tasks": [{"type": "subagent", "status": "running"}]},
            Activity.BUSY,
            False,
            "its turn ended, sub-agents in the background: 1",
        ),
        (
            "StopFailure",
            {"error": "server_error", "last_assistant_message": "API Error: 529"},
            Activity.IDLE,
            True,
            "its turn failed: server_error: API Error: 529",
        ),
        ("Notification", {"notification_type": "idle_prompt"}, Activity.IDLE, True, "it waits for input"),
        ("SubagentStart", {"agent_type": "Explore"}, Activity.BUSY, False, "a sub-agent starts: Explore"),
        ("PreCompact", {"trigger": "manual"}, Activity.BUSY, False, "it compacts its conversation"),
        ("PostCompact", {"trigger": "manual"}, Activity.IDLE, True, "its conversation is compacted"),
    ],
)
def test_what_an_event_says(
    name: str, payload: dict[str, Any], activity: Activity, final: bool, words: str
) -> None:
    said = news(name, **payload).observation
    assert said is not None
    assert (said.activity, said.final, said.reason, said.turn) == (activity, final, f"{words} ({name})", "p1")
    assert said.at == 5.0


@pytest.mark.parametrize(
    ("name", "payload"),
    [
        ("SubagentStop", {"agent_id": "a1"}),
        ("Stop", {"agent_id": "a1"}),  # of a sub-agent
        ("PostCompact", {"trigger": "auto"}),  # in the middle of a turn
        ("SessionStart", {"source": "compact"}),
        ("Notification", {"notification_type": "permission_prompt"}),  # PermissionRequest has said it better
        ("SessionEnd", {"reason": "other"}),
        ("SomethingNew", {}),
        ("", {}),
    ],
)
def test_what_says_nothing_of_what_it_does(name: str, payload: dict[str, Any]) -> None:
    assert news(name, **payload).observation is None


def test_it_is_ready_when_its_session_starts_and_busy_only_with_a_prompt() -> None:
    waits = news("SessionStart", source="startup", model="claude-opus-4-8[1m]")
    assert waits.ready
    assert waits.observation is not None
    assert (waits.observation.activity, waits.observation.final, waits.model) == (
        Activity.IDLE,
        True,
        "claude-opus-4-8[1m]",
    )
    works = news("SessionStart", source="startup", expects_turn=True)
    assert works.ready
    assert works.observation is not None
    assert works.observation.activity is Activity.BUSY


def test_a_clear_is_another_conversation_of_the_same_process() -> None:
    assert news("SessionEnd", reason="clear").ending is None
    cleared = news("SessionStart", source="clear", session_id=NEW, transcript_path="/t/new.jsonl")
    assert (cleared.conversation, cleared.transcript, cleared.started) == (NEW, "/t/new.jsonl", True)
    assert cleared.observation is not None
    assert (cleared.observation.activity, cleared.observation.final) == (Activity.IDLE, True)


def test_a_forked_one_names_the_old_conversation_first_and_is_not_believed() -> None:
    assert news("SessionStart", source="resume", session_id=OLD).conversation is None
    assert news("UserPromptSubmit", session_id=NEW).conversation == NEW


def test_a_sub_agent_says_nothing_of_where_the_conversation_is() -> None:
    assert news("PreToolUse", tool_name="Read", agent_id="a1").transcript is None


def test_the_end_of_the_process_is_announced() -> None:
    assert news("SessionEnd", reason="prompt_input_exit").ending == "prompt_input_exit"


@pytest.mark.parametrize("name", EVENTS)
@pytest.mark.parametrize("value", [None, 7, [], {}, "x", ["\x1b[2J"], {"command": ["x"]}, "\ud800"])
def test_no_payload_makes_it_raise(name: str, value: object) -> None:
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


def test_control_characters_of_a_tool_never_reach_a_reason() -> None:
    said = news("PreToolUse", tool_name="Bash", tool_input={"command": "a\x1b[2J\nb"}).observation
    assert said is not None
    assert "\x1b" not in said.reason
    assert "\n" not in said.reason


@pytest.mark.parametrize("value", ["--dangerously-skip-permissions", "x", OLD.upper(), f"{OLD}\n", 7, None])
def test_a_conversation_is_a_uuid_or_nothing(value: object) -> None:
    """It goes into the command line of the session's next process."""
    assert news("UserPromptSubmit", session_id=value).conversation is None


@pytest.mark.parametrize("value", ["relative/x.jsonl", "/a\x1b[2J", "/" + 5000 * "x", 7])
def test_a_transcript_is_an_absolute_path_of_some_length(value: object) -> None:
    assert news("UserPromptSubmit", transcript_path=value).transcript is None


def test_a_person_who_resumes_another_conversation_starts_nothing() -> None:
    said = news("SessionStart", source="resume", expects_turn=True).observation
    assert said is not None
    assert said.activity is Activity.IDLE


def test_a_background_task_that_ends_is_no_new_work() -> None:
    told = news("UserPromptSubmit", prompt="<task-notification>\n<task-id>b</task-id>").observation
    asked = news("UserPromptSubmit", prompt="go on").observation
    assert told is not None
    assert asked is not None
    assert (told.opens, asked.opens) == (False, True)


def test_no_text_of_an_agent_makes_a_long_reason() -> None:
    failed = news("StopFailure", error="x\x1b" * 50_000, last_assistant_message="y" * 50_000).observation
    assert failed is not None
    assert len(failed.reason) < 400
    assert len(news("SessionEnd", reason="z" * 50_000).ending or "") <= 200


# ------------------------------------------------------------------------------------------------- beside what it does


def test_a_prompt_is_what_the_agent_has_heard() -> None:
    assert news("UserPromptSubmit", prompt="[sm] from a, message 7\nhi ").accepted == AcceptedInput(
        "[sm] from a, message 7\nhi ", 5.0, hook="UserPromptSubmit"
    )


@pytest.mark.parametrize(
    "payload",
    [
        {"prompt": "<task-notification>[sm] from a, message 7\nhi</task-notification>"},
        {"prompt": "x" * 60_000},  # it may be cut: the transcript tells it whole
        {"prompt": "[sm] from a, message 7\nhi", "agent_id": "a1"},
    ],
)
def test_what_nobody_has_sent_or_not_all_of_it_was_not_heard(payload: dict[str, Any]) -> None:
    assert news("UserPromptSubmit", **payload).accepted is None


@pytest.mark.parametrize("agent", [{}, {"agent_id": "a1"}])
@pytest.mark.parametrize(
    ("name", "begins", "ended"),
    [
        ("PreToolUse", "toolu_1", None),
        ("PostToolUse", None, "toolu_1"),
        ("PostToolUseFailure", None, "toolu_1"),
        ("PermissionDenied", None, None),
        ("PermissionRequest", None, None),
    ],
)
def test_the_use_of_a_tool_begins_and_ends(
    name: str, begins: str | None, ended: str | None, agent: dict[str, Any]
) -> None:
    found = news(name, tool_name="Bash", tool_use_id="toolu_1", **agent)
    assert (found.tool_started, found.tool_ended) == (begins, ended)


@pytest.mark.parametrize("odd", [None, 7, [], ""])
def test_a_tool_use_without_an_id_tells_of_none(odd: Any) -> None:
    assert news("PreToolUse", tool_use_id=odd).tool_started is None
    assert news("PostToolUse", tool_use_id=odd).tool_ended is None


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
def test_a_turn_is_finished_by_its_own_end_only(name: str, payload: dict[str, Any], finished: bool) -> None:
    assert news(name, **payload).turn_finished is finished
