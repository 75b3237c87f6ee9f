"""Agent sockets of sandboxed sessions: routes, authentication, and isolation between workspaces."""

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sm.api.routes import ROUTES as TABLE
from sm.client.http import Client
from tests.instance import Instance
from tests.raw_http import connected, exchange, parse_error, parse_response, read_to_end, request
from tests.team import AgentClient, Team

# The route table names the audience of each route. This independent list checks the table.
OPERATOR_ROUTES = {
    "POST /v1/daemon/stop",
    "POST /v1/adopt",
    "POST /v1/restore",
    "GET /v1/sessions/{ref}/attach",
    "GET /v1/sessions/{ref}/export",
    "POST /v1/workspaces",
    "POST /v1/workspaces/{slug}",
    "POST /v1/workspaces/{slug}/agree",
    "POST /v1/workspaces/{slug}/delete",
    "GET /v1/sandbox",
    "GET /v1/pairings",
    "POST /v1/pairings/{request_id}/approve",
    "POST /v1/pairings/{request_id}/deny",
    "POST /v1/pairings/{user}/revoke",
    "GET /v1/budget",
    "POST /v1/budget",
    "GET /v1/accounts",
    "GET /v1/archives",
    "POST /v1/sandbox/writable",
    "POST /v1/accounts/{name}/pause",
    "POST /v1/accounts/{name}/resume",
    "POST /v1/sandbox/build",
    "GET /v1/sandbox/build",
    "POST /v1/sandbox/containers/{name}/stop",
    "POST /v1/sandbox/containers/{name}/remove",
    "POST /v1/sandbox/containers/{name}/enter",
    "GET /v1/sandbox/unused",
    "POST /v1/sandbox/prune",
    "GET /v1/telegram",
    "POST /v1/telegram/test",
}
AGENT_ROUTES = {f"{r.method} {r.path}" for routes in TABLE.values() for r in routes if r.agents}
ROUTES = {f"{r.method} {r.path}" for routes in TABLE.values() for r in routes}
UNKNOWN_ROUTE = (404, "protocol")
UNAUTHENTICATED = (401, "unauthenticated")


@pytest.fixture(scope="module")
def team() -> Iterator[Team]:
    """A team shared by the tests that do not change its sessions."""
    shared_team = Team()
    yield shared_team
    assert "Traceback" not in shared_team.log()
    shared_team.end()


@pytest.fixture
def fresh() -> Iterator[Team]:
    """A team for one test."""
    team = Team()
    yield team
    assert "Traceback" not in team.log()
    team.end()


# Routes


def test_every_route_is_either_an_agent_route_or_operator_only() -> None:
    assert ROUTES - AGENT_ROUTES == OPERATOR_ROUTES
    assert not AGENT_ROUTES - ROUTES


def filled_route(route: str, team: Team) -> tuple[str, str]:
    method, _, path = route.partition(" ")
    return method, path.replace("{ref}", team.ids["child"]).replace("{slug}", "shop").replace(
        "{name}", "shop"
    ).replace("{id}", "1")


@pytest.mark.parametrize("route", sorted(OPERATOR_ROUTES))
def test_agent_socket_hides_operator_only_routes(team: Team, route: str) -> None:
    method, path = filled_route(route, team)
    parent = team.client("parent")
    status, answer = parent.ask(method, path, None if method == "GET" else {"all": True})
    same_path = {r.partition(" ")[2] for r in AGENT_ROUTES}
    assert status == (405 if route.partition(" ")[2] in same_path else 404)
    assert answer == parent.ask(method, "/v1/nothing", None if method == "GET" else {})[1]


def test_agent_route_exists_on_the_agent_socket_and_on_the_daemon_socket(team: Team) -> None:
    wrong = dict.fromkeys(
        ("agent_type", "sessions", "limit", "question", "text", "message", "to", "payload"), 5
    )
    for route in sorted(AGENT_ROUTES - {"GET /v1/events/stream", "GET /v1/live"}):
        method, _, path = route.partition(" ")
        path = path.replace("{ref}", "0bad0bad").replace("{slug}", "shop").replace("{id}", "1")
        for client in (team.client("parent"), AgentClient(str(team.instance.socket), None)):
            status, answer = client.ask(method, path, None if method == "GET" else wrong)
            assert status < 500, (route, answer)
            assert status == 200 or answer["error"]["code"] != UNKNOWN_ROUTE[1], route


def test_agent_socket_is_private_to_its_owner_and_alone_in_its_directory(team: Team) -> None:
    for workspace in ("shop", "bank", None):
        socket = Path(team.socket(workspace))
        modes = [stat.S_IMODE(path.stat().st_mode) for path in (socket, socket.parent, socket.parent.parent)]
        assert modes == [0o600, 0o700, 0o700]
        assert os.listdir(socket.parent) == ["s"]
        assert len(os.fsencode(socket)) <= 104


def test_daemon_opens_no_agent_socket_when_no_session_is_sandboxed(instance: Instance) -> None:
    instance.spawn("Sleeper", "x")
    instance.sm("daemon", "restart")
    assert not (instance.state / "run" / "w").exists()


# Authentication


def test_token_identifies_the_caller_when_headers_claim_another_session(team: Team) -> None:
    for name, workspace in (("parent", "shop"), ("child", "shop"), ("banker", "bank"), ("loner", None)):
        client = team.client(name, workspace)
        assert client.get("/v1/me")["session_id"] == team.ids[name]
        false_headers = (
            "SM-Session-Id: " + team.ids["sibling"],
            "X-Forwarded-For: operator",
            "SM_TRUST_LEVEL: direct",
        )
        assert client.ask("GET", "/v1/me", None, *false_headers)[1]["session_id"] == team.ids[name]


def bearer(*tokens: str) -> list[str]:
    return [f"Authorization: Bearer {token}" for token in tokens]


def wrong_tokens(team: Team) -> dict[str, list[str]]:
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


def test_every_invalid_token_gets_the_same_401_answer(fresh: Team) -> None:
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
            answer = exchange(fresh.socket("shop"), sent)
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


def test_agent_socket_authenticates_each_request_of_a_connection(team: Team) -> None:
    with connected(team.socket("shop")) as connection:
        for name in ("parent", "child"):
            shown = f"Authorization: Bearer {team.token(name)}"
            connection.sendall(request("GET /v1/me HTTP/1.1", shown, close=False))
            assert team.ids[name] in connection.recv(65536).decode()
        connection.sendall(request("GET /v1/me HTTP/1.1", close=False))
        assert b"401" in connection.recv(65536).partition(b"\r\n")[0]


def test_daemon_socket_ignores_tokens(team: Team) -> None:
    client = AgentClient(str(team.instance.socket), team.token("child"))
    assert client.refused("GET", "/v1/me") == (404, "not_found")  # by its uid the caller is the operator
    answer = exchange(
        str(team.instance.socket), request("GET /v1/others HTTP/1.1", "Authorization: Bearer x", "A: b")
    )
    assert len(parse_response(answer)[1]) == len(team.ids)


def test_token_stays_valid_when_the_daemon_restarts(fresh: Team) -> None:
    token = fresh.token("parent")
    fresh.instance.restart_daemon()
    assert AgentClient(fresh.socket("shop"), token).get("/v1/me")["session_id"] == fresh.ids["parent"]
    fresh.instance.kill_daemon()
    fresh.instance.start_daemon()
    assert AgentClient(fresh.socket("shop"), token).get("/v1/me")["session_id"] == fresh.ids["parent"]


def test_command_authenticates_with_the_token_file_of_its_session(team: Team) -> None:
    env = team.environment("parent")
    assert team.instance.json("me", env=env)["session_id"] == team.ids["parent"]
    team.instance.sm("note", "from the inside", env=env)
    assert team.instance.session(team.ids["parent"])["note"] == "from the inside"
    missing = team.instance.refused("me", exit_code=5, env=env | {"SM_TOKEN_FILE": "/nowhere"})
    assert "SM_TOKEN_FILE" in missing
    stranger = env | {"SM_TOKEN_FILE": team.token_file("banker")}
    assert "missing or invalid session token" in team.instance.refused("me", exit_code=5, env=stranger)
    # The token decides, not the session id in the environment.
    sibling = env | {"SM_SESSION_ID": team.ids["sibling"]}
    assert team.instance.json("me", env=sibling)["session_id"] == team.ids["parent"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SM_TOKEN_FILE", team.token_file("parent"))
        assert Client(team.socket("shop")).get("/v1/me")["session_id"] == team.ids["parent"]


# Visibility


def names(team: Team, sessions: list[dict[str, Any]]) -> set[str]:
    by_id = {session_id: name for name, session_id in team.ids.items()}
    return {by_id[s["session_id"]] for s in sessions}


def test_sandboxed_session_sees_only_sandboxed_sessions_of_its_workspace(team: Team) -> None:
    parent, banker, loner = (
        team.client("parent"), team.client("banker", "bank"), team.client("loner", None)
    )  # fmt: skip
    assert names(team, parent.get("/v1/sessions")) == {"parent", "child", "sibling"}
    assert names(team, parent.get("/v1/others")) == {"child", "sibling"}
    assert names(team, parent.get("/v1/who")) == {"sibling"}
    assert names(team, parent.get("/v1/sessions/-/children")) == {"child"}
    assert names(team, banker.get("/v1/sessions")) == {"banker"}
    assert names(team, loner.get("/v1/sessions")) == {"loner"}
    assert banker.get("/v1/others") == banker.get("/v1/who") == []
    for client, count in ((parent, 3), (banker, 1), (loner, 1)):
        assert client.get("/v1/health")["sessions"] == count
        assert sum(client.get("/v1/status")["sessions"].values()) == count
    seen = {e["session_id"] for e in banker.get("/v1/events?limit=10000")["events"]}
    assert seen == {team.ids["banker"]}


@pytest.mark.parametrize("name", ["banker", "loner", "direct"])
def test_hidden_session_does_not_exist_for_a_sandboxed_caller(team: Team, name: str) -> None:
    parent = team.client("parent")
    session = team.instance.session(team.ids[name])
    for reference in (
        session["session_id"],
        session["name"],
        session["friendly_name"],
        session["session_id"][:6],
    ):
        for method, action, body in (
            ("GET", "", None),
            ("GET", "/children", None),
            ("GET", "/output", None),
            ("GET", "/progress", None),
            ("GET", "/why", None),
            ("GET", "/checkpoints", None),
            ("GET", "/actions", None),
            ("POST", "/kill", {"force": True}),
            ("POST", "/interrupt", {}),
            ("POST", "/pause", {}),
            ("POST", "/resume", {}),
            ("GET", "/budget", None),
            ("POST", "/budget", {"set": "usd=5"}),
            ("POST", "/archive", {}),
            ("POST", "/remove", {}),
            ("POST", "/fork", {}),
            ("POST", "/restore", {}),
            ("POST", "/rename", {"name": "other"}),
            ("POST", "/reparent", {"parent": team.ids["parent"]}),
        ):
            assert parent.refused(method, f"/v1/sessions/{reference}{action}", body) == (404, "not_found")
        assert parent.refused("POST", "/v1/messages", {"to": reference, "text": "x"}) == (404, "not_found")
        assert parent.refused("POST", "/v1/wait", {"sessions": [reference]}) == (404, "not_found")
        assert parent.refused("GET", f"/v1/events?session={reference}") == (404, "not_found")
        assert parent.refused("GET", f"/v1/messages?session={reference}") == (404, "not_found")
        spawn = {"agent_type": "Sleeper", "parent": reference}
        assert parent.refused("POST", "/v1/sessions", spawn) == (404, "not_found")
        _, hidden = parent.ask("GET", f"/v1/sessions/{reference}")
        _, absent = parent.ask("GET", "/v1/sessions/0bad0bad")
        assert hidden["error"]["message"].replace(reference, "0bad0bad") == absent["error"]["message"]
    assert team.instance.session(team.ids[name])["status"] == "running"


def test_request_body_cannot_change_the_callers_trust_or_workspace(team: Team) -> None:
    parent = team.client("parent")
    spawn = {"agent_type": "Sleeper"}
    for more, expected in (
        ({"trust": "direct"}, (403, "not_permitted")),
        ({"trust": "trusted"}, (403, "not_permitted")),
        ({"trust": "vault"}, (403, "not_permitted")),
        ({"trust": "nonsense"}, (400, "usage")),
        ({"workspace": "bank"}, (404, "not_found")),
        ({"workspace": "nothing"}, (404, "not_found")),
        ({"args": ["-v"]}, (403, "not_permitted")),
    ):
        assert parent.refused("POST", "/v1/sessions", spawn | more) == expected, more
    # Unknown fields are ignored: the session stays sandboxed, and there is no sandbox to start it in.
    more = {"trust_level": "direct", "effective_mode": "direct", "created_by": "operator", "session_id": "x"}
    assert parent.refused("POST", "/v1/sessions", spawn | more) == (502, "engine_missing")
    assert names(team, parent.get("/v1/sessions")) == {"parent", "child", "sibling"}


def test_sandboxed_session_can_kill_only_its_descendants(fresh: Team) -> None:
    parent = fresh.client("parent")
    for name in ("parent", "sibling"):
        assert parent.refused("POST", f"/v1/sessions/{fresh.ids[name]}/kill", {}) == (403, "not_permitted")
    status, killed = parent.ask("POST", f"/v1/sessions/{fresh.ids['child']}/kill", {"force": True})
    assert (status, killed["status"]) == (200, "killed")


# Streams and waits


def open_stream(team: Team, path: str) -> Any:
    connection = connected(team.socket("shop"))
    shown = f"Authorization: Bearer {team.token('child')}"
    connection.sendall(request(f"GET {path} HTTP/1.1", shown))
    assert b" 200 " in connection.recv(65536).partition(b"\r\n")[0]
    return connection


def test_streams_and_waits_end_when_the_calling_session_ends(fresh: Team) -> None:
    shown = f"Authorization: Bearer {fresh.token('child')}"
    stream = open_stream(fresh, "/v1/events/stream")
    waiting = connected(fresh.socket("shop"))
    body = json.dumps({"sessions": [fresh.ids["sibling"]], "wait_s": 25}).encode()
    waiting.sendall(request("POST /v1/wait HTTP/1.1", shown, body=body))
    inbox = connected(fresh.socket("shop"))
    inbox.sendall(request("POST /v1/inbox/take HTTP/1.1", shown, body=b'{"wait_s": 25}'))
    fresh.instance.in_status(fresh.ids["child"], "idle")  # its status shows that it waits
    fresh.instance.sm("kill", fresh.ids["child"], "--force")
    with stream, waiting, inbox:
        assert read_to_end(stream).endswith(b"0\r\n\r\n")  # the end of a body in chunks
        assert parse_error(read_to_end(waiting))[0] in (401, 409)
        assert parse_error(read_to_end(inbox))[0] in (401, 409)
