"""First-start dialogs of the real Claude Code, answered as requests."""

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.claude_fixtures import claude_instance, scripted_api
from tests.claude_instance import ClaudeInstance
from tests.instance import until
from tests.scripted_api import ScriptedApi

BYPASS_QUESTION = "Allow agents of Claude Code to bypass permissions and run every command without asking?"
CONFIG = """
sessions: {inherit_environment_vars: [PATH, ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL, CLAUDE_CONFIG_DIR, IS_SANDBOX]}
"""

api = scripted_api("module")
claudes = claude_instance("module", more=CONFIG)


def waiting(
    claudes: ClaudeInstance, env: Mapping[str, str], prompt: str, *arguments: str, agent: str = "Plain"
) -> dict[str, Any]:
    """Spawn an agent that waits in a first-start dialog, and return the request for the dialog."""
    session = claudes.spawn(agent, prompt, "--skip-checks", *arguments, env=env)
    return opened(claudes, session["session_id"])


def opened(claudes: ClaudeInstance, session_id: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        requests = claudes.get("/v1/requests")
        return next((r for r in requests if r["session_id"] == session_id), None)

    return until(look, "the dialog is a request")


def request(claudes: ClaudeInstance, name: str) -> dict[str, Any]:
    found: dict[str, Any] = claudes.get(f"/v1/requests/{name}")
    return found


def is_trusted(env: Mapping[str, str], directory: Path) -> bool:
    state = json.loads((Path(env["CLAUDE_CONFIG_DIR"]) / ".claude.json").read_text())
    entry = state.get("projects", {}).get(str(directory), {})
    return entry.get("hasTrustDialogAccepted") is True


def test_approval_of_a_trust_dialog_starts_the_agent(
    claudes: ClaudeInstance, api: ScriptedApi, tmp_path: Path
) -> None:
    env = claudes.other_home("approves", trusted=False)
    asked = waiting(claudes, env, "Once trusted [[text:hello]]", "--working-dir", str(tmp_path))
    question = f"Trust {tmp_path} for Claude Code?"
    name, session_id = asked["request_id"], asked["session_id"]
    assert (asked["kind"], asked["tool"], asked["expires_at"]) == ("setup", None, None)
    assert asked["questions"][0]["question"] == question
    assert asked["arguments"] == {"dialog": "trust", "directory": str(tmp_path)}
    assert f'"{question}" - sm approve {name}, or: sm deny {name}' in claudes.sm("requests")
    assert "sm approve lets the agent start" in claudes.sm("requests", name)
    assert f"{name} {question}" in claudes.sm("ls")
    assert "not answered yet" in claudes.sm("why", name)
    notice = f'"{question}"; answer with: sm approve {name}'
    until(lambda: notice in str(claudes.get("/v1/inbox")), "the operator is told")
    assert not is_trusted(env, tmp_path)

    output = claudes.sm("approve", name)
    assert output == f"Approved {name} of {asked['label']}: its dialog is answered, the agent starts\n"
    assert is_trusted(env, tmp_path)
    claudes.idle(session_id)
    assert [turn.prompt for turn in api.turns("Once trusted")] == ["Once trusted [[text:hello]]"]
    answered = request(claudes, name)
    assert (answered["state"], answered["answered_by"]) == ("answered", "operator")
    assert "was answered by operator" in claudes.refused("approve", name, exit_code=4)
    claudes.sm("kill", session_id)


def test_only_the_operator_may_answer_a_first_start_dialog(claudes: ClaudeInstance, tmp_path: Path) -> None:
    env = claudes.other_home("only-operator", trusted=False)
    output = claudes.home / "attempts"
    lines = (
        f"sm spawn Plain hi --name child --skip-checks --working-dir {tmp_path} --json > {output}.child",
        "until sm requests | grep -q setup; do sleep 0.2; done",
        f"for verb in approve deny; do sm $verb plain-child > {output}.$verb 2>&1; echo $? >> {output}.$verb; done",
        f"touch {output}.over; exec sleep 1000",
    )
    parent = claudes.spawn("Sh", "; ".join(lines), env=env)["session_id"]
    until(Path(f"{output}.over").exists, "the parent has tried")
    child = json.loads(Path(f"{output}.child").read_text())["session_id"]
    for verb in ("approve", "deny"):
        refusal = Path(f"{output}.{verb}").read_text()
        assert f"session {parent} may not answer the first-start dialog of session plain-child" in refusal
        assert refusal.endswith("\n5\n")
    assert opened(claudes, child)["answer"] is None
    assert not is_trusted(env, tmp_path)
    assert claudes.session(child)["status"] == "waiting_input"
    claudes.sm("kill", "--tree", parent)


def test_denial_of_a_trust_dialog_ends_the_agent(
    claudes: ClaudeInstance, api: ScriptedApi, tmp_path: Path
) -> None:
    env = claudes.other_home("denies", trusted=False)
    asked = waiting(claudes, env, "Never", "--working-dir", str(tmp_path))
    name, session_id = asked["request_id"], asked["session_id"]
    output = claudes.sm("deny", session_id, "not my project")
    assert output == f"Denied {name} of {asked['label']}: the agent has been ended\n"
    assert claudes.session(session_id)["status"] == "killed"
    answered = request(claudes, name)
    assert (answered["state"], answered["answer"]["approved"]) == ("answered", False)
    assert not is_trusted(env, tmp_path)
    assert not api.turns("Never")


@pytest.mark.claude_core
def test_trust_dialog_and_bypass_warning_are_two_requests(
    claudes: ClaudeInstance, api: ScriptedApi, tmp_path: Path
) -> None:
    env = {**claudes.other_home("bypasses", trusted=False), "IS_SANDBOX": "1"}
    asked = waiting(claudes, env, "Bypassing", "--working-dir", str(tmp_path), agent="Bypass")
    session_id = asked["session_id"]
    claudes.sm("approve", asked["request_id"])
    second = opened(claudes, session_id)
    assert second["questions"][0]["question"] == BYPASS_QUESTION
    # The other option, `No, exit`, is selected first.
    claudes.sm("approve", second["request_id"])
    claudes.idle(session_id)
    settings = json.loads((Path(env["CLAUDE_CONFIG_DIR"]) / "settings.json").read_text())
    assert settings["skipDangerousModePermissionPrompt"] is True
    assert len(api.turns("Bypassing")) == 1
    claudes.sm("kill", session_id)


def test_restore_sends_the_prompt_of_an_agent_that_was_killed_in_a_dialog_exactly_once(
    claudes: ClaudeInstance, api: ScriptedApi, tmp_path: Path
) -> None:
    env = claudes.other_home("restored", trusted=False)
    prompt = "Sent by restore [[text:so]]"
    session_id = waiting(claudes, env, prompt, "--working-dir", str(tmp_path))["session_id"]
    claudes.sm("kill", session_id)
    claudes.sm("restore", session_id, "--continue")
    claudes.sm("approve", opened(claudes, session_id)["request_id"])
    claudes.idle(session_id)
    assert [turn.prompt for turn in api.turns("Sent by restore")] == [prompt]
    assert not api.turns("Your process ended during your last turn")

    claudes.sm("kill", session_id)
    claudes.sm("restore", session_id)
    claudes.idle(session_id)
    claudes.sm("send", session_id, "Next [[text:done]]")
    until(lambda: api.turns("Next "), "the restored agent takes a message")
    assert [turn.prompt for turn in api.turns("Sent by restore")] == [prompt]
    claudes.sm("kill", session_id)


def test_sm_trust_lets_the_agents_go_on_that_wait_in_the_directory(
    claudes: ClaudeInstance, api: ScriptedApi, tmp_path: Path
) -> None:
    env = claudes.other_home("by-command", trusted=False)
    for name in ("shop", "shop/below", "shop-2"):
        (tmp_path / name).mkdir()
    places = [tmp_path / "shop", tmp_path / "shop/below", tmp_path / "shop-2"]
    asked = [waiting(claudes, env, f"In {p.name} [[text:so]]", "--working-dir", str(p)) for p in places]
    output = claudes.sm("trust", str(tmp_path / "shop"), env=env)
    for request_here in asked[:2]:
        session_id = request_here["session_id"]
        assert f" ({session_id}) goes on ({request_here['request_id']})\n" in output
        claudes.idle(session_id)
    assert asked[2]["session_id"] not in output
    assert [len(api.turns(f"In {p.name} ")) for p in places] == [1, 1, 0]
    assert request(claudes, asked[2]["request_id"])["state"] == "open"
    assert claudes.json("trust", str(tmp_path / "shop"), env=env)["answered"] == []
    claudes.sm("kill", *(a["session_id"] for a in asked))


def test_sm_trust_with_bypass_lets_an_agent_go_on_that_waits_in_both_dialogs(
    claudes: ClaudeInstance, api: ScriptedApi, tmp_path: Path
) -> None:
    env = {**claudes.other_home("both", trusted=False), "IS_SANDBOX": "1"}
    asked = waiting(claudes, env, "In both [[text:so]]", "--working-dir", str(tmp_path), agent="Bypass")
    output = claudes.sm("trust", str(tmp_path), "--bypass", env=env)
    assert f" ({asked['session_id']}) goes on ({asked['request_id']})\n" in output
    claudes.idle(asked["session_id"])
    assert len(api.turns("In both")) == 1
    claudes.sm("kill", asked["session_id"])


def test_request_is_closed_when_a_person_answers_the_dialog(claudes: ClaudeInstance, tmp_path: Path) -> None:
    env = claudes.other_home("by-hand", trusted=False)
    asked = waiting(claudes, env, "By hand", "--working-dir", str(tmp_path))
    name, session_id = asked["request_id"], asked["session_id"]
    claudes.trust_by_key(session_id)
    claudes.idle(session_id)
    until(lambda: request(claudes, name)["state"] == "answered", "the request is closed")
    assert request(claudes, name)["answered_by"] == "terminal"
    assert not [n for n in claudes.json("inbox") if name in n["text"]]
    claudes.sm("kill", session_id)


def test_request_is_cancelled_when_its_agent_ends(claudes: ClaudeInstance, tmp_path: Path) -> None:
    env = claudes.other_home("exits", trusted=False)
    asked = waiting(claudes, env, "Exits", "--working-dir", str(tmp_path))
    claudes.keys(asked["session_id"], "Escape")
    claudes.ended(asked["session_id"])
    assert request(claudes, asked["request_id"])["state"] == "cancelled"


@pytest.mark.parametrize("killed", ["before", "stored", "pressed"])
def test_request_can_be_approved_when_the_daemon_was_killed(
    claudes: ClaudeInstance, api: ScriptedApi, tmp_path: Path, killed: str
) -> None:
    env = claudes.other_home(f"killed-{killed}", trusted=False)
    prompt = f"After a crash {killed}"
    asked = waiting(claudes, env, prompt, "--working-dir", str(tmp_path))
    name, session_id = asked["request_id"], asked["session_id"]
    claudes.kill_daemon()
    if killed != "before":  # the daemon was killed after it had stored the approval
        answer = json.dumps({"approved": True, "answers": [], "message": None})
        with closing(sqlite3.connect(claudes.state / "sm.db")) as database, database:
            database.execute(
                "UPDATE requests SET answer = ?, answered_by = 'operator' WHERE id = ?", (answer, name[1:])
            )
    if killed == "pressed":  # ... and after the key
        claudes.trust_by_key(session_id)
        api.wait_for(lambda: api.turns(prompt), "the agent has started")
    claudes.start_daemon()
    if killed == "before":
        claudes.sm("approve", name)
    until(lambda: request(claudes, name)["state"] == "answered", "the request is closed")
    assert request(claudes, name)["answered_by"] == "operator"
    assert is_trusted(env, tmp_path)
    api.wait_for(lambda: [turn for turn in api.turns(prompt) if turn.over], "the answer")
    claudes.idle(session_id)
    assert len(api.turns(prompt)) == 1
    claudes.sm("kill", session_id)


def test_approval_fails_when_the_terminal_does_not_show_the_whole_dialog(
    claudes: ClaudeInstance, tmp_path: Path
) -> None:
    env = claudes.other_home("too-small", trusted=False)
    asked = waiting(claudes, env, "Too small", "--working-dir", str(tmp_path))
    name, session_id = asked["request_id"], asked["session_id"]
    target = f"=claude-{session_id}:"
    claudes.tmux("resize-window", "-t", target, "-x", "120", "-y", "4")  # the title is not visible
    until(lambda: "Accessing workspace" not in claudes.screen(session_id), "the title is hidden")
    error = claudes.refused("approve", name, exit_code=4)
    assert "does not show the dialog" in error and f"sm attach {session_id}" in error
    assert request(claudes, name)["state"] == "open"
    assert request(claudes, name)["answer"] is None
    claudes.sm("deny", name)
    claudes.ended(session_id)
