"""Dialogs that no hook reports: requests that only a person at the agent's terminal can answer."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from sm.requests.terminal_dialogs import OPENS_AFTER_S
from tests.fixtures import context_fixture
from tests.played.test_dialogs import finish
from tests.played_agent import Agent
from tests.sim.programs import Running
from tests.sim.stage import Stage, stand_in, until

RULE = "\N{BOX DRAWINGS LIGHT HORIZONTAL}" * 80
POINTER = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"
BOX = (RULE, f"{POINTER} ", RULE, "  ? for shortcuts")
MENU = (
    RULE,
    " Select model",
    "",
    f" {POINTER} 1. Default",
    "   2. Opus",
    "",
    " Enter to confirm · Esc to exit",
)
THEME = (RULE, " Theme", "", f" {POINTER} 1. Dark", "   2. Light", "", " Enter to select · Esc to cancel")
WORDS = "the Select model dialog is open"


async def box(program: Running) -> None:
    program.draw(*BOX)
    await stand_in(program)


async def unknown_question(program: Running) -> None:
    program.draw("Shall this program phone home?", "[y/n]")
    await stand_in(program)


class DialogStage(Stage):
    def __init__(self, draws: Any = box) -> None:
        super().__init__(draws=draws)

    def draw(self, agent: Agent, rows: Sequence[str]) -> None:
        self.world.programs.running[agent.id].draw(*rows)

    def dialogs(self, *arguments: str) -> list[dict[str, Any]]:
        return [r for r in self.json("requests", *arguments) if r["kind"] == "dialog"]

    def idle_agent(self, *arguments: str, **options: Any) -> Agent:
        agent = self.agent("Plain", *arguments, **options)
        agent.send_event("UserPromptSubmit", prompt="work")
        agent.send_event("Stop")
        agent.publish("idle")
        self.in_status(agent.id, "idle")
        return agent

    def open_dialog(self, agent: Agent, rows: Sequence[str] = MENU) -> dict[str, Any]:
        """Open a dialog that no hook reports, and wait for its request."""
        self.draw(agent, rows)
        agent.publish("waiting")
        return until(lambda: next(iter(self.dialogs()), None), "the dialog is a request")

    def close_dialog(self, agent: Agent) -> None:
        self.draw(agent, BOX)
        agent.publish("idle")

    def pass_time(self, seconds: float) -> None:
        end = self.now() + timedelta(seconds=seconds)
        until(lambda: self.now() >= end, "the time has passed", seconds + 60)


stage = context_fixture("function", DialogStage)


def test_dialog_without_a_hook_is_a_request_that_names_the_terminal(stage: DialogStage) -> None:
    agent = stage.idle_agent()
    began = stage.now().timestamp()
    request = stage.open_dialog(agent)
    assert stage.now().timestamp() - began >= OPENS_AFTER_S
    name, attach = request["request_id"], f"sm attach {stage.session(agent.id)['friendly_name'] or agent.id}"
    assert request["questions"][0]["question"] == WORDS
    assert request["expires_at"] is None
    assert f'"{WORDS}" - only at its terminal: {attach}' in " ".join(stage.sm("requests").split())
    assert f"Answer:    only at its terminal: {attach}" in stage.sm("requests", name).splitlines()
    for command in (("approve", name), ("deny", agent.id), ("answer", name, "1")):
        error = stage.refused(*command, exit_code=4)
        assert f"{name} can be answered only at its terminal" in error
        assert f"hint: {attach}" in error
    (event,) = [e for e in stage.json("events", agent.id) if e["type"] == "request"]
    assert (
        f'waits in a dialog that only a person at its terminal can answer: "{WORDS}" ({name})'
        in event["message"]
    )
    assert f"only a person at its terminal: {attach}" in stage.sm("why", agent.id)


def test_parent_and_operator_are_told_of_a_dialog_without_a_hook(stage: DialogStage) -> None:
    parent = stage.idle_agent()
    child = stage.idle_agent(env={"SM_SESSION_ID": parent.id})
    stage.draw(child, MENU)
    child.publish("waiting")
    words = "waits in a dialog that only a person at its terminal can answer"
    until(lambda: any(words in text for text in stage.messages(parent)), "the parent is told")
    (told,) = [text for text in stage.messages(parent) if words in text]
    assert told.endswith(f"answer with: sm attach {child.id} (r1)")
    until(lambda: words in stage.sm("inbox"), "the operator is told")


def test_request_of_a_dialog_closes_when_the_dialog_has_gone(stage: DialogStage) -> None:
    agent = stage.idle_agent()
    name = stage.open_dialog(agent)["request_id"]
    stage.close_dialog(agent)
    until(lambda: not stage.dialogs(), "the request is closed")
    (request,) = stage.dialogs("--all")
    assert (request["request_id"], request["state"], request["answered_by"]) == (name, "answered", "terminal")
    assert "answered in the terminal" in stage.sm("requests", name)


def test_request_of_a_dialog_stays_open_while_the_screen_shows_a_dialog(stage: DialogStage) -> None:
    agent = stage.idle_agent()
    stage.open_dialog(agent)
    agent.send_event("UserPromptSubmit", prompt="x")
    agent.publish("busy")
    stage.in_status(agent.id, "running")
    stage.pass_time(10)
    assert stage.dialogs()
    stage.draw(agent, BOX)
    until(lambda: not stage.dialogs(), "the request is closed")


def test_next_dialog_is_another_request(stage: DialogStage) -> None:
    agent = stage.idle_agent()
    first = stage.open_dialog(agent)["request_id"]
    stage.close_dialog(agent)
    until(lambda: not stage.dialogs(), "the request is closed")
    second = stage.open_dialog(agent, THEME)
    assert second["request_id"] != first
    assert second["questions"][0]["question"] == "the Theme dialog is open"


@pytest.mark.parametrize("while_away", [False, True])
def test_request_of_a_dialog_survives_a_crash_of_the_daemon(stage: DialogStage, while_away: bool) -> None:
    agent = stage.idle_agent()
    name = stage.open_dialog(agent)["request_id"]
    stage.kill_daemon()
    if while_away:
        stage.close_dialog(agent)
    stage.run("daemon", "start")
    stage.pass_time(2 * OPENS_AFTER_S)
    assert [r["request_id"] for r in stage.dialogs()] == ([] if while_away else [name])
    assert [r["request_id"] for r in stage.dialogs("--all")] == [name]


def test_dialog_that_a_hook_reports_is_no_second_request(stage: DialogStage) -> None:
    agent = stage.idle_agent()
    stage.draw(agent, MENU)
    agent.publish("waiting")
    agent.open_dialog("Bash", {"command": "make"})
    stage.pass_time(3 * OPENS_AFTER_S)
    assert stage.dialogs("--all") == []


def test_agent_that_was_just_answered_is_in_no_dialog(stage: DialogStage) -> None:
    agent = stage.idle_agent()
    stage.draw(agent, MENU)
    agent.publish("waiting")
    dialog = agent.open_dialog("Bash", {"command": "make"})
    dialog.start_wait()
    stage.pass_time(2 * OPENS_AFTER_S)
    approval = stage.start_command("approve", dialog.name)
    assert dialog.answer()["state"] == "decided"
    stage.draw(agent, ("make: *** no rule", "$"))
    dialog.take()
    assert finish(approval)[0] == 0
    assert stage.session(agent.id)["status"] == "waiting_input", "no hook has told yet that the tool has run"
    stage.pass_time(OPENS_AFTER_S / 4)  # beside the time in which `sm approve` looks again
    agent.send_event("PostToolUse", tool_name="Bash", tool_use_id=dialog.tool_use)
    agent.publish("busy")
    stage.in_status(agent.id, "running")
    assert stage.dialogs("--all") == []


def test_late_hook_replaces_the_request_of_its_dialog(stage: DialogStage) -> None:
    agent = stage.idle_agent()
    stage.open_dialog(agent)
    dialog = agent.open_dialog("Bash", {"command": "make"})
    until(lambda: not stage.dialogs(), "the request is closed")
    (request,) = stage.dialogs("--all")
    assert (request["state"], request["reason"]) == ("cancelled", f"its hook asks: {dialog.name}")


def test_dialog_of_a_person_at_the_terminal_is_no_request_while_the_person_types(stage: DialogStage) -> None:
    agent = stage.idle_agent()
    pane = stage.world.server.panes[stage.session(agent.id)["tmux_session"]]
    stage.draw(agent, MENU)
    agent.publish("waiting")
    for _ in range(4):
        pane.keys_at_s = stage.loop.time()
        stage.pass_time(OPENS_AFTER_S / 2)
    assert stage.dialogs() == []
    until(lambda: stage.dialogs(), "the person has left the dialog open")


def test_unknown_question_at_a_start_is_a_request() -> None:
    with DialogStage(unknown_question) as stage:
        stage.spawn("Plain", "work")
        (request,) = until(lambda: stage.dialogs(), "the question is a request", 120)
        assert "Shall this program phone home?" in request["questions"][0]["question"]


def test_request_of_a_dialog_ends_with_its_agent(stage: DialogStage) -> None:
    agent = stage.idle_agent()
    stage.open_dialog(agent)
    stage.sm("kill", agent.id)
    stage.ended(agent.id)
    (request,) = stage.dialogs("--all")
    assert request["state"] == "cancelled"
