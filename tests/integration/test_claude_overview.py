"""`sm ls`, and the notice of an ended turn, with the real Claude Code."""

from typing import Any

from tests.claude_fixtures import claude_instance, scripted_api
from tests.claude_instance import ClaudeInstance
from tests.instance import until
from tests.scripted_api import ScriptedApi, tool

QUESTION = [
    {
        "question": "Which colour?",
        "header": "Colour",
        "multiSelect": False,
        "options": [{"label": "red", "description": "r"}, {"label": "blue", "description": "b"}],
    }
]

api = scripted_api("module")
claudes = claude_instance("module")


def rows(claudes: ClaudeInstance, *options: str) -> dict[str, dict[str, Any]]:
    """The listed sessions by their names, in the order of the list."""
    listed = {row["session_id"]: row for row in claudes.json("ls", *options)}
    return {listed[i]["friendly_name"]: listed[i] for i in claudes.sm("ls", "-q", *options).split()}


def idle_notices(claudes: ClaudeInstance) -> list[str]:
    """The entries about ended turns in the operator's inbox."""
    lines = [line for message in claudes.get("/v1/inbox") for line in message["text"].split("\n")]
    return [line for line in lines if "is idle after its turn" in line]


def test_ls_shows_requests_activity_and_last_words_of_agents(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    usage = "[[usage:input=5000,output=2000]]"
    claudes.spawn("Editor", f"[[text:All 26 tests pass.]]{usage}", "--name", "done")
    busy = claudes.spawn(
        "Editor", f"{tool('Bash', command='echo a; sleep 100')}[[then]][[text:x]]", "--name", "busy"
    )
    asks = claudes.spawn(
        "Plain", f"{tool('AskUserQuestion', questions=QUESTION)}[[then]][[text:ok]]", "--name", "asks"
    )
    needs = claudes.spawn(
        "Plain", f"{tool('Bash', command='touch /tmp/x')}[[then]][[text:y]]", "--name", "needs"
    )
    claudes.says(asks["session_id"], "waiting_input", "claude asks")
    claudes.says(needs["session_id"], "waiting_input", "claude asks")

    def complete() -> bool:
        found = {row["friendly_name"]: row for row in claudes.get("/v1/overview")}
        tasks = {name: row["task_kind"] for name, row in found.items()}
        wanted = {"editor-done": "answer", "editor-busy": "activity"}
        wanted |= {"plain-asks": "request", "plain-needs": "request"}
        # claude writes its last words before the hook that ends the turn.
        return tasks == wanted and found["editor-done"]["status"] == "idle"

    until(complete, "the task of each agent, and the end of one turn")
    found = rows(claudes)
    assert list(found) == ["plain-asks", "plain-needs", "editor-busy", "editor-done"]
    assert found["editor-done"]["task"] == "All 26 tests pass."
    assert found["editor-done"]["cost_usd"] > 0
    assert found["editor-done"]["context_percent"] > 0
    assert found["editor-busy"]["task"] == "Bash: echo a; sleep 100"
    question, permission = found["plain-asks"], found["plain-needs"]
    assert question["task"] == f"{question['requests'][0]} asks: Which colour?"
    assert permission["task"] == f"{permission['requests'][0]} wants Bash: touch /tmp/x"
    claudes.sm("kill", busy["session_id"], asks["session_id"], needs["session_id"])
    assert list(rows(claudes)) == ["editor-done"]
    assert set(rows(claudes, "-a")) == {"editor-done", "editor-busy", "plain-asks", "plain-needs"}
    until(lambda: idle_notices(claudes), "the notice of the ended turn, which no later test may get")


def test_operator_is_told_the_last_words_of_a_turn_without_sm_complete_once(
    claudes: ClaudeInstance,
) -> None:
    claudes.sm("inbox", "--take")
    words = "I changed three files."
    session = claudes.spawn("Editor", f"[[text:{words}]]")
    expected = f'session {session["name"]} ({session["session_id"]}) is idle after its turn: "{words}"'
    expected += " (untrusted)" if claudes.container else ""
    until(lambda: idle_notices(claudes) == [expected], "the notice of the turn")
    done = claudes.spawn("Editor", f"{tool('Bash', command='sm complete ready')}[[then]][[text:bye]]")
    until(lambda: any(done["session_id"] in m["text"] for m in claudes.get("/v1/inbox")), "its completion")
    silent = claudes.spawn("Editor")
    claudes.idle(silent["session_id"])
    parent = claudes.spawn("Sh", "sm inbox --take --wait; exec sleep 1000")
    child = claudes.spawn("Editor", "[[text:to my parent]]", "--parent", parent["session_id"])
    until(
        lambda: any(
            "to my parent" in m["text"] for m in claudes.get("/v1/messages", session=parent["session_id"])
        ),
        "the parent's notice",
    )
    assert idle_notices(claudes) == [expected]
    claudes.sm("kill", "--force", *(s["session_id"] for s in (session, done, silent, child, parent)))
