"""Hidden objects do not exist for a caller on any route, and the audit log records each decision."""

import json
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest

from tests.fixtures import context_fixture
from tests.sim.stage import Instance

instance = context_fixture("function", Instance)

ABSENT = "0f0f0f0f"
"""A session id that does not exist."""


@dataclass(frozen=True)
class World:
    """Two workspaces: `one` has a parent with a child, and a mate; `two` has a stranger."""

    instance: Instance
    parent: str
    child: str
    mate: str
    stranger: str
    message: int
    """From the operator to the stranger."""
    request: str
    """Asked by the stranger."""

    def ask(self, caller: str | None, *requests: tuple[Any, ...]) -> list[list[Any]]:
        return self.instance.request_as(caller, *requests)

    def granted(self, caller: str | None, *request: Any) -> Any:
        """Return the answer to one request, which must succeed."""
        word, answer = self.ask(caller, request)[0][:2]
        assert word == "ok", answer
        return answer

    def audit(self) -> list[dict[str, Any]]:
        lines = (self.instance.state / "log" / "audit.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]


@pytest.fixture
def world() -> Iterator[World]:
    instance = Instance("limits: {spawn_interval_s: 0}")
    for slug in ("one", "two"):
        (instance.home / slug).mkdir()
        instance.sm("workspace", "create", slug, "--working-dir", str(instance.home / slug))

    def spawned(workspace: str, *more: str) -> str:
        session_id: str = instance.spawn("Sleeper", "x", *more, "--workspace", workspace)["session_id"]
        return session_id

    parent, stranger = spawned("one", "--name", "lead"), spawned("two", "--name", "hidden")
    child, mate = spawned("one", "--parent", parent), spawned("one")
    message = instance.json("send", stranger, "words-for-the-stranger", "--no-wait")["message_id"]
    answers = instance.request_as(
        stranger, ("POST", "/v1/requests", None, {"question": "words-of-a-question"})
    )
    yield World(instance, parent, child, mate, stranger, message, answers[0][1]["request_id"])
    instance.end()


# ------------------------------------------------------- a hidden object and an absent one get the same answer

ROUTES = [
    ("GET", "/v1/sessions/{ref}"),
    ("GET", "/v1/sessions/{ref}/children"),
    ("GET", "/v1/sessions/{ref}/checkpoints"),
    ("GET", "/v1/sessions/{ref}/output"),
    ("GET", "/v1/sessions/{ref}/attach"),
    ("GET", "/v1/sessions/{ref}/why"),
    ("GET", "/v1/sessions/{ref}/actions"),
    ("GET", "/v1/sessions/{ref}/progress"),
    ("GET", "/v1/events?session={ref}"),
    ("GET", "/v1/events?recursive=1&session={ref}"),
    ("GET", "/v1/events/stream?session={ref}"),
    ("GET", "/v1/messages?session={ref}"),
    ("GET", "/v1/requests?session={ref}"),
    ("POST", "/v1/sessions/{ref}/what"),
    ("POST", "/v1/sessions/{ref}/kill"),
    ("POST", "/v1/sessions/{ref}/kill", {"tree": True, "force": True}),
    ("POST", "/v1/sessions/{ref}/archive"),
    ("POST", "/v1/sessions/{ref}/unarchive"),
    ("POST", "/v1/sessions/{ref}/remove"),
    ("POST", "/v1/sessions/{ref}/restore"),
    ("POST", "/v1/sessions/{ref}/restore", {"tree": True}),
    ("POST", "/v1/sessions/{ref}/interrupt"),
    ("POST", "/v1/sessions/{ref}/pause"),
    ("POST", "/v1/sessions/{ref}/pause", {"tree": True}),
    ("POST", "/v1/sessions/{ref}/resume"),
    ("GET", "/v1/sessions/{ref}/budget"),
    ("POST", "/v1/sessions/{ref}/budget", {"set": "usd=5"}),
    ("POST", "/v1/sessions/{ref}/fork"),
    ("POST", "/v1/sessions/{ref}/rename", {"name": "other"}),
    ("POST", "/v1/sessions/{ref}/reparent", {"parent": "{child}"}),
    ("POST", "/v1/sessions/{child}/reparent", {"parent": "{ref}"}),
    ("POST", "/v1/requests/{ref}/answer", {"approved": True}),
    ("POST", "/v1/messages", {"to": "{ref}", "text": "hello"}),
    ("POST", "/v1/wait", {"sessions": ["{ref}"]}),
    ("POST", "/v1/sessions", {"agent_type": "Sleeper", "parent": "{ref}"}),
]


def filled(value: Any, **words: str) -> Any:
    text = json.dumps(value)
    for name, word in words.items():
        text = text.replace(f"{{{name}}}", word)
    return json.loads(text)


def assert_hidden_like_absent(
    world: World, caller: str, hidden: str, absent: str, routes: Sequence[tuple[Any, ...]]
) -> None:
    """Assert that every route answers the same for `there`, which is hidden, and for `absent`."""
    visible_names = [
        s[name]
        for s in world.granted(caller, "GET", "/v1/sessions")
        for name in ("session_id", "name", "friendly_name")
    ]
    hints = {
        "list sessions: sm all",
        "list requests: sm requests",
        "a request has an r before its number: rREF",  # of a reference that is all digits
        *(f"did you mean {name}?" for name in visible_names),
    }
    answers_by_ref = []
    for ref in (hidden, absent):
        wanted = [filled(route, ref=ref, child=world.child) for route in routes]
        answers = world.ask(caller, *[(method, path, None, *body) for method, path, *body in wanted])
        answers_by_ref.append([json.loads(json.dumps(answer).replace(ref, "REF")) for answer in answers])
    for route, of_hidden, of_absent in zip(routes, *answers_by_ref, strict=True):
        assert of_hidden[:2] == of_absent[:2], route
        assert of_hidden[0] == "not_found", route
        # Two references may resemble different names, but only names that the caller sees.
        assert {of_hidden[2], of_absent[2]} <= hints, route


def test_session_of_another_workspace_is_not_found_on_any_route(world: World) -> None:
    for hidden, absent in (
        (world.stranger, ABSENT),
        (world.stranger[:5], ABSENT[:5]),
        (f"sleeper-{world.stranger}", f"sleeper-{ABSENT}"),
        ("sleeper-hidden", "sleeper-hidxen"),  # the friendly name
        ("hidden", "hidxen"),
    ):
        assert_hidden_like_absent(world, world.parent, hidden, absent, ROUTES)


@pytest.mark.parametrize(
    ("kind", "absent", "path"),
    [
        ("message", "999999", "/v1/messages/{}"),
        ("request", "r999999", "/v1/requests/{}"),
        ("workspace", "twx", "/v1/workspaces/{}"),
    ],
)
def test_message_request_or_workspace_of_others_is_not_found(
    world: World, kind: str, absent: str, path: str
) -> None:
    hidden = {"message": str(world.message), "request": world.request, "workspace": "two"}[kind]
    assert world.granted(None, "GET", path.format(hidden))
    answers = world.ask(world.parent, ("GET", path.format(hidden)), ("GET", path.format(absent)))
    assert json.dumps(answers[0]).replace(hidden, "X") == json.dumps(answers[1]).replace(absent, "X")
    assert answers[0][0] == "not_found"


@pytest.mark.parametrize(("action", "body"), [("answer", {"approved": True}), ("taken", {})])
def test_request_of_another_workspace_cannot_be_answered(
    world: World, action: str, body: dict[str, Any]
) -> None:
    paths = [f"/v1/requests/{name}/{action}" for name in (world.request, "r999999")]
    answers = world.ask(world.parent, *[("POST", path, None, body) for path in paths])
    assert answers[0][1].replace(world.request, "X") == answers[1][1].replace("r999999", "X")
    assert answers[0][::2] == answers[1][::2] == ["not_found", "list requests: sm requests"]


def test_message_of_another_workspace_cannot_be_confirmed(world: World) -> None:
    answers = world.ask(
        world.parent,
        ("POST", "/v1/inbox/confirm", None, {"message_ids": [world.message]}),
        ("POST", "/v1/inbox/confirm", None, {"message_ids": [999_999]}),
    )
    assert answers[0][1].replace(str(world.message), "X") == answers[1][1].replace("999999", "X")
    assert answers[0][::2] == answers[1][::2] == ["not_found", "list your messages: sm log"]


def test_name_taken_error_does_not_reveal_the_other_session(world: World) -> None:
    spawn = ("POST", "/v1/sessions", None, {"agent_type": "Sleeper", "name": "hidden"})
    code, message, hint = world.ask(world.parent, spawn)[0]
    assert (code, message) == ("name_taken", "name sleeper-hidden is already used by a live session")
    assert world.stranger not in str(hint)


def test_operator_cannot_move_a_session_under_a_parent_of_another_workspace(world: World) -> None:
    answers = world.ask(
        None, ("POST", f"/v1/sessions/{world.child}/reparent", None, {"parent": world.stranger})
    )
    assert answers[0][:2] == [
        "not_permitted",
        f"sessions sleeper-hidden and {world.child} are in different workspaces",
    ]


# --------------------------------------------------------------------------------------------- counts and lists


def test_health_counts_only_sessions_of_the_callers_workspace(world: World) -> None:
    assert world.granted(world.stranger, "GET", "/v1/health")["sessions"] == 1
    assert world.granted(world.mate, "GET", "/v1/health")["sessions"] == 3
    assert world.granted(None, "GET", "/v1/health")["sessions"] == 4


def test_request_list_limit_ignores_requests_of_other_workspaces(world: World) -> None:
    question = ("POST", "/v1/requests", None, {"question": "words-of-a-question"})
    own = world.granted(world.child, *question)["request_id"]
    world.ask(world.stranger, *[question] * 3)
    for caller in (world.child, world.parent):
        listed = world.granted(caller, "GET", "/v1/requests", {"all": True, "limit": 1})
        assert [entry["request_id"] for entry in listed] == [own]


def test_status_counts_only_dead_letters_of_the_callers_workspace(world: World) -> None:
    with closing(sqlite3.connect(world.instance.state / "sm.db")) as db, db:
        db.execute(
            "INSERT INTO outbox (id, kind, session_id, payload, created_at, state)"
            " VALUES (-1, 'type', ?, '{}', ?, 'dead')",
            (world.stranger, "2026-01-27T15:10:00.000Z"),
        )
    assert world.granted(None, "GET", "/v1/status")["dead_letters"] == 1
    assert world.granted(world.stranger, "GET", "/v1/status")["dead_letters"] == 1
    assert world.granted(world.parent, "GET", "/v1/status")["dead_letters"] == 0


def test_lists_hide_sessions_of_other_workspaces(world: World) -> None:
    for path in ("/v1/sessions", "/v1/others", "/v1/who", "/v1/audience", "/v1/sessions/-/children"):
        shown = world.granted(world.parent, "GET", path, {"archived": True, "recursive": True})
        assert world.stranger not in json.dumps(shown), path
        assert {s["session_id"] for s in shown} <= {world.parent, world.child, world.mate}, path


def test_events_of_other_workspaces_are_hidden(world: World) -> None:
    answer = world.granted(
        world.parent, "GET", "/v1/events", {"recursive": True, "since": 0, "limit": 10_000}
    )
    assert {event["session_id"] for event in answer["events"]} == {world.parent, world.child}


# --------------------------------------------------------- a sandboxed caller sees only sandboxed sessions


@pytest.fixture
def mixed() -> Iterator[World]:
    """One tree, from the root: parent, child, descendant, mate, stranger.

    `child` and `stranger` are direct, the others sandboxed. `request` is the id of the descendant.
    """
    instance = Instance("limits: {spawn_interval_s: 0}")
    parent = instance.spawn("Sleeper", "x")["session_id"]
    child = instance.spawn("Sleeper", "x", "--parent", parent)["session_id"]
    descendant = instance.spawn("Sleeper", "x", "--parent", child)["session_id"]
    mate = instance.spawn("Sleeper", "x", "--parent", descendant)["session_id"]
    stranger = instance.spawn("Sleeper", "x", "--parent", mate)["session_id"]
    message = instance.json("send", child, "words-for-the-child", "--no-wait")["message_id"]
    instance.kill_daemon()
    with closing(sqlite3.connect(instance.state / "sm.db")) as db, db:
        sandboxed = (parent, descendant, mate)
        db.executemany(
            "UPDATE sessions SET effective_mode = 'sandboxed' WHERE id = ?", [(s,) for s in sandboxed]
        )
    instance.sm("all")
    yield World(instance, parent, child, mate, stranger, message, descendant)
    instance.end()


def test_direct_descendant_is_not_found_for_a_sandboxed_caller(mixed: World) -> None:
    routes = [route for route in ROUTES if "{child}" not in json.dumps(route)]
    assert_hidden_like_absent(mixed, mixed.parent, mixed.child, ABSENT, routes)
    assert mixed.ask(mixed.parent, ("GET", f"/v1/messages/{mixed.message}"))[0][0] == "not_found"


def test_child_of_a_sandboxed_session_never_starts_on_the_host(mixed: World) -> None:
    error = mixed.instance.refused("spawn", "Sleeper", "x", "--parent", mixed.parent, exit_code=9)
    assert "no Docker engine runs" in error


def test_operator_cannot_move_a_direct_session_under_a_sandboxed_parent(mixed: World) -> None:
    answers = mixed.ask(None, ("POST", f"/v1/sessions/{mixed.child}/reparent", None, {"parent": mixed.mate}))
    assert answers[0][0] == "usage"  # it is a descendant of the child
    answers = mixed.ask(
        None, ("POST", f"/v1/sessions/{mixed.stranger}/reparent", None, {"parent": mixed.parent})
    )
    assert answers[0][:2] == [
        "not_permitted",
        f"session {mixed.parent} cannot be the parent of session {mixed.stranger}, which has a higher trust level",
    ]


@pytest.mark.parametrize("recursive", [False, True])
def test_lists_hide_direct_sessions_from_a_sandboxed_caller(mixed: World, recursive: bool) -> None:
    for path in (
        "/v1/sessions/-/children",
        f"/v1/sessions/{mixed.mate}/children",
        "/v1/sessions",
        "/v1/audience",
    ):
        shown = json.dumps(mixed.granted(mixed.parent, "GET", path, {"recursive": recursive}))
        assert f'"session_id": "{mixed.child}"' not in shown, path
        assert f'"session_id": "{mixed.stranger}"' not in shown, path


def test_direct_parent_id_is_hidden_from_a_sandboxed_caller(mixed: World) -> None:
    descendant = mixed.granted(mixed.parent, "GET", f"/v1/sessions/{mixed.request}")
    assert (descendant["parent_session_id"], descendant["created_by"]) == (None, "operator")
    assert mixed.child not in json.dumps(mixed.granted(mixed.parent, "GET", "/v1/sessions"))
    # A session knows its own parent from its environment.
    assert mixed.granted(mixed.request, "GET", "/v1/me")["parent_session_id"] == mixed.child


def test_sandboxed_session_kills_only_the_visible_part_of_a_tree(mixed: World) -> None:
    killed = mixed.granted(
        mixed.parent, "POST", f"/v1/sessions/{mixed.mate}/kill", None, {"tree": True, "force": True}
    )
    assert killed["killed"] == [mixed.mate]
    assert mixed.instance.session(mixed.stranger)["status"] == "running"


# ------------------------------------------------------------------------------------------------ the audit log

TEXT, PROMPT, NOTE = "plain-words-of-a-message", "plain-words-of-a-prompt", "plain-words-of-a-note"


def audited_decisions(instance: Instance) -> list[tuple[str, str, str | None, str]]:
    lines = (instance.state / "log" / "audit.jsonl").read_text(encoding="utf-8").splitlines()
    entries = [json.loads(line) for line in lines]
    assert all(set(e) == {"time", "who", "what", "target", "decision", "reason"} for e in entries)
    return [(e["who"], e["what"], e["target"], e["decision"]) for e in entries]


def test_audit_log_records_decisions_without_message_texts(instance: Instance) -> None:
    for slug in ("one", "two"):
        (instance.home / slug).mkdir()
        instance.sm("workspace", "create", slug, "--working-dir", str(instance.home / slug))
    parent = instance.spawn("Sleeper", PROMPT, "--workspace", "one")["session_id"]
    sibling = instance.spawn("Sleeper", PROMPT, "--workspace", "one")["session_id"]
    foreign = instance.spawn("Sleeper", PROMPT, "--workspace", "two")["session_id"]
    child = instance.spawn("Sleeper", PROMPT, "--parent", parent)["session_id"]
    as_parent = {"SM_SESSION_ID": parent}
    instance.sm("send", sibling, TEXT, "--no-wait", env=as_parent)
    instance.sm("note", NOTE, env=as_parent)
    instance.sm("output", child, env=as_parent)
    grandchild = instance.spawn("Sleeper", PROMPT, "--parent", child)["session_id"]
    instance.sm("kill", child, "--force", "--tree", env=as_parent)
    instance.refused("kill", sibling, exit_code=5, env=as_parent)
    instance.refused("kill", foreign, exit_code=3, env=as_parent)
    instance.refused("status", "nobody\x1b[2J" + "x" * 200, exit_code=3, env=as_parent)
    instance.refused("spawn", "Sleeper", PROMPT, "--args", "-v", exit_code=5, env=as_parent)
    instance.refused("spawn", "Sleeper", PROMPT, "--workspace", "two", exit_code=3, env=as_parent)
    instance.refused("workspace", "delete", "one", exit_code=5, env=as_parent)
    instance.refused("daemon", "stop", exit_code=5, env=as_parent)
    instance.sm("output", sibling)
    instance.sm("status", sibling)
    instance.refused("all", exit_code=5, env={"SM_SESSION_ID": "ffffffff"})
    impostor = instance.spawn("Sleeper")["session_id"]
    ended = instance.run_inside(impostor, "complete", TEXT, env={"SM_SESSION_ID": sibling})
    assert ended.returncode == 5, ended
    instance.sm("daemon", "stop")

    caller = f"session:{parent}"
    decisions = audited_decisions(instance)
    expected = [
        ("operator", "manage_workspaces", "one", "allowed"),
        ("operator", "manage_workspaces", "two", "allowed"),
        ("operator", "spawn", parent, "allowed"),
        (caller, "send", sibling, "allowed"),
        (caller, "read", child, "allowed"),
        ("operator", "spawn", child, "allowed"),
        (caller, "kill", child, "allowed"),
        (caller, "kill", grandchild, "allowed"),
        (caller, "kill", sibling, "refused"),
        (caller, "kill", foreign, "refused"),
        (caller, "see", ("nobody [2J" + "x" * 200)[:79] + "…", "refused"),
        (caller, "spawn", None, "refused"),
        (caller, "spawn", None, "refused"),
        (caller, "manage_workspaces", "one", "refused"),
        (caller, "stop_daemon", None, "refused"),
    ]
    assert decisions[: len(expected)] == expected
    unknown, claimed, stop = decisions[len(expected) :]
    assert [entry[1:] for entry in (unknown, claimed)] == [
        ("all", None, "refused"),
        ("complete", None, "refused"),
    ]
    assert unknown[0].startswith("unknown (")
    assert stop == ("operator", "stop_daemon", None, "allowed")

    log = instance.state / "log" / "audit.jsonl"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    text = log.read_text(encoding="utf-8")
    assert impostor in text  # one of the two sessions that the caller claimed to be
    for secret in (TEXT, PROMPT, NOTE, "\x1b"):
        assert secret not in text
