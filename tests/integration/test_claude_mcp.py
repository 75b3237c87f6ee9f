"""The real Claude Code with the tools of sm: it sees them, needs permission for some, and coordinates with them."""

import json
import re
from typing import Any

import pytest

from tests.claude_fixtures import claude_instance, scripted_api
from tests.claude_instance import ClaudeInstance, calling_session
from tests.instance import until
from tests.integration.test_claude_capabilities import WAIT, workspace, write_servers, write_user_servers
from tests.integration.test_claude_start import request_with_results, then
from tests.integration.test_claude_team import describe
from tests.scripted_api import Request, ScriptedApi, tool
from tests.waits import explained

AGENTS = """
    Lead: {args: ["--allowedTools", "mcp__sm__create_session"], tools: [Read]}
    Allowed: {auto_allow: ["mcp__sm__create_session"]}
    Without: {mcp: false}
"""
WAITER = "Wait for the question."
ASK = "until [ -e asked ]; do sleep 0.1; done; sm ask 'which colour?' --option red --option blue --wait 600"
LEAD = "Lead the work with your tools."
WORK = "Work with your tools."
TASK = {"title": "Part 1", "agent_name": "Plain", "initial_message": WORK}
SHELL_TASK = {"title": "Part 1", "agent_name": "Sh", "initial_message": "sleep 1000"}


def use(name: str, **arguments: Any) -> str:
    return tool(f"mcp__sm__{name}", **arguments)


def lead(request: Request) -> str | None:
    """A model that starts a child with its tools, ends its turn, and completes when it hears of the child's end."""
    if not request.user_texts[0].startswith(LEAD):
        return None
    done = [
        name
        for (name, _), (failed, _) in zip(request.tool_calls, request.results, strict=False)
        if not failed
    ]
    if "mcp__sm__create_session" not in done:
        return use("create_session", **TASK)
    notices = "\n".join(text for text in request.user_texts if text.startswith("[sm] from sm, message "))
    if "mcp__sm__complete_session" not in done and re.search(
        r"completed: .*the part is done", notices, re.DOTALL
    ):
        return use("complete_session", message="all is done")
    return "[[text:I wait]]"


def worker(request: Request) -> str | None:
    if request.user_texts[0].strip() != WORK:
        return None
    steps = (
        WAIT,
        use("report_checkpoint", message="half (1/2 tasks)"),
        use("complete_session", message="the part is done"),
    )
    done = len(request.results)
    return steps[done] if done < len(steps) else "[[text:that was all]]"


def waiter(request: Request) -> str | None:
    """A model that starts a child, waits for the child, and completes with the result of the wait."""
    if request.user_texts[0].strip() != WAITER:
        return None
    child = {"title": "Part 1", "agent_name": "Sh", "initial_message": ASK}
    steps = (WAIT, use("create_session", **child), use("wait_for_sessions", timeout_s=3600))
    done = len(request.results)
    if done < len(steps):
        return steps[done]
    if done == len(steps):
        (asked,) = json.loads(request.results[-1][1])["requests"]
        return use("complete_session", message=f"{asked['request_id']}: {asked['questions'][0]['question']}")
    return "[[text:that was all]]"


api = scripted_api("function", lead, worker, waiter)
claudes = claude_instance("function", more=AGENTS)


def tools_of(request: Request) -> set[str]:
    return {
        tool["name"].removeprefix("mcp__sm__")
        for tool in request.body["tools"]
        if "mcp__sm__" in tool["name"]
    }


@pytest.mark.timeout(300)
def test_coordinator_delegates_and_completes_with_tools_alone(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    parent = claudes.spawn("Lead", LEAD)["session_id"]
    with explained(lambda: describe(claudes, api)):
        until(lambda: claudes.session(parent)["status"] == "completed", "the coordinator completes")
    assert claudes.session(parent)["completion_message"] == "all is done"
    (child,) = claudes.json("children", parent)
    assert (child["status"], child["completion_message"]) == ("completed", "the part is done")
    assert (child["title"], child["parent_session_id"], child["created_by"]) == (
        "Part 1",
        parent,
        f"session:{parent}",
    )
    turns = [turn for turn in api.turns() if calling_session(turn) == parent]
    assert {"create_session", "complete_session"} <= tools_of(turns[-1])
    assert "Bash" not in {name for turn in turns for name, _ in turn.tool_calls}
    first = next(turn for turn in api.turns() if calling_session(turn) == child["session_id"])
    assert first.user_texts[0].strip() == WORK
    checkpoints = claudes.json("checkpoints", child["session_id"])
    assert [point["message"] for point in checkpoints] == ["half (1/2 tasks)"]


def test_waiting_claude_gets_the_question_of_its_child_when_the_daemon_was_killed(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    parent = claudes.spawn("Allowed", WAITER)["session_id"]
    claudes.says(parent, "running", "waits for 1 session")
    (child,) = claudes.json("children", parent)
    named = f"waits for 1 session: {child['name']} (running)"
    assert claudes.progress(parent)["current_activity"] == named
    assert "waits for 1 session" in claudes.sm("why", parent)
    assert "waits for 1 session" in claudes.sm("ls")
    assert "(wait: waits for 1 session)" in claudes.sm("status", parent)
    claudes.kill_daemon()
    claudes.start_daemon()
    (claudes.work / "asked").touch()
    until(lambda: claudes.session(parent)["status"] == "completed", "the wait tells the question")
    (request,) = claudes.json("requests")
    told = f"{request['request_id']}: which colour?"
    assert claudes.session(parent)["completion_message"] == told
    turn = [turn for turn in api.turns() if calling_session(turn) == parent][-1]
    assert turn.user_texts[1:] == [], "no notice repeats the question"


@pytest.mark.claude_core
def test_first_request_has_the_tools_of_all_later_ones(claudes: ClaudeInstance, api: ScriptedApi) -> None:
    """sm holds a prompt for some seconds at most: on a busy machine an agent begins without tools, and sm says so."""
    for number in range(3):
        prompt = f"Note {number}. {then(use('report_note', text='begun'), '[[text:over]]')}"
        session = claudes.spawn("Plain", prompt)
        last = request_with_results(api, f"Note {number}.", 1)
        turns = [turn for turn in api.turns() if calling_session(turn) == session["session_id"]]
        facts = [f for f in claudes.why(session["session_id"])["facts"] if "tools of sm" in f]
        has_tools = "report_note" in tools_of(turns[0])
        assert has_tools is (not facts)
        if has_tools:
            assert not last.results[0][0]
            # A request with other tools cannot use the prompt cache of the one before.
            assert [turn.tools for turn in turns] == [last.tools] * len(turns)
            return
    raise AssertionError("three agents began without the tools")


def test_resumed_claude_has_the_tools_in_its_first_request(claudes: ClaudeInstance, api: ScriptedApi) -> None:
    session = claudes.spawn("Plain", "Say hello. [[text:hello]]")["session_id"]
    claudes.idle(session)
    claudes.sm("kill", session)
    claudes.sm("restore", session)
    claudes.sm("send", session, "Go on. [[text:gone on]]")
    turn = api.wait_for(lambda: next(iter(api.turns("Go on.")), None), "the turn of the message")
    assert "report_note" in tools_of(turn)


def test_tools_that_report_and_read_need_no_permission(claudes: ClaudeInstance, api: ScriptedApi) -> None:
    calls = (
        use("report_note", text="testing"),
        use("report_checkpoint", message="begun"),
        use("list_workspace_sessions"),
        use("get_progress"),
        use("list_agent_types"),
    )
    session = claudes.spawn("Plain", f"Look around. {then(WAIT, *calls, '[[text:over]]')}")["session_id"]
    results = request_with_results(api, "Look around.", 1 + len(calls)).results[1:]
    assert [failed for failed, _ in results] == [False] * len(calls), results
    assert claudes.session(session)["note"] == "testing"
    assert json.loads(results[2][1])["sessions"][0]["session_id"] == session, "the structured content"


@pytest.mark.claude_core
def test_tool_that_starts_an_agent_asks_unless_a_rule_allows_it(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    asked, allowed = (
        claudes.spawn(
            agent,
            f"Delegate as {agent}. {then(WAIT, use('create_session', **SHELL_TASK), '[[text:over]]')}",
        )["session_id"]
        for agent in ("Plain", "Allowed")
    )
    assert not request_with_results(api, "Delegate as Allowed.", 2).results[1][0]
    (request,) = until(lambda: claudes.get("/v1/requests"), "the request")
    assert (request["session_id"], request["tool"]) == (asked, "mcp__sm__create_session")
    claudes.sm("deny", request["request_id"], "not now")
    assert request_with_results(api, "Delegate as Plain.", 2).results[1][0]
    assert claudes.json("children", asked) == []
    assert len(claudes.json("children", allowed)) == 1


def test_server_of_another_is_replaced_in_every_file(claudes: ClaudeInstance, api: ScriptedApi) -> None:
    other = {"command": "false"}
    write_user_servers(claudes, sm=other)
    directory = workspace(claudes, "red", "--strict-mcps", agreed=False, sm=other)
    write_servers(claudes.work, sm=other)
    for place in (("--workspace", "red"), ("--working-dir", str(claudes.work))):
        prompt = f"Look around in {place[1]}."
        script = then(WAIT, use("get_progress"), "[[text:over]]")
        spawned = claudes.spawn("Plain", f"{prompt} {script}", *place)
        assert any("MCP server sm of" in warning for warning in spawned["warnings"]), directory
        assert not request_with_results(api, prompt, 2).results[1][0]


def test_agent_type_without_mcp_has_no_tools(claudes: ClaudeInstance, api: ScriptedApi) -> None:
    session = claudes.spawn("Without", "Look around. [[tool:Bash:sm note x]][[then]][[text:over]]")[
        "session_id"
    ]
    request = request_with_results(api, "Look around.", 1)
    assert tools_of(request) == set()
    assert "mcp__sm" not in request.system
    assert not (claudes.state / "launch" / f"{session}.mcp.json").exists()
