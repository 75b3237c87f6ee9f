"""Failed turns of the real Claude Code: who is told, and the dialog that it opens at its usage limit."""

import re
import time
from dataclasses import replace
from typing import Any

import pytest

from sm.providers.claude.check.scripted_api.script import Failure
from tests.claude_fixtures import scripted_api
from tests.claude_instance import ClaudeInstance, calling_session
from tests.instance import until
from tests.scripted_api import Kind, Request, ScriptedApi

pytestmark = pytest.mark.processes

ONE_TRY = '    CLAUDE_CODE_MAX_RETRIES: "1"\n    TZ: UTC\n'
LOGIN = f"{ONE_TRY}    CLAUDE_CODE_OAUTH_TOKEN: sk-ant-oat01-none-of-any-account"
FULL = f'{ONE_TRY}    DISABLE_AUTO_COMPACT: "1"'
COMPACTING = f"{FULL}\n"

api = scripted_api("module")


COMPACTED = "The conversation was too long, so it was replaced"
GO_ON = "A fault of the service ended your last turn"
QUICK = "retry: {max: 2, backoff_s: [1]}"
LIMIT = "(session|5-hour) limit"
"""In the words of each version."""


def instance(api: ScriptedApi, claude_more: str) -> Any:
    more = f"{QUICK}\non_context_full: compact" if claude_more is COMPACTING else QUICK
    claudes = ClaudeInstance(api, claude_more=claude_more, more=more)
    if claude_more is LOGIN:
        del claudes.env["ANTHROPIC_API_KEY"]
    return claudes


@pytest.fixture
def claudes(api: ScriptedApi, request: pytest.FixtureRequest) -> Any:
    started = instance(api, getattr(request, "param", LOGIN))
    yield started
    started.end()


def told(claudes: ClaudeInstance) -> list[str]:
    """The texts in the operator's inbox about turns that do not go on."""
    texts = [message["text"] for message in claudes.get("/v1/inbox")]
    return [line for text in texts for line in text.split("\n") if "does not go on" in line]


def first_told(claudes: ClaudeInstance) -> list[str]:
    """As `told`, once there is one: a notice waits a moment for others before it becomes a message."""
    return until(lambda: told(claudes), "the operator is told")


def faults(claudes: ClaudeInstance, session_id: str) -> list[str]:
    return [e["metadata"]["fault"] for e in claudes.events(session_id) if "fault" in e["metadata"]]


@pytest.mark.claude_core
def test_usage_limit_is_told_once_and_its_dialog_is_closed(claudes: ClaudeInstance, api: ScriptedApi) -> None:
    resets_at = int(time.time()) + 6 * 3600
    clock = time.strftime("%H:%M", time.localtime(resets_at // 60 * 60))
    limit = f"[[limit:five_hour:{resets_at}]]"
    session_id = claudes.spawn("Editor", f"first {limit}")["session_id"]
    claudes.says(session_id, "idle", f" limit, resets {clock}")
    until(lambda: "What do you want to do?" not in claudes.screen(session_id), "the dialog is closed")
    claudes.says(session_id, "idle", f" limit, resets {clock}")
    assert len(first_told(claudes)) == 1
    assert re.search(LIMIT, told(claudes)[0])
    assert faults(claudes, session_id) == ["quota"]
    # No option of the dialog was chosen, and the box is empty.
    claudes.prompt(session_id, "second [[text:it works again]]")
    until(lambda: "it works again" in claudes.screen(session_id), "the next turn")
    assert [turn.status for turn in api.turns("first")] == [429]


def test_parent_and_operator_are_told_of_an_api_that_failed_for_good(claudes: ClaudeInstance) -> None:
    failing = set[str]()
    parent = claudes.spawn("Editor", "[[text:ready]]")["session_id"]
    claudes.idle(parent)
    claudes.api.when(lambda request: "[[error:500:*]]" if calling_session(request) in failing else None)
    child = claudes.spawn("Editor", "[[error:500:*]]", "--parent", parent)["session_id"]
    failing.add(child)
    claudes.says(child, "idle", "the turn failed: the API failed")
    until(lambda: any("does not go on" in turn for turn in prompts(claudes.api)), "the parent is told")
    (line,) = first_told(claudes)
    assert "does not go on after 2 retries: the turn failed: the API failed" in line
    assert faults(claudes, child) == ["server"] * 3
    claudes.idle(parent)
    assert sum("does not go on" in turn for turn in prompts(claudes.api)) == 1


@pytest.mark.parametrize("status", [529, 500])
def test_turn_that_failed_twice_goes_on_until_it_succeeds(
    claudes: ClaudeInstance, api: ScriptedApi, status: int
) -> None:
    session_id = claudes.spawn("Editor", f"hard work [[error:{status}:*]]")["session_id"]
    retries = set[str]()

    def answer(request: Request) -> str | None:
        """Let the first retry fail like the turn before it."""
        if GO_ON not in request.prompt or calling_session(request) != session_id:
            return None
        retries.add(request.prompt)
        return f"[[error:{status}:*]]" if len(retries) == 1 else "[[text:it works again]]"

    api.when(answer)
    until(lambda: "it works again" in claudes.screen(session_id), "the retry succeeds")
    claudes.says(session_id, "idle", "the turn ended")
    assert told(claudes) == []
    assert faults(claudes, session_id) == ["overloaded" if status == 529 else "server"] * 2
    assert len(retries) == 2


def prompts(api: ScriptedApi) -> list[str]:
    return [turn.prompt for turn in api.turns("does not go on")]


def test_login_that_is_not_accepted_is_told_with_the_command_to_type(claudes: ClaudeInstance) -> None:
    session_id = claudes.spawn("Editor", "[[refuse:401:OAuth token has expired]]")["session_id"]
    claudes.says(session_id, "idle", "not logged in")
    (line,) = first_told(claudes)
    assert "type /login" in line
    assert faults(claudes, session_id) == ["login"]


@pytest.mark.parametrize("claudes", [FULL], indirect=True)
def test_full_context_that_no_hook_reports_is_told(claudes: ClaudeInstance) -> None:
    session_id = claudes.spawn(
        "Editor", "[[text:x]][[usage:input=199500]]", "--model", "claude-haiku-4-5-20251001"
    )["session_id"]
    claudes.idle(session_id)
    claudes.prompt(session_id, "one more [[text:y]]")
    claudes.says(session_id, "idle", "the context is full")
    (line,) = first_told(claudes)
    assert "/compact" in line
    assert faults(claudes, session_id) == ["context_full"]


def fill(claudes: ClaudeInstance) -> str:
    """Start a session whose context is full, and give it another prompt."""
    model = ("--model", "claude-haiku-4-5-20251001")
    session_id: str = claudes.spawn("Editor", "[[text:x]][[usage:input=199500]]", *model)["session_id"]
    claudes.idle(session_id)
    claudes.prompt(session_id, "one more [[text:y]]")
    return session_id


@pytest.mark.parametrize("claudes", [COMPACTING], indirect=True)
def test_full_context_is_compacted_and_the_agent_goes_on(claudes: ClaudeInstance, api: ScriptedApi) -> None:
    api.when(lambda request: "[[text:it works again]]" if COMPACTED in request.prompt else None)
    before = compactions(api)
    session_id = fill(claudes)
    api.wait_for(lambda: api.turns(COMPACTED), "it goes on")
    claudes.says(session_id, "idle", "the turn ended")
    assert (compactions(api) - before, faults(claudes, session_id), told(claudes)) == (
        1,
        ["context_full"],
        [],
    )
    (event,) = [e for e in claudes.events(session_id) if "fault" in e["metadata"]]
    assert event["message"].endswith("; sm sends /compact")
    # A turn has succeeded: the next full context is compacted again.
    claudes.prompt(session_id, "large [[text:z]][[usage:input=199500]]")
    until(lambda: "● z" in claudes.screen(session_id), "the context is full again")
    claudes.idle(session_id)
    claudes.prompt(session_id, "one more [[text:y]]")
    until(lambda: compactions(api) - before == 2, "it is compacted again")


@pytest.mark.parametrize("claudes", [COMPACTING], indirect=True)
def test_full_context_is_told_when_its_compaction_fails(claudes: ClaudeInstance, api: ScriptedApi) -> None:
    works = api.background[Kind.COMPACTION]
    api.background[Kind.COMPACTION] = replace(works, failure=Failure(400, 1000))
    try:
        session_id = fill(claudes)
        (line,) = first_told(claudes)
        claudes.says(session_id, "idle", "the context is full")
    finally:
        api.background[Kind.COMPACTION] = works
    assert "does not go on after a compaction by sm: the turn failed: the context is full" in line
    assert "/compact" in line
    sent = [m["text"] for m in claudes.json("log", session_id) if m["from"] == "sm"]
    assert sorted(text[:14] for text in sent) == ["/compact", COMPACTED[:14]]
    assert faults(claudes, session_id) == ["context_full"] * 2


def compactions(api: ScriptedApi) -> int:
    return sum(r.kind is Kind.COMPACTION and r.over for r in api.requests)


def test_limit_message_in_an_answer_is_no_fault(claudes: ClaudeInstance) -> None:
    words = "You've hit your session limit \u00b7 resets 5:59am (UTC)"
    session_id = claudes.spawn("Editor", f"[[text:{words}]]")["session_id"]
    claudes.says(session_id, "idle", "the turn ended")
    assert told(claudes) == []
    assert faults(claudes, session_id) == []


def goes_on(api: ScriptedApi, session_id: str) -> list[Request]:
    """The turns in which the session was told that its limit is over."""
    return [t for t in api.turns("The limit that ended your last turn") if calling_session(t) == session_id]


def account_of(claudes: ClaudeInstance) -> dict[str, Any]:
    (account,) = claudes.json("accounts")
    assert "none-of-any-account" not in str(account)
    return dict(account)


def test_sessions_of_a_parked_account_wait_for_its_reset_and_go_on_once(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    resting = claudes.spawn("Editor", "[[text:at rest]]")["session_id"]
    claudes.idle(resting)
    assert account_of(claudes)["parks"] == []
    # The test must send all that waits before the reset. claude shows only the minute.
    resets_at = over_at = (int(time.time() + 40) // 60 + 1) * 60
    cut_off = claudes.spawn("Editor", f"long work [[limit:five_hour:{resets_at}]]")["session_id"]
    claudes.says(cut_off, "idle", " limit, resets ")
    clock = time.strftime("%H:%M", time.localtime(over_at))
    assert re.search(f"until {clock}: {LIMIT}", claudes.sm("accounts"))
    later = claudes.run("spawn", "Editor", "spawned while parked [[text:new]]", "--json")
    assert later.returncode == 0
    (waiting,) = [s for s in claudes.get("/v1/sessions") if s["status"] == "spawned"]
    assert re.fullmatch(f"parked until {clock}: {LIMIT}", waiting["status_reason"])
    assert "parked until" in claudes.refused("spawn", "Editor", "x", "--no-park", exit_code=6)
    claudes.sm("send", resting, "wake up", "--no-wait")
    (held,) = [m for m in claudes.json("log") if m["session_id"] == resting and m["status"] == "queued"]
    assert held["reason"] == waiting["status_reason"]
    assert "2 sessions wait" in claudes.sm("status") or "3 sessions wait" in claudes.sm("status")
    api.wait_for(
        lambda: api.turns("The limit that ended your last turn is over"),
        "it goes on",
    )
    api.wait_for(lambda: api.turns("wake up") and api.turns("spawned while parked"), "the others")
    assert time.time() >= over_at
    until(lambda: all(s["status"] == "idle" for s in claudes.get("/v1/sessions")), "all have finished")
    assert account_of(claudes)["parks"] == []
    assert len(goes_on(api, cut_off)) == 1
    first, *others = [t.prompt for t in api.turns() if t.number > api.turns("long work")[0].number]
    assert "The limit that ended" in first
    assert len(others) == 2
    assert len(first_told(claudes)) == 1


def test_parked_account_survives_kills_of_the_daemon_and_its_end_is_carried_out_once(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    def kill() -> None:
        claudes.kill_daemon()
        claudes.start_daemon()

    far = int(time.time()) + 5 * 3600
    cut_off = claudes.spawn("Editor", f"night work [[limit:five_hour:{far}]]")["session_id"]
    claudes.says(cut_off, "idle", " limit, resets ")
    spawned = claudes.spawn("Editor", "spawned in the night [[text:new]]")
    assert spawned["status"] == "spawned"
    doomed = claudes.spawn("Editor", "killed while parked")["session_id"]
    kill()
    claudes.sm("kill", doomed)
    assert claudes.session(doomed)["status"] == "killed"
    assert account_of(claudes)["waiting"] == 2
    name = account_of(claudes)["name"]
    claudes.sm("resume", "--account", name)
    kill()
    api.wait_for(lambda: api.turns("spawned in the night"), "the spawn")
    api.wait_for(lambda: goes_on(api, cut_off), "it goes on")
    kill()
    until(lambda: claudes.session(spawned["session_id"])["status"] == "idle", "the spawn has finished")
    claudes.idle(cut_off)
    assert len(goes_on(api, cut_off)) == 1
    assert api.turns("killed while parked") == []
    assert len(first_told(claudes)) == 1
    assert account_of(claudes)["parks"] == []


def test_paused_account_holds_messages_until_it_is_resumed(claudes: ClaudeInstance, api: ScriptedApi) -> None:
    session_id = claudes.spawn("Editor", "[[text:ready]]")["session_id"]
    claudes.idle(session_id)
    name = account_of(claudes)["name"]
    claudes.sm("pause", "--account", name)
    claudes.sm("send", session_id, "held by the operator", "--no-wait")
    assert f"Parked:       {name} paused by the operator, 1 session waits" in claudes.sm("status")
    assert claudes.sm("resume", "--account", name) == f"Resumed account {name}\n"
    api.wait_for(lambda: api.turns("held by the operator"), "the message")
    assert "no such account" in claudes.refused("pause", "--account", "nobody", exit_code=3)
