"""Agent sockets of sandboxed sessions: routes, authentication, and isolation between workspaces."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from sm.api.routes import ROUTES as TABLE
from sm.client.http import Client
from tests.fixtures import context_fixture
from tests.raw_http import parse_response, request
from tests.sim.stage import until
from tests.sim.team import PlayedTeam

# The route table names the audience of each route. This independent list checks the table.
OPERATOR_ROUTES = {
    "POST /v1/daemon/stop",
    "POST /v1/adopt",
    "POST /v1/restore",
    "GET /v1/files",
    "POST /v1/files",
    "DELETE /v1/files/{file_id}",
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
    "GET /v1/sessions/{ref}/pull-requests",
    "POST /v1/sessions/{ref}/pull-requests",
    "POST /v1/sessions/{ref}/pull-requests/reports",
    "GET /v1/budget",
    "GET /v1/config",
    "POST /v1/config/undo",
    "GET /v1/requests/{ref}/rule",
    "POST /v1/requests/{ref}/rule",
    "GET /v1/spawn-choices",
    "POST /v1/seen",
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


team = context_fixture("module", PlayedTeam)
"""A team shared by the tests that do not change its sessions."""


# Routes


def test_every_route_is_either_an_agent_route_or_operator_only() -> None:
    assert ROUTES - AGENT_ROUTES == OPERATOR_ROUTES
    assert not AGENT_ROUTES - ROUTES


def filled_route(route: str, team: PlayedTeam) -> tuple[str, str]:
    method, _, path = route.partition(" ")
    return method, path.replace("{ref}", team.ids["child"]).replace("{slug}", "shop").replace(
        "{name}", "shop"
    ).replace("{id}", "1")


@pytest.mark.parametrize("route", sorted(OPERATOR_ROUTES))
def test_agent_socket_hides_operator_only_routes(team: PlayedTeam, route: str) -> None:
    method, path = filled_route(route, team)
    parent = team.client("parent")
    status, answer = parent.ask(method, path, None if method == "GET" else {"all": True})
    same_path = {r.partition(" ")[2] for r in AGENT_ROUTES}
    assert status == (405 if route.partition(" ")[2] in same_path else 404)
    assert answer == parent.ask(method, "/v1/nothing", None if method == "GET" else {})[1]


def test_agent_route_exists_on_the_agent_socket_and_on_the_daemon_socket(team: PlayedTeam) -> None:
    wrong = dict.fromkeys(
        ("agent_type", "sessions", "limit", "question", "text", "message", "to", "payload"), 5
    )
    for route in sorted(AGENT_ROUTES - {"GET /v1/events/stream", "GET /v1/live"}):
        method, _, path = route.partition(" ")
        path = path.replace("{ref}", "0bad0bad").replace("{slug}", "shop").replace("{id}", "1")
        for client in (team.client("parent"), team.caller(str(team.instance.socket), None)):
            status, answer = client.ask(method, path, None if method == "GET" else wrong)
            assert status < 500, (route, answer)
            assert status == 200 or answer["error"]["code"] != UNKNOWN_ROUTE[1], route


def test_agent_socket_is_private_to_its_owner_and_alone_in_its_directory(team: PlayedTeam) -> None:
    for workspace in ("shop", "bank", None):
        socket = Path(team.socket(workspace))
        modes = [stat.S_IMODE(path.stat().st_mode) for path in (socket, socket.parent, socket.parent.parent)]
        assert modes == [0o600, 0o700, 0o700]
        assert os.listdir(socket.parent) == ["s"]
        assert len(os.fsencode(socket)) <= 104


# Authentication


def test_token_identifies_the_caller_when_headers_claim_another_session(team: PlayedTeam) -> None:
    for name, workspace in (("parent", "shop"), ("child", "shop"), ("banker", "bank"), ("loner", None)):
        client = team.client(name, workspace)
        assert client.get("/v1/me")["session_id"] == team.ids[name]
        false_headers = (
            "SM-Session-Id: " + team.ids["sibling"],
            "X-Forwarded-For: operator",
            "SM_TRUST_LEVEL: direct",
        )
        assert client.ask("GET", "/v1/me", None, *false_headers)[1]["session_id"] == team.ids[name]


def test_agent_socket_authenticates_each_request_of_a_connection(team: PlayedTeam) -> None:
    with team.connect(team.socket("shop")) as connection:
        for name in ("parent", "child"):
            shown = f"Authorization: Bearer {team.token(name)}"
            connection.sendall(request("GET /v1/me HTTP/1.1", shown, close=False))
            assert team.ids[name] in connection.recv(65536).decode()
        connection.sendall(request("GET /v1/me HTTP/1.1", close=False))
        assert b"401" in connection.recv(65536).partition(b"\r\n")[0]


def test_daemon_socket_ignores_tokens(team: PlayedTeam) -> None:
    client = team.caller(str(team.instance.socket), team.token("child"))
    assert client.refused("GET", "/v1/me") == (404, "not_found")  # by its uid the caller is the operator
    answer = team.exchange(
        str(team.instance.socket), request("GET /v1/others HTTP/1.1", "Authorization: Bearer x", "A: b")
    )
    assert len(parse_response(answer)[1]) == len(team.ids)


def test_command_authenticates_with_the_token_file_of_its_session(team: PlayedTeam) -> None:
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


def names(team: PlayedTeam, sessions: list[dict[str, Any]]) -> set[str]:
    by_id = {session_id: name for name, session_id in team.ids.items()}
    return {by_id[s["session_id"]] for s in sessions}


def test_sandboxed_session_sees_only_sandboxed_sessions_of_its_workspace(team: PlayedTeam) -> None:
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
def test_hidden_session_does_not_exist_for_a_sandboxed_caller(team: PlayedTeam, name: str) -> None:
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


def test_request_body_cannot_change_the_callers_trust_or_workspace(team: PlayedTeam) -> None:
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


# Cleaners of temporary files


@pytest.mark.parametrize("with_directory", [False, True])
def test_removed_socket_is_served_anew_and_its_connections_go_on(
    team: PlayedTeam, with_directory: bool
) -> None:
    socket = Path(team.socket("shop"))
    shown = f"Authorization: Bearer {team.token('parent')}"
    with team.connect(str(socket)) as connection:
        socket.unlink()
        if with_directory:
            socket.parent.rmdir()
        until(socket.exists, "the daemon serves a new socket")
        assert stat.S_IMODE(socket.stat().st_mode) == 0o600
        assert team.client("parent").get("/v1/me")["session_id"] == team.ids["parent"]
        connection.sendall(request("GET /v1/me HTTP/1.1", shown, close=False))
        assert team.ids["parent"] in connection.recv(65536).decode()
    assert f"{socket} was removed; it is served again" in team.log()
