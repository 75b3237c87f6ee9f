"""`sm approve --always`: rules that a person writes from a request, and what agents try to do with them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures import context_fixture
from tests.played_agent import Agent, Dialog
from tests.sim.command import StartedCommand
from tests.sim.stage import INSTANCE_CONFIG, Instance, Stage

ALLOWED = {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}}
NPM_TEST = {"command": "npm test"}
LINE = '- {"agent_type": "Plain", "allow": "Bash(npm test)"}'

stage = context_fixture("function", Stage)


def rules_file(stage: Stage) -> Path:
    return stage.config.parent / "rules.yaml"


def written(stage: Stage) -> list[str]:
    """The lines below the comment."""
    file = rules_file(stage)
    return file.read_text().splitlines()[1:] if file.exists() else []


def finish(command: StartedCommand) -> tuple[int, str, str]:
    out, err = command.communicate(timeout=60)
    return command.wait(), out, err


def allow_always(stage: Stage, dialog: Dialog) -> str:
    """Let the operator write the rule of a dialog. Returns what the command printed."""
    dialog.start_wait()
    approval = stage.start_command("approve", dialog.name, "--always", "--yes")
    assert dialog.take_decision() == ALLOWED
    code, out, err = finish(approval)
    assert code == 0, err
    return out + err


def test_rule_is_shown_written_and_answers_open_and_later_requests(stage: Stage) -> None:
    first, second, other = stage.agent(), stage.agent(), stage.agent("Limited")
    dialogs = [
        agent.open_dialog("Bash", {**NPM_TEST, "description": text})
        for agent, text in ((first, "a"), (second, "b"))
    ]
    of_other_type = other.open_dialog("Bash", NPM_TEST)
    of_other_command = second.open_dialog("Bash", {"command": "npm test x"})
    for dialog in dialogs:
        dialog.start_wait()
    approval = stage.start_command("approve", dialogs[0].name, "--always", "--yes")
    assert [dialog.take_decision() for dialog in dialogs] == [ALLOWED] * 2
    code, out, err = finish(approval)
    assert code == 0
    assert f"Approved by the rule: {dialogs[0].name}, {dialogs[1].name}" in out
    assert "Plain may always use Bash(npm test) without a question." in err
    assert f"  {LINE}\n" in err
    assert written(stage) == [LINE]
    assert all(dialog.request["answered_by"] == "rule" for dialog in dialogs)
    assert all(dialog.request["state"] == "open" for dialog in (of_other_type, of_other_command))
    assert "approved by a rule: rules.yaml: Bash(npm test)" in stage.sm("why", dialogs[0].name)
    later = first.open_dialog("Bash", NPM_TEST)
    assert later.opened["state"] == "decided" and later.request["answered_by"] == "rule"


def test_rule_applies_after_a_restart_and_until_it_is_removed(stage: Stage) -> None:
    agent = stage.agent()
    allow_always(stage, agent.open_dialog("Bash", NPM_TEST))
    allow_always(stage, agent.open_dialog("Bash", {"command": "make"}))
    stage.restart_daemon()
    assert agent.open_dialog("Bash", NPM_TEST).opened["state"] == "decided"
    removed = stage.sm("config", "undo")
    assert removed == f"Removed {rules_file(stage)}:3: {LINE.replace('npm test', 'make')}\n"
    assert agent.open_dialog("Bash", NPM_TEST).opened["state"] == "decided"
    assert agent.open_dialog("Bash", {"command": "make"}).opened["state"] == "open"
    stage.sm("config", "undo")
    assert agent.open_dialog("Bash", NPM_TEST).opened["state"] == "open"
    assert "there are no rules" in stage.refused("config", "undo", exit_code=4)


def test_rules_are_shown_with_their_origin(stage: Stage) -> None:
    allow_always(stage, stage.agent().open_dialog("Bash", NPM_TEST))
    file = rules_file(stage)
    assert f"# {file}, in addition to auto_allow:\n# 2: {LINE}\n" in stage.sm("config")
    assert f"ok: {file} (1 rule)" in stage.sm("config", "--check")
    assert f"{file}:2" in stage.sm("agents")
    (rule,) = stage.get("/v1/config")["rules"]
    assert (rule["agent_type"], rule["origin"]) == ("Plain", f"{file}:2")


def test_denied_by_the_configuration_stays_denied(stage: Stage) -> None:
    agent = stage.agent("Ruled")
    rules_file(stage).write_text(LINE.replace("Plain", "Ruled").replace("npm test", "push --force") + "\n")
    assert stage.get("/v1/config")["mistakes"] == []
    denied = agent.open_dialog("Bash", {"command": "push --force"})
    assert denied.opened["state"] == "decided" and not denied.request["answer"]["approved"]
    unclear = agent.open_dialog("Bash", {"command": "$(cat x) --later"})
    assert "auto_deny of agent type Ruled" in stage.refused("approve", unclear.name, "--always", exit_code=2)


def test_nothing_is_written_without_a_terminal_or_a_yes(stage: Stage) -> None:
    dialog = stage.agent().open_dialog("Bash", NPM_TEST)
    assert "there is no terminal to ask at" in stage.refused("approve", dialog.name, "--always", exit_code=4)
    assert not rules_file(stage).exists() and dialog.request["state"] == "open"


def test_only_the_line_that_the_person_saw_is_written(stage: Stage) -> None:
    dialog = stage.agent().open_dialog("Bash", NPM_TEST)
    path = f"/v1/requests/{dialog.name}/rule"
    shown = stage.get(path)
    assert (shown["rule"]["line"], shown["answers"]) == (LINE, [dialog.name])
    assert stage.get("/v1/requests")[0]["always"] == LINE
    for line in ('- {"agent_type": "Plain", "allow": "Bash"}', LINE + " ", LINE.replace("Plain", "Limited")):
        assert stage.post_as(None, path, {"line": line}).status == 409
    assert stage.post_as(None, path, {}).status == 409
    assert not rules_file(stage).exists()


def test_repeated_call_writes_the_rule_once(stage: Stage) -> None:
    dialog = stage.agent().open_dialog("Bash", NPM_TEST)
    allow_always(stage, dialog)
    assert stage.post_as(None, f"/v1/requests/{dialog.name}/rule", {"line": LINE}).status == 200
    assert written(stage) == [LINE]


def test_removal_of_another_rule_than_the_newest_is_refused(stage: Stage) -> None:
    agent = stage.agent()
    allow_always(stage, agent.open_dialog("Bash", NPM_TEST))
    allow_always(stage, agent.open_dialog("Bash", {"command": "make"}))
    for _ in range(2):
        assert stage.post_as(None, "/v1/config/undo", {"line": LINE}).status == 409
    assert len(written(stage)) == 2


# Agents


def test_agent_may_neither_write_nor_see_nor_remove_rules(stage: Stage) -> None:
    parent = stage.agent()
    child = stage.agent(env={"SM_SESSION_ID": parent.id})
    dialog = child.open_dialog("Bash", NPM_TEST)
    path = f"/v1/requests/{dialog.name}/rule"
    for session_id in (parent.id, child.id):
        answers = stage.request_as(
            session_id,
            ("GET", path),
            ("POST", path, None, {"line": LINE}),
            ("POST", "/v1/config/undo", None, {"line": LINE}),
            ("GET", "/v1/config"),
        )
        assert [answer[0] for answer in answers] == ["not_permitted"] * 4
        env = stage.as_session(session_id)
        refused = stage.refused("approve", dialog.name, "--always", "--yes", exit_code=5, env=env)
        assert "only the operator may write permission rules" in refused
        stage.refused("config", "undo", exit_code=5, env=env)
        (seen,) = stage.request_as(session_id, ("GET", "/v1/requests"))
        assert seen[1][0]["always"] is None
    assert not rules_file(stage).exists() and dialog.request["state"] == "open"
    audit = [json.loads(line) for line in (stage.state / "log" / "audit.jsonl").read_text().splitlines()]
    refused_by = {line["who"] for line in audit if line["what"] == "allow_always"}
    assert {line["decision"] for line in audit if line["what"] == "allow_always"} == {"refused"}
    assert len(refused_by) == 2


@pytest.mark.parametrize(
    ("tool", "arguments", "reason"),
    [
        ("Bash", {"command": "rm -rf *"}, "matches any text"),
        ("Bash", {"command": "npm test\nrm -rf /"}, "line break"),
        ("Bash", {"command": 'x", "allow": "Bash\u2028'}, "cannot be seen"),
        ("Bash", {"command": "x" * 70_000}, "too long"),
        ("Bash", {"command": "ls", "dangerouslyDisableSandbox": True}, "dangerouslyDisableSandbox"),
        ("mcp__files__*", {"path": "x"}, "tools of another server"),
        ("Bash(*)", {"command": "ls"}, "cannot distinguish"),
        ("Edit", {"file_path": "/etc/passwd"}, "outside"),
        ("ExitPlanMode", {"plan": "1. write"}, "plans"),
    ],
)
def test_request_for_more_than_a_rule_can_say_gets_none(
    stage: Stage, tool: str, arguments: dict[str, Any], reason: str
) -> None:
    dialog = stage.agent().open_dialog(tool, arguments)
    assert reason in stage.refused("approve", dialog.name, "--always", "--yes", exit_code=2)
    assert stage.get("/v1/requests")[0]["always"] is None
    assert not rules_file(stage).exists() and dialog.request["state"] == "open"


def test_question_gets_no_rule(stage: Stage) -> None:
    agent = stage.agent()
    stage.sm("ask", "May I always do it?", env=stage.as_session(agent.id))
    assert "rules are for permissions only" in stage.refused("approve", "r1", "--always", exit_code=2)


def test_command_with_quotes_and_yaml_is_one_exact_rule(stage: Stage) -> None:
    agent = stage.agent()
    command = 'echo "}" # - {agent_type: Limited, allow: Bash} \\'
    allow_always(stage, agent.open_dialog("Bash", {"command": command}))
    (rule,) = stage.get("/v1/config")["rules"]
    assert (rule["agent_type"], rule["allow"]) == ("Plain", f"Bash({command})")
    assert stage.agent("Limited").open_dialog("Bash", {"command": "ls"}).opened["state"] == "open"


def bypass(agent: Agent) -> None:
    """Let the agent report that it bypasses permissions."""
    agent.send_event("UserPromptSubmit", prompt="go", permission_mode="bypassPermissions")


def test_session_that_bypasses_permissions_gets_no_rule_and_none_applies_to_it(stage: Stage) -> None:
    agent, other = stage.agent(), stage.agent()
    bypass(agent)
    dialog = agent.open_dialog("Bash", NPM_TEST)
    assert "bypasses permissions" in stage.refused("approve", dialog.name, "--always", exit_code=2)
    allow_always(stage, other.open_dialog("Bash", NPM_TEST))
    assert dialog.request["state"] == "open"
    assert agent.open_dialog("Bash", NPM_TEST).opened["state"] == "open"


# Faults


def test_broken_rules_file_is_shown_changes_nothing_and_stays(stage: Stage) -> None:
    agent = stage.agent()
    allow_always(stage, agent.open_dialog("Bash", NPM_TEST))
    file = rules_file(stage)
    broken = file.read_text() + "- {agent_type: Plain, allow: 'Bash('}\n"
    file.write_text(broken)
    (mistake,) = stage.get("/v1/config")["mistakes"]
    assert mistake.startswith(f"{file}:3:30: [1].allow: is not a valid rule")
    assert agent.open_dialog("Bash", NPM_TEST).opened["state"] == "decided"
    dialog = agent.open_dialog("Bash", {"command": "make"})
    line = LINE.replace("npm test", "make")
    assert stage.post_as(None, f"/v1/requests/{dialog.name}/rule", {"line": line}).status == 409
    assert stage.post_as(None, "/v1/config/undo", {"line": LINE}).status == 400
    assert file.read_text() == broken
    assert any(str(file) in trouble for trouble in stage.get("/v1/status")["trouble"])


def test_rule_that_no_agent_takes_is_written_and_the_request_stays_open(stage: Stage) -> None:
    dialog = stage.agent().open_dialog("Bash", NPM_TEST)
    ended = stage.run("approve", dialog.name, "--always", "--yes")
    assert ended.returncode == 4
    assert f"the agent did not take the answer to {dialog.name}" in ended.stderr
    assert written(stage) == [LINE]


@pytest.fixture
def without_config() -> Iterator[Instance]:
    with Instance(INSTANCE_CONFIG) as instance:
        instance.config.unlink()
        instance.start_daemon()
        yield instance


def test_rules_apply_without_a_config_yaml(without_config: Instance) -> None:
    (without_config.config.parent / "rules.yaml").write_text(f"{LINE}\n")
    state = without_config.get("/v1/config")
    assert (state["mistakes"], [rule["line"] for rule in state["rules"]]) == ([], [LINE])
