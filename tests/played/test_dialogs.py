"""Agent dialogs answered through hooks. The test plays the hooks; a sleeping script stands in for claude."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import pytest

from sm.client.http import Client, new_key
from sm.errors import IllegalState
from sm.requests.dialogs import _QUIET_S as QUIET_S
from tests.fixtures import context_fixture
from tests.played_agent import Dialog
from tests.sim.command import StartedCommand
from tests.sim.programs import Running
from tests.sim.stage import Stage, stand_in, until

ALLOWED = {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}}
COLOURS = {
    "question": "Which colours?",
    "header": "Colours",
    "options": [{"label": "Red", "description": "r"}, {"label": "S, small", "description": "s"}],
    "multiSelect": True,
}
SIZE = {
    "question": "Which size?",
    "header": "Size",
    "options": [{"label": "Large", "description": "l"}, {"label": "Tiny", "description": "t"}],
    "multiSelect": False,
}


def finish(command: StartedCommand) -> tuple[int, str, str]:
    out, err = command.communicate(timeout=60)
    return command.wait(), out, err


stage = context_fixture("function", Stage)
"""Shared by tests that need no restart."""
fresh = context_fixture("function", Stage)


IGNORE_SCREEN = "\ndaemon: {ignore_evidence: [screen, title]}\n"
POINTER = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"


async def plan_dialog(program: Running) -> None:
    """Show the dialog of a plan, also after it was answered."""
    program.draw(
        "\N{BOX DRAWINGS LIGHT HORIZONTAL}" * 80,
        " Exit plan mode?",
        "",
        " Claude wants to exit plan mode",
        "",
        f" {POINTER} 1. Yes",
        "   2. No",
    )
    await stand_in(program)


@pytest.fixture
def stuck() -> Iterator[Stage]:
    with Stage(IGNORE_SCREEN, draws=plan_dialog) as stage:
        yield stage


def has_proposed_answer(dialog: Dialog) -> bool:
    request = dialog.request
    return bool(request["state"] == "open" and request["answer"])


# Permissions


def test_answer_without_effect_opens_the_request_again(stuck: Stage) -> None:
    agent = stuck.agent()
    agent.publish("waiting")
    dialog = agent.open_dialog("ExitPlanMode", {"plan": "1. do it"})
    dialog.start_wait()
    approval = stuck.start_command("approve", dialog.name)
    dialog.take_decision()
    code, _, error = finish(approval)
    assert code == 4
    assert f"the agent did not act on the answer to {dialog.name}: its dialog is still open" in error
    assert f"hint: answer in the terminal: sm attach {agent.id}" in error
    request = dialog.request
    assert (request["state"], request["answer"], request["answered_by"]) == ("open", None, None)
    assert f"Answer:    sm attach {agent.id}" in stuck.sm("requests", dialog.name)
    assert "did not act on the answer" in stuck.refused("approve", dialog.name, exit_code=4)
    agent.send_event("PostToolUse", tool_name="ExitPlanMode", tool_input={}, tool_use_id=dialog.tool_use)
    assert (dialog.request["state"], dialog.request["answered_by"]) == ("answered", "terminal")


def test_answer_without_effect_opens_the_request_again_after_a_crash(stuck: Stage) -> None:
    agent = stuck.agent()
    agent.publish("waiting")
    dialog = agent.open_dialog("ExitPlanMode", {"plan": "1. do it"})
    dialog.start_wait()
    stuck.start_command("approve", dialog.name)
    dialog.take_decision()
    stuck.restart()
    until(lambda: dialog.request["state"] == "open", "the request is open again")
    assert "did not act on the answer" in dialog.request["reason"]


def test_parent_and_operator_are_told_of_an_answer_without_effect(stuck: Stage) -> None:
    parent = stuck.agent()
    agent = stuck.agent(env={"SM_SESSION_ID": parent.id})
    agent.publish("waiting")
    dialog = agent.open_dialog("ExitPlanMode", {"plan": "1. do it"})
    dialog.start_wait()
    approval = stuck.start_command("approve", dialog.name)
    dialog.take_decision()
    assert finish(approval)[0] == 4
    words = "did not act on the answer to r1, which is open again"
    until(lambda: any(words in text for text in stuck.messages(parent)), "the parent is told")
    until(lambda: words in stuck.sm("inbox"), "the operator is told")


def test_answer_counts_when_the_agent_goes_on_after_it(stuck: Stage) -> None:
    agent = stuck.agent()
    agent.publish("waiting")
    dialog = agent.open_dialog("ExitPlanMode", {"plan": "1. do it"})
    dialog.start_wait()
    approval = stuck.start_command("approve", dialog.name)
    dialog.take_decision()
    agent.publish("busy")
    assert finish(approval)[0] == 0
    assert (dialog.request["state"], dialog.request["answered_by"]) == ("answered", "operator")


def test_answer_counts_when_the_next_dialog_is_open(stuck: Stage) -> None:
    agent = stuck.agent()
    agent.publish("waiting")
    first = agent.open_dialog("Bash", {"command": "make"})
    second = agent.open_dialog("Bash", {"command": "make test"})
    first.start_wait()
    approval = stuck.start_command("approve", first.name)
    first.take_decision()
    assert finish(approval)[0] == 0
    assert (first.request["state"], first.request["answered_by"]) == ("answered", "operator")
    assert second.request["state"] == "open"


def test_permission_of_a_background_sub_agent_stays_open_while_its_hook_waits(stage: Stage) -> None:
    agent = stage.agent()
    agent.send_event("UserPromptSubmit", prompt="go")
    task = {"type": "subagent", "status": "running", "id": "a1"}
    agent.send_event("Stop", background_tasks=[task])
    dialog = agent.open_dialog("Bash", {"command": "make"}, sub_agent="a1")
    dialog.start_wait()
    agent.publish("busy")
    until(lambda: stage.session(agent.id)["status"] == "running", "the session is busy")
    opened = stage.now().timestamp()
    until(lambda: stage.now().timestamp() - opened > 10 * QUIET_S, "the dialog would be closed")
    assert dialog.request["state"] == "open"
    approval = stage.start_command("approve", dialog.name)
    assert dialog.take_decision() == ALLOWED
    assert finish(approval)[0] == 0
    assert dialog.request["answered_by"] == "operator"


def test_permission_of_a_sub_agent_is_over_when_the_sub_agent_ends(stage: Stage) -> None:
    agent = stage.agent()
    dialog = agent.open_dialog("Bash", {"command": "make"}, sub_agent="a1")
    dialog.start_wait()
    agent.publish("busy")
    agent.send_event("SubagentStop", agent_id="a1", agent_type="general-purpose")
    assert dialog.answer()["state"] == "over"
    assert (dialog.request["state"], dialog.request["answered_by"]) == ("answered", "terminal")


def test_approved_permission_is_answered_when_its_hook_has_taken_the_answer(stage: Stage) -> None:
    agent = stage.agent()
    arguments = {"command": "rm -rf build\n\x07\u202e", "n": [1, {"deep": None}]}
    dialog = agent.open_dialog("Bash", arguments)
    assert dialog.opened == {"request": dialog.name, "state": "open", "output": None}
    assert stage.session(agent.id)["status"] == "waiting_input"
    assert dialog.request["arguments"] == arguments
    dialog.start_wait()
    approval = stage.start_command("approve", dialog.name)
    answer = dialog.answer()
    assert json.loads(answer["output"]) == ALLOWED
    assert approval.poll() is None
    assert dialog.request["state"] == "open"
    dialog.take()
    code, out, _ = finish(approval)
    assert (code, dialog.name in out) == (0, True)
    assert dialog.take()["state"] == "answered"
    request = dialog.request
    assert (request["state"], request["answered_by"], request["cut"]) == ("answered", "operator", False)
    assert stage.messages(agent) == []


def test_comment_of_an_approval_reaches_the_session_as_a_message(stage: Stage) -> None:
    agent = stage.agent()
    dialog = agent.open_dialog("Bash", {"command": "make"})
    dialog.start_wait()
    approval = stage.start_command("approve", dialog.name, "but only once")
    assert dialog.take_decision() == ALLOWED
    assert finish(approval)[0] == 0
    assert stage.messages(agent) == [f"{dialog.name} was approved: but only once"]


def test_parent_is_notified_of_a_permission_and_can_deny_it_with_a_reason(stage: Stage) -> None:
    parent = stage.spawn("Sh", "exec sleep 1000")
    as_parent = {"SM_SESSION_ID": parent["session_id"]}
    agent = stage.agent(env=as_parent)
    dialog = agent.open_dialog("Bash", {"command": "deploy"})

    def notified() -> bool:
        hint = f"sm approve {dialog.name}, or: sm deny {dialog.name}"
        return any(hint in message["text"] for message in stage.json("inbox", env=as_parent))

    until(notified, "its parent is notified")
    dialog.start_wait()
    refusal = stage.start_command("deny", dialog.name, "use staging", env=as_parent)
    decision = dialog.take_decision()["hookSpecificOutput"]["decision"]
    assert finish(refusal)[0] == 0
    name = parent["friendly_name"] or parent["name"]
    assert decision == {
        "behavior": "deny",
        "message": f"{name} ({parent['session_id']}) said no: use staging",
    }
    assert dialog.request["answered_by"] == parent["session_id"]


def test_late_answer_is_refused_and_names_the_first_answer(stage: Stage) -> None:
    dialog = stage.agent().open_dialog("Bash", {"command": "make"})
    dialog.start_wait()
    first = stage.start_command("approve", dialog.name)
    assert json.loads(dialog.answer()["output"]) == ALLOWED
    # A command may last longer than the answer waits for its hook.
    with pytest.raises(IllegalState, match=f"{dialog.name} was just answered by operator"):
        Client(str(stage.socket)).post(f"/v1/requests/{dialog.name}/answer", {"approved": False})
    dialog.take()
    assert finish(first)[0] == 0
    error = stage.refused("deny", dialog.name, exit_code=4)
    assert f"{dialog.name} was answered by operator at " in error


def test_answer_to_a_request_of_a_removed_session_names_its_outcome(stage: Stage) -> None:
    agent = stage.agent()
    name = agent.open_dialog("Bash", {"command": "make"}).name
    stage.sm("kill", agent.id)
    stage.sm("rm", agent.id)
    error = stage.refused("approve", name, exit_code=4)
    assert f"request {name} was cancelled at " in error
    assert f"hint: show the outcome: sm requests {name}" in error


def test_answer_is_withdrawn_when_no_hook_takes_it(stage: Stage) -> None:
    agent = stage.agent()
    dialog = agent.open_dialog("Bash", {"command": "make"})
    error = stage.refused("approve", dialog.name, exit_code=4)
    assert f"request {dialog.name} accepts no answer" in error
    assert f"sm attach {agent.id}" in error
    request = dialog.request
    assert (request["state"], request["answer"], request["answered_by"]) == ("open", None, None)
    dialog.start_wait()
    approval = stage.start_command("approve", dialog.name)
    assert dialog.take_decision() == ALLOWED
    assert finish(approval)[0] == 0


def test_request_is_answered_by_terminal_when_the_tool_ran(stage: Stage) -> None:
    agent = stage.agent()
    dialog = agent.open_dialog("Bash", {"command": "make"})
    dialog.start_wait()
    agent.send_event(
        "PostToolUse", tool_name="Bash", tool_input={"command": "make"}, tool_use_id=dialog.tool_use
    )
    assert dialog.answer() == {"request": dialog.name, "state": "over", "output": None}
    request = dialog.request
    assert (request["state"], request["answered_by"]) == ("answered", "terminal")
    assert request["reason"] == "answered in the terminal"
    error = stage.refused("approve", dialog.name, exit_code=4)
    assert f"{dialog.name} was answered in the terminal at " in error


def test_answer_counts_as_taken_when_the_tool_ran_but_the_hook_did_not_confirm(stage: Stage) -> None:
    agent = stage.agent()
    dialog = agent.open_dialog("Bash", {"command": "make"})
    dialog.start_wait()
    approval = stage.start_command("approve", dialog.name)
    assert json.loads(dialog.answer()["output"]) == ALLOWED
    agent.send_event(
        "PostToolUse", tool_name="Bash", tool_input={"command": "make"}, tool_use_id=dialog.tool_use
    )
    assert finish(approval)[0] == 0
    assert (dialog.request["state"], dialog.request["answered_by"]) == ("answered", "operator")


@pytest.mark.parametrize("tool_ended", [True, False])
def test_request_is_answered_by_terminal_when_the_hook_never_got_the_answer(
    stage: Stage, tool_ended: bool
) -> None:
    agent = stage.agent()
    dialog = agent.open_dialog("Bash", {"command": "make"})
    approval = stage.start_command("approve", dialog.name, "be quick")
    until(lambda: has_proposed_answer(dialog), "an answer is proposed")
    if tool_ended:
        agent.send_event("PostToolUse", tool_name="Bash", tool_input={}, tool_use_id=dialog.tool_use)
    else:
        agent.send_event("Stop")
    code, _, err = finish(approval)
    assert f"{dialog.name} was answered in the terminal at " in err
    assert code == 4
    assert (dialog.request["state"], dialog.request["answered_by"]) == ("answered", "terminal")
    assert stage.messages(agent) == []


# Confirmed and late answers


def test_deny_fails_when_the_tool_ran_though_the_hook_took_the_answer(stage: Stage) -> None:
    agent = stage.agent()
    dialog = agent.open_dialog("Bash", {"command": "make"})
    dialog.start_wait()
    refusal = stage.start_command("deny", dialog.name, "use ninja")
    dialog.take_decision()
    agent.end_tool(dialog)
    code, out, err = finish(refusal)
    assert (code, out) == (4, "")
    assert f"{dialog.name} was answered in the terminal at " in err
    request = dialog.request
    assert (request["answered_by"], request["answer"]["approved"]) == ("terminal", True)
    assert (request["confirmed"], request["reason"]) == (True, "the answer by operator came too late")
    assert not [m for m in stage.json("inbox") if "came too late" in m["text"]], "the command has said it"


def test_refusal_is_corrected_and_reported_when_a_long_tool_ends(fresh: Stage) -> None:
    parent = fresh.spawn("Sh", "exec sleep 1000")
    as_parent = {"SM_SESSION_ID": parent["session_id"]}
    agent = fresh.agent(env=as_parent)
    dialog = agent.open_dialog("Bash", {"command": "deploy"})
    dialog.start_wait()
    refusal = fresh.start_command("deny", dialog.name, env=as_parent)
    dialog.take_decision()
    code, out, _ = finish(refusal)
    assert (code, "not confirmed by the agent yet" in out) == (0, True)
    assert not dialog.request["confirmed"]
    fresh.restart()
    agent.end_tool(dialog)
    request = dialog.request
    assert (request["answered_by"], request["answer"]["approved"]) == ("terminal", True)

    def notice() -> list[str]:
        texts = [m["text"] for m in fresh.json("inbox", env=as_parent)]
        return [text for text in texts if f"your answer to {dialog.name} of child " in text]

    (text,) = until(notice, "its parent is notified")
    assert text.endswith('approved in the terminal, and the tool ran: "Bash: deploy"')
    assert any("came too late" in event["message"] for event in fresh.events())


@pytest.mark.parametrize("interrupted", [True, False])
def test_approval_is_corrected_only_when_the_use_was_refused_before(stage: Stage, interrupted: bool) -> None:
    """An interrupt of the running tool leaves the same line as a refusal."""
    agent = stage.agent()
    dialog = agent.open_dialog("Bash", {"command": "make"})
    before = stage.now()
    stage.wait(0.01)
    dialog.start_wait()
    approval = stage.start_command("approve", dialog.name)
    dialog.take_decision()
    assert finish(approval)[0] == 0
    agent.write_result(
        dialog, "no", stage.now() if interrupted else before, toolUseResult="User rejected tool use"
    )
    until(lambda: dialog.request["confirmed"], "the answer is confirmed")
    request = dialog.request
    expected = ("operator", True) if interrupted else ("terminal", False)
    assert (request["answered_by"], request["answer"]["approved"]) == expected


def test_refusal_is_confirmed_by_the_transcript(stage: Stage) -> None:
    agent = stage.agent()
    dialog = agent.open_dialog("Bash", {"command": "make"})
    dialog.start_wait()
    refusal = stage.start_command("deny", dialog.name)
    dialog.take_decision()
    agent.write_hook_refusal(dialog, "operator said no")
    assert finish(refusal) == (0, f"Denied {dialog.name} of {dialog.request['name']}\n", "")
    assert (dialog.request["answered_by"], dialog.request["confirmed"]) == ("operator", True)


def test_terminal_decision_is_a_refusal_when_a_hook_of_the_user_refused(stage: Stage) -> None:
    agent = stage.agent()
    dialog = agent.open_dialog("Bash", {"command": "make"})
    agent.write_hook_refusal(dialog, "my own hook says no")
    until(lambda: dialog.request["state"] == "answered", "the request is closed")
    assert (dialog.request["answered_by"], dialog.request["answer"]["approved"]) == ("terminal", False)


def test_terminal_decision_is_unknown_when_the_use_ended_with_an_error(stage: Stage) -> None:
    agent = stage.agent()
    dialog = agent.open_dialog("Bash", {"command": "make"})
    agent.write_result(dialog, "no")
    until(lambda: dialog.request["state"] == "answered", "the request is closed")
    assert (dialog.request["answered_by"], dialog.request["answer"]) == ("terminal", None)


def test_answer_is_late_when_the_turn_ended_though_the_hook_still_waits(stage: Stage) -> None:
    agent = stage.agent()
    dialog = agent.open_dialog("Bash", {"command": "make"})
    opened = stage.now().timestamp()
    until(lambda: stage.now().timestamp() - opened > QUIET_S, "the dialog is old enough to be drawn")
    dialog.start_wait()
    agent.send_event("Stop")
    error = stage.refused("deny", dialog.name, exit_code=4)
    # On a loaded machine, tmux may not show in time that the dialog is gone.
    assert (
        f"{dialog.name} was answered in the terminal at " in error or "no longer waits for an answer" in error
    )
    assert dialog.answer()["state"] == "over"


def test_dialog_is_over_when_the_turn_ends_without_a_tool_event(stage: Stage) -> None:
    agent = stage.agent()
    dialog = agent.open_dialog("Bash", {"command": "make"})
    dialog.start_wait()
    agent.send_event("Stop")
    assert dialog.answer()["state"] == "over"
    assert (dialog.request["state"], dialog.request["answered_by"]) == ("answered", "terminal")
    assert dialog.request["answer"] is None


def test_late_event_of_a_closed_dialog_opens_no_request(stage: Stage) -> None:
    agent = stage.agent()
    agent.send_event("PreToolUse", tool_name="Bash", tool_input={}, tool_use_id="toolu_9")
    late = agent.event("PermissionRequest", tool_name="Bash", tool_input={"command": "make"})
    at = stage.now() - timedelta(minutes=1)
    hook = agent.hook()
    hook.send("/v1/hooks/dialog", new_key(), late | {"emitted_at": at.isoformat(), "wait_s": 25})
    assert hook.receive() == ["ok", {"request": None, "state": "over", "output": None}]
    assert agent.id not in stage.sm("requests")


def test_permission_with_truncated_arguments_can_be_answered_but_a_question_cannot(stage: Stage) -> None:
    agent = stage.agent()
    long = "x" * 70_000
    dialog = agent.open_dialog("Write", {"file_path": "/w/a", "content": long})
    request = dialog.request
    assert request["cut"]
    assert len(request["arguments"]["content"]) < 64 * 1024
    dialog.start_wait()
    approval = stage.start_command("approve", dialog.name)
    assert dialog.take_decision() == ALLOWED
    assert finish(approval)[0] == 0
    dialog = agent.open_dialog("AskUserQuestion", {"questions": [SIZE | {"header": long}]})
    assert f"sm attach {agent.id}" in stage.refused("answer", dialog.name, "1", exit_code=2)


def test_requests_are_cancelled_when_their_session_ends(stage: Stage) -> None:
    agent = stage.agent()
    dialog = agent.open_dialog("Bash", {"command": "make"})
    stage.sm("kill", agent.id, "--force")
    assert dialog.request["state"] == "cancelled"
    assert dialog.request["answer"] is None


def test_session_can_have_at_most_50_open_requests(stage: Stage) -> None:
    agent = stage.agent()
    hook = agent.hook()
    body = agent.event("PermissionRequest", tool_name="Bash", tool_input={"command": "make"})
    for _ in range(50):
        hook.send("/v1/hooks/dialog", new_key(), body)
        assert hook.receive()[1]["state"] == "open"
    hook.send("/v1/hooks/dialog", new_key(), body)
    assert hook.receive()[0] == "limit_reached"
    stage.sm("kill", agent.id, "--force")


# Keys


def test_dialog_key_is_valid_only_for_its_own_session(stage: Stage) -> None:
    dialog = stage.agent().open_dialog("Bash", {"command": "make"})
    other = stage.agent().hook()
    other.send("/v1/hooks/dialog", dialog.key, dialog.body)
    assert other.receive()[0] == "not_found"
    other.send("/v1/hooks/dialog/taken", dialog.key, {})
    assert other.receive()[0] == "not_found"
    other.send("/v1/hooks/dialog/taken", new_key(), {})
    assert other.receive()[0] == "not_found"


def test_dialog_route_returns_immediately_when_the_event_is_not_a_dialog(stage: Stage) -> None:
    agent = stage.agent()
    hook = agent.hook()
    hook.send("/v1/hooks/dialog", new_key(), agent.event("Stop") | {"wait_s": 25})
    assert hook.receive() == ["ok", {"request": None, "state": "over", "output": None}]


# Questions


def test_two_questions_are_answered_together(stage: Stage) -> None:
    agent = stage.agent()
    arguments = {"questions": [COLOURS, SIZE]}
    dialog = agent.open_dialog("AskUserQuestion", arguments)
    error = stage.refused("answer", dialog.name, "1", exit_code=2)
    assert "has 2 questions, and 1 is answered" in error
    dialog.start_wait()
    reply = stage.start_command("answer", dialog.name, "s, small, red", "something else")
    decision = dialog.take_decision()["hookSpecificOutput"]["decision"]
    assert finish(reply)[0] == 0
    assert decision["behavior"] == "allow"
    assert decision["updatedInput"] == arguments | {
        "answers": {"Which colours?": "S, small, Red", "Which size?": "something else"}
    }


@pytest.mark.parametrize("told", ["Tiny", "Small"])
def test_answer_is_corrected_when_the_agent_was_told_another_one_in_the_terminal(
    fresh: Stage, told: str
) -> None:
    """A person answers in the moment in which the hook takes the answer of sm."""
    agent = fresh.agent()
    arguments = {"questions": [SIZE]}
    dialog = agent.open_dialog("AskUserQuestion", arguments)
    dialog.start_wait()
    reply = fresh.start_command("answer", dialog.name, "tiny")
    dialog.take_decision()
    assert finish(reply)[0] == 0
    agent.send_event(
        "PostToolUse",
        tool_name="AskUserQuestion",
        tool_input=arguments | {"answers": {"Which size?": told}},
        tool_use_id=dialog.tool_use,
    )
    request = dialog.request
    by = "operator" if told == "Tiny" else "terminal"
    assert (request["answered_by"], request["answer"]["answers"]) == (by, [told])
    assert request["confirmed"]


def test_send_answers_the_only_open_question(stage: Stage) -> None:
    agent = stage.agent()
    dialog = agent.open_dialog("AskUserQuestion", {"questions": [SIZE]})
    dialog.start_wait()
    sending = stage.start_command("send", agent.id, "tiny")
    decision = dialog.take_decision()["hookSpecificOutput"]["decision"]
    assert decision["updatedInput"]["answers"] == {"Which size?": "Tiny"}
    code, out, err = finish(sending)
    assert (code, dialog.name in out + err) == (0, True)
    assert stage.messages(agent) == []


def test_send_never_answers_a_permission_or_a_plan(stage: Stage) -> None:
    agent = stage.agent()
    for tool, arguments in (("Bash", {"command": "make"}), ("ExitPlanMode", {"plan": "do it"})):
        dialog = agent.open_dialog(tool, arguments)
        stage.sm("send", agent.id, "yes", "--no-wait")
        assert dialog.request["answer"] is None
    assert stage.messages(agent) == ["yes", "yes"]


def test_deny_refuses_a_question(stage: Stage) -> None:
    dialog = stage.agent().open_dialog("AskUserQuestion", {"questions": [SIZE]})
    dialog.start_wait()
    refusal = stage.start_command("deny", dialog.name, "decide yourself")
    decision = dialog.take_decision()["hookSpecificOutput"]["decision"]
    assert decision == {"behavior": "deny", "message": "operator said no: decide yourself"}
    assert finish(refusal)[0] == 0


# Rules


def test_rules_answer_permissions_without_a_notice(stage: Stage) -> None:
    agent = stage.agent("Ruled")
    dialog = agent.open_dialog("Bash", {"command": "make all"})
    assert json.loads(dialog.opened["output"]) == ALLOWED
    dialog.take()
    request = dialog.request
    assert (request["state"], request["answered_by"]) == ("answered", "rule")
    assert "Bash(make *)" in request["reason"]
    denied = agent.open_dialog("Bash", {"command": "make --force"})
    decision = json.loads(denied.opened["output"])["hookSpecificOutput"]["decision"]
    assert decision["behavior"] == "deny"
    assert "Bash(* --force)" in decision["message"]
    denied.take()
    undecided = agent.open_dialog("Bash", {"command": "rm x"})
    assert undecided.opened["state"] == "open"
    inbox = until(lambda: [m["text"] for m in stage.json("inbox") if undecided.name in m["text"]], "a notice")
    assert len(inbox) == 1
    assert not any(f"{r} " in m["text"] for m in stage.json("inbox") for r in (dialog.name, denied.name))


def test_rules_apply_when_the_working_directory_is_a_symbolic_link(stage: Stage) -> None:
    """The agent names files by the real path, not by the link."""
    real, link = stage.home / "real", stage.home / "link"
    real.mkdir()
    link.symlink_to(real)
    agent = stage.agent("Ruled", "--working-dir", str(link))
    assert stage.session(agent.id)["working_dir"] == str(link)
    for directory in (real, link):
        outputs = [
            agent.open_dialog("Write", {"file_path": f"{directory}/src/{name}"}, cwd=str(real)).opened[
                "output"
            ]
            for name in ("a", "secret")
        ]
        decisions = [json.loads(output)["hookSpecificOutput"]["decision"]["behavior"] for output in outputs]
        assert decisions == ["allow", "deny"]


def test_operator_is_asked_when_no_hook_takes_the_answer_of_a_rule(stage: Stage) -> None:
    dialog = stage.agent("Ruled").open_dialog("Read", {"file_path": "/w/a"})
    assert dialog.opened["state"] == "decided"
    until(lambda: not has_proposed_answer(dialog), "the proposed answer is withdrawn")
    assert dialog.request["reason"] is None
    until(lambda: [m for m in stage.json("inbox") if f"sm approve {dialog.name}" in m["text"]], "a notice")


# Crashes and time


def test_answer_survives_when_the_daemon_is_killed_before_the_hook_takes_it(fresh: Stage) -> None:
    agent = fresh.agent()
    dialog = agent.open_dialog("AskUserQuestion", {"questions": [SIZE]})
    reply = fresh.start_command("answer", dialog.name, "2")
    until(lambda: has_proposed_answer(dialog), "an answer is proposed")
    before = dialog.poll(0)["output"]
    # The waiting command starts the next daemons. An answer waits only for a moment, so the hook asks before.
    fresh.kill_daemon()
    dialog.start_wait()
    answer = dialog.answer()
    assert (answer["state"], answer["output"]) == ("decided", before)
    fresh.kill_daemon()
    dialog.start_take()
    assert dialog.taken()["state"] == "answered"
    assert dialog.take()["state"] == "answered"
    assert finish(reply)[0] == 0
    assert dialog.request["answer"]["answers"] == ["Tiny"]


def test_untaken_answer_is_withdrawn_after_a_restart(fresh: Stage) -> None:
    dialog = fresh.agent().open_dialog("Bash", {"command": "make"})
    approval = fresh.start_command("approve", dialog.name)
    until(lambda: has_proposed_answer(dialog), "an answer is proposed")
    approval.kill()
    fresh.restart()
    until(lambda: dialog.request["answer"] is None, "the proposed answer is withdrawn")
    assert dialog.poll(0)["state"] == "open"


def test_rules_are_applied_again_when_the_daemon_restarts_with_other_rules(fresh: Stage) -> None:
    agent = fresh.agent("Ruled")
    allowed = agent.open_dialog("Read", {"file_path": "/w/a"})
    again = agent.open_dialog("Bash", {"command": "make all"})
    assert (allowed.opened["state"], again.opened["state"]) == ("decided", "decided")
    fresh.kill_daemon()
    fresh.config.write_text(fresh.config.read_text().replace('", "Read"]', '"]'))
    fresh.start_daemon()
    assert allowed.poll(0)["state"] == "open"
    assert again.poll(0) == again.opened
    until(lambda: [m for m in fresh.json("inbox") if f"sm approve {allowed.name}" in m["text"]], "a notice")


def test_request_expires_and_its_dialog_stays_open(fresh: Stage) -> None:
    agent = fresh.agent()
    dialog = agent.open_dialog("Bash", {"command": "make"})
    fresh.kill_daemon()
    with closing(sqlite3.connect(fresh.state / "sm.db")) as db, db:
        db.execute("UPDATE requests SET expires_at = '2026-01-01T00:00:00.000Z'")
    fresh.start_daemon()
    dialog.start_wait()
    assert dialog.answer() == {"request": dialog.name, "state": "over", "output": None}
    request = dialog.request
    assert request["state"] == "expired"
    assert request["reason"] == f"nobody answered in time; the dialog is still open: sm attach {agent.id}"
    assert fresh.messages(agent) == []
    assert f"{dialog.name} expired" in fresh.refused("approve", dialog.name, exit_code=4)
