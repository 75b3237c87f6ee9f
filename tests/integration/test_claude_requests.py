"""Permissions and questions of the real Claude Code, answered through sm or at its terminal."""

import os
import signal
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.claude_fixtures import claude_instance, scripted_api, shared_sessions
from tests.claude_instance import ClaudeInstance, hook_pids
from tests.instance import until
from tests.scripted_api import ScriptedApi, tool
from tests.waits import PATIENT

COMPUTES = tool("Bash", command="python3 -c 'print(6*7)'")
COLOUR = {
    "question": "Which colour?",
    "header": "Colour",
    "multiSelect": False,
    "options": [{"label": "red", "description": "r"}, {"label": "blue", "description": "b"}],
}
SIZES = {
    "question": "Which sizes?",
    "header": "Sizes",
    "multiSelect": True,
    "options": [{"label": size, "description": size} for size in ("small", "middle", "large")],
}
NAME = {**COLOUR, "question": "Which name?", "header": "Name"}

api = scripted_api("module")
claudes = claude_instance("module")
shared = shared_sessions()


class Agent:
    """A claude session that starts idle at an empty prompt."""

    def __init__(self, claudes: ClaudeInstance, api: ScriptedApi) -> None:
        self.claudes, self.api = claudes, api
        self.id = str(claudes.spawn("Plain", "--wait", PATIENT)["session_id"])
        claudes.idle(self.id)

    def requests(self) -> list[dict[str, Any]]:
        return [r for r in self.claudes.json("requests", "--all") if r["session_id"] == self.id]

    def ask(self, prompt: str) -> dict[str, Any]:
        """Type a prompt and return the request that its dialog opens."""
        self.claudes.prompt(self.id, prompt)
        return self.open_request()

    def open_request(self) -> dict[str, Any]:
        requests = until(lambda: [r for r in self.requests() if r["state"] == "open"], "a request is open")
        self.claudes.says(self.id, "waiting_input", "claude asks")
        (request,) = requests
        until(self.hook_pids, "its hook waits")
        return request

    def wait_state(self, request: dict[str, Any], state: str = "answered") -> dict[str, Any]:
        """The request once it is in this state."""
        return self._wait_request(request, "state", state)

    def wait_confirmed(self, request: dict[str, Any]) -> dict[str, Any]:
        """The request once claude has reported what became of the tool, which is after the answer."""
        return self._wait_request(request, "confirmed", True)

    def _wait_request(self, request: dict[str, Any], field: str, value: object) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            (found,) = [r for r in self.requests() if r["request_id"] == request["request_id"]]
            return found if found[field] == value else None

        return until(look, f"{field} of {request['request_id']} is {value}")

    def result(self, words: str) -> tuple[bool, str]:
        """Result of the last tool of this prompt, as claude reports it to the API."""

        def look() -> tuple[bool, str] | None:
            turns = [turn for turn in self.api.turns(words) if turn.prompt and not turn.agent_id]
            return turns[-1].results[-1] if len(turns) > 1 else None

        return until(look, f"the tool of {words} has a result")

    def hook_pids(self) -> list[int]:
        return hook_pids(self.id)

    def wait_rest(self) -> None:
        """Wait until no hook runs and claude is idle."""
        until(lambda: not self.hook_pids(), "its hook is gone")
        self.claudes.idle(self.id)

    def wait_shows(self, words: str) -> None:
        def look() -> bool:
            return words in self.claudes.screen(self.id)

        until(look, f"its terminal shows {words}")


@pytest.fixture
def agent(claudes: ClaudeInstance, api: ScriptedApi, shared: dict[str, Agent]) -> Agent:
    """An idle session: the one of the previous test if possible."""
    agent = shared.get("agent")
    if agent is None or claudes.session(agent.id)["status"] != "idle" or agent.hook_pids():
        agent = shared["agent"] = Agent(claudes, api)
    return agent


def prompt_with(name: str, call: str) -> str:
    return f"{name} {call}[[then]][[text:so]]"


@pytest.mark.claude_core
def test_approve_lets_the_tool_run(claudes: ClaudeInstance, agent: Agent) -> None:
    request = agent.ask(prompt_with("granted", COMPUTES))
    assert (request["kind"], request["tool"]) == ("permission", "Bash")
    assert request["arguments"]["command"] == "python3 -c 'print(6*7)'"
    assert claudes.sm("approve", request["request_id"]).startswith("Approved r")
    assert agent.result("granted") == (False, "42")
    done = agent.wait_state(request)
    assert (done["answered_by"], done["answer"]["approved"]) == ("operator", True)
    agent.wait_rest()


def test_commands_of_an_agent_start_no_background_sessions_of_claude(
    claudes: ClaudeInstance, agent: Agent
) -> None:
    command = "claude=$(readlink /proc/$PPID/exe); $claude --bg work"
    request = agent.ask(prompt_with("own-daemon", tool("Bash", command=command)))
    claudes.sm("approve", request["request_id"])
    failed, result = agent.result("own-daemon")
    assert failed
    assert "'--bg' is disabled by CLAUDE_CODE_DISABLE_AGENT_VIEW" in result
    agent.wait_rest()


@pytest.mark.claude_core
def test_deny_refuses_the_tool_with_a_reason(claudes: ClaudeInstance, agent: Agent) -> None:
    request = agent.ask(prompt_with("refused", COMPUTES))
    claudes.sm("deny", request["request_id"], "count by hand")
    assert agent.result("refused") == (True, "operator said no: count by hand")
    done = agent.wait_confirmed(request)
    assert (done["answered_by"], done["answer"]["approved"]) == ("operator", False)
    agent.wait_rest()


@pytest.mark.claude_core
def test_question_is_answered_by_option_number(claudes: ClaudeInstance, agent: Agent) -> None:
    request = agent.ask(prompt_with("numbered", tool("AskUserQuestion", questions=[COLOUR])))
    assert (request["kind"], request["options"]) == ("question", ["red", "blue"])
    claudes.sm("answer", request["request_id"], "2")
    failed, result = agent.result("numbered")
    assert not failed
    assert '"Which colour?"="blue"' in result
    agent.wait_state(request)
    agent.wait_rest()


def test_several_questions_are_answered_with_choices_and_free_text(
    claudes: ClaudeInstance, agent: Agent
) -> None:
    request = agent.ask(prompt_with("several", tool("AskUserQuestion", questions=[SIZES, NAME])))
    claudes.sm("answer", request["request_id"], "1, large", 'the "grey" one, \N{ROCKET}')
    failed, result = agent.result("several")
    assert not failed
    assert '"Which sizes?"="small, large"' in result
    assert '"Which name?"="the "grey" one, \N{ROCKET}"' in result
    agent.wait_rest()


def test_send_answers_the_only_open_question(claudes: ClaudeInstance, agent: Agent) -> None:
    request = agent.ask(prompt_with("sent-to", tool("AskUserQuestion", questions=[COLOUR])))
    assert request["request_id"] in claudes.sm("send", agent.id, "red")
    assert '"Which colour?"="red"' in agent.result("sent-to")[1]
    agent.wait_rest()


def test_second_answer_is_refused(claudes: ClaudeInstance, agent: Agent) -> None:
    request = agent.ask(prompt_with("twice", COMPUTES))
    claudes.sm("approve", request["request_id"])
    assert "answered by operator" in claudes.refused("deny", request["request_id"], exit_code=4)
    assert agent.result("twice") == (False, "42")
    agent.wait_rest()


def test_request_can_be_answered_after_the_daemon_was_killed(claudes: ClaudeInstance, agent: Agent) -> None:
    request = agent.ask(prompt_with("killed-daemon", COMPUTES))
    hooks = agent.hook_pids()
    claudes.kill_daemon()
    claudes.start_daemon()
    claudes.sm("approve", request["request_id"])
    assert agent.result("killed-daemon") == (False, "42")
    assert agent.wait_state(request)["answered_by"] == "operator"
    assert len(hooks) == 1
    agent.wait_rest()


def test_request_opens_when_the_daemon_starts_after_the_dialog(claudes: ClaudeInstance, agent: Agent) -> None:
    claudes.kill_daemon()
    claudes.prompt(agent.id, prompt_with("away-daemon", COMPUTES))
    agent.wait_shows("Do you want to proceed?")
    claudes.start_daemon()
    request = agent.open_request()
    claudes.sm("approve", request["request_id"])
    assert agent.result("away-daemon") == (False, "42")
    agent.wait_rest()
    assert [r["state"] for r in agent.requests() if r["state"] == "open"] == []


@pytest.mark.parametrize(("key", "runs"), [("Enter", True), ("Escape", False)])
@pytest.mark.claude_core
def test_permission_answered_at_the_terminal_closes_the_request(
    claudes: ClaudeInstance, agent: Agent, key: str, runs: bool
) -> None:
    request = agent.ask(prompt_with(f"person-{key}", COMPUTES))
    claudes.answer_dialog(agent.id, key)
    done = agent.wait_state(request)
    assert done["answered_by"] == "terminal"
    if runs:
        assert agent.result(f"person-{key}") == (False, "42")
    assert "terminal" in claudes.refused("approve", request["request_id"], exit_code=4)
    agent.wait_rest()


def test_deny_reports_what_happened_when_a_person_allowed_the_tool_just_before(
    claudes: ClaudeInstance, agent: Agent
) -> None:
    request = agent.ask(prompt_with("just-before", COMPUTES))
    claudes.answer_dialog(agent.id, "Enter")
    denied = claudes.run("deny", request["request_id"], "too late")
    failed, result = agent.result("just-before")
    agent.wait_rest()
    done = agent.wait_confirmed(request)
    # On a busy machine the hook may return before claude reads the key: then the tool did not run.
    ran = (failed, result) == (False, "42")
    if ran and "not confirmed by the agent yet" in denied.stdout:
        # Or the tool is reported later than the command waits: then a notice tells what happened.
        late = f"your answer to {request['request_id']} of "
        until(lambda: late in str(claudes.get("/v1/inbox")), "the notice that the answer came too late")
    else:
        assert denied.returncode == (4 if ran else 0), f"{denied}"
    assert done["answered_by"] == ("terminal" if ran else "operator")
    # A dialog that is gone before its tool is reported leaves the decision unknown.
    assert (ran and done["answer"] is None) or done["answer"]["approved"] is ran


def test_question_answered_at_the_terminal_closes_the_request(claudes: ClaudeInstance, agent: Agent) -> None:
    request = agent.ask(prompt_with("person-asked", tool("AskUserQuestion", questions=[COLOUR])))
    claudes.answer_dialog(agent.id, "Enter")
    assert '"Which colour?"="red"' in agent.result("person-asked")[1]
    assert agent.wait_state(request)["answered_by"] == "terminal"
    agent.wait_rest()


@pytest.mark.claude_core
def test_approve_accepts_a_plan(claudes: ClaudeInstance, api: ScriptedApi) -> None:
    session_id = claudes.spawn("Planner", prompt_with("planned", tool("ExitPlanMode", plan="1. do it")))[
        "session_id"
    ]
    claudes.says(session_id, "waiting_input", "claude asks for approval of its plan")

    def plan_request() -> dict[str, Any] | None:
        requests = [r for r in claudes.get("/v1/requests") if r["session_id"] == session_id]
        return requests[0] if requests else None

    request = until(plan_request, "its plan is a request")
    assert (request["kind"], request["tool"]) == ("permission", "ExitPlanMode")
    claudes.sm("approve", request["request_id"])
    turns = api.wait_for(
        lambda: turns if len(turns := [t for t in api.turns("planned") if t.results]) else None, "planned"
    )
    assert not turns[-1].results[-1][0]
    claudes.idle(session_id)
    claudes.sm("kill", session_id)


@pytest.mark.claude_core
def test_permission_of_a_sub_agent_can_be_approved(
    claudes: ClaudeInstance, api: ScriptedApi, agent: Agent
) -> None:
    part = tool(
        "Agent", description="d", prompt=prompt_with("sub-part", COMPUTES), subagent_type="general-purpose"
    )
    request = agent.ask(prompt_with("sub-whole", part))
    assert request["tool"] == "Bash"
    claudes.sm("approve", request["request_id"])
    api.wait_for(
        lambda: [t for t in api.turns("sub-part") if t.agent_id and t.results == [(False, "42")]], "42"
    )
    agent.wait_state(request)
    agent.wait_rest()


def test_permission_of_a_background_sub_agent_waits_for_its_answer(
    claudes: ClaudeInstance, api: ScriptedApi, agent: Agent
) -> None:
    part = tool(
        "Agent",
        description="d",
        prompt=prompt_with("behind-part", COMPUTES),
        subagent_type="general-purpose",
        run_in_background=True,
    )
    claudes.prompt(agent.id, prompt_with("behind-whole", part))
    (request,) = until(lambda: [r for r in agent.requests() if r["state"] == "open"], "a request is open")

    def is_old() -> bool:
        opened = datetime.fromisoformat(request["created_at"])
        return datetime.now(UTC) - opened > timedelta(seconds=4)

    # claude is busy and shows no dialog while the hook waits.
    until(lambda: is_old() and claudes.session(agent.id)["status"] == "running", "the session works")
    claudes.sm("approve", request["request_id"])
    api.wait_for(
        lambda: [t for t in api.turns("behind-part") if t.agent_id and t.results == [(False, "42")]], "42"
    )
    assert agent.wait_state(request)["answered_by"] == "operator"
    agent.wait_rest()


def test_two_sub_agents_that_ask_together_get_their_own_answers(
    claudes: ClaudeInstance, api: ScriptedApi, agent: Agent
) -> None:
    parts = "".join(
        tool(
            "Agent",
            description=name,
            prompt=prompt_with(name, tool("Bash", command=f"python3 -c 'print({sum})'")),
            subagent_type="general-purpose",
        )
        for name, sum in (("part-one", "40+1"), ("part-two", "40+2"))
    )
    claudes.prompt(agent.id, prompt_with("both-parts", parts))

    def open_requests() -> dict[str, str] | None:
        found = {
            r["arguments"]["command"][-6:-2]: r["request_id"]
            for r in agent.requests()
            if r["state"] == "open"
        }
        return found if len(found) == 2 else None

    found = until(open_requests, "two requests")
    claudes.sm("approve", found["40+2"])
    claudes.sm("deny", found["40+1"], "no forty-one")

    def results(name: str) -> list[tuple[bool, str]]:
        return [result for turn in api.turns(name) if turn.agent_id for result in turn.results]

    api.wait_for(lambda: (False, "42") in results("part-two"), "the second has its result")
    api.wait_for(lambda: (True, "operator said no: no forty-one") in results("part-one"), "the first is told")
    agent.wait_rest()


def test_request_stays_open_when_another_tool_of_the_message_ends(
    claudes: ClaudeInstance, api: ScriptedApi, agent: Agent
) -> None:
    """Claude starts the tools of one message together; a read-only tool without a permission ends immediately."""
    outside, inside = Path("/etc/passwd"), claudes.work / "inside.txt"
    inside.write_text(f"this is {inside.name}\n")
    reads = tool("Read", file_path=str(outside)) + tool("Read", file_path=str(inside))
    request = agent.ask(prompt_with("beside", reads))
    assert request["arguments"]["file_path"] == str(outside)
    until(lambda: "a tool finished" in str(claudes.why(agent.id)), "the other tool has ended")
    assert claudes.session(agent.id)["status"] == "waiting_input"
    claudes.sm("approve", request["request_id"])
    assert agent.wait_state(request)["answered_by"] == "operator"
    agent.wait_rest()


def test_request_expires_and_its_dialog_stays_open_when_no_answer_comes(
    claudes: ClaudeInstance, agent: Agent
) -> None:
    request = agent.ask(prompt_with("expired", COMPUTES))
    claudes.kill_daemon()
    with closing(sqlite3.connect(claudes.state / "sm.db")) as db, db:
        db.execute("UPDATE requests SET expires_at = '2020-01-01T00:00:00.000000Z' WHERE state = 'open'")
    claudes.start_daemon()
    agent.wait_state(request, "expired")
    until(lambda: not agent.hook_pids(), "its hook is gone")
    agent.wait_shows("Do you want to proceed?")
    claudes.says(agent.id, "waiting_input", "claude asks")
    claudes.keys(agent.id, "Enter")
    assert agent.result("expired") == (False, "42")
    agent.wait_rest()


def test_answer_is_refused_when_the_hook_was_killed(claudes: ClaudeInstance, agent: Agent) -> None:
    request = agent.ask(prompt_with("killed-hook", COMPUTES))
    for pid in agent.hook_pids():
        os.kill(pid, signal.SIGKILL)
    assert f"sm attach {agent.id}" in claudes.refused("approve", request["request_id"], exit_code=4)
    claudes.answer_dialog(agent.id, "Enter")
    assert agent.wait_state(request)["answered_by"] == "terminal"
    agent.wait_rest()


def test_hook_ends_and_request_is_cancelled_when_claude_is_killed(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    agent = Agent(claudes, api)
    request = agent.ask(prompt_with("killed-claude", COMPUTES))
    os.kill(claudes.session(agent.id)["pid"], signal.SIGKILL)
    until(lambda: not agent.hook_pids(), "its hook is gone")
    assert agent.wait_state(request, "cancelled")["answer"] is None


def test_why_names_the_interrupt_that_closed_a_dialog(claudes: ClaudeInstance, api: ScriptedApi) -> None:
    session_id = claudes.spawn(
        "Plain", f"interrupted-1 {tool('Bash', command='python3 -c pass')}[[then]][[text:never]]"
    )["session_id"]
    claudes.says(session_id, "waiting_input", "claude asks for permission")
    (request,) = until(lambda: claudes.get("/v1/requests", session=session_id), "the request")
    claudes.sm("interrupt", session_id)
    until(lambda: not claudes.get("/v1/requests", session=session_id), "no request is open")
    assert "denied in the terminal (the agent was interrupted by operator)" in claudes.sm(
        "why", request["request_id"]
    )


def test_dialog_is_a_request_that_names_the_terminal_while_hooks_are_off(api: ScriptedApi) -> None:
    with ClaudeInstance(api) as instance:
        instance.write_settings('{"disableAllHooks": true}')
        spawned = instance.spawn("Plain", f"unhooked-1 {COMPUTES}[[then]][[text:bye]]")
        session_id = spawned["session_id"]
        (request,) = until(lambda: instance.get("/v1/requests"), "the dialog is a request")
        assert request["kind"] == "dialog"
        attach = f"sm attach {session_id}"
        assert f"only at its terminal: {attach}" in instance.sm("requests", request["request_id"])
        assert f"hint: {attach}" in instance.refused("approve", request["request_id"], exit_code=4)
        instance.answer_dialog(session_id, "Enter")
        until(lambda: not instance.get("/v1/requests"), "the request is closed")
        (closed,) = instance.json("requests", "--all")
        assert (closed["state"], closed["answered_by"]) == ("answered", "terminal")
        instance.idle(session_id)
