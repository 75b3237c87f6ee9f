"""Permissions and questions of the real Claude Code, answered from elsewhere, and by whoever sits at its terminal."""

import os
import signal
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from tests.claude_fixtures import claude_instance, scripted_api
from tests.claude_instance import ClaudeInstance
from tests.instance import until
from tests.scripted_api import ScriptedApi, tool

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
    "options": [{"label": each, "description": each} for each in ("small", "middle", "large")],
}
NAME = {**COLOUR, "question": "Which name?", "header": "Name"}

api = scripted_api("module")
claudes = claude_instance("module")


class Agent:
    """A session that waits at its empty prompt, and whose dialogs are answered."""

    def __init__(self, claudes: ClaudeInstance, api: ScriptedApi) -> None:
        self.claudes, self.api = claudes, api
        self.id = str(claudes.spawn("Plain", "--wait", "60")["session_id"])
        claudes.idle(self.id)

    def requests(self) -> list[dict[str, Any]]:
        return [r for r in self.claudes.json("requests", "--all") if r["session_id"] == self.id]

    def asks(self, prompt: str) -> dict[str, Any]:
        """Type a prompt, and return the request that is open while its dialog is."""
        self.claudes.prompt(self.id, prompt)
        return self.asked()

    def asked(self) -> dict[str, Any]:
        found = until(lambda: [r for r in self.requests() if r["state"] == "open"], "a request is open", 60)
        self.claudes.says(self.id, "waiting_input", "it asks")
        (request,) = found
        until(self.hooks, "its hook waits")
        return request

    def became(self, request: dict[str, Any], state: str = "answered") -> dict[str, Any]:
        """The request once it is in this state."""

        def look() -> dict[str, Any] | None:
            (found,) = [r for r in self.requests() if r["request_id"] == request["request_id"]]
            return found if found["state"] == state else None

        return until(look, f"{request['request_id']} is {state}", 30)

    def result(self, words: str) -> tuple[bool, str]:
        """What came of the last tool, as the API's next request in this turn has it."""

        def look() -> tuple[bool, str] | None:
            turns = [turn for turn in self.api.turns(words) if turn.prompt and not turn.agent_id]
            return turns[-1].results[-1] if len(turns) > 1 else None

        return until(look, f"the tool of {words} has a result", 30)

    def hooks(self) -> list[int]:
        """The processes of its hooks."""
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _is_hook(pid, self.id)]

    def is_over(self) -> None:
        """No dialog, no hook, at its prompt."""
        until(lambda: not self.hooks(), "its hook is gone", 10)
        self.claudes.idle(self.id)

    def shows(self, words: str) -> None:
        def look() -> bool:
            return words in self.claudes.tmux("capture-pane", "-p", "-t", f"=claude-{self.id}:")

        until(look, f"its terminal shows {words}", 30)


def _is_hook(pid: int, session_id: str) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            argv = file.read().split(b"\0")
        with open(f"/proc/{pid}/environ", "rb") as file:
            environ = file.read().split(b"\0")
    except OSError:  # it has ended, or is another user's
        return False
    # As a script its interpreter and options come first; the shell around it has all in one word.
    return argv[-3:] == [b"hook", b"claude", b""] and f"SM_SESSION_ID={session_id}".encode() in environ


@pytest.fixture(scope="module")
def shared() -> dict[str, Agent]:
    """Sessions that tests leave for the next one. As short-lived as the instance: tests of a module may be split."""
    return {}


@pytest.fixture
def agent(claudes: ClaudeInstance, api: ScriptedApi, shared: dict[str, Agent]) -> Agent:
    """A session at its empty prompt: that of the test before, where it is as it should be."""
    found = shared.get("agent")
    if found is None or claudes.session(found.id)["status"] != "idle" or found.hooks():
        found = shared["agent"] = Agent(claudes, api)
    return found


def asks(name: str, call: str) -> str:
    return f"{name} {call}[[then]][[text:so]]"


def test_permission_that_is_granted(claudes: ClaudeInstance, agent: Agent) -> None:
    request = agent.asks(asks("granted", COMPUTES))
    assert (request["kind"], request["tool"]) == ("permission", "Bash")
    assert request["arguments"]["command"] == "python3 -c 'print(6*7)'"
    assert claudes.sm("approve", request["request_id"]).startswith("Approved r")
    assert agent.result("granted") == (False, "42")
    done = agent.became(request)
    assert (done["answered_by"], done["answer"]["approved"]) == ("operator", True)
    agent.is_over()


def test_permission_that_is_refused_with_a_word(claudes: ClaudeInstance, agent: Agent) -> None:
    request = agent.asks(asks("refused", COMPUTES))
    claudes.sm("deny", request["request_id"], "count by hand")
    assert agent.result("refused") == (True, "operator said no: count by hand")
    assert agent.became(request)["answer"]["approved"] is False
    agent.is_over()


def test_question_that_is_answered_by_the_number_of_an_option(claudes: ClaudeInstance, agent: Agent) -> None:
    request = agent.asks(asks("numbered", tool("AskUserQuestion", questions=[COLOUR])))
    assert (request["kind"], request["options"]) == ("question", ["red", "blue"])
    claudes.sm("answer", request["request_id"], "2")
    failed, said = agent.result("numbered")
    assert not failed
    assert '"Which colour?"="blue"' in said
    agent.became(request)
    agent.is_over()


def test_several_questions_with_several_choices_and_words_of_ones_own(
    claudes: ClaudeInstance, agent: Agent
) -> None:
    request = agent.asks(asks("several", tool("AskUserQuestion", questions=[SIZES, NAME])))
    claudes.sm("answer", request["request_id"], "1, large", 'the "grey" one, \N{ROCKET}')
    failed, said = agent.result("several")
    assert not failed
    assert '"Which sizes?"="small, large"' in said
    assert '"Which name?"="the "grey" one, \N{ROCKET}"' in said
    agent.is_over()


def test_text_that_is_sent_answers_its_one_question(claudes: ClaudeInstance, agent: Agent) -> None:
    request = agent.asks(asks("sent-to", tool("AskUserQuestion", questions=[COLOUR])))
    assert request["request_id"] in claudes.sm("send", agent.id, "red")
    assert '"Which colour?"="red"' in agent.result("sent-to")[1]
    agent.is_over()


def test_second_answer_is_too_late(claudes: ClaudeInstance, agent: Agent) -> None:
    request = agent.asks(asks("twice", COMPUTES))
    claudes.sm("approve", request["request_id"])
    assert "answered by operator" in claudes.refused("deny", request["request_id"], exit_code=4)
    assert agent.result("twice") == (False, "42")
    agent.is_over()


def test_daemon_that_is_killed_in_the_middle(claudes: ClaudeInstance, agent: Agent) -> None:
    request = agent.asks(asks("killed-daemon", COMPUTES))
    hooks = agent.hooks()
    claudes.kill_daemon()
    claudes.start_daemon()
    claudes.sm("approve", request["request_id"])
    assert agent.result("killed-daemon") == (False, "42")
    assert agent.became(request)["answered_by"] == "operator"
    assert len(hooks) == 1
    agent.is_over()


def test_daemon_that_is_away_when_it_asks(claudes: ClaudeInstance, agent: Agent) -> None:
    claudes.kill_daemon()
    claudes.prompt(agent.id, asks("away-daemon", COMPUTES))
    agent.shows("Do you want to proceed?")
    claudes.start_daemon()
    request = agent.asked()
    claudes.sm("approve", request["request_id"])
    assert agent.result("away-daemon") == (False, "42")
    agent.is_over()
    assert [r["state"] for r in agent.requests() if r["state"] == "open"] == []


@pytest.mark.parametrize(("key", "runs"), [("Enter", True), ("Escape", False)])
def test_whoever_sits_there_may_be_first(claudes: ClaudeInstance, agent: Agent, key: str, runs: bool) -> None:
    request = agent.asks(asks(f"person-{key}", COMPUTES))
    agent.shows("Do you want to proceed?")
    claudes.keys(agent.id, key)
    done = agent.became(request)
    assert done["answered_by"] == "terminal"
    if runs:
        assert agent.result(f"person-{key}") == (False, "42")
    assert "terminal" in claudes.refused("approve", request["request_id"], exit_code=4)
    agent.is_over()


def test_question_that_whoever_sits_there_answers(claudes: ClaudeInstance, agent: Agent) -> None:
    request = agent.asks(asks("person-asked", tool("AskUserQuestion", questions=[COLOUR])))
    agent.shows("Which colour?")
    claudes.keys(agent.id, "Enter")
    assert '"Which colour?"="red"' in agent.result("person-asked")[1]
    assert agent.became(request)["answered_by"] == "terminal"
    agent.is_over()


def test_plan_that_is_approved(claudes: ClaudeInstance, api: ScriptedApi) -> None:
    session_id = claudes.spawn("Planner", asks("planned", tool("ExitPlanMode", plan="1. do it")))[
        "session_id"
    ]
    claudes.says(session_id, "waiting_input", "it asks to approve its plan")

    def of_plan() -> dict[str, Any] | None:
        found = [r for r in claudes.json("requests") if r["session_id"] == session_id]
        return found[0] if found else None

    request = until(of_plan, "its plan is a request")
    assert (request["kind"], request["tool"]) == ("permission", "ExitPlanMode")
    claudes.sm("approve", request["request_id"])
    turns = api.wait_for(
        lambda: turns if len(turns := [t for t in api.turns("planned") if t.results]) else None, "planned"
    )
    assert not turns[-1].results[-1][0]
    claudes.idle(session_id)
    claudes.sm("kill", session_id)


def test_permission_of_a_sub_agent(claudes: ClaudeInstance, api: ScriptedApi, agent: Agent) -> None:
    part = tool("Agent", description="d", prompt=asks("sub-part", COMPUTES), subagent_type="general-purpose")
    request = agent.asks(asks("sub-whole", part))
    assert request["tool"] == "Bash"
    claudes.sm("approve", request["request_id"])
    api.wait_for(
        lambda: [t for t in api.turns("sub-part") if t.agent_id and t.results == [(False, "42")]], "42"
    )
    agent.became(request)
    agent.is_over()


def test_two_that_ask_at_once_get_each_its_own_answer(
    claudes: ClaudeInstance, api: ScriptedApi, agent: Agent
) -> None:
    parts = "".join(
        tool(
            "Agent",
            description=name,
            prompt=asks(name, tool("Bash", command=f"python3 -c 'print({sum})'")),
            subagent_type="general-purpose",
        )
        for name, sum in (("part-one", "40+1"), ("part-two", "40+2"))
    )
    claudes.prompt(agent.id, asks("both-parts", parts))

    def both() -> dict[str, str] | None:
        found = {
            r["arguments"]["command"][-6:-2]: r["request_id"]
            for r in agent.requests()
            if r["state"] == "open"
        }
        return found if len(found) == 2 else None

    found = until(both, "two requests", 60)
    claudes.sm("approve", found["40+2"])
    claudes.sm("deny", found["40+1"], "no forty-one")

    def results(name: str) -> list[tuple[bool, str]]:
        return [result for turn in api.turns(name) if turn.agent_id for result in turn.results]

    api.wait_for(lambda: (False, "42") in results("part-two"), "the second has its result")
    api.wait_for(lambda: (True, "operator said no: no forty-one") in results("part-one"), "the first is told")
    agent.is_over()


def test_what_ends_beside_a_dialog_does_not_answer_it(
    claudes: ClaudeInstance, api: ScriptedApi, agent: Agent
) -> None:
    """Claude begins the tools of one message together: those that only read, and need no permission, end at once."""
    outside, inside = claudes.home / "outside.txt", claudes.work / "inside.txt"
    for file in (outside, inside):
        file.write_text(f"this is {file.name}\n")
    both = tool("Read", file_path=str(outside)) + tool("Read", file_path=str(inside))
    request = agent.asks(asks("beside", both))
    assert request["arguments"]["file_path"] == str(outside)
    until(lambda: "a tool is done" in str(claudes.why(agent.id)), "the other has ended")
    assert claudes.session(agent.id)["status"] == "waiting_input"
    claudes.sm("approve", request["request_id"])
    assert agent.became(request)["answered_by"] == "operator"
    agent.is_over()


def test_nobody_answers_in_time(claudes: ClaudeInstance, agent: Agent) -> None:
    request = agent.asks(asks("expired", COMPUTES))
    claudes.kill_daemon()
    with closing(sqlite3.connect(claudes.state / "sm.db")) as db, db:
        db.execute("UPDATE requests SET expires_at = '2020-01-01T00:00:00.000000Z' WHERE state = 'open'")
    claudes.start_daemon()
    agent.became(request, "expired")
    until(lambda: not agent.hooks(), "its hook is gone", 30)
    agent.shows("Do you want to proceed?")
    claudes.says(agent.id, "waiting_input", "it asks")
    claudes.keys(agent.id, "Enter")
    assert agent.result("expired") == (False, "42")
    agent.is_over()


def test_hook_that_was_killed_takes_no_answer(claudes: ClaudeInstance, agent: Agent) -> None:
    request = agent.asks(asks("killed-hook", COMPUTES))
    for pid in agent.hooks():
        os.kill(pid, signal.SIGKILL)
    assert f"sm attach {agent.id}" in claudes.refused("approve", request["request_id"], exit_code=4)
    agent.shows("Do you want to proceed?")
    claudes.keys(agent.id, "Enter")
    assert agent.became(request)["answered_by"] == "terminal"
    agent.is_over()


def test_claude_that_is_killed_leaves_no_hook(claudes: ClaudeInstance, api: ScriptedApi) -> None:
    agent = Agent(claudes, api)
    request = agent.asks(asks("killed-claude", COMPUTES))
    os.kill(claudes.session(agent.id)["pid"], signal.SIGKILL)
    until(lambda: not agent.hooks(), "its hook is gone", 5)
    assert agent.became(request, "cancelled")["answer"] is None


def test_interrupt_that_closes_a_dialog_says_so(claudes: ClaudeInstance, api: ScriptedApi) -> None:
    session_id = claudes.spawn(
        "Plain", f"interrupted-1 {tool('Bash', command='python3 -c pass')}[[then]][[text:never]]"
    )["session_id"]
    claudes.says(session_id, "waiting_input", "it asks for permission")
    (request,) = until(lambda: claudes.json("requests", session_id), "the request")
    claudes.sm("interrupt", session_id)
    until(lambda: not claudes.json("requests", session_id), "nothing is asked any more")
    assert "declined at its terminal (it was interrupted by operator)" in claudes.sm(
        "why", request["request_id"]
    )
