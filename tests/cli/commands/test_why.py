"""`sm why`: what a status rests on."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sm.cli.commands.why import request_block, why_block
from tests.cli.conftest import SESSION, Sm
from tests.cli.peer import Peer, answer, error
from tests.cli.samples import decision, request

NOW = datetime(2026, 1, 27, 15, 20, tzinfo=UTC)


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def why(**more: Any) -> dict[str, Any]:
    return {
        "session_id": SESSION,
        "name": f"engineer-{SESSION}",
        "friendly_name": "engineer-login",
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


def test_why_tells_what_each_source_says_and_who_was_believed() -> None:
    sources = [
        evidence("hook", "busy", since=240, seen=240, reason="PreToolUse: Bash: npm test"),
        evidence(
            "state file",
            "idle",
            since=12,
            seen=1,
            believed=False,
            why_not="the hook is believed",
            reason="idle",
        ),
        evidence("title", "busy", since=240, seen=3),
    ]
    assert why_block(why(evidence=sources, facts=["turn 4 is open", "2 tools run"]), NOW) == [
        "engineer-login (1a2b3c4d) | running",
        "Because:  PreToolUse: Bash: npm test (hook, 4min ago)",
        "Evidence:",
        "  hook        says busy  4min ago               believed: PreToolUse: Bash: npm test",
        "  state file  says idle  for 12s, seen 1s ago   not believed: the hook is believed (idle)",
        "  title       says busy  for 4min, seen 3s ago  believed",
        "Facts:",
        "  turn 4 is open",
        "  2 tools run",
    ]


def test_who_may_not_read_a_session_is_told_who_was_believed_without_reasons() -> None:
    sources = [
        evidence("hook", "blocked", since=5, seen=5, reason=None),
        evidence(
            "title", "idle", since=5, seen=5, reason=None, believed=False, why_not="the hook is believed"
        ),
    ]
    assert why_block(why(evidence=sources), NOW)[3:] == [
        "  hook   says blocked  5s ago  believed",
        "  title  says idle     5s ago  not believed: the hook is believed",
    ]


def test_a_stale_status_is_doubted_in_words() -> None:
    shown = why_block(why(status_stale=True, friendly_name=None), NOW)
    assert shown[0] == "engineer-1a2b3c4d (1a2b3c4d) | running? (4m)"
    assert shown[2] == "Doubt:    nothing has confirmed it for too long; it may be otherwise by now"


def test_a_program_has_its_source_its_reason_and_its_age_only() -> None:
    shown = why_block(why(status_source="process", status_reason="its process runs"), NOW)
    assert shown == ["engineer-login (1a2b3c4d) | running", "Because:  its process runs (process, 4min ago)"]


EVIL = "a\x1b[2Jb\x9b31m\nc"


def test_nothing_that_an_agent_caused_drives_the_terminal() -> None:
    sources = [
        evidence(EVIL, EVIL, since=1, seen=1, reason=EVIL),
        evidence(EVIL, EVIL, since=1, seen=1, reason=EVIL, believed=False, why_not=EVIL),
    ]
    whole = why(friendly_name=EVIL, status_reason=EVIL, status_source=EVIL, evidence=sources, facts=[EVIL])
    asked = request(name=EVIL, kind=EVIL, state="expired", reason=EVIL)
    for text in (*why_block(whole, NOW), *request_block(asked, NOW)):
        assert not [c for c in text if c < " " or "\x7f" <= c <= "\x9f"]


def test_why_asks_the_daemon_and_prints_json_as_it_came(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/sessions/login/why", answer(why()))
    assert run("why", "login").out.startswith("engineer-login (1a2b3c4d) | running\nBecause:  PreToolUse: ")
    assert json.loads(run("why", "login", "--json").out) == why()


def test_why_of_a_session_that_is_not_there_is_refused(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/sessions/x/why", error("not_found", "no session x", 404, "sm all"))
    assert run("why", "x", code=3).err == "sm: no session x\nhint: sm all\n"


@pytest.mark.parametrize(
    ("more", "because"),
    [
        ({}, "nobody has answered yet (sm requests r57 shows what to type)"),
        ({"answer": decision(True, "sqlite"), "state": "answered"}, "answered by operator: sqlite"),
        ({"answer": decision(), "kind": "permission", "state": "answered"}, "approved by operator"),
        (
            {"answer": decision(False, message="not here"), "kind": "permission", "state": "answered"},
            "declined by operator: not here",
        ),
        (
            {"answer": decision(), "answered_by": "aaaa1111"},
            "answered by aaaa1111; its dialog has not taken it yet",
        ),
        (
            {
                "answer": decision(False),
                "kind": "permission",
                "state": "answered",
                "answered_by": "rule",
                "reason": 'auto_deny has Bash(rm *), which matches "rm x"',
            },
            'declined by a rule: auto_deny has Bash(rm *), which matches "rm x"',
        ),
        (
            {"answer": decision(), "kind": "permission", "state": "answered", "answered_by": "terminal"},
            "approved at its terminal",
        ),
        ({"state": "answered", "answered_by": "terminal", "reason": "it was"}, "answered at its terminal"),
        ({"state": "expired", "answered_by": None}, "nobody has said why"),
        ({"state": "cancelled", "reason": "the session has ended"}, "the session has ended"),
    ],
)
def test_why_of_a_request_tells_how_it_stands(more: dict[str, Any], because: str) -> None:
    shown = request_block(request(**{"answered_by": "operator"} | more), NOW)
    assert shown[0].startswith(f"r57 | {more.get('kind', 'question')} of engineer-login (1a2b3c4d) | ")
    assert shown[0].endswith(f"| {more.get('state', 'open')} | 10min ago")
    assert shown[1] == f"Because:  {because}"
    assert len(shown) == 2


def test_an_open_request_tells_when_it_expires(run: Sm, peer: Peer) -> None:
    assert request_block(request(expires_at=ago(-300)), NOW)[2] == "Expires:  in 5min"
    peer.script("GET /v1/requests/r57", answer(request()))
    assert run("why", "r57").out.startswith("r57 | question of engineer-login")
    assert json.loads(run("why", "r57", "--json").out) == request()
