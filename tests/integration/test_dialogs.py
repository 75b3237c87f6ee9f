"""Dialogs of an agent that are answered through its own hooks. The test plays the hooks, a sleeping script claude."""

import json
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sm.client.http import new_key
from sm.requests.dialogs import _QUIET_S as QUIET_S
from tests.instance import SM, Instance, until
from tests.integration.hook_caller import HookCaller
from tests.load import scaled

CONFIG = """
default_trust: direct
tmux: {{socket_name: test}}
limits: {{spawn_interval_s: 0}}
commands:
  Sh: {{command: [sh, -c]}}
claude:
  default_command: {claude}
  agent_configs:
    Plain: {{}}
    Ruled:
      auto_allow: ["Bash(make *)", "Write(src/*)", "Read"]
      auto_deny: ["Bash(* --force)", "Write(src/secret*)"]
"""
ALLOWED = {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}}
ID = "5e55aaaa-0000-4000-8000-000000000001"
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


class Agent:
    """A session that is a claude to the daemon."""

    def __init__(self, stage: "Stage", session_id: str) -> None:
        self.stage = stage
        self.id = session_id
        self._hooks: list[HookCaller] = []
        self._teller = self.hook()
        self._uses = 0
        self.tells("SessionStart", source="startup")

    def hook(self) -> HookCaller:
        made = HookCaller(self.stage, self.id)
        self._hooks.append(made)
        return made

    def end(self) -> None:
        for hook in self._hooks:
            hook.end()

    def event(self, name: str, **more: object) -> dict[str, object]:
        payload = {"hook_event_name": name, "session_id": ID, "cwd": str(self.stage.work)} | more
        at = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        return {"provider": "claude", "emitted_at": at, "payload": payload}

    def tells(self, name: str, **more: object) -> None:
        self._teller.asks("/v1/hooks", new_key(), self.event(name, **more))
        assert self._teller.hears() == ["ok", {}]

    def uses(self, tool: str, arguments: dict[str, Any], **more: object) -> "Dialog":
        """The dialog about a tool that it is about to use, which its hook has opened."""
        self._uses += 1
        use = f"toolu_{self._uses}"
        self.tells("PreToolUse", tool_name=tool, tool_input=arguments, tool_use_id=use)
        asked = self.event("PermissionRequest", tool_name=tool, tool_input=arguments)
        return Dialog(self, use, asked | more)


class Dialog:
    """The hook that waits for the answer."""

    def __init__(self, agent: Agent, tool_use: str, body: dict[str, object]) -> None:
        self.agent = agent
        self.tool_use = tool_use
        self.key = new_key()
        self.body = body
        self.hook = agent.hook()
        self.told = self.asks(0)
        self.name = str(self.told["request"])

    def asks(self, wait_s: float) -> dict[str, Any]:
        self.waits(wait_s)
        return self.hears()

    def waits(self, wait_s: float = 25) -> None:
        self.hook.asks("/v1/hooks/dialog", self.key, self.body | {"wait_s": wait_s})

    def hears(self) -> dict[str, Any]:
        said, told = self.hook.hears(30)
        assert said == "ok"
        found: dict[str, Any] = told
        return found

    def takes(self) -> dict[str, Any]:
        self.hook.asks("/v1/hooks/dialog/taken", self.key, {})
        said, done = self.hook.hears()
        assert said == "ok"
        found: dict[str, Any] = done
        return found

    def decides(self) -> Any:
        """Take the answer as the hook does, and return what it tells claude."""
        told = self.hears()
        assert (told["request"], told["state"]) == (self.name, "decided")
        assert self.takes() == {"request": self.name, "state": "answered"}
        return json.loads(told["output"])

    @property
    def request(self) -> dict[str, Any]:
        found = self.agent.stage.json("requests", "--all", "--limit", "1000")
        return next(each for each in found if each["request_id"] == self.name)


class Stage(Instance):
    """An instance whose claude sleeps."""

    def __init__(self) -> None:
        super().__init__(config="{}")
        claude = self.home / "claude"
        claude.write_text("#!/bin/sh\nexec sleep 1000\n")
        claude.chmod(0o755)
        self.config.write_text(CONFIG.format(claude=claude))
        self.start_daemon()
        self._agents: list[Agent] = []

    def agent(self, kind: str = "Plain", *arguments: str, **options: Any) -> Agent:
        made = Agent(self, self.spawn(kind, "work", *arguments, **options)["session_id"])
        self._agents.append(made)
        return made

    def begins(self, *arguments: str, env: dict[str, str] | None = None) -> "subprocess.Popen[str]":
        """`sm` with these arguments, while it runs."""
        return subprocess.Popen(
            [SM, *arguments],
            env={**self.env, **(env or {})},
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def restart(self) -> None:
        self.kill_daemon()
        self.run("daemon", "start")  # who waits for an answer may have started one already

    def messages(self, agent: Agent) -> list[str]:
        return [each["text"] for each in self.json("log", agent.id)]

    def end(self) -> None:
        for agent in self._agents:
            agent.end()
        super().end()


def ended(command: "subprocess.Popen[str]") -> tuple[int, str, str]:
    out, err = command.communicate(timeout=scaled(60))
    return command.returncode, out, err


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """For what needs no restart."""
    with Stage() as made:
        yield made


@pytest.fixture
def own() -> Iterator[Stage]:
    with Stage() as made:
        yield made


def offered(dialog: Dialog) -> bool:
    request = dialog.request
    return bool(request["state"] == "open" and request["answer"])


# Permissions


def test_an_approved_permission_is_answered_when_its_hook_has_taken_it(stage: Stage) -> None:
    agent = stage.agent()
    arguments = {"command": "rm -rf build\n\x07\u202e", "n": [1, {"deep": None}]}
    dialog = agent.uses("Bash", arguments)
    assert dialog.told == {"request": dialog.name, "state": "open", "output": None}
    assert stage.session(agent.id)["status"] == "waiting_input"
    assert dialog.request["arguments"] == arguments
    dialog.waits()
    approval = stage.begins("approve", dialog.name)
    told = dialog.hears()
    assert json.loads(told["output"]) == ALLOWED
    assert approval.poll() is None
    assert dialog.request["state"] == "open"
    dialog.takes()
    code, out, _ = ended(approval)
    assert (code, dialog.name in out) == (0, True)
    assert dialog.takes()["state"] == "answered"
    request = dialog.request
    assert (request["state"], request["answered_by"], request["cut"]) == ("answered", "operator", False)
    assert stage.messages(agent) == []


def test_what_is_said_with_a_yes_reaches_the_session_as_a_message(stage: Stage) -> None:
    agent = stage.agent()
    dialog = agent.uses("Bash", {"command": "make"})
    dialog.waits()
    approval = stage.begins("approve", dialog.name, "but only once")
    assert dialog.decides() == ALLOWED
    assert ended(approval)[0] == 0
    assert stage.messages(agent) == [f"{dialog.name} was approved: but only once"]


def test_a_parent_is_told_of_a_permission_and_denies_it_in_its_own_words(stage: Stage) -> None:
    parent = stage.spawn("Sh", "exec sleep 1000")
    as_parent = {"SM_SESSION_ID": parent["session_id"]}
    agent = stage.agent(env=as_parent)
    dialog = agent.uses("Bash", {"command": "deploy"})

    def told() -> bool:
        said = f"sm approve {dialog.name} or: sm deny {dialog.name}"
        return any(said in each["text"] for each in stage.json("inbox", env=as_parent))

    until(told, "its parent is told")
    dialog.waits()
    refusal = stage.begins("deny", dialog.name, "use staging", env=as_parent)
    decision = dialog.decides()["hookSpecificOutput"]["decision"]
    assert ended(refusal)[0] == 0
    name = parent["friendly_name"] or parent["name"]
    assert decision == {
        "behavior": "deny",
        "message": f"{name} ({parent['session_id']}) said no: use staging",
    }
    assert dialog.request["answered_by"] == parent["session_id"]


def test_a_late_answer_says_who_was_first(stage: Stage) -> None:
    dialog = stage.agent().uses("Bash", {"command": "make"})
    dialog.waits()
    first = stage.begins("approve", dialog.name)
    assert json.loads(dialog.hears()["output"]) == ALLOWED
    said = stage.refused("deny", dialog.name, exit_code=4)
    assert f"{dialog.name} was just answered by operator" in said
    dialog.takes()
    assert ended(first)[0] == 0
    said = stage.refused("deny", dialog.name, exit_code=4)
    assert f"{dialog.name} was answered by operator at " in said


def test_an_answer_that_nothing_takes_is_withdrawn(stage: Stage) -> None:
    agent = stage.agent()
    dialog = agent.uses("Bash", {"command": "make"})
    said = stage.refused("approve", dialog.name, exit_code=4)
    assert f"the dialog of {dialog.name} takes no answer" in said
    assert f"sm attach {agent.id}" in said
    request = dialog.request
    assert (request["state"], request["answer"], request["answered_by"]) == ("open", None, None)
    dialog.waits()
    approval = stage.begins("approve", dialog.name)
    assert dialog.decides() == ALLOWED
    assert ended(approval)[0] == 0


def test_whoever_sits_at_the_terminal_may_be_first(stage: Stage) -> None:
    agent = stage.agent()
    dialog = agent.uses("Bash", {"command": "make"})
    dialog.waits()
    agent.tells("PostToolUse", tool_name="Bash", tool_input={"command": "make"}, tool_use_id=dialog.tool_use)
    assert dialog.hears() == {"request": dialog.name, "state": "over", "output": None}
    request = dialog.request
    assert (request["state"], request["answered_by"]) == ("answered", "terminal")
    assert request["reason"] == "it was answered at its terminal"
    said = stage.refused("approve", dialog.name, exit_code=4)
    assert f"{dialog.name} was answered at its terminal at " in said


def test_a_hook_that_ends_before_it_says_so_has_answered_all_the_same(stage: Stage) -> None:
    agent = stage.agent()
    dialog = agent.uses("Bash", {"command": "make"})
    dialog.waits()
    approval = stage.begins("approve", dialog.name)
    assert json.loads(dialog.hears()["output"]) == ALLOWED
    agent.tells("PostToolUse", tool_name="Bash", tool_input={"command": "make"}, tool_use_id=dialog.tool_use)
    assert ended(approval)[0] == 0
    assert (dialog.request["state"], dialog.request["answered_by"]) == ("answered", "operator")


@pytest.mark.parametrize("tool_tells", [True, False])
def test_only_a_hook_that_was_given_the_answer_has_taken_it(stage: Stage, tool_tells: bool) -> None:
    agent = stage.agent()
    dialog = agent.uses("Bash", {"command": "make"})
    approval = stage.begins("approve", dialog.name, "be quick")
    until(lambda: offered(dialog), "it is offered")
    if tool_tells:
        agent.tells("PostToolUse", tool_name="Bash", tool_input={}, tool_use_id=dialog.tool_use)
    else:
        agent.tells("Stop")
    code, _, err = ended(approval)
    assert (code, f"{dialog.name} was answered at its terminal at " in err) == (4, True)
    assert (dialog.request["state"], dialog.request["answered_by"]) == ("answered", "terminal")
    assert stage.messages(agent) == []


def test_an_answer_to_a_dialog_that_is_gone_is_late_though_its_hook_waits(stage: Stage) -> None:
    agent = stage.agent()
    dialog = agent.uses("Bash", {"command": "make"})
    opened = time.time()
    until(lambda: time.time() - opened > QUIET_S, "the dialog is old enough to be drawn")
    dialog.waits()
    agent.tells("Stop")
    said = stage.refused("deny", dialog.name, exit_code=4)
    assert f"{dialog.name} was answered at its terminal at " in said
    assert dialog.hears()["state"] == "over"


def test_a_dialog_without_a_word_about_its_tool_is_over_when_the_session_waits_no_more(stage: Stage) -> None:
    agent = stage.agent()
    dialog = agent.uses("Bash", {"command": "make"})
    dialog.waits()
    agent.tells("Stop")
    assert dialog.hears()["state"] == "over"
    assert (dialog.request["state"], dialog.request["answered_by"]) == ("answered", "terminal")
    assert dialog.request["answer"] is None


def test_what_is_heard_late_of_a_dialog_that_is_gone_asks_nobody(stage: Stage) -> None:
    agent = stage.agent()
    agent.tells("PreToolUse", tool_name="Bash", tool_input={}, tool_use_id="toolu_9")
    late = agent.event("PermissionRequest", tool_name="Bash", tool_input={"command": "make"})
    at = datetime.now(UTC) - timedelta(minutes=1)
    hook = agent.hook()
    hook.asks("/v1/hooks/dialog", new_key(), late | {"emitted_at": at.isoformat(), "wait_s": 25})
    assert hook.hears() == ["ok", {"request": None, "state": "over", "output": None}]
    assert agent.id not in stage.sm("requests")


def test_a_permission_whose_arguments_are_cut_can_be_answered_and_a_question_cannot(stage: Stage) -> None:
    agent = stage.agent()
    long = "x" * 70_000
    dialog = agent.uses("Write", {"file_path": "/w/a", "content": long})
    request = dialog.request
    assert request["cut"]
    assert len(request["arguments"]["content"]) < 64 * 1024
    dialog.waits()
    approval = stage.begins("approve", dialog.name)
    assert dialog.decides() == ALLOWED
    assert ended(approval)[0] == 0
    dialog = agent.uses("AskUserQuestion", {"questions": [SIZE | {"header": long}]})
    assert f"sm attach {agent.id}" in stage.refused("answer", dialog.name, "1", exit_code=2)


def test_the_dialogs_of_an_ended_session_are_over(stage: Stage) -> None:
    agent = stage.agent()
    dialog = agent.uses("Bash", {"command": "make"})
    stage.sm("kill", agent.id, "--force")
    assert dialog.request["state"] == "cancelled"
    assert dialog.request["answer"] is None


def test_a_session_has_at_most_fifty_open_requests(stage: Stage) -> None:
    agent = stage.agent()
    hook = agent.hook()
    body = agent.event("PermissionRequest", tool_name="Bash", tool_input={"command": "make"})
    for _ in range(50):
        hook.asks("/v1/hooks/dialog", new_key(), body)
        assert hook.hears()[1]["state"] == "open"
    hook.asks("/v1/hooks/dialog", new_key(), body)
    assert hook.hears()[0] == "limit_reached"
    stage.sm("kill", agent.id, "--force")


# Who may


def test_a_key_is_for_its_own_session_alone(stage: Stage) -> None:
    dialog = stage.agent().uses("Bash", {"command": "make"})
    other = stage.agent().hook()
    other.asks("/v1/hooks/dialog", dialog.key, dialog.body)
    assert other.hears()[0] == "not_found"
    other.asks("/v1/hooks/dialog/taken", dialog.key, {})
    assert other.hears()[0] == "not_found"
    other.asks("/v1/hooks/dialog/taken", new_key(), {})
    assert other.hears()[0] == "not_found"


def test_an_event_without_a_dialog_has_nothing_to_wait_for(stage: Stage) -> None:
    agent = stage.agent()
    hook = agent.hook()
    hook.asks("/v1/hooks/dialog", new_key(), agent.event("Stop") | {"wait_s": 25})
    assert hook.hears() == ["ok", {"request": None, "state": "over", "output": None}]


# Questions


def test_two_questions_are_answered_together(stage: Stage) -> None:
    agent = stage.agent()
    arguments = {"questions": [COLOURS, SIZE]}
    dialog = agent.uses("AskUserQuestion", arguments)
    said = stage.refused("answer", dialog.name, "1", exit_code=2)
    assert "asks 2 questions, and 1 is answered" in said
    dialog.waits()
    reply = stage.begins("answer", dialog.name, "s, small, red", "something else")
    decision = dialog.decides()["hookSpecificOutput"]["decision"]
    assert ended(reply)[0] == 0
    assert decision["behavior"] == "allow"
    assert decision["updatedInput"] == arguments | {
        "answers": {"Which colours?": "S, small, Red", "Which size?": "something else"}
    }


def test_a_text_of_the_operator_answers_the_only_question(stage: Stage) -> None:
    agent = stage.agent()
    dialog = agent.uses("AskUserQuestion", {"questions": [SIZE]})
    dialog.waits()
    sending = stage.begins("send", agent.id, "tiny")
    decision = dialog.decides()["hookSpecificOutput"]["decision"]
    assert decision["updatedInput"]["answers"] == {"Which size?": "Tiny"}
    code, out, err = ended(sending)
    assert (code, dialog.name in out + err) == (0, True)
    assert stage.messages(agent) == []


def test_a_text_never_answers_a_permission_or_a_plan(stage: Stage) -> None:
    agent = stage.agent()
    for tool, arguments in (("Bash", {"command": "make"}), ("ExitPlanMode", {"plan": "do it"})):
        dialog = agent.uses(tool, arguments)
        stage.sm("send", agent.id, "yes", "--no-wait")
        assert dialog.request["answer"] is None
    assert stage.messages(agent) == ["yes", "yes"]


def test_a_declined_question_is_a_no(stage: Stage) -> None:
    dialog = stage.agent().uses("AskUserQuestion", {"questions": [SIZE]})
    dialog.waits()
    refusal = stage.begins("deny", dialog.name, "decide yourself")
    decision = dialog.decides()["hookSpecificOutput"]["decision"]
    assert decision == {"behavior": "deny", "message": "operator said no: decide yourself"}
    assert ended(refusal)[0] == 0


# Rules


def test_rules_answer_without_asking_anybody(stage: Stage) -> None:
    agent = stage.agent("Ruled")
    dialog = agent.uses("Bash", {"command": "make all"})
    assert json.loads(dialog.told["output"]) == ALLOWED
    dialog.takes()
    request = dialog.request
    assert (request["state"], request["answered_by"]) == ("answered", "rule")
    assert "Bash(make *)" in request["reason"]
    denied = agent.uses("Bash", {"command": "make --force"})
    decision = json.loads(denied.told["output"])["hookSpecificOutput"]["decision"]
    assert decision["behavior"] == "deny"
    assert "Bash(* --force)" in decision["message"]
    denied.takes()
    asked = agent.uses("Bash", {"command": "rm x"})
    assert asked.told["state"] == "open"
    inbox = until(lambda: [m["text"] for m in stage.json("inbox") if asked.name in m["text"]], "it is asked")
    assert len(inbox) == 1
    assert not any(
        f"{r} " in each["text"] for each in stage.json("inbox") for r in (dialog.name, denied.name)
    )


def test_rules_hold_where_the_directory_is_reached_by_a_link(stage: Stage) -> None:
    """Its agent names files where the link leads."""
    real, link = stage.home / "real", stage.home / "link"
    real.mkdir()
    link.symlink_to(real)
    agent = stage.agent("Ruled", "--working-dir", str(link))
    assert stage.session(agent.id)["working_dir"] == str(link)
    for directory in (real, link):
        said = [
            agent.uses("Write", {"file_path": f"{directory}/src/{name}"}, cwd=str(real)).told["output"]
            for name in ("a", "secret")
        ]
        decisions = [json.loads(each)["hookSpecificOutput"]["decision"]["behavior"] for each in said]
        assert decisions == ["allow", "deny"]


def test_what_a_rule_has_answered_is_asked_when_no_hook_takes_it(stage: Stage) -> None:
    dialog = stage.agent("Ruled").uses("Read", {"file_path": "/w/a"})
    assert dialog.told["state"] == "decided"
    until(lambda: not offered(dialog), "the offer is withdrawn")
    assert dialog.request["reason"] is None
    until(lambda: [m for m in stage.json("inbox") if f"sm approve {dialog.name}" in m["text"]], "it is asked")


# Crashes and time


def test_an_answer_survives_a_daemon_that_is_killed_before_it_was_taken(own: Stage) -> None:
    agent = own.agent()
    dialog = agent.uses("AskUserQuestion", {"questions": [SIZE]})
    reply = own.begins("answer", dialog.name, "2")
    until(lambda: offered(dialog), "it is offered")
    before = dialog.asks(0)["output"]
    own.restart()
    told = dialog.asks(25)
    assert (told["state"], told["output"]) == ("decided", before)
    own.restart()
    assert dialog.takes()["state"] == "answered"
    assert dialog.takes()["state"] == "answered"
    assert ended(reply)[0] == 0
    assert dialog.request["answer"]["answers"] == ["Tiny"]


def test_an_answer_that_nobody_took_before_a_restart_is_withdrawn(own: Stage) -> None:
    dialog = own.agent().uses("Bash", {"command": "make"})
    approval = own.begins("approve", dialog.name)
    until(lambda: offered(dialog), "it is offered")
    approval.kill()
    approval.communicate()
    own.restart()
    until(lambda: dialog.request["answer"] is None, "the offer is withdrawn")
    assert dialog.asks(0)["state"] == "open"


def test_what_a_rule_has_offered_is_ruled_again_by_a_daemon_with_other_rules(own: Stage) -> None:
    agent = own.agent("Ruled")
    allowed = agent.uses("Read", {"file_path": "/w/a"})
    again = agent.uses("Bash", {"command": "make all"})
    assert (allowed.told["state"], again.told["state"]) == ("decided", "decided")
    own.kill_daemon()
    own.config.write_text(own.config.read_text().replace('", "Read"]', '"]'))
    own.start_daemon()
    assert allowed.asks(0)["state"] == "open"
    assert again.asks(0) == again.told
    until(lambda: [m for m in own.json("inbox") if f"sm approve {allowed.name}" in m["text"]], "it is asked")


def test_a_request_expires_and_its_dialog_stays(own: Stage) -> None:
    agent = own.agent()
    dialog = agent.uses("Bash", {"command": "make"})
    own.kill_daemon()
    with closing(sqlite3.connect(own.state / "sm.db")) as db, db:
        db.execute("UPDATE requests SET expires_at = '2026-01-01T00:00:00.000Z'")
    own.start_daemon()
    dialog.waits()
    assert dialog.hears() == {"request": dialog.name, "state": "over", "output": None}
    request = dialog.request
    assert request["state"] == "expired"
    assert request["reason"] == f"nobody answered in time; its dialog is still open: sm attach {agent.id}"
    assert own.messages(agent) == []
    assert f"{dialog.name} expired" in own.refused("approve", dialog.name, exit_code=4)
