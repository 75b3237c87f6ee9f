"""A git worktree of a session's own: made with it, and cleaned by `sm rm` when nothing would be lost."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.instance import Instance


def git(directory: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=x", "-c", "user.email=x@localhost", "-C", str(directory), *arguments],
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done
    return done.stdout.strip()


@pytest.fixture
def repository(instance: Instance) -> Path:
    path = instance.work / "app"
    (path / "api").mkdir(parents=True)
    git(path, "init", "-q", "-b", "main")
    (path / "api" / "a.txt").write_text("a\n")
    git(path, "add", ".")
    git(path, "commit", "-q", "-m", "first")
    return path


def branches(repository: Path) -> list[str]:
    return git(repository, "branch", "--format=%(refname:short)").split("\n")


def test_a_session_gets_a_worktree_and_a_branch_of_its_own(instance: Instance, repository: Path) -> None:
    where = repository / ".sm" / "worktrees" / "login"
    session = instance.spawn("Sleeper", "x", "--worktree", "--name", "Login", cwd=repository / "api")
    assert session["worktree"] == {"path": str(where), "branch": "sm/login"}
    assert session["working_dir"] == str(where / "api")
    assert git(where, "rev-parse", "--abbrev-ref", "HEAD") == "sm/login"
    assert git(repository, "status", "--porcelain") == ""
    assert f"Worktree:  {where}, branch sm/login" in instance.sm("status", session["session_id"])
    unnamed = instance.spawn("Sleeper", "x", "--worktree", "--working-dir", str(repository))
    assert unnamed["worktree"]["path"] != session["worktree"]["path"]
    # From within a worktree the next one is a sibling and no grandchild.
    nested = instance.spawn("Sleeper", "x", "--worktree", "--name", "nested", cwd=where)
    assert nested["worktree"]["path"] == str(where.parent / "nested")


def test_the_worktree_goes_with_its_session(instance: Instance, repository: Path) -> None:
    session = instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repository)
    instance.sm("kill", session["session_id"])
    done = instance.run("rm", session["session_id"])
    assert (done.returncode, done.stderr) == (0, "")
    assert not (repository / ".sm" / "worktrees" / "login").exists()
    assert branches(repository) == ["main"]
    again = instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repository)
    assert again["worktree"]["branch"] == "sm/login"


@pytest.mark.parametrize("left", ["changed", "new", "committed"])
def test_what_is_not_elsewhere_stays(instance: Instance, repository: Path, left: str) -> None:
    session = instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repository)
    where = Path(session["worktree"]["path"])
    match left:
        case "changed":
            (where / "api" / "a.txt").write_text("b\n")
        case "new":
            (where / "new.txt").write_text("b\n")
        case _:
            (where / "api" / "a.txt").write_text("b\n")
            git(where, "commit", "-q", "-a", "-m", "second")
    instance.sm("kill", session["session_id"])
    done = instance.run("rm", session["session_id"], "--json")
    assert json.loads(done.stdout) == {
        "removed": session["session_id"],
        "effective_mode": "direct",
        "worktree": session["worktree"],
    }
    assert branches(repository) == ["main", "sm/login"]
    if left == "committed":
        assert "the branch sm/login stays: it has commits that are nowhere else" in done.stderr
        assert not where.exists()
    else:
        assert f"the worktree {where} stays: " in done.stderr
        assert where.exists()


def test_a_worktree_in_which_another_session_works_stays(instance: Instance, repository: Path) -> None:
    session = instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repository)
    child = instance.spawn("Sleeper", "x", env={"SM_SESSION_ID": session["session_id"]})
    assert child["working_dir"] == session["working_dir"]
    assert child["worktree"] is None
    instance.sm("kill", session["session_id"])
    done = instance.run("rm", session["session_id"])
    assert f"session {child['session_id']} works there" in done.stderr
    assert Path(session["working_dir"]).exists()


def test_a_spawn_that_is_refused_leaves_no_worktree(instance: Instance, repository: Path) -> None:
    instance.spawn("Sleeper", "x", "--name", "taken")
    for arguments, code in (
        (("Sleeperr", "x"), 2),
        (("Sleeper", "x", "--name", "taken"), 2),
        (("Sleeper", "x", "--title", "\x1b"), 2),
        (("Sleeper", "x", "--workspace", "nope"), 3),
    ):
        instance.refused("spawn", *arguments, "--worktree", exit_code=code, cwd=repository)
    assert branches(repository) == ["main"]
    assert git(repository, "worktree", "list", "--porcelain").count("worktree ") == 1


def test_what_cannot_have_a_worktree_says_why(instance: Instance, repository: Path) -> None:
    said = instance.refused("spawn", "Sleeper", "x", "--worktree", exit_code=2, cwd=instance.home)
    assert "is in no git repository" in said
    git(repository, "branch", "sm/login")
    said = instance.refused(
        "spawn", "Sleeper", "x", "--worktree", "--name", "login", exit_code=2, cwd=repository
    )
    assert "already exists" in said
    empty = instance.work / "empty"
    empty.mkdir()
    git(empty, "init", "-q")
    assert "no worktree for" in instance.refused(
        "spawn", "Sleeper", "x", "--worktree", exit_code=2, cwd=empty
    )


def test_a_hook_of_the_repository_does_not_run(instance: Instance, repository: Path) -> None:
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {instance.home}/ran\n")
    hook.chmod(0o755)
    instance.spawn("Sleeper", "x", "--worktree", cwd=repository)
    assert not (instance.home / "ran").exists()
