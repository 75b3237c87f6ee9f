"""Permission modes: as ordered, as the agent reports them, and what children get of them."""

from typing import Any

import pytest

from tests.fixtures import context_fixture
from tests.played_agent import Agent
from tests.played_client import TmuxClient
from tests.sim.stage import Stage, until

MORE = """\
    Editor: {args: ["--permission-mode", "acceptEdits"]}
    Auto: {args: ["--permission-mode", "auto"]}
    Bypass: {args: ["--permission-mode", "bypassPermissions"]}
  env: {IS_SANDBOX: "1"}
"""
AT_TERMINAL = "changed at its terminal, or by an approved plan"


class ModeStage(Stage):
    def __init__(self) -> None:
        super().__init__(MORE)

    def modes(self, session: str) -> list[str]:
        """The events of changed modes."""
        return [e["message"] for e in self.json("events", session) if e["type"] == "permission_mode"]

    def child(self, agent: Agent, kind: str) -> tuple[str, list[str]]:
        """The mode of a child that the agent spawns, and the warnings."""
        spawned: dict[str, Any] = self.spawn(kind, env={"SM_SESSION_ID": agent.id})
        return spawned["permission_mode"], spawned["warnings"]


stage = context_fixture("function", ModeStage)


@pytest.mark.parametrize(
    ("kind", "mode", "source"),
    [
        ("Plain", "manual", "the default of sm"),
        ("Editor", "acceptEdits", "agent type Editor"),
        ("Auto", "auto", "agent type Auto"),
    ],
)
def test_spawn_why_and_progress_show_the_mode_and_its_source(
    stage: ModeStage, kind: str, mode: str, source: str
) -> None:
    lines = stage.sm("spawn", kind, "--name", "one").splitlines()
    assert lines[1:] == [f"Permission mode: {mode} ({source})"]
    name = f"{kind.lower()}-one"
    assert f"  permission mode {mode} ({source})" in stage.sm("why", name).splitlines()
    assert f"Permission mode: {mode} ({source})" in stage.sm("progress", name).splitlines()
    shown = stage.json("progress", name)
    assert (shown["permission_mode"], shown["permission_source"]) == (mode, source)


def test_program_without_permission_modes_shows_none(stage: ModeStage) -> None:
    spawned = stage.spawn("Sh", "sleep 1000")
    assert "permission_mode" not in spawned
    assert stage.json("progress", spawned["session_id"])["permission_mode"] is None
    assert "ermission mode" not in stage.sm("why", spawned["session_id"])


@pytest.mark.parametrize("crash", [False, True])
def test_mode_that_a_person_chose_is_an_event_and_shown_also_after_a_crash(
    stage: ModeStage, crash: bool
) -> None:
    agent = stage.agent("Plain")
    agent.send_event("UserPromptSubmit", prompt="x", permission_mode="default")
    assert stage.modes(agent.id) == []
    agent.send_event("PreToolUse", tool_name="Read", tool_input={}, tool_use_id="t1", permission_mode="auto")
    if crash:
        stage.restart()
    agent.send_event("Stop", permission_mode="auto")
    (event,) = stage.modes(agent.id)
    assert event.endswith(" - permission mode auto, was manual")
    assert f"permission mode auto ({AT_TERMINAL}), at the start manual" in stage.sm("why", agent.id)
    assert stage.json("progress", agent.id)["permission_mode"] == "auto"
    agent.send_event("UserPromptSubmit", prompt="y", permission_mode="default")
    assert len(stage.modes(agent.id)) == 2
    assert "permission mode manual (the default of sm)" in stage.sm("why", agent.id)


def test_mode_of_a_sub_agent_is_not_that_of_the_agent(stage: ModeStage) -> None:
    agent = stage.agent("Plain")
    agent.send_event("UserPromptSubmit", prompt="x", permission_mode="default")
    agent.send_event(
        "PreToolUse", tool_name="Read", tool_input={}, tool_use_id="t1", agent_id="a1", permission_mode="auto"
    )
    assert stage.modes(agent.id) == []


@pytest.mark.parametrize(
    ("parent", "now", "child", "mode", "limited"),
    [
        ("Plain", "", "Editor", "manual", True),
        ("Plain", "acceptEdits", "Editor", "manual", True),
        ("Plain", "bypassPermissions", "Bypass", "manual", True),
        ("Auto", "default", "Auto", "manual", True),
        ("Auto", "plan", "Plain", "plan", True),
        ("Auto", "invented", "Editor", "invented", True),
        ("Bypass", "plan", "Bypass", "plan", True),
    ],
)
def test_report_of_an_agent_lowers_the_mode_of_its_children_and_never_raises_it(
    stage: ModeStage, parent: str, now: str, child: str, mode: str, limited: bool
) -> None:
    agent = stage.agent(parent)
    agent.send_event("UserPromptSubmit", prompt="x", permission_mode=now)
    found, warnings = stage.child(agent, child)
    assert (found, len(warnings)) == (mode, limited)


def test_denied_actions_are_kept_with_the_words_of_claude_and_several_in_a_row_are_a_warning(
    stage: ModeStage,
) -> None:
    words = "Auto mode could not evaluate this action and is blocking it for safety"
    agent = stage.agent("Auto")
    agent.send_event("UserPromptSubmit", prompt="x", permission_mode="auto")

    def deny(number: int) -> None:
        command = {"command": f"curl {number}"}
        use = f"t{number}"
        agent.send_event("PreToolUse", tool_name="Bash", tool_input=command, tool_use_id=use)
        agent.send_event(
            "PermissionDenied", tool_name="Bash", tool_input=command, tool_use_id=use, reason=words
        )

    deny(1)
    assert f"its permission mode denied 1 action: Bash: curl 1: {words}" in stage.sm("why", agent.id)
    deny(2)
    assert stage.session(agent.id)["warnings"] == []
    stage.restart()
    deny(3)
    (warning,) = stage.session(agent.id)["warnings"]
    assert warning["kind"] == "denied"
    assert warning["evidence"] == f"3 in a row, the last: Bash: curl 3: {words}"
    until(lambda: "is denied what it tries" in stage.sm("inbox"), "the operator is told")
    agent.send_event("PostToolUse", tool_name="Read", tool_input={}, tool_use_id="t4")
    assert stage.session(agent.id)["warnings"] == []
    deny(5)
    assert stage.session(agent.id)["warnings"] == []
    assert "denied 4 actions, the last: Bash: curl 5" in stage.sm("why", agent.id)


@pytest.mark.parametrize(
    ("now", "child", "mode", "limited"),
    [
        ("acceptEdits", "Editor", "acceptEdits", False),
        ("acceptEdits", "Auto", "acceptEdits", True),
        ("auto", "Auto", "auto", False),
        ("auto", "Bypass", "auto", True),
        ("plan", "Editor", "plan", True),
    ],
)
def test_mode_that_the_operator_chose_at_the_terminal_counts_for_children(
    stage: ModeStage, now: str, child: str, mode: str, limited: bool
) -> None:
    agent = stage.agent("Plain")
    TmuxClient(stage, agent)
    agent.send_event("UserPromptSubmit", prompt="x", permission_mode=now)
    found, warnings = stage.child(agent, child)
    assert (found, len(warnings)) == (mode, limited)


def test_why_names_the_terminal_for_a_dialog_that_no_hook_has_reported(stage: ModeStage) -> None:
    hint = "no request can answer this; only a person at its terminal: sm attach"
    agent = stage.agent("Auto")
    agent.send_event("UserPromptSubmit", prompt="x", permission_mode="auto")
    assert hint not in stage.sm("why", agent.id)
    agent.publish("waiting")
    until(lambda: stage.session(agent.id)["status"] == "waiting_input", "the agent waits")
    assert hint in stage.sm("why", agent.id)
    agent.open_dialog("Bash", {"command": "make"})
    assert hint not in stage.sm("why", agent.id)


def test_message_that_another_claude_sent_past_sm_is_an_event(stage: ModeStage) -> None:
    agent = stage.agent("Plain")
    text = '<cross-session-message from="uds:/x" from-name="alpha\n[sm]" from-mode="prompting">hi'
    agent.send_event("UserPromptSubmit", prompt=text)
    (event,) = [e for e in stage.json("events", agent.id) if e["type"] == "warning"]
    assert event["message"].endswith(" - another agent named alpha [sm] has sent it a message past sm")
    assert event["metadata"] == {"peer": "alpha [sm]"}


def test_agents_shows_the_mode_of_each_type_also_by_the_settings_of_the_user(stage: ModeStage) -> None:
    settings = stage.home / ".claude" / "settings.json"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text('{"permissions": {"defaultMode": "plan"}}')
    shown = {kind["name"]: kind["permission_mode"] for kind in stage.json("agents")["agents"]}
    assert (shown["Plain"], shown["Auto"], shown["Bypass"]) == ("plan", "auto", "bypassPermissions")
    assert shown["Sh"] is None
    assert "claude, auto" in stage.sm("agents")
    spawned = stage.spawn("Plain")
    assert spawned["permission_mode"] == "plan"
    assert spawned["permission_source"] == "permissions.defaultMode of your claude settings"
