"""What a caller may not see is not there for it, on whatever way it asks; and what was decided is written down."""

import json
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest

from tests.asking import asked
from tests.instance import Instance, until

NOBODY = "0f0f0f0f"
"""An id that no session has."""


@dataclass(frozen=True)
class Two:
    """Two workspaces. In `one` a parent with a child, and another session of its team; in `two` a stranger."""

    instance: Instance
    parent: str
    child: str
    mate: str
    stranger: str
    message: int
    """From the operator to the stranger."""
    request: str
    """Of the stranger."""

    def ask(self, who: str | None, *requests: tuple[Any, ...]) -> list[list[Any]]:
        return asked(self.instance, who, *requests)

    def one(self, who: str | None, *request: Any) -> Any:
        """The answer to one request, which must be granted."""
        word, answer = self.ask(who, request)[0][:2]
        assert word == "ok", answer
        return answer

    def audit(self) -> list[dict[str, Any]]:
        lines = (self.instance.state / "log" / "audit.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def two() -> Iterator[Two]:
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
    asking = asked(instance, stranger, ("POST", "/v1/requests", None, {"question": "words-of-a-question"}))
    yield Two(instance, parent, child, mate, stranger, message, asking[0][1]["request_id"])
    instance.end()


# --------------------------------------------------------------------------- not there and not yours: one answer

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
    ("POST", "/v1/sessions/{ref}/fork"),
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


def not_there_and_not_yours(
    world: Two, who: str, there: str, absent: str, routes: Sequence[tuple[Any, ...]]
) -> None:
    """Every route says the same of both."""
    seen = [
        s[name]
        for s in world.one(who, "GET", "/v1/sessions")
        for name in ("session_id", "name", "friendly_name")
    ]
    hints = {"sm all lists them", "sm requests", *(f"did you mean {name}?" for name in seen)}
    said = []
    for ref in (there, absent):
        wanted = [filled(each, ref=ref, child=world.child) for each in routes]
        answers = world.ask(who, *[(method, path, None, *body) for method, path, *body in wanted])
        said.append([json.loads(json.dumps(answer).replace(ref, "REF")) for answer in answers])
    for route, of_there, of_absent in zip(routes, *said, strict=True):
        assert of_there[:2] == of_absent[:2], route
        assert of_there[0] == "not_found", route
        # Two words may come near different names, but near those only that the caller sees.
        assert {of_there[2], of_absent[2]} <= hints, route


@pytest.mark.parametrize("reference", ["id", "prefix", "name", "friendly name", "short name"])
def test_a_session_of_another_workspace_is_not_there_on_any_route(two: Two, reference: str) -> None:
    there, absent = {
        "id": (two.stranger, NOBODY),
        "prefix": (two.stranger[:5], NOBODY[:5]),
        "name": (f"sleeper-{two.stranger}", f"sleeper-{NOBODY}"),
        "friendly name": ("sleeper-hidden", "sleeper-hidxen"),
        "short name": ("hidden", "hidxen"),
    }[reference]
    not_there_and_not_yours(two, two.parent, there, absent, ROUTES)


@pytest.mark.parametrize(
    ("there", "absent", "path"),
    [
        ("message", "999999", "/v1/messages/{}"),
        ("request", "r999999", "/v1/requests/{}"),
        ("workspace", "twx", "/v1/workspaces/{}"),
    ],
)
def test_what_belongs_to_another_workspace_is_not_there(two: Two, there: str, absent: str, path: str) -> None:
    known = {"message": str(two.message), "request": two.request, "workspace": "two"}[there]
    assert two.one(None, "GET", path.format(known))
    said = two.ask(two.parent, ("GET", path.format(known)), ("GET", path.format(absent)))
    assert json.dumps(said[0]).replace(known, "X") == json.dumps(said[1]).replace(absent, "X")
    assert said[0][0] == "not_found"


@pytest.mark.parametrize(("action", "body"), [("answer", {"approved": True}), ("taken", {})])
def test_a_request_of_another_workspace_cannot_be_answered(
    two: Two, action: str, body: dict[str, Any]
) -> None:
    paths = [f"/v1/requests/{name}/{action}" for name in (two.request, "r999999")]
    said = two.ask(two.parent, *[("POST", path, None, body) for path in paths])
    assert said[0][1].replace(two.request, "X") == said[1][1].replace("r999999", "X")
    assert said[0][::2] == said[1][::2] == ["not_found", "sm requests"]


def test_a_message_of_another_workspace_cannot_be_confirmed(two: Two) -> None:
    said = two.ask(
        two.parent,
        ("POST", "/v1/inbox/confirm", None, {"message_ids": [two.message]}),
        ("POST", "/v1/inbox/confirm", None, {"message_ids": [999_999]}),
    )
    assert said[0][1].replace(str(two.message), "X") == said[1][1].replace("999999", "X")
    assert said[0][::2] == said[1][::2] == ["not_found", "sm log shows yours"]


def test_a_taken_name_says_no_more_than_that(two: Two) -> None:
    spawn = ("POST", "/v1/sessions", None, {"agent_type": "Sleeper", "name": "hidden"})
    code, message, hint = two.ask(two.parent, spawn)[0]
    assert (code, message) == ("name_taken", "a live session is named sleeper-hidden already")
    assert two.stranger not in str(hint)


def test_a_session_is_given_to_no_parent_of_another_workspace_not_even_by_the_operator(two: Two) -> None:
    said = two.ask(None, ("POST", f"/v1/sessions/{two.child}/reparent", None, {"parent": two.stranger}))
    assert said[0][:2] == [
        "not_permitted",
        f"sessions {two.stranger} and {two.child} are in different workspaces",
    ]


# ----------------------------------------------------------------------------------------- nothing is counted


def test_a_session_counts_its_own_workspace_only(two: Two) -> None:
    assert two.one(two.stranger, "GET", "/v1/health")["sessions"] == 1
    assert two.one(two.mate, "GET", "/v1/health")["sessions"] == 3
    assert two.one(None, "GET", "/v1/health")["sessions"] == 4


def test_requests_of_others_take_no_place_in_a_list(two: Two) -> None:
    question = ("POST", "/v1/requests", None, {"question": "words-of-a-question"})
    own = two.one(two.child, *question)["request_id"]
    two.ask(two.stranger, *[question] * 3)
    for who in (two.child, two.parent):
        listed = two.one(who, "GET", "/v1/requests", {"all": True, "limit": 1})
        assert [each["request_id"] for each in listed] == [own]


def test_trouble_and_dead_letters_of_others_are_not_told(two: Two) -> None:
    with closing(sqlite3.connect(two.instance.state / "sm.db")) as db, db:
        db.execute(
            "INSERT INTO outbox (id, kind, session_id, payload, created_at, state)"
            " VALUES (-1, 'type', ?, '{}', ?, 'dead')",
            (two.stranger, "2026-01-27T15:10:00.000Z"),
        )
    assert two.one(None, "GET", "/v1/status")["dead_letters"] == 1
    assert two.one(two.stranger, "GET", "/v1/status")["dead_letters"] == 1
    assert two.one(two.parent, "GET", "/v1/status")["dead_letters"] == 0


@pytest.mark.parametrize(
    "path", ["/v1/sessions", "/v1/others", "/v1/who", "/v1/audience", "/v1/sessions/-/children"]
)
def test_no_list_shows_another_workspace(two: Two, path: str) -> None:
    shown = two.one(two.parent, "GET", path, {"archived": True, "recursive": True})
    assert two.stranger not in json.dumps(shown)
    assert {s["session_id"] for s in shown} <= {two.parent, two.child, two.mate}


def test_no_event_of_another_workspace_is_told(two: Two) -> None:
    told = two.one(two.parent, "GET", "/v1/events", {"recursive": True, "since": 0, "limit": 10_000})
    assert {event["session_id"] for event in told["events"]} == {two.parent, two.child}


# ---------------------------------------------------------------------------- sandboxed: only what is sandboxed


@pytest.fixture(scope="module")
def mixed() -> Iterator[Two]:
    """One team. `parent` and `mate` are sandboxed, as a sandbox would have them; `child` and `stranger` are direct.

    The child stands below the parent, and below that another sandboxed one, `request`.
    """
    instance = Instance("limits: {spawn_interval_s: 0}")
    parent = instance.spawn("Sleeper", "x")["session_id"]
    child = instance.spawn("Sleeper", "x", "--parent", parent)["session_id"]
    below = instance.spawn("Sleeper", "x", "--parent", child)["session_id"]
    mate = instance.spawn("Sleeper", "x", "--parent", below)["session_id"]
    stranger = instance.spawn("Sleeper", "x", "--parent", mate)["session_id"]
    message = instance.json("send", child, "words-for-the-child", "--no-wait")["message_id"]
    instance.kill_daemon()
    with closing(sqlite3.connect(instance.state / "sm.db")) as db, db:
        sandboxed = (parent, below, mate)
        db.executemany(
            "UPDATE sessions SET effective_mode = 'sandboxed' WHERE id = ?", [(s,) for s in sandboxed]
        )
    instance.sm("all")
    yield Two(instance, parent, child, mate, stranger, message, below)
    instance.end()


def test_a_direct_descendant_is_not_there_for_a_sandboxed_session(mixed: Two) -> None:
    routes = [route for route in ROUTES if "{child}" not in json.dumps(route)]
    not_there_and_not_yours(mixed, mixed.parent, mixed.child, NOBODY, routes)
    assert mixed.ask(mixed.parent, ("GET", f"/v1/messages/{mixed.message}"))[0][0] == "not_found"


def test_a_sandboxed_sessions_child_does_not_fall_back_to_the_host_not_even_for_the_operator(
    mixed: Two,
) -> None:
    said = mixed.instance.refused("spawn", "Sleeper", "x", "--parent", mixed.parent, exit_code=9)
    assert "no sandbox" in said


def test_a_direct_session_is_given_to_no_sandboxed_parent_not_even_by_the_operator(mixed: Two) -> None:
    said = mixed.ask(None, ("POST", f"/v1/sessions/{mixed.child}/reparent", None, {"parent": mixed.mate}))
    assert said[0][0] == "usage"  # it stands below
    said = mixed.ask(
        None, ("POST", f"/v1/sessions/{mixed.stranger}/reparent", None, {"parent": mixed.parent})
    )
    assert said[0][:2] == ["not_permitted", f"a child of {mixed.parent} cannot have more trust than it has"]


@pytest.mark.parametrize("recursive", [False, True])
def test_no_list_shows_a_sandboxed_session_a_direct_one(mixed: Two, recursive: bool) -> None:
    for path in (
        "/v1/sessions/-/children",
        f"/v1/sessions/{mixed.mate}/children",
        "/v1/sessions",
        "/v1/audience",
    ):
        shown = json.dumps(mixed.one(mixed.parent, "GET", path, {"recursive": recursive}))
        assert f'"session_id": "{mixed.child}"' not in shown, path
        assert f'"session_id": "{mixed.stranger}"' not in shown, path


def test_a_sandboxed_session_is_not_told_the_id_of_a_direct_parent(mixed: Two) -> None:
    below = mixed.one(mixed.parent, "GET", f"/v1/sessions/{mixed.request}")
    assert (below["parent_session_id"], below["created_by"]) == (None, "operator")
    assert mixed.child not in json.dumps(mixed.one(mixed.parent, "GET", "/v1/sessions"))
    # Its own parent it knows by its environment.
    assert mixed.one(mixed.request, "GET", "/v1/me")["parent_session_id"] == mixed.child


def test_a_sandboxed_session_kills_a_tree_but_not_what_it_does_not_see(mixed: Two) -> None:
    killed = mixed.one(
        mixed.parent, "POST", f"/v1/sessions/{mixed.mate}/kill", None, {"tree": True, "force": True}
    )
    assert killed["killed"] == [mixed.mate]
    assert mixed.instance.session(mixed.stranger)["status"] == "running"


# ------------------------------------------------------------------------------------------------ the audit log

TEXT, PROMPT, NOTE = "plain-words-of-a-message", "plain-words-of-a-prompt", "plain-words-of-a-note"


def decided(instance: Instance) -> list[tuple[str, str, str | None, str]]:
    lines = (instance.state / "log" / "audit.jsonl").read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    assert all(set(each) == {"time", "who", "what", "target", "decision", "reason"} for each in found)
    return [(each["who"], each["what"], each["target"], each["decision"]) for each in found]


def test_what_was_decided_is_written_down_and_nothing_that_was_said(instance: Instance) -> None:
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
    script = f"SM_SESSION_ID={sibling} sm complete {TEXT} > out.txt 2>&1; echo $? >> out.txt; sleep 1000"
    two_marks = instance.spawn("Sh", script)["session_id"]
    out = instance.work / "out.txt"
    until(lambda: out.exists() and out.read_text().endswith("5\n"), "it was refused")
    instance.sm("daemon", "stop")

    me = f"session:{parent}"
    all_of_it = decided(instance)
    expected = [
        ("operator", "manage_workspaces", "one", "allowed"),
        ("operator", "manage_workspaces", "two", "allowed"),
        ("operator", "spawn", parent, "allowed"),
        (me, "send", sibling, "allowed"),
        (me, "read", child, "allowed"),
        ("operator", "spawn", child, "allowed"),
        (me, "kill", child, "allowed"),
        (me, "kill", grandchild, "allowed"),
        (me, "kill", sibling, "refused"),
        (me, "kill", foreign, "refused"),
        (me, "see", ("nobody [2J" + "x" * 200)[:79] + "…", "refused"),
        (me, "spawn", None, "refused"),
        (me, "spawn", None, "refused"),
        (me, "manage_workspaces", "one", "refused"),
        (me, "stop_daemon", None, "refused"),
    ]
    assert all_of_it[: len(expected)] == expected
    unknown, claimed, stop = all_of_it[len(expected) :]
    assert [each[1:] for each in (unknown, claimed)] == [
        ("all", None, "refused"),
        ("complete", None, "refused"),
    ]
    assert unknown[0].startswith("unknown (")
    assert stop == ("operator", "stop_daemon", None, "allowed")

    log = instance.state / "log" / "audit.jsonl"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    text = log.read_text(encoding="utf-8")
    assert two_marks in text  # one of the two that the caller said it was
    for said in (TEXT, PROMPT, NOTE, "\x1b"):
        assert said not in text
