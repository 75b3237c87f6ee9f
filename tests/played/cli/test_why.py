"""`sm why`: the sources of a status, and the state of a request."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sm.cli.commands.why import request_block
from sm.cli.display.evidence import why_block
from tests.cli.conftest import SESSION
from tests.cli.peer import answer, error
from tests.cli.samples import decision, request
from tests.played.cli.command import Sm
from tests.played.cli.peer import Peer

NOW = datetime(2026, 1, 27, 15, 20, tzinfo=UTC)


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def why(**more: Any) -> dict[str, Any]:
    return {
        "session_id": SESSION,
        "name": f"engineer-{SESSION}",
        "friendly_name": "engineer-login",
        "label": "engineer-login",
        "status": "running",
        "status_source": "hook",
        "status_reason": "PreToolUse: Bash: npm test",
        "status_at": ago(240),
        "status_stale": False,
        "evidence": [],
        "facts": [],
    } | more


def evidence(source: str, says: str, *, since: float, seen: float, **more: Any) -> dict[str, Any]:
    return {
        "source": source,
        "says": says,
        "reason": "",
        "at": ago(since),
        "since": ago(since),
        "seen": ago(seen),
        "believed": True,
        "why_not": None,
    } | more


def test_why_block_lists_each_source_and_the_source_in_effect() -> None:
    sources = [
        evidence("hook", "busy", since=240, seen=240, reason="PreToolUse: Bash: npm test"),
        evidence(
            "state file",
            "idle",
            since=12,
            seen=1,
            believed=False,
            why_not="the hook takes precedence",
            reason="idle",
        ),
        evidence("title", "busy", since=240, seen=3),
    ]
    assert why_block(why(evidence=sources, facts=["turn 4 is open", "2 tools run"]), NOW) == [
        "engineer-login | running",
        "Because:  PreToolUse: Bash: npm test (hook, 4min ago)",
        "Evidence:",
        "  hook        reports busy  4min ago               believed: PreToolUse: Bash: npm test",
        "  state file  reports idle  for 12s, seen 1s ago   not believed: the hook takes precedence (idle)",
        "  title       reports busy  for 4min, seen 3s ago  believed",
        "Facts:",
        "  turn 4 is open",
        "  2 tools run",
    ]


def test_why_block_omits_reasons_when_caller_may_not_read_the_session() -> None:
    sources = [
        evidence("hook", "blocked", since=5, seen=5, reason=None),
        evidence(
            "title", "idle", since=5, seen=5, reason=None, believed=False, why_not="the hook takes precedence"
        ),
    ]
    assert why_block(why(evidence=sources), NOW)[3:] == [
        "  hook   reports blocked  5s ago  believed",
        "  title  reports idle     5s ago  not believed: the hook takes precedence",
    ]


def test_why_block_expresses_doubt_when_status_is_stale() -> None:
    shown = why_block(why(status_stale=True, friendly_name="engineer-x", label="engineer-x (1a2b3c4d)"), NOW)
    assert shown[0] == "engineer-x (1a2b3c4d) | running? (4m)"
    assert shown[2] == "Stale:    no source has confirmed this status recently; it may have changed"


def test_why_block_has_only_source_reason_and_age_for_a_program() -> None:
    shown = why_block(why(status_source="process", status_reason="the process started"), NOW)
    assert shown == [
        "engineer-login | running",
        "Because:  the process started (process, 4min ago)",
    ]


EVIL = "a\x1b[2Jb\x9b31m\nc"


def test_why_blocks_contain_no_control_characters() -> None:
    sources = [
        evidence(EVIL, EVIL, since=1, seen=1, reason=EVIL),
        evidence(EVIL, EVIL, since=1, seen=1, reason=EVIL, believed=False, why_not=EVIL),
    ]
    whole = why(friendly_name=EVIL, status_reason=EVIL, status_source=EVIL, evidence=sources, facts=[EVIL])
    asked = request(name=EVIL, kind=EVIL, state="expired", reason=EVIL)
    for text in (*why_block(whole, NOW), *request_block(asked, NOW)):
        assert not [c for c in text if c < " " or "\x7f" <= c <= "\x9f"]


def test_why_prints_text_or_the_json_of_the_daemon(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/sessions/login/why", answer(why()))
    assert run("why", "login").out.startswith("engineer-login | running\nBecause:  PreToolUse: ")
    assert json.loads(run("why", "login", "--json").out) == why()


def test_why_exits_3_when_session_is_unknown(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/sessions/x/why", error("not_found", "no such session: x", 404, "sm all"))
    assert run("why", "x", code=3).err == "sm: no such session: x\nhint: sm all\n"


@pytest.mark.parametrize(
    ("more", "because"),
    [
        ({}, "not answered yet (to answer: sm requests r57)"),
        ({"answer": decision(True, "sqlite"), "state": "answered"}, "answered by operator: sqlite"),
        ({"answer": decision(), "kind": "permission", "state": "answered"}, "approved by operator"),
        (
            {"answer": decision(False, message="not here"), "kind": "permission", "state": "answered"},
            "denied by operator: not here",
        ),
        (
            {"answer": decision(False), "kind": "permission", "state": "answered", "confirmed": False},
            "denied by operator; the agent has not confirmed the answer yet",
        ),
        (
            {"answer": decision(), "answered_by": "aaaa1111"},
            "answered by aaaa1111; the dialog has not accepted the answer yet",
        ),
        (
            {
                "answer": decision(False),
                "kind": "permission",
                "state": "answered",
                "answered_by": "rule",
                "reason": 'auto_deny: Bash(rm *) matches "rm x"',
            },
            'denied by a rule: auto_deny: Bash(rm *) matches "rm x"',
        ),
        (
            {"answer": decision(), "kind": "permission", "state": "answered", "answered_by": "terminal"},
            "approved in the terminal",
        ),
        ({"state": "answered", "answered_by": "terminal", "reason": "it was"}, "answered in the terminal"),
        ({"state": "expired", "answered_by": None}, "no reason was given"),
        ({"state": "cancelled", "reason": "the session has ended"}, "the session has ended"),
    ],
)
def test_request_block_explains_the_state_of_a_request(more: dict[str, Any], because: str) -> None:
    shown = request_block(request(**{"answered_by": "operator"} | more), NOW)
    assert shown[0].startswith(f"r57 | {more.get('kind', 'question')} of engineer-login | ")
    assert shown[0].endswith(f"| {more.get('state', 'open')} | 10min ago")
    assert shown[1] == f"Because:  {because}"
    assert len(shown) == 2


def test_why_prints_the_expiry_of_an_open_request(run: Sm, peer: Peer) -> None:
    assert request_block(request(expires_at=ago(-300)), NOW)[2] == "Expires:  in 5min"
    peer.script("GET /v1/requests/r57", answer(request()))
    assert run("why", "r57").out.startswith("r57 | question of engineer-login")
    assert json.loads(run("why", "r57", "--json").out) == request()
