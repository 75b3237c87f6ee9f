"""`sm pair` with the real daemon."""

import asyncio
import json
from collections.abc import Iterator

import pytest

from tests.instance import Instance
from tests.pair_requests import ask_to_pair
from tests.session_client import request_as

ADA, BOB, CY = "telegram:4711", "telegram:4712", "telegram:4713"


@pytest.fixture(scope="module")
def instance() -> Iterator[Instance]:
    with Instance() as instance:
        asyncio.run(ask_to_pair(instance, (ADA, "Ada\x1b[2J"), (BOB, "Bob"), (CY, "Cy")))
        (instance.home / "shop").mkdir()
        instance.sm("workspace", "create", "shop", "--working-dir", str(instance.home / "shop"))
        yield instance


def audit(instance: Instance) -> list[tuple[str, str, str | None, str, str | None]]:
    lines = (instance.state / "log" / "audit.jsonl").read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    return [tuple(line[key] for key in ("who", "what", "target", "decision", "reason")) for line in found]


def test_requests_are_approved_denied_and_revoked(instance: Instance) -> None:
    listed = instance.sm("pair", "list")
    assert [line.split()[0] for line in listed.splitlines()] == ["p1", "p2", "p3"]
    assert "\x1b" not in listed
    assert instance.sm("pair", "approve", "p1") == f"Paired {ADA} (Ada [2J) as sandboxed\n"
    approved = instance.json("pair", "approve", "2", "--trust", "full", "--workspace", "shop")
    assert (approved["user"], approved["trust_level"], approved["workspace"]) == (BOB, "direct", "shop")
    assert instance.sm("pair", "deny", "p3") == f"Denied {CY} (Cy)\n"
    overview = instance.json("pair", "list")
    assert overview["requests"] == []
    assert [(u["user"], u["trust_level"], u["created_by"]) for u in overview["users"]] == [
        (ADA, "sandboxed", "operator"),
        (BOB, "direct", "operator"),
    ]
    instance.kill_daemon()
    assert instance.json("pair", "list") == overview
    assert instance.sm("pair", "revoke", "4712") == f"Revoked {BOB}; you have 0 sessions of this user\n"
    assert [u["user"] for u in instance.json("pair", "list")["users"]] == [ADA]

    assert "already denied" in instance.refused("pair", "approve", "p3", exit_code=4)
    assert "no such pairing request: p9" in instance.refused("pair", "approve", "p9", exit_code=3)
    assert "unknown trust level" in instance.refused("pair", "approve", "p1", "--trust", "owner", exit_code=2)
    assert f"user {BOB} is not paired" in instance.refused("pair", "revoke", BOB, exit_code=3)
    lines = audit(instance)
    assert (ADA, "ask_to_pair", "p1", "allowed", "asked to be paired") in lines
    assert ("operator", "pair", ADA, "allowed", "approve p1 as sandboxed") in lines
    assert ("operator", "pair", BOB, "allowed", "approve p2 as direct in workspace shop") in lines
    assert ("operator", "pair", CY, "allowed", "deny p3") in lines
    assert ("operator", "pair", BOB, "allowed", "revoke") in lines


def test_session_can_neither_see_nor_decide_pairings(instance: Instance) -> None:
    session = instance.spawn("Sleeper", "x")["session_id"]
    answers = request_as(
        instance,
        session,
        ("GET", "/v1/pairings"),
        ("POST", "/v1/pairings/p1/approve", None, {}),
        ("POST", "/v1/pairings/p1/deny", None, {}),
        ("POST", f"/v1/pairings/{ADA}/revoke", None, {}),
    )
    assert [answer[0] for answer in answers] == ["not_permitted"] * 4
    refused = [line for line in audit(instance) if line[0] == f"session:{session}" and line[1] == "pair"]
    assert [line[3] for line in refused] == ["refused"] * 4
    instance.sm("kill", session)
