"""The sockets for sandboxed agents: what exists there, who is let in, and what one workspace sees of another."""

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
from tests.instance import Instance, until
from tests.raw_http import answered, connected, exchange, refusal, request, rest_of
from tests.team import Asker, Team

# The audience of each route is named in the route table; this list is the second opinion.
OPERATORS = {
    "POST /v1/daemon/stop",
    "POST /v1/adopt",
    "POST /v1/restore",
    "GET /v1/sessions/{ref}/attach",
    "POST /v1/workspaces",
    "POST /v1/workspaces/{slug}",
    "POST /v1/workspaces/{slug}/delete",
}
AGENT_ROUTES = {f"{r.method} {r.path}" for routes in TABLE.values() for r in routes if r.agents}
ROUTES = {f"{r.method} {r.path}" for routes in TABLE.values() for r in routes}
UNKNOWN = (404, "protocol")
NOBODY = (401, "unauthenticated")


@pytest.fixture(scope="module")
def team() -> Iterator[Team]:
    """For what leaves its sessions as they are."""
    made = Team()
    yield made
    assert "Traceback" not in made.log()
    made.end()


@pytest.fixture
def own() -> Iterator[Team]:
    made = Team()
    yield made
    assert "Traceback" not in made.log()
    made.end()


# What exists there


def test_every_route_is_for_agents_or_for_the_operator_alone() -> None:
    assert ROUTES - AGENT_ROUTES == OPERATORS
    assert not AGENT_ROUTES - ROUTES


def filled(route: str, team: Team) -> tuple[str, str]:
    method, _, path = route.partition(" ")
    return method, path.replace("{ref}", team.ids["child"]).replace("{slug}", "shop").replace("{id}", "1")


@pytest.mark.parametrize("route", sorted(OPERATORS))
def test_an_operators_route_does_not_exist_on_an_agent_socket(team: Team, route: str) -> None:
    method, path = filled(route, team)
    parent = team.asker("parent")
    status, answer = parent.ask(method, path, None if method == "GET" else {"all": True})
    same_path = {r.partition(" ")[2] for r in AGENT_ROUTES}
    assert status == (405 if route.partition(" ")[2] in same_path else 404)
    assert answer == parent.ask(method, "/v1/nothing", None if method == "GET" else {})[1]


def test_an_agents_route_exists_on_both(team: Team) -> None:
    wrong = dict.fromkeys(
        ("agent_type", "sessions", "limit", "question", "text", "message", "to", "payload"), 5
    )
    for route in sorted(AGENT_ROUTES - {"GET /v1/events/stream"}):
        method, _, path = route.partition(" ")
        path = path.replace("{ref}", "0bad0bad").replace("{slug}", "shop").replace("{id}", "1")
        for asker in (team.asker("parent"), Asker(str(team.instance.socket), None)):
            status, answer = asker.ask(method, path, None if method == "GET" else wrong)
            assert status < 500, (route, answer)
            assert status == 200 or answer["error"]["code"] != UNKNOWN[1], route


def test_the_socket_is_for_its_owner_alone_and_lies_alone_in_its_directory(team: Team) -> None:
    for workspace in ("shop", "bank", None):
        socket = Path(team.socket(workspace))
        modes = [stat.S_IMODE(path.stat().st_mode) for path in (socket, socket.parent, socket.parent.parent)]
        assert modes == [0o600, 0o700, 0o700]
        assert os.listdir(socket.parent) == ["s"]
        assert len(os.fsencode(socket)) <= 104


def test_an_instance_without_sandboxed_sessions_has_no_agent_socket(instance: Instance) -> None:
    instance.spawn("Sleeper", "x")
    instance.sm("daemon", "restart")
    assert not (instance.state / "run" / "w").exists()


# Who is let in


def test_who_shows_its_token_is_that_session_whatever_else_it_says(team: Team) -> None:
    for name, workspace in (("parent", "shop"), ("child", "shop"), ("banker", "bank"), ("loner", None)):
        asker = team.asker(name, workspace)
        assert asker.get("/v1/me")["session_id"] == team.ids[name]
        told = (
            "SM-Session-Id: " + team.ids["sibling"],
            "X-Forwarded-For: operator",
            "SM_TRUST_LEVEL: direct",
        )
        assert asker.ask("GET", "/v1/me", None, *told)[1]["session_id"] == team.ids[name]


def bearer(*tokens: str) -> list[str]:
    return [f"Authorization: Bearer {token}" for token in tokens]


def wrong_tokens(team: Team) -> dict[str, list[str]]:
    """Authorization headers that make nobody of the socket of `shop`."""
    own = team.token("parent")
    return {
        "none": [],
        "empty": bearer(""),
        "no scheme": [f"Authorization: {own}"],
        "another scheme": [f"Authorization: Basic {own}"],
        "nothing": ["Authorization:"],
        "truncated": bearer(own[:-1]),
        "longer": bearer(own + "0"),
        "very long": bearer(own * 100),
        "in capitals": bearer(own.upper()) if own.upper() != own else bearer(""),
        "nonsense": bearer("0" * 64),
        "no hex": bearer("\xe9" * 64),
        "with a word": bearer(f"{own} {own}"),
        "its hash": bearer(hashlib.sha256(own.encode()).hexdigest()),
        "twice": bearer(own, own),
        "two": bearer(own, team.token("direct")),
        "nonsense and own": bearer("0" * 64, own),
        "of another workspace": bearer(team.token("banker")),
        "of no workspace": bearer(team.token("loner")),
        "of a direct session": bearer(team.token("direct")),
        "an id": bearer(team.ids["parent"]),
    }


def test_whatever_else_is_shown_gets_one_and_the_same_refusal(own: Team) -> None:
    killed, ended = own.token("child"), own.token("sibling")
    own.instance.sm("kill", own.ids["child"], "--force")
    os.kill(own.instance.session(own.ids["sibling"])["pid"], 15)
    own.instance.ended(own.ids["sibling"])
    wrong = wrong_tokens(own) | {"of a killed one": bearer(killed), "of an ended one": bearer(ended)}
    answers = set()
    for what, headers in wrong.items():
        for path in ("/v1/me", "/v1/nothing", "/v1/daemon/stop"):
            sent = request(f"POST {path} HTTP/1.1", *headers, body=b"{}")
            answer = exchange(own.socket("shop"), sent)
            assert refusal(answer) == NOBODY, what
            head, _, body = answer.partition(b"\r\n\r\n")
            assert b"WWW-Authenticate: Bearer" in head
            answers.add(body)
    assert len(answers) == 1
    assert own.instance.session(own.ids["parent"])["status"] == "running"
    audit = (own.instance.state / "log" / "audit.jsonl").read_text()
    assert "shop socket" in audit
    for text in (audit, own.log(), (own.instance.state / "sm.db").read_bytes().decode("latin-1")):
        assert own.token("parent") not in text
        assert killed not in text


def test_each_request_of_a_connection_shows_a_token(team: Team) -> None:
    with connected(team.socket("shop")) as connection:
        for name in ("parent", "child"):
            shown = f"Authorization: Bearer {team.token(name)}"
            connection.sendall(request("GET /v1/me HTTP/1.1", shown, close=False))
            assert team.ids[name] in connection.recv(65536).decode()
        connection.sendall(request("GET /v1/me HTTP/1.1", close=False))
        assert b"401" in connection.recv(65536).partition(b"\r\n")[0]


def test_a_token_gives_nothing_on_the_daemons_own_socket(team: Team) -> None:
    asker = Asker(str(team.instance.socket), team.token("child"))
    assert asker.refused("GET", "/v1/me") == (404, "not_found")  # the operator, by the kernel's word
    found = exchange(
        str(team.instance.socket), request("GET /v1/others HTTP/1.1", "Authorization: Bearer x", "A: b")
    )
    assert len(answered(found)[1]) == len(team.ids)


def test_a_token_outlives_the_daemon(own: Team) -> None:
    token = own.token("parent")
    own.instance.sm("daemon", "restart")
    assert Asker(own.socket("shop"), token).get("/v1/me")["session_id"] == own.ids["parent"]
    own.instance.kill_daemon()
    own.instance.start_daemon()
    assert Asker(own.socket("shop"), token).get("/v1/me")["session_id"] == own.ids["parent"]


def test_a_restored_session_has_another_token_and_calls_with_it(own: Team) -> None:
    shop = own.instance.home / "shop"
    tell = (
        "sm me --json > me.json; echo $SM_SOCKET > socket.txt; cp $SM_TOKEN_FILE token.txt; exec sleep 1000"
    )
    own.ids["teller"] = own.instance.spawn("Sh", tell, "--workspace", "shop")["session_id"]
    until(lambda: (shop / "token.txt").exists() and (shop / "token.txt").stat().st_size, "it has asked")
    assert (shop / "socket.txt").read_text().strip() == str(own.instance.socket)
    own.sandbox("teller")
    old = Asker(own.socket("shop"), own.token("teller"))
    assert old.get("/v1/me")["session_id"] == own.ids["teller"]
    own.instance.sm("kill", own.ids["teller"], "--force")
    assert old.refused("GET", "/v1/me") == NOBODY
    for file in ("me.json", "socket.txt", "token.txt"):
        (shop / file).unlink()
    own.instance.sm("restore", own.ids["teller"])
    until(lambda: (shop / "token.txt").exists() and (shop / "token.txt").stat().st_size, "it has asked again")
    assert (shop / "socket.txt").read_text().strip() == own.socket("shop")
    assert json.loads((shop / "me.json").read_text())["session_id"] == own.ids["teller"]
    new = Asker(own.socket("shop"), own.token("teller"))
    assert new.token != old.token
    assert new.get("/v1/me")["effective_mode"] == "sandboxed"
    assert old.refused("GET", "/v1/me") == NOBODY


def test_the_first_sandboxed_session_of_a_workspace_opens_its_socket(own: Team) -> None:
    late = own.instance.home / "late"
    late.mkdir()
    own.instance.sm("workspace", "create", "late", "--working-dir", str(late))
    own.ids["late"] = own.instance.spawn(
        "Sh", "sm me --json > me.json 2>&1; exec sleep 1000", "--workspace", "late"
    )["session_id"]
    own.instance.sm("kill", own.ids["late"], "--force")
    own.sandbox("late")
    assert not os.path.exists(own.socket("late"))
    (late / "me.json").unlink()
    own.instance.sm("restore", own.ids["late"])
    until(lambda: (late / "me.json").exists() and (late / "me.json").read_text().endswith("\n"), "it asked")
    assert json.loads((late / "me.json").read_text())["session_id"] == own.ids["late"]


def test_the_command_shows_the_token_of_its_session(team: Team) -> None:
    env = team.environment("parent")
    assert team.instance.json("me", env=env)["session_id"] == team.ids["parent"]
    team.instance.sm("note", "from the inside", env=env)
    assert team.instance.session(team.ids["parent"])["note"] == "from the inside"
    missing = team.instance.refused("me", exit_code=5, env=env | {"SM_TOKEN_FILE": "/nowhere"})
    assert "SM_TOKEN_FILE" in missing
    stranger = env | {"SM_TOKEN_FILE": team.token_file("banker")}
    assert "nobody's token" in team.instance.refused("me", exit_code=5, env=stranger)
    # The session that its environment claims is not asked: the token says who it is.
    sibling = env | {"SM_SESSION_ID": team.ids["sibling"]}
    assert team.instance.json("me", env=sibling)["session_id"] == team.ids["parent"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SM_TOKEN_FILE", team.token_file("parent"))
        assert Client(team.socket("shop")).get("/v1/me")["session_id"] == team.ids["parent"]


# What is seen from there


def names(team: Team, sessions: list[dict[str, Any]]) -> set[str]:
    by_id = {session_id: name for name, session_id in team.ids.items()}
    return {by_id[s["session_id"]] for s in sessions}


def test_a_sandboxed_session_sees_the_sandboxed_ones_of_its_workspace_and_counts_no_others(
    team: Team,
) -> None:
    parent, banker, loner = (
        team.asker("parent"), team.asker("banker", "bank"), team.asker("loner", None)
    )  # fmt: skip
    assert names(team, parent.get("/v1/sessions")) == {"parent", "child", "sibling"}
    assert names(team, parent.get("/v1/others")) == {"child", "sibling"}
    assert names(team, parent.get("/v1/who")) == {"sibling"}
    assert names(team, parent.get("/v1/sessions/-/children")) == {"child"}
    assert names(team, banker.get("/v1/sessions")) == {"banker"}
    assert names(team, loner.get("/v1/sessions")) == {"loner"}
    assert banker.get("/v1/others") == banker.get("/v1/who") == []
    for asker, count in ((parent, 3), (banker, 1), (loner, 1)):
        assert asker.get("/v1/health")["sessions"] == count
        assert sum(asker.get("/v1/status")["sessions"].values()) == count
    seen = {e["session_id"] for e in banker.get("/v1/events?limit=10000")["events"]}
    assert seen == {team.ids["banker"]}


@pytest.mark.parametrize("name", ["banker", "loner", "direct"])
def test_what_a_session_may_not_see_does_not_exist_for_it(team: Team, name: str) -> None:
    parent = team.asker("parent")
    session = team.instance.session(team.ids[name])
    for known in (
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
            ("POST", "/archive", {}),
            ("POST", "/remove", {}),
            ("POST", "/fork", {}),
            ("POST", "/restore", {}),
            ("POST", "/reparent", {"parent": team.ids["parent"]}),
        ):
            assert parent.refused(method, f"/v1/sessions/{known}{action}", body) == (404, "not_found")
        assert parent.refused("POST", "/v1/messages", {"to": known, "text": "hello"}) == (404, "not_found")
        assert parent.refused("POST", "/v1/wait", {"sessions": [known]}) == (404, "not_found")
        assert parent.refused("GET", f"/v1/events?session={known}") == (404, "not_found")
        assert parent.refused("GET", f"/v1/messages?session={known}") == (404, "not_found")
        spawn = {"agent_type": "Sleeper", "parent": known}
        assert parent.refused("POST", "/v1/sessions", spawn) == (404, "not_found")
        _, theirs = parent.ask("GET", f"/v1/sessions/{known}")
        _, nobodys = parent.ask("GET", "/v1/sessions/0bad0bad")
        assert theirs["error"]["message"].replace(known, "0bad0bad") == nobodys["error"]["message"]
    assert team.instance.session(team.ids[name])["status"] == "running"


def test_a_session_cannot_say_what_it_is_in_a_body(team: Team) -> None:
    parent = team.asker("parent")
    spawn = {"agent_type": "Sleeper"}
    for more, refused in (
        ({"trust": "direct"}, (403, "not_permitted")),
        ({"trust": "trusted"}, (403, "not_permitted")),
        ({"trust": "vault"}, (403, "not_permitted")),
        ({"trust": "nonsense"}, (400, "usage")),
        ({"workspace": "bank"}, (404, "not_found")),
        ({"workspace": "nothing"}, (404, "not_found")),
        ({"args": ["-v"]}, (403, "not_permitted")),
    ):
        assert parent.refused("POST", "/v1/sessions", spawn | more) == refused, more
    # Nor in any field that does not exist: it stays what it is, and cannot do without a sandbox.
    told = {"trust_level": "direct", "effective_mode": "direct", "created_by": "operator", "session_id": "x"}
    assert parent.refused("POST", "/v1/sessions", spawn | told) == (502, "sandbox_unavailable")
    assert names(team, parent.get("/v1/sessions")) == {"parent", "child", "sibling"}


def test_it_may_end_its_own_descendants_and_nobody_else(own: Team) -> None:
    parent = own.asker("parent")
    for name in ("parent", "sibling"):
        assert parent.refused("POST", f"/v1/sessions/{own.ids[name]}/kill", {}) == (403, "not_permitted")
    status, killed = parent.ask("POST", f"/v1/sessions/{own.ids['child']}/kill", {"force": True})
    assert (status, killed["status"]) == (200, "killed")


# Followers


def opened(team: Team, path: str) -> Any:
    """A stream that has begun."""
    connection = connected(team.socket("shop"))
    shown = f"Authorization: Bearer {team.token('child')}"
    connection.sendall(request(f"GET {path} HTTP/1.1", shown))
    assert b" 200 " in connection.recv(65536).partition(b"\r\n")[0]
    return connection


def test_followers_and_waits_end_with_the_process_that_they_are_for(own: Team) -> None:
    shown = f"Authorization: Bearer {own.token('child')}"
    stream = opened(own, "/v1/events/stream")
    waiting = connected(own.socket("shop"))
    body = json.dumps({"sessions": [own.ids["sibling"]], "wait_s": 25}).encode()
    waiting.sendall(request("POST /v1/wait HTTP/1.1", shown, body=body))
    inbox = connected(own.socket("shop"))
    inbox.sendall(request("POST /v1/inbox/take HTTP/1.1", shown, body=b'{"wait_s": 25}'))
    own.instance.in_status(own.ids["child"], "idle")  # they wait: so says its status
    own.instance.sm("kill", own.ids["child"], "--force")
    with stream, waiting, inbox:
        assert rest_of(stream).endswith(b"0\r\n\r\n")  # the end of a body in chunks
        assert refusal(rest_of(waiting))[0] in (401, 409)
        assert refusal(rest_of(inbox))[0] in (401, 409)
