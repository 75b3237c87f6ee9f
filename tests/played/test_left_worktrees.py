"""Worktrees that stay: of a stopped removal, of an earlier version of sm, of an agent that moved its branch."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sm.client.http import Client
from tests.fixtures import context_fixture
from tests.git_repositories import branches, commit, git, make_app
from tests.sim.stage import Instance

pytestmark = pytest.mark.processes  # git

instance = context_fixture("function", Instance)


@pytest.fixture
def repo(instance: Instance) -> Path:
    return make_app(instance.work)


def ended(instance: Instance, repo: Path, name: str = "login") -> tuple[dict[str, Any], Path]:
    """A session that has ended, and its worktree."""
    session = instance.spawn("Sleeper", "x", "--worktree", "--name", name, cwd=repo)
    instance.sm("kill", session["session_id"])
    return session, Path(session["worktree"]["path"])


def remove_only_session(instance: Instance, session: dict[str, Any]) -> None:
    """Remove a session as another client does, which leaves its worktree."""
    instance.request_as(None, ("POST", f"/v1/sessions/{session['session_id']}/remove"))


def test_prune_finishes_a_removal_that_was_stopped(instance: Instance, repo: Path) -> None:
    session, path = ended(instance, repo)
    remove_only_session(instance, session)
    # As a removal that was killed leaves it.
    (Path(git(path, "rev-parse", "--absolute-git-dir")) / "sm-removal").touch()
    (path / "api" / "a.txt").unlink()
    (path / "new").touch()
    assert "(new)" in instance.run("worktree", "prune", "--yes").stderr
    assert path.exists()
    (path / "new").unlink()
    assert instance.sm("worktree", "prune", "--yes") == f"Removed {path}\n"
    assert (path.exists(), branches(repo)) == (False, ["main"])
    assert git(repo, "worktree", "list").count("\n") == 0


def test_discard_keeps_a_worktree_into_which_sm_cannot_look(instance: Instance, repo: Path) -> None:
    session, path = ended(instance, repo)
    (Path(git(path, "rev-parse", "--absolute-git-dir")) / "index").write_text("not an index")
    done = instance.run("rm", session["session_id"], "--discard", "--yes")
    assert (done.returncode, path.exists()) == (0, True)
    assert f"kept the worktree {path}: " in done.stderr


def refusal(instance: Instance, session: dict[str, Any]) -> str:
    """The error of a removal that is refused."""
    return instance.refused("rm", session["session_id"], exit_code=4)


def test_commits_in_refs_of_the_worktree_alone_are_work(instance: Instance, repo: Path) -> None:
    session, path = ended(instance, repo)
    git(path, "update-ref", "refs/worktree/mine", commit(path, "b\n"))
    git(path, "reset", "-q", "--hard", "HEAD~1")
    assert "1 commit in no other branch or tag" in refusal(instance, session)
    git(repo, "branch", "kept", git(path, "rev-parse", "refs/worktree/mine"))
    git(path, "update-ref", "refs/worktree/blob", git(path, "hash-object", "-w", "/etc/hostname"))
    assert "the object of refs/worktree/blob" in refusal(instance, session)
    git(path, "update-ref", "-d", "refs/worktree/blob")
    instance.sm("rm", session["session_id"])
    assert (path.exists(), branches(repo)) == (False, ["kept", "main"])


def test_worktree_whose_branch_was_renamed_is_removed(instance: Instance, repo: Path) -> None:
    session, path = ended(instance, repo)
    git(path, "branch", "-m", "between")
    commit(path, "b\n")
    git(path, "commit", "-q", "--amend", "-m", "c")  # so that the log has a commit that no branch has
    git(path, "branch", "-m", "renamed")
    done = instance.run("rm", session["session_id"])
    assert (done.returncode, done.stderr, path.exists()) == (0, "", False)
    assert branches(repo) == ["main", "renamed"]


@pytest.mark.parametrize("is_kept", [True, False])
def test_commits_of_a_deleted_branch_are_work(instance: Instance, repo: Path, is_kept: bool) -> None:
    session, path = ended(instance, repo)
    made = commit(path, "b\n")
    git(path, "switch", "-q", "--detach", "main")
    git(path, "branch", "-D", "sm/login")
    if not is_kept:
        assert "1 commit of a deleted branch" in refusal(instance, session)
    git(repo, "branch", "kept", made)
    done = instance.run("rm", session["session_id"])
    assert (done.returncode, done.stderr, path.exists()) == (0, "", False)
    assert branches(repo) == ["kept", "main"]


def of_an_earlier_version(instance: Instance) -> None:
    """Let the daemon know the worktrees only by their sessions."""
    instance.sm("daemon", "stop")
    with closing(sqlite3.connect(instance.state / "sm.db")) as database, database:
        database.execute("DELETE FROM worktrees")
    instance.sm("daemon", "start")


def test_worktrees_of_an_earlier_version_are_listed_opened_and_pruned(instance: Instance, repo: Path) -> None:
    login, path = ended(instance, repo)
    _, other = ended(instance, repo, "other")
    of_an_earlier_version(instance)
    found = {tree["path"]: tree for tree in instance.json("worktree", "ls")}
    assert {path: (tree["label"], tree["work"], tree["start"]) for path, tree in found.items()} == {
        str(path): ("sleeper-login", None, None),
        str(other): ("sleeper-other", None, None),
    }
    assert instance.json("worktree", "open", "other") == {"path": str(other)}
    (path / "new").touch()
    reviewed = f"refs/sm/reviews/{login['session_id']}/x"
    git(repo, "update-ref", reviewed, "main^{tree}")
    remove_only_session(instance, login)
    assert "(new)" in instance.run("worktree", "prune", "--yes").stderr
    (path / "new").unlink()
    assert instance.sm("worktree", "prune", "--yes") == f"Removed {path}\n"
    assert branches(repo) == ["main", "sm/other"]
    instance.until(lambda: not git(repo, "for-each-ref", "refs/sm/reviews"), "the refs are gone")


def test_prune_keeps_a_worktree_that_another_session_has_too(instance: Instance, repo: Path) -> None:
    login, path = ended(instance, repo)
    body = {"agent_type": "Sleeper", "prompt": "x", "working_dir": str(path)}
    worktree = {"worktree": str(path), "branch": "sm/login"}
    second = Client(str(instance.socket)).post("/v1/sessions", {**body, **worktree})["session_id"]
    instance.sm("kill", second)
    remove_only_session(instance, login)
    assert instance.sm("worktree", "prune", "--yes") == "No worktrees to delete\n"
    assert [tree["session_id"] for tree in instance.json("worktree", "ls")] == [second]
    assert path.exists()


@pytest.mark.parametrize("kind", ["file", "link", "repository", "directory"])
def test_place_with_something_else_is_not_listed_when_its_session_is_removed(
    instance: Instance, repo: Path, kind: str
) -> None:
    session, path = ended(instance, repo)
    away = path.rename(path.parent / "away")
    match kind:
        case "file":
            path.touch()
        case "link":
            path.symlink_to(away)
        case "repository":
            make_app(path.parent).rename(path)
        case _:
            path.mkdir()
            (path / "x").touch()
    remove_only_session(instance, session)
    assert instance.json("worktree", "ls", "--all") == []
    assert instance.run("worktree", "prune", "--yes").stderr == ""
    assert path.exists() and (away / "api" / "a.txt").exists()


@pytest.mark.parametrize("kind", ["unreadable", "empty"])
def test_place_that_may_be_the_worktree_stays_in_the_list(instance: Instance, repo: Path, kind: str) -> None:
    session, path = ended(instance, repo)
    if kind == "unreadable":
        (path / ".git").write_text("gitdir: /nowhere\n")
    else:  # as the place of a file system that is not mounted now
        path.rename(path.parent / "away")
        path.mkdir()
    remove_only_session(instance, session)
    for _ in range(2):
        assert [tree["path"] for tree in instance.json("worktree", "ls")] == [str(path)]


def test_open_says_that_the_directory_is_gone(instance: Instance, repo: Path) -> None:
    _, path = ended(instance, repo)
    path.rename(path.parent / "away")
    error = instance.refused("worktree", "open", "sleeper-login", exit_code=4)
    assert error == f"sm: the directory of the worktree is gone: {path}\n"


@pytest.mark.parametrize("discard", [(), ("--discard", "--yes")])
def test_rm_of_an_older_session_keeps_the_worktree_that_was_made_again_for_another_one(
    instance: Instance, repo: Path, discard: tuple[str, ...]
) -> None:
    older, path = ended(instance, repo)
    git(repo, "worktree", "remove", str(path))
    git(repo, "branch", "-q", "-D", "sm/login")
    newer, _ = ended(instance, repo)
    (repo / ".git" / "info" / "exclude").write_text("cache\n")
    (path / "cache").touch()
    if discard:
        (path / "new").touch()
    instance.run("rm", older["session_id"], *discard)
    assert (path / "cache").exists()
    assert branches(repo) == ["main", "sm/login"]
    assert [tree["session_id"] for tree in instance.json("worktree", "ls", "--all")] == [newer["session_id"]]
    instance.sm("rm", newer["session_id"], *discard)
    assert (path.exists(), branches(repo)) == (False, ["main"])


def test_prune_with_discard_deletes_the_work_that_it_has_named(instance: Instance, repo: Path) -> None:
    session, path = ended(instance, repo)
    commit(path, "b\n")
    (path / "new").touch()
    remove_only_session(instance, session)
    error = instance.refused("worktree", "prune", "--discard", exit_code=4)
    assert f"--discard would delete work that exists nowhere else: {path} with 1 uncommitted" in error
    assert "(new); 1 commit in no other branch or tag" in error
    assert "to delete it: sm worktree prune --discard --yes" in error
    assert instance.run("worktree", "prune", "--yes").stdout == "Kept 1 worktree\n"
    assert instance.sm("worktree", "prune", "--discard", "--yes") == f"Removed {path}\n"
    assert (path.exists(), branches(repo)) == (False, ["main"])


def test_prune_with_discard_keeps_a_worktree_into_which_sm_cannot_look(
    instance: Instance, repo: Path
) -> None:
    session, path = ended(instance, repo)
    (Path(git(path, "rev-parse", "--absolute-git-dir")) / "index").write_text("not an index")
    remove_only_session(instance, session)
    done = instance.run("worktree", "prune", "--discard", "--yes")
    assert (done.stdout, path.exists()) == ("Kept 1 worktree\n", True)
    assert f"kept {path}: sm cannot look: " in done.stderr


def test_one_worktree_is_asked_for_by_its_path(instance: Instance, repo: Path) -> None:
    """A prune asks before each step whether a session works in the worktree, and not about all others."""
    login, path = ended(instance, repo)
    ended(instance, repo, "other")
    for of_which, expected in (({"path": str(path)}, [str(path)]), ({"path": f"{path}/x"}, [])):
        ((code, trees, *_),) = instance.request_as(None, ("GET", "/v1/worktrees", of_which))
        assert (code, [tree["path"] for tree in trees]) == ("ok", expected)
    both = {"path": str(path), "session": login["session_id"]}
    ((_, (tree,), *_),) = instance.request_as(None, ("GET", "/v1/worktrees", both))
    assert tree["path"] == str(path)
