"""The digest through the real command: its sections, its readers, and the one that is sent each day."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sm.cli.changes import worktree_changes
from sm.client.http import Client
from tests.fixtures import context_fixture
from tests.instance import Instance, until
from tests.integration.test_notify import KEEP, inputs, instance_with
from tests.integration.test_work import repo
from tests.integration.test_worktree import commit
from tests.notifiers.receiver import Receiver
from tests.team import Team
from tests.telegram_api import TelegramApi
from tests.telegram_instance import configure, start

__all__ = ["repo"]

shared = context_fixture("module", Instance)
receiver = context_fixture("function", Receiver)
ASKS = "sm ask 'Which port?' > o.txt; exec sleep 1000"


def ids(entries: list[dict[str, Any]]) -> set[str]:
    return {entry["session_id"] for entry in entries}


def test_digest_shows_endings_requests_and_live_sessions(shared: Instance) -> None:
    failed = shared.spawn("Sh", "exit 3", "--name", "bad")["session_id"]
    shared.ended(failed)
    asks = shared.spawn("Sh", ASKS, "--name", "asks")["session_id"]
    until(lambda: shared.json("requests"), "the question is open")
    lives = shared.spawn("Sleeper", "x")["session_id"]
    found = shared.json("digest")
    assert failed in ids(found["ended"]) and failed not in ids(found["live"])
    assert {asks, lives} <= ids(found["live"])
    (request,) = (r for r in found["requests"] if r["session_id"] == asks)
    assert "Which port?" in request["text"] and "sm answer r" in request["text"]
    text = shared.sm("digest")
    assert "Open requests" in text and "sh-asks" in text
    assert "sh-bad error" in text and "exit code 3" in text
    # Only what ended after that time.
    after = shared.json("digest", "--since", found["until"])
    assert failed not in ids(after["ended"])
    assert asks in ids(after["live"])


def test_digest_shows_budgets_of_live_sessions_and_of_those_that_ended_since(shared: Instance) -> None:
    over = shared.spawn("Sh", "exit 0", "--budget", "usd=5")["session_id"]
    shared.ended(over)
    lives = shared.spawn("Sleeper", "x", "--budget", "usd=5")["session_id"]
    first = shared.json("digest")
    assert {over, lives} <= ids(first["spending"])
    (spent,) = (tree for tree in first["spending"] if tree["session_id"] == lives)
    assert spent["budget"] == "usd 0 of 5"
    later = ids(shared.json("digest", "--since", first["until"])["spending"])
    assert lives in later and over not in later


def test_digest_shows_what_changed_in_worktrees(shared: Instance, repo: Path) -> None:
    session = shared.spawn("Sleeper", "x", "--worktree", cwd=repo)
    path = Path(session["worktree"]["path"])
    assert session["session_id"] not in ids(shared.json("digest")["changes"])
    commit(path, "b\n")
    (path / "new.txt").write_text("new\nnew\n")
    (change,) = (c for c in shared.json("digest")["changes"] if c["session_id"] == session["session_id"])
    assert (change["commits"], change["files"]) == (1, 2)
    assert change["added"] >= 2
    assert "Changed on disk" in shared.sm("digest")


def test_digest_says_why_worktrees_are_not_compared(shared: Instance, repo: Path) -> None:
    session = shared.spawn("Sleeper", "x", "--worktree", cwd=repo)
    bare = {"PATH": str(repo)}  # without git
    found = shared.json("digest", env=bare)
    assert session["session_id"] in ids(found["not_compared"])
    assert {entry["reason"] for entry in found["not_compared"]} == {"git is not installed"}
    assert found["changes"] == []
    assert "cannot be compared: git is not installed" in shared.sm("digest", env=bare)
    assert shared.json("digest")["not_compared"] == []


def test_digest_accounts_for_every_worktree_and_compares_those_of_live_sessions_first(
    shared: Instance, repo: Path
) -> None:
    lives = shared.spawn("Sh", "echo x > new.txt; exec sleep 1000", "--worktree", cwd=repo)
    over = shared.spawn("Sh", "echo x > new.txt", "--worktree", cwd=repo)
    shared.ended(over["session_id"])
    until((Path(lives["worktree"]["path"]) / "new.txt").exists, "the live agent has written its file")
    client = Client(str(shared.socket))
    digest = client.get("/v1/digest")
    (live,) = (entry for entry in digest["live"] if entry["session_id"] == lives["session_id"])
    (ended,) = (entry for entry in digest["ended"] if entry["session_id"] == over["session_id"])
    found = worktree_changes(client, {**digest, "live": [live], "ended": [ended] * 21})
    listed = [entry["session_id"] for entry in (*found.changes, *found.not_compared)]
    assert listed == [lives["session_id"], *[over["session_id"]] * 21]


def test_digest_of_a_workspace_has_only_its_sessions(shared: Instance) -> None:
    shared.sm("workspace", "create", "night", "--working-dir", str(shared.work), "--trust", "direct")
    inside = shared.spawn("Sleeper", "x", "--workspace", "night")["session_id"]
    outside = shared.spawn("Sleeper", "x", "--workspace", "-")["session_id"]
    assert ids(shared.json("digest", "--workspace", "night")["live"]) == {inside}
    assert outside in ids(shared.json("digest", "--workspace", "-")["live"])
    shared.refused("digest", "--workspace", "nowhere", exit_code=3)


@pytest.mark.parametrize("since", ["yesterday", "25:00", "2999-01-01T00:00", "8x"])
def test_digest_refuses_a_beginning_that_is_no_past_time(shared: Instance, since: str) -> None:
    assert "time" in shared.refused("digest", "--since", since, exit_code=2) or since == "8x"


def test_session_sees_only_visible_sessions_in_its_digest() -> None:
    team = Team()
    try:
        names = {session_id: name for name, session_id in team.ids.items()}
        found = team.client("parent").get("/v1/digest")
        assert {names[entry["session_id"]] for entry in found["live"]} == {"parent", "child", "sibling"}
        assert team.client("parent").refused("GET", "/v1/digest?workspace=bank") == (404, "not_found")
    finally:
        team.end()


def with_digest_at(instance: Instance, at: str) -> Instance:
    instance.config.write_text(instance.config.read_text() + f'  digest_at: "{at}"\n')
    return instance


def timer(instance: Instance) -> tuple[str, str]:
    """The time at which the next digest is due, and the data of its timer."""
    with closing(sqlite3.connect(instance.state / "sm.db")) as db:
        rows = db.execute("SELECT due_at, data FROM timers WHERE kind = 'digest'").fetchall()
    (row,) = rows
    return str(row[0]), str(row[1])


def make_due(instance: Instance) -> None:
    """As if the time had come while the daemon was away."""
    instance.kill_daemon()
    with closing(sqlite3.connect(instance.state / "sm.db")) as db, db:
        db.execute("UPDATE timers SET due_at = '2026-01-01T07:00:00.000Z' WHERE kind = 'digest'")
    instance.start_daemon()


def make_long(instance: Instance, endings: int) -> None:
    """Add copies of the ended sessions, each with a long result, while the daemon is away."""
    with closing(sqlite3.connect(instance.state / "sm.db")) as db, db:
        db.execute("UPDATE sessions SET completion_message = ?", ("\N{COLLISION SYMBOL}" * 150,))
        db.execute("CREATE TEMP TABLE copies AS SELECT * FROM sessions")
        for number in range(endings):
            name = f"copy{number:04}"
            db.execute("UPDATE copies SET id = ?, friendly_name = ?", (name, name))
            db.execute("INSERT INTO sessions SELECT * FROM copies")


def digests(instance: Instance) -> list[str]:
    return [m["text"] for m in instance.json("inbox") if m["text"].startswith("Since ")]


def test_digest_is_sent_once_a_day_to_the_inbox_the_program_and_webhooks(receiver: Receiver) -> None:
    with with_digest_at(instance_with(KEEP, receiver.url("/one"), events="digest"), "07:00") as instance:
        failed = instance.spawn("Sh", "exit 3", "--name", "bad")["session_id"]
        instance.ended(failed)
        before = timer(instance)
        make_due(instance)
        until(lambda: digests(instance), "the digest arrives")
        after = timer(instance)
        assert after[0] >= before[0] > "2026-01-01T07:00:00.000Z"
        assert '"since": null' not in after[1] and '"since":null' not in after[1]
        (text,) = digests(instance)
        assert "sh-bad error" in text
        until(lambda: [b for b in inputs(instance) if b["type"] == "digest"], "the program gets the digest")
        until(lambda: [r for r in receiver.got if r.json["type"] == "digest"], "the webhook gets the digest")
        # A daemon that starts again sends nothing more, and the next digest has nothing old.
        instance.kill_daemon()
        instance.start_daemon()
        assert len(digests(instance)) == 1
        assert timer(instance) == after
        make_due(instance)
        until(lambda: len(digests(instance)) == 2, "the next digest arrives")
        assert "sh-bad" not in digests(instance)[1]


def test_long_digest_arrives_whole_in_telegram() -> None:
    with TelegramApi() as api, Instance() as instance:
        api.person(1001, "Ann", has_started=True)
        configure(instance, api, 'notify: {digest_at: "07:00"}')
        start(instance, api)
        instance.ended(instance.spawn("Sh", "exit 3")["session_id"])
        instance.kill_daemon()
        make_long(instance, 40)
        instance.start_daemon()
        make_due(instance)
        until(lambda: digests(instance), "the digest arrives in the inbox")
        (text,) = digests(instance)
        # Telegram removes the spaces at the beginning of a message.
        lines = [line.strip() for line in text.splitlines() if line]

        def received() -> list[str]:
            texts = [message.text or "" for message in api.messages(1001)]
            shown = [line.strip() for text in texts for line in text.splitlines()]
            return [line for line in shown if line in lines]

        until(lambda: received()[-1:] == lines[-1:], "the last line arrives in the chat")
        assert received() == lines


def test_timer_follows_the_configuration() -> None:
    with with_digest_at(instance_with(KEEP), "07:00") as instance:
        instance.spawn("Sleeper", "x")
        assert timer(instance)[1].find("07:00") > 0
        instance.config.write_text(instance.config.read_text().replace("07:00", "08:30"))
        instance.restart_daemon()
        until(lambda: timer(instance)[1].find("08:30") > 0, "the timer has the new time")
        instance.config.write_text(
            instance.config.read_text().replace('digest_at: "08:30"', "digest_at: null")
        )
        instance.restart_daemon()

        def is_gone() -> bool:
            with closing(sqlite3.connect(instance.state / "sm.db")) as db:
                return not db.execute("SELECT 1 FROM timers WHERE kind = 'digest'").fetchall()

        until(is_gone, "the timer is removed")


def test_digest_on_a_small_terminal_fits_it(shared: Instance) -> None:
    for number in range(38):
        shared.spawn("Sleeper", "x", "--name", f"many{number}", "--workspace", "-")
    shown = shared.sm("digest")
    assert len(shown.splitlines()) <= 40
    assert "more: sm ls)" in shown
