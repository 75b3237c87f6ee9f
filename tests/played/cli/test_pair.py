"""`sm pair`."""

import json
from datetime import timedelta

from tests.cli.peer import answer, error
from tests.played.cli.command import BEGIN, Sm
from tests.played.cli.peer import Peer

ADA = {"user": "telegram:4711", "label": "Ada\x1b[2J", "created_at": "", "created_by": "operator"}
PAIRED = {**ADA, "trust_level": "direct", "workspace": "shop"}


def test_pair_list_shows_requests_and_users(run: Sm, peer: Peer) -> None:
    asked_at = (BEGIN - timedelta(minutes=5)).isoformat()
    request = {
        "request_id": "p3",
        "user": "telegram:4712",
        "label": "Bob",
        "created_at": asked_at,
        "state": "open",
    }
    overview = {"requests": [request], "users": [PAIRED, {**PAIRED, "workspace": None}]}
    peer.script("GET /v1/pairings", answer(overview), answer(overview), answer({"requests": [], "users": []}))
    first, second, third = run("pair", "list").out.splitlines()
    assert first.split("|")[0].strip() == "p3"
    assert first.endswith("5min ago: Bob")
    assert second.endswith("Ada [2J (workspace shop)")
    assert third.endswith("Ada [2J")
    assert json.loads(run("pair", "list", "--json").out) == overview
    assert "No requests and no paired users" in run("pair", "list").err


def test_pair_names_the_user_of_a_decision(run: Sm, peer: Peer) -> None:
    peer.script("POST /v1/pairings/p3/approve", answer(PAIRED))
    done = run("pair", "approve", "p3", "--trust", "full", "--workspace", "shop")
    assert done.out == "Paired telegram:4711 (Ada [2J) as direct in workspace shop\n"
    peer.script("POST /v1/pairings/p3/deny", answer({**ADA, "request_id": "p3", "state": "denied"}))
    assert run("pair", "deny", "p3").out == "Denied telegram:4711 (Ada [2J)\n"
    peer.script("POST /v1/pairings/telegram%3A4711/revoke", answer({"user": "telegram:4711", "sessions": 1}))
    assert (
        run("pair", "revoke", "telegram:4711").out
        == "Revoked telegram:4711; you have 1 session of this user\n"
    )
    peer.script("POST /v1/pairings/p9/approve", error("not_found", "no such pairing request: p9", 404))
    assert "no such pairing request" in run("pair", "approve", "p9", code=3).err
    run("pair", "revoke", code=2)
