"""Calls and commands as agents and people write them: none is refused for its form, and none is taken wrongly."""

import shlex
from typing import Any

import pytest

from tests.fixtures import context_fixture
from tests.played.mcp.mcp_client import CONFIG, McpSession
from tests.sim.stage import Instance

LIMITS = CONFIG.replace(
    "spawn_interval_s: 0",
    "spawn_interval_s: 0, max_children: 100, max_per_workspace: 100, operator_messages_per_minute: 100",
)
instance = context_fixture("function", Instance, LIMITS)

TASK = {"agent_name": "Sleeper", "initial_message": "x"}
SPAWNS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    *[
        ({**TASK, "title": title}, {"title": title.strip()})
        for title in (
            "Fix login — part 2",
            "Build, test & ship",
            "api/v2: migrate",
            "What's wrong with 'x'?",
            "50% faster",
            "[WIP] thing",
            "日本語、テスト",
            "**Fix** `login`",
            "Fix the login\n",
        )
    ],
    ({**TASK, "title": "T", "agent_name": "sleeper"}, {"agent_name": "Sleeper"}),
    ({**TASK, "title": "T", "agent_name": "`Sleeper`"}, {"agent_name": "Sleeper"}),
    ({**TASK, "title": "T", "name": "Login Fix"}, {"name": "sleeper-login-fix"}),
    ({**TASK, "title": "T", "name": "login"}, {"name": "sleeper-login-2"}),
    ({**TASK, "title": "T", "name": None, "model": None, "budget": "", "restart": None}, {"title": "T"}),
    ({**TASK, "title": "T", "lifecycle": "Supervised", "restart": "On_Failure"}, {"title": "T"}),
    ({**TASK, "title": "T", "budget": "$5"}, {"title": "T"}),
    ({**TASK, "title": "T", "budget": "USD: 5; 90 minutes"}, {"title": "T"}),
    ({**TASK, "title": "T", "budget": {"usd": 5}}, {"title": "T"}),
    ({**TASK, "title": "T", "working_dir": "."}, {"title": "T"}),
    ({**TASK, "title": "T", "working_dir": "~\n"}, {"title": "T"}),
    ({"title": "T", "agentName": "Sleeper", "initialMessage": "x"}, {"agent_name": "Sleeper"}),
    ({"title": "T", "agent_type": "Sleeper", "prompt": "x"}, {"agent_name": "Sleeper"}),
]
"""Arguments of `create_session`, and members of its result."""

RECIPIENTS = ("{id}", "#{id}", "`{id}`", " {id}\n", "login", "Sleeper-Login", "@login", "sleeper-login ({id})",
              "session {id}", "{id}:")  # fmt: skip
"""Names of one session."""

COMMANDS: list[tuple[str, int, str]] = [
    ("send a hello there you", 3, "quote the text: sm send a 'hello there you'"),
    ("spawn Engineer fix the login", 2, "quote the text: sm spawn Engineer 'fix the login'"),
    ("spawn sleeper 'fix the login'", 0, "Spawned sleeper-"),
    ("sessions", 2, "did you mean ls or all?"),
    ("session", 2, "did you mean ls or all or status?"),
    ("tree", 2, "did you mean all?"),
    ("message a hi", 2, "did you mean send?"),
    ("get a", 2, "did you mean status?"),
    ("view a", 2, "did you mean status or output?"),
    ("describe a", 2, "did you mean status or what?"),
    ("find x", 2, "did you mean search?"),
    ("mail", 2, "did you mean inbox?"),
    ("killall", 2, "did you mean kill --all?"),
    ("clone a", 2, "did you mean fork?"),
    ("cleanup", 2, "did you mean prune?"),
    ("config show", 2, "did you mean config?"),
    ("workspaces", 2, "did you mean workspace?"),
    ("agent", 2, "did you mean agents"),
    ("request", 2, "did you mean requests"),
    ("budget a usd=5", 2, "hint: sm budget a --set usd=5"),
    ("budget a --set '$5'", 0, "sleeper-a: usd=5"),
    ("status '#a'", 0, "sleeper-a"),
    ("status '`sleeper-a`'", 0, "sleeper-a"),
    ("approve 1", 3, "a request has an r before its number: r1"),
    ("events --since yesterday", 0, "spawned"),
    ("events --since '2 hours ago'", 0, "spawned"),
    ("events --since 1h30m", 0, "spawned"),
    ("events --since 9am", 0, "spawned"),
    ("pause a --for '30 min'", 0, "sleeper-a"),
    ("resume a", 0, "sleeper-a"),
    ("pause a --until 6am", 0, "sleeper-a"),
    ("resume a", 0, "sleeper-a"),
    ("send --wait 1s a hi", 10, "not taken from the inbox yet"),
    ("send --ttl 1h --no-wait a hi", 0, "queued"),
    ("wait a --until done --timeout 1s", 10, ""),
    ("all --status Running", 0, "sleeper-a"),
    ("all --status failed", 0, ""),
]
"""Commands of the operator, with their exit code, and words of the output or of the error."""


AGENT_COMMANDS: list[tuple[str, int, str]] = [
    ("note running the tests", 0, "Note recorded"),
    ("note '- fix the form; then (3/5)'", 0, "Note recorded"),
    ("note 'it costs $5'", 0, "Note recorded"),
    ("note 日本語、テスト", 0, "Note recorded"),
    ("checkpoint half done now", 0, "Checkpoint recorded"),
    ("checkpoint 'one (1/3)' --metadata tests=12 files=3", 0, "Checkpoint recorded"),
    ("checkpoint x --metadata '{\"tests\": 12}'", 0, "Checkpoint recorded"),
    ("ask which colour is best?", 0, "Asked (r1)"),
    ("ask which? red blue", 2, "quote the text: sm ask 'which? red blue'"),
    ("send Parent hi --no-wait", 0, "queued"),
    ("send operator 'half is done'", 0, "is in the operator's inbox"),
    ("send operator half is done", 3, "quote the text: sm send operator 'half is done'"),
    ("spawn sleeper 'write it down'", 0, "Spawned sleeper-"),
    ("whoami", 2, "did you mean me?"),
    ("report done", 2, "did you mean checkpoint or complete?"),
    ("wait '#kid' --timeout 1s --until Done", 10, "did not reach"),
    ("complete --status success all tests pass", 0, "Session marked complete"),
]
"""Commands of an agent."""


def answer(session: McpSession, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The structured result of a call, with `refused` true for an error."""
    response = session.request("tools/call", {"name": tool, "arguments": arguments})
    assert "result" in response, (tool, arguments, response)
    return {**response["result"]["structuredContent"], "refused": response["result"]["isError"]}


def test_no_call_of_an_agent_is_refused_for_its_form_or_taken_wrongly(instance: Instance) -> None:
    lead = McpSession(instance)
    child = instance.spawn("Sleeper", "x", "--parent", lead.id, "--name", "login")["session_id"]
    asker = McpSession(instance, "--parent", lead.id)
    calls: list[tuple[McpSession, str, dict[str, Any], dict[str, Any]]] = [
        (lead, "create_session", given, taken) for given, taken in SPAWNS
    ]

    def say(**more: Any) -> dict[str, Any]:
        return {"session_id": child, "message": "hi", "wait_s": 0, **more}

    calls += [
        (lead, "send_message", say(session_id=form.format(id=child)), {"session_id": child})
        for form in RECIPIENTS
    ]
    calls += [
        (lead, "send_message", say(session_id=[child]), {"session_id": child}),
        (lead, "send_message", say(wait_s="0", mode="Idle", answer=None), {"status": "queued"}),
        (lead, "send_message", say(wait_s=0.5, mode="", answer="false"), {"status": "queued"}),
        (lead, "send_message", say(message="```\ncode\n```\n"), {"message_length": 13}),
        (lead, "send_message", say(message=["a", "b"]), {"message_length": 3}),
        (asker, "send_message", say(session_id="Parent"), {"session_id": lead.id}),
        (asker, "send_message", say(session_id="operator"), {"reason": "in the operator's inbox, not read yet"}),
        (lead, "wait_for_sessions", {"session_ids": child, "timeout_s": "1"}, {"reached": False}),
        (lead, "wait_for_sessions", {"session_ids": f'["{child}"]', "timeout_s": 1, "any": "true"}, {"reached": False}),
        (lead, "wait_for_sessions", {"session_ids": f"{child}, login", "timeout_s": 0}, {"reached": False}),
        (lead, "wait_for_sessions", {"session_ids": [], "timeout_s": 1, "until": "done"}, {"reached": False}),
        (lead, "wait_for_sessions", {"session_ids": None, "timeout_s": 1, "until": None}, {"reached": False}),
        (lead, "report_note", {"text": "x" * 300}, {"warnings": ["note: cut to 200 characters"]}),
        (lead, "report_note", {"text": "a\nb"}, {"warnings": ["note: put on one line"]}),
        (lead, "report_note", {"text": None}, {}),
        (lead, "report_checkpoint", {"message": "x" * 20_000, "metadata": None}, {}),
        (lead, "report_checkpoint", {"message": "done", "metadata": '{"tests": 12}'}, {}),
        (lead, "report_checkpoint", {"message": 12, "metadata": "12 tests"}, {}),
        (lead, "read_session_output", {"session_id": child, "lines": "20", "what": "Screen"}, {"session_id": child}),
        (lead, "read_session_output", {"session_id": child, "lines": 500},
         {"warnings": ["lines: 200, the most that is allowed"]}),
        (lead, "get_progress", {"session_id": None, "tree": 0}, {"session_id": lead.id}),
        (lead, "list_workspace_sessions", {"status": "", "search": "", "include_ended": "no"}, {}),
        (lead, "list_requests", {"session_id": ""}, {}),
        (lead, "list_agent_types", {}, {}),
    ]  # fmt: skip
    wrong = []
    for session, tool, given, taken in calls:
        got = answer(session, tool, given)
        if got["refused"] or {key: got.get(key) for key in taken} != taken:
            wrong.append((tool, given, got))
    for request, given_answer in [
        ("{r}", ["1"]), ("{R}", "1"), ("#{r}", 1), ("#{n}", ["Red"]), ("`{r}`", ["red\n"]), ("request {r}", ["`red`"]),
        ("{r}:", ["1. red"]), ("{n}", ["option 1"]), ("{r}", '["red"]'), ("{r}", ["red."]),
    ]:  # fmt: skip
        asked = answer(asker, "ask", {"question": "colour?", "options": [{"label": "red"}, "blue\n"]})[
            "request_id"
        ]
        name = request.format(r=asked, R=asked.upper(), n=asked[1:])
        got = answer(lead, "answer_request", {"request_id": name, "answers": given_answer})
        if got["refused"] or got["answer"]["answers"] != ["red"]:
            wrong.append(("answer_request", {"request_id": name, "answers": given_answer}, got))
    assert wrong == []
    ended = [("Completed", "completed"), ("done", "completed"), ("failed", "error"), (None, "completed")]
    for status, recorded in ended:
        got = answer(McpSession(instance), "complete_session", {"message": "x" * 20_000, "status": status})
        assert (got["refused"], got["status"]) == (False, recorded), status


@pytest.mark.parametrize(("commands", "is_agent"), [(COMMANDS, False), (AGENT_COMMANDS, True)])
def test_no_command_is_refused_for_its_form_or_taken_wrongly(
    instance: Instance, commands: list[tuple[str, int, str]], is_agent: bool
) -> None:
    parent = instance.spawn("Sleeper", "x")["session_id"]
    agent = instance.spawn("Sleeper", "x", "--name", "a", "--parent", parent)["session_id"]
    instance.spawn("Sleeper", "x", "--name", "kid", "--parent", agent)
    wrong = []
    for line, code, words in commands:
        ended = instance.run(*shlex.split(line), env=instance.as_session(agent) if is_agent else None)
        if ended.returncode != code or words not in ended.stdout + ended.stderr:
            wrong.append((line, ended.returncode, ended.stdout, ended.stderr))
    assert wrong == []


def test_answer_without_a_word_denies_nothing(instance: Instance) -> None:
    lead = McpSession(instance)
    asker = McpSession(instance, "--parent", lead.id)
    asked = asker.call("ask", question="colour?", options=["red", "blue"])["request_id"]
    wordless: list[dict[str, Any]] = [
        {"answers": []},
        {"answers": None},
        {"answers": [""]},
        {"message": "red"},
    ]
    for values in [*wordless, {"approve": None}]:
        refused = lead.refused("answer_request", request_id=asked, **values)
        assert "nothing to answer with" in refused["message"]
    assert asker.call("list_requests")["requests"][0]["request_id"] == asked
