"""`sm accounts`, `sm pause` and `sm resume`."""

import json
from datetime import datetime, timedelta
from typing import Any

from tests.cli.peer import answer, error
from tests.played.cli.command import BEGIN, Sm
from tests.played.cli.peer import Peer


def account(**changes: Any) -> dict[str, Any]:
    return {
        "name": "claude-1a2b3c4d",
        "provider": "claude",
        "directory": "/home/me/.claude",
        "sessions": 2,
        "waiting": 1,
        "parks": [],
        "last_success_at": None,
    } | changes


def park(until: datetime | None, model: str | None = None) -> dict[str, Any]:
    at = None if until is None else until.isoformat()
    return {"kind": "quota", "reason": "session limit", "since": "", "until": at, "model": model}


def test_accounts_shows_each_account_with_its_park(run: Sm, peer: Peer) -> None:
    soon = BEGIN + timedelta(hours=1)
    later = soon + timedelta(days=3)
    accounts = [
        account(parks=[park(soon), park(None, "opus")]),
        account(name="claude-5e6f7a8b", parks=[park(later)], sessions=1),
        account(name="claude-9c0d1e2f", last_success_at=(soon - timedelta(hours=3, minutes=5)).isoformat()),
    ]
    peer.script("GET /v1/accounts", answer(accounts))
    first, second, third = run("accounts").out.splitlines()
    clock = soon.strftime("%H:%M")
    assert first.endswith(f"parked until {clock}: session limit; session limit (opus), waiting: 1")
    assert f"parked until {later.astimezone().strftime('%b %-d %H:%M')}: session limit" in second
    assert "1 session " in second
    assert third.endswith("free; last success 2h ago")
    assert json.loads(run("accounts", "--json").out) == accounts


def test_accounts_says_that_there_are_none(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/accounts", answer([]))
    assert run("accounts").out == "No accounts: no agent has been started\n"


def test_pause_and_resume_name_the_account(run: Sm, peer: Peer) -> None:
    spends = ["engineer-login: 3 background agents still spend"]
    paused = [account(name="a", paused=2, spends=[])]
    pausing = [account(), account(name="a", paused=2, spends=spends)]
    told = "Pausing account a:\n  engineer-login: 3 background agents still spend\n"
    # An older daemon pauses no session.
    peer.script("POST /v1/accounts/a/pause", *map(answer, ([account(name="a")], paused, pausing, pausing)))
    assert run("pause", "--account", "a").out == "Paused account a: it starts no new turn\n"
    assert (
        run("pause", "--account", "a").out == "Paused account a: it starts no new turn, 2 sessions paused\n"
    )
    assert run("pause", "--account", "a").out == told
    assert run("pause", "--account", "a", "--wait", "0", code=10).out == told
    peer.script("POST /v1/accounts/a/resume", answer({"resumed": True}), answer({"resumed": False}))
    assert run("resume", "--account", "a").out == "Resumed account a\n"
    assert run("resume", "--account", "a").out == "Account a is not parked\n"
    peer.script("POST /v1/accounts/b/pause", error("not_found", "no such account: b", 404))
    assert "no such account" in run("pause", "--account", "b", code=3).err
    run("pause", code=2)
