"""The digest: its sections and its readers."""

from pathlib import Path
from typing import Any

import pytest

from sm.capabilities.worktrees.changes import worktree_changes
from sm.client.http import Client
from tests.fixtures import context_fixture
from tests.git_repositories import commit, make_app
from tests.sim.stage import Instance, until
from tests.sim.team import PlayedTeam

git_runs = pytest.mark.processes
shared = context_fixture("function", Instance)


@pytest.fixture
def repo(shared: Instance) -> Path:
    return make_app(shared.work)


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


@git_runs
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


@git_runs
def test_digest_says_why_worktrees_are_not_compared(shared: Instance, repo: Path) -> None:
    session = shared.spawn("Sleeper", "x", "--worktree", cwd=repo)
    bare = {"PATH": str(repo)}  # without git
    found = shared.json("digest", env=bare)
    assert session["session_id"] in ids(found["not_compared"])
    assert {entry["reason"] for entry in found["not_compared"]} == {"git is not installed"}
    assert found["changes"] == []
    assert "cannot be compared: git is not installed" in shared.sm("digest", env=bare)
    assert shared.json("digest")["not_compared"] == []


@git_runs
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


@pytest.mark.parametrize("since", ["tomorrow", "25:00", "2999-01-01T00:00", "8x"])
def test_digest_refuses_a_beginning_that_is_no_past_time(shared: Instance, since: str) -> None:
    assert "time" in shared.refused("digest", "--since", since, exit_code=2) or since == "8x"


def test_session_sees_only_visible_sessions_in_its_digest() -> None:
    team = PlayedTeam()
    try:
        names = {session_id: name for name, session_id in team.ids.items()}
        found = team.client("parent").get("/v1/digest")
        assert {names[entry["session_id"]] for entry in found["live"]} == {"parent", "child", "sibling"}
        assert team.client("parent").refused("GET", "/v1/digest?workspace=bank") == (404, "not_found")
    finally:
        team.end()


def test_digest_on_a_small_terminal_fits_it(shared: Instance) -> None:
    for number in range(38):
        shared.spawn("Sleeper", "x", "--name", f"many{number}", "--workspace", "-")
    shown = shared.sm("digest")
    assert len(shown.splitlines()) <= 40
    assert "more: sm ls)" in shown
