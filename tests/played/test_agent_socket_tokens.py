"""Tokens of sandboxed sessions on agent sockets: refused, kept over a restart, and ended with their session."""

import hashlib
import json
import os
from typing import Any

from tests.fixtures import context_fixture
from tests.raw_http import parse_error, read_to_end, request
from tests.sim.stage import Instance
from tests.sim.team import PlayedTeam

UNAUTHENTICATED = (401, "unauthenticated")

instance = context_fixture("function", Instance)


fresh = context_fixture("function", PlayedTeam)
"""A team for one test."""


def test_daemon_opens_no_agent_socket_when_no_session_is_sandboxed(instance: Instance) -> None:
    instance.spawn("Sleeper", "x")
    instance.sm("daemon", "restart")
    assert not (instance.state / "run" / "w").exists()


def bearer(*tokens: str) -> list[str]:
    return [f"Authorization: Bearer {token}" for token in tokens]


def wrong_tokens(team: PlayedTeam) -> dict[str, list[str]]:
    """Authorization headers that the socket of `shop` must refuse, by description."""
    token = team.token("parent")
    return {
        "none": [],
        "empty": bearer(""),
        "no scheme": [f"Authorization: {token}"],
        "another scheme": [f"Authorization: Basic {token}"],
        "empty header": ["Authorization:"],
        "truncated": bearer(token[:-1]),
        "longer": bearer(token + "0"),
        "very long": bearer(token * 100),
        "in capitals": bearer(token.upper()) if token.upper() != token else bearer(""),
        "wrong": bearer("0" * 64),
        "not hexadecimal": bearer("\xe9" * 64),
        "token twice in one header": bearer(f"{token} {token}"),
        "its hash": bearer(hashlib.sha256(token.encode()).hexdigest()),
        "two equal headers": bearer(token, token),
        "two different headers": bearer(token, team.token("direct")),
        "wrong and right header": bearer("0" * 64, token),
        "of another workspace": bearer(team.token("banker")),
        "of no workspace": bearer(team.token("loner")),
        "of a direct session": bearer(team.token("direct")),
        "a session id": bearer(team.ids["parent"]),
    }


def test_every_invalid_token_gets_the_same_401_answer(fresh: PlayedTeam) -> None:
    killed, ended = fresh.token("child"), fresh.token("sibling")
    fresh.instance.sm("kill", fresh.ids["child"], "--force")
    os.kill(fresh.instance.session(fresh.ids["sibling"])["pid"], 15)
    fresh.instance.ended(fresh.ids["sibling"])
    wrong_headers = wrong_tokens(fresh) | {
        "of a killed session": bearer(killed),
        "of an ended session": bearer(ended),
    }
    answers = set()
    for description, headers in wrong_headers.items():
        for path in ("/v1/me", "/v1/nothing", "/v1/daemon/stop"):
            sent = request(f"POST {path} HTTP/1.1", *headers, body=b"{}")
            answer = fresh.exchange(fresh.socket("shop"), sent)
            assert parse_error(answer) == UNAUTHENTICATED, description
            head, _, body = answer.partition(b"\r\n\r\n")
            assert b"WWW-Authenticate: Bearer" in head
            answers.add(body)
    assert len(answers) == 1
    assert fresh.instance.session(fresh.ids["parent"])["status"] == "running"
    audit = (fresh.instance.state / "log" / "audit.jsonl").read_text()
    assert "shop socket" in audit
    for text in (audit, fresh.log(), (fresh.instance.state / "sm.db").read_bytes().decode("latin-1")):
        assert fresh.token("parent") not in text
        assert killed not in text


def test_token_stays_valid_when_the_daemon_restarts(fresh: PlayedTeam) -> None:
    token = fresh.token("parent")
    fresh.instance.restart_daemon()
    assert fresh.caller(fresh.socket("shop"), token).get("/v1/me")["session_id"] == fresh.ids["parent"]
    fresh.instance.kill_daemon()
    fresh.instance.start_daemon()
    assert fresh.caller(fresh.socket("shop"), token).get("/v1/me")["session_id"] == fresh.ids["parent"]


def test_sandboxed_session_can_kill_only_its_descendants(fresh: PlayedTeam) -> None:
    parent = fresh.client("parent")
    for name in ("parent", "sibling"):
        assert parent.refused("POST", f"/v1/sessions/{fresh.ids[name]}/kill", {}) == (403, "not_permitted")
    status, killed = parent.ask("POST", f"/v1/sessions/{fresh.ids['child']}/kill", {"force": True})
    assert (status, killed["status"]) == (200, "killed")


def open_stream(team: PlayedTeam, path: str) -> Any:
    connection = team.connect(team.socket("shop"))
    shown = f"Authorization: Bearer {team.token('child')}"
    connection.sendall(request(f"GET {path} HTTP/1.1", shown))
    assert b" 200 " in connection.recv(65536).partition(b"\r\n")[0]
    return connection


def test_streams_and_waits_end_when_the_calling_session_ends(fresh: PlayedTeam) -> None:
    shown = f"Authorization: Bearer {fresh.token('child')}"
    stream = open_stream(fresh, "/v1/events/stream")
    waiting = fresh.connect(fresh.socket("shop"))
    body = json.dumps({"sessions": [fresh.ids["sibling"]], "wait_s": 25}).encode()
    waiting.sendall(request("POST /v1/wait HTTP/1.1", shown, body=body))
    inbox = fresh.connect(fresh.socket("shop"))
    inbox.sendall(request("POST /v1/inbox/take HTTP/1.1", shown, body=b'{"wait_s": 25}'))
    fresh.instance.in_status(fresh.ids["child"], "idle")  # its status shows that it waits
    fresh.instance.sm("kill", fresh.ids["child"], "--force")
    with stream, waiting, inbox:
        assert read_to_end(stream).endswith(b"0\r\n\r\n")  # the end of a body in chunks
        assert parse_error(read_to_end(waiting))[0] in (401, 409)
        assert parse_error(read_to_end(inbox))[0] in (401, 409)
