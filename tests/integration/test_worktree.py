"""A git worktree of a session's own: made with it, and cleaned by `sm rm` when nothing would be lost."""

import json
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sm.client.http import Client
from sm.errors import SmError, UsageError
from tests.cli.peer import HANG_UP, Peer, answer, error
from tests.cli.samples import session as sample
from tests.instance import Instance


def git(directory: Path, *arguments: str, fails: bool = False) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=x", "-c", "user.email=x@localhost", "-C", str(directory), *arguments],
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode != 0) is fails, done
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
        "used": False,
        "sandboxed": False,
    }
    assert branches(repository) == ["main", "sm/login"]
    if left == "committed":
        assert "the branch sm/login stays: it has commits that are nowhere else" in done.stderr
        assert not where.exists()
    else:
        assert f"the worktree {where} stays: " in done.stderr
        assert where.exists()


def test_ignored_files_go_with_the_worktree(instance: Instance, repository: Path) -> None:
    (repository / ".git" / "info" / "exclude").write_text("*.o\n")
    session = instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repository)
    where = Path(session["worktree"]["path"])
    (where / "a.o").write_text("built")
    assert removed(instance, session) == ""
    assert not where.exists()


def test_untracked_files_stay_where_git_is_told_not_to_show_them(
    instance: Instance, repository: Path
) -> None:
    git(repository, "config", "status.showUntrackedFiles", "no")
    session = instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repository)
    where = Path(session["worktree"]["path"])
    (where / "new.txt").write_text("b\n")
    assert f"the worktree {where} stays: " in removed(instance, session)
    assert (where / "new.txt").exists()


def removed(instance: Instance, session: dict[str, Any], **options: Any) -> str:
    """What `sm rm` says of a session that is killed first."""
    instance.sm("kill", session["session_id"])
    done = instance.run("rm", session["session_id"], **options)
    assert done.returncode == 0, done
    return done.stderr


def commit(where: Path, text: str) -> str:
    (where / "api" / "a.txt").write_text(text)
    git(where, "commit", "-q", "-a", "-m", text)
    return git(where, "rev-parse", "HEAD")


def test_commits_that_no_branch_has_stay_with_the_worktree(instance: Instance, repository: Path) -> None:
    session = instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repository)
    where = Path(session["worktree"]["path"])
    git(where, "checkout", "-q", "--detach")
    commit(where, "b")
    said = removed(instance, session)
    assert f"the worktree {where} stays: it has commits that are in no branch or tag" in said
    assert where.exists()


@pytest.mark.parametrize("by", [("branch", "kept"), ("tag", "kept")])
def test_a_worktree_goes_when_some_branch_or_tag_has_its_commits(
    instance: Instance, repository: Path, by: tuple[str, str]
) -> None:
    session = instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repository)
    where = Path(session["worktree"]["path"])
    git(where, "checkout", "-q", "--detach")
    made = commit(where, "b")
    git(where, *by)
    assert removed(instance, session) == ""
    assert not where.exists()
    assert git(repository, "rev-parse", "kept") == made


@pytest.mark.parametrize("what", ["rebase", "merge", "cherry-pick", "revert", "bisect"])
def test_a_worktree_in_which_git_is_not_done_stays(instance: Instance, repository: Path, what: str) -> None:
    session = instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repository)
    where = Path(session["worktree"]["path"])
    first = git(where, "rev-parse", "HEAD")
    match what:
        case "rebase":  # stopped where nothing is uncommitted
            commit(where, "b")
            git(where, "rebase", "-q", "--exec", "false", first, fails=True)
        case "merge":
            git(where, "checkout", "-q", "-b", "other")
            commit(where, "b")
            git(where, "checkout", "-q", "sm/login")
            git(where, "merge", "-q", "--no-ff", "--no-commit", "-s", "ours", "other")
        case "bisect":
            git(where, "bisect", "start")
        case _:  # its conflict is settled in favour of what was there
            commit(where, "b")
            commit(where, "c")
            git(where, what, "HEAD~1", fails=True)
            git(where, "checkout", "HEAD", "--", ".")
    assert git(where, "status", "--porcelain") == ""
    said = removed(instance, session)
    assert f"the worktree {where} stays: " in said
    assert "under way" in said
    assert where.exists()


# Whether it is one that sm made


@pytest.mark.parametrize("kind", ["elsewhere", "branch", "dots", "name", "half"])
def test_a_worktree_that_sm_does_not_make_is_refused_at_spawn(
    instance: Instance, repository: Path, kind: str
) -> None:
    own = instance.work / "own"
    git(repository, "worktree", "add", "-q", "-b", "mine", str(own))
    made = repository / ".sm" / "worktrees" / "login"
    made.mkdir(parents=True)
    path, branch = {
        "elsewhere": (own, "mine"),
        "branch": (made, "mine"),
        "dots": (f"{made.parent}/../../.sm/worktrees/../../../own", "sm/own"),
        "name": (f"{repository}/.sm/worktrees/a..b", "sm/a..b"),
        "half": (made, None),
    }[kind]
    body = {"agent_type": "Sleeper", "prompt": "x", "working_dir": str(path), "branch": branch}
    instance.sm("all")
    with pytest.raises(UsageError):
        Client(str(instance.socket)).post("/v1/sessions", {**body, "worktree": str(path)})


def as_recorded(instance: Instance, session: dict[str, Any], **columns: object) -> None:
    """Change the record of a session, while no daemon runs."""
    instance.sm("daemon", "stop")
    with closing(sqlite3.connect(instance.state / "sm.db")) as database, database:
        for name, value in columns.items():
            database.execute(
                f"UPDATE sessions SET {name} = ? WHERE id = ?",  # noqa: S608 - a name that a test wrote
                [value, session["session_id"]],
            )
    instance.sm("daemon", "start")


@pytest.mark.parametrize("kind", ["elsewhere", "no worktree", "of another", "branch gone"])
def test_what_sm_did_not_make_is_not_removed(instance: Instance, repository: Path, kind: str) -> None:
    session = instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repository)
    instance.sm("kill", session["session_id"])
    path, branch = Path(session["worktree"]["path"]), "sm/login"
    match kind:
        case "elsewhere":
            path, branch = instance.work / "own", "mine"
            git(repository, "worktree", "add", "-q", "-b", branch, str(path))
        case "no worktree":
            path, branch = path.parent / "plain", "sm/plain"
            path.mkdir()
            git(repository, "branch", branch)
        case "of another":
            other = instance.work / "other"
            git(instance.work, "clone", "-q", str(repository), str(other))
            path, branch = path.parent / "there", "sm/there"
            git(other, "worktree", "add", "-q", "-b", branch, str(path))
        case _:
            git(path, "branch", "-m", "renamed")
    as_recorded(instance, session, worktree=str(path), branch=branch)
    done = instance.run("rm", session["session_id"])
    assert f"the worktree {path} stays: " in done.stderr
    assert path.exists()


# Who else works there


def test_a_worktree_in_which_another_session_works_stays(instance: Instance, repository: Path) -> None:
    session = instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repository)
    child = instance.spawn("Sleeper", "x", env={"SM_SESSION_ID": session["session_id"]})
    assert child["working_dir"] == session["working_dir"]
    assert child["worktree"] is None
    assert "another session works there" in removed(instance, session)
    assert Path(session["working_dir"]).exists()


def test_a_session_that_came_by_a_link_works_there_too(instance: Instance, repository: Path) -> None:
    session = instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repository)
    link = instance.work / "link"
    link.symlink_to(session["worktree"]["path"])
    instance.spawn("Sleeper", "x", "--working-dir", str(link / "api"))
    assert "another session works there" in removed(instance, session)
    assert Path(session["working_dir"]).exists()


def test_a_session_that_the_caller_may_not_see_works_there_too(instance: Instance, repository: Path) -> None:
    for slug in ("shop", "bank"):
        (instance.work / slug).mkdir()
        instance.sm("workspace", "create", slug, "--working-dir", str(instance.work / slug))
    chief = instance.spawn("Sleeper", "x", "--workspace", "shop")
    agent = {"SM_SESSION_ID": chief["session_id"]}
    session = instance.spawn(
        "Sleeper", "x", "--worktree", "--name", "login", "--working-dir", str(repository), env=agent
    )
    hidden = instance.spawn(
        "Sleeper", "x", "--workspace", "bank", "--working-dir", session["worktree"]["path"]
    )
    said = removed(instance, session, env=agent)
    assert "another session works there" in said
    assert hidden["session_id"] not in said
    assert Path(session["working_dir"]).exists()


def test_a_session_whose_end_nobody_can_tell_works_there_no_more(
    instance: Instance, repository: Path
) -> None:
    session = instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repository)
    gone = instance.spawn("Sleeper", "x", "--working-dir", session["worktree"]["path"])
    instance.sm("kill", gone["session_id"])
    as_recorded(instance, gone, exit_code=None, exit_signal=None)
    assert removed(instance, session) == ""
    assert not Path(session["working_dir"]).exists()


# What runs in a repository that a sandboxed agent can write


@pytest.mark.parametrize("where", ["workspace", "directory"])
def test_git_does_not_run_where_a_sandboxed_session_could_have_been(
    instance: Instance, repository: Path, where: str
) -> None:
    session = instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repository)
    if where == "workspace":  # of which the repository is a part, while the session works beside it
        (instance.work / "beside").mkdir()
        instance.sm("workspace", "create", "shop", "--working-dir", str(instance.work))
        near = instance.spawn("Sleeper", "x", "--working-dir", str(instance.work / "beside"))
    else:
        near = instance.spawn("Sleeper", "x", "--working-dir", str(repository / "api"))
    instance.sm("kill", near["session_id"])
    as_recorded(instance, near, effective_mode="sandboxed")
    said = instance.refused("spawn", "Sleeper", "x", "--worktree", exit_code=5, cwd=repository)
    assert "sandbox" in said
    path = session["worktree"]["path"]
    assert f"the worktree {path} stays: a sandboxed session" in removed(instance, session)
    assert Path(path).exists()


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
    other = (
        instance.work / "other"
    )  # its branch has commits that the one checked out in the repository has not
    git(repository, "worktree", "add", "-q", "-b", "other", str(other))
    commit(other, "b")
    instance.refused("spawn", "Sleeperr", "x", "--worktree", exit_code=2, cwd=other)
    assert branches(repository) == ["main", "other"]


def test_what_cannot_have_a_worktree_says_why(instance: Instance, repository: Path) -> None:
    said = instance.refused("spawn", "Sleeper", "x", "--worktree", exit_code=2, cwd=instance.home)
    assert "is in no git repository" in said
    git(repository, "branch", "sm/login")
    said = instance.refused(
        "spawn", "Sleeper", "x", "--worktree", "--name", "login", exit_code=2, cwd=repository
    )
    assert "already exists" in said
    (repository / ".sm").symlink_to(instance.home)
    said = instance.refused("spawn", "Sleeper", "x", "--worktree", exit_code=2, cwd=repository)
    assert "a link leads" in said
    empty = instance.work / "empty"
    empty.mkdir()
    git(empty, "init", "-q")
    assert "no worktree for" in instance.refused(
        "spawn", "Sleeper", "x", "--worktree", exit_code=2, cwd=empty
    )


@pytest.mark.parametrize("name", ["post-checkout", "reference-transaction"])
def test_a_hook_of_the_repository_does_not_run(instance: Instance, repository: Path, name: str) -> None:
    hook = repository / ".git" / "hooks" / name
    hook.write_text(f"#!/bin/sh\ntouch {instance.home}/ran\n")
    hook.chmod(0o755)
    session = instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repository)
    assert removed(instance, session) == ""
    instance.refused("spawn", "Sleeperr", "x", "--worktree", exit_code=2, cwd=repository)
    assert branches(repository) == ["main"]
    assert not (instance.home / "ran").exists()


def test_a_rule_of_the_user_without_an_end_of_line_stays_what_it_is(
    instance: Instance, repository: Path
) -> None:
    exclude = repository / ".git" / "info" / "exclude"
    exclude.write_bytes(b"\xff\n*.o")
    for _ in range(2):
        instance.spawn("Sleeper", "x", "--worktree", cwd=repository)
    assert exclude.read_bytes() == b"\xff\n*.o\n/.sm/worktrees/\n"


def test_the_worktree_is_made_where_the_parent_works(instance: Instance, repository: Path) -> None:
    parent = instance.spawn("Sleeper", "x", cwd=repository / "api")
    child = instance.spawn(
        "Sleeper", "x", "--worktree", "--name", "login", "--parent", parent["session_id"], cwd=instance.home
    )
    assert child["working_dir"] == f"{repository}/.sm/worktrees/login/api"


# What is taken back


def test_a_spawn_that_may_have_been_done_keeps_its_worktree(instance: Instance, repository: Path) -> None:
    instance.socket.parent.mkdir(parents=True, mode=0o700)
    refusal = error("name_taken", "a live session is named login already", 409)
    with Peer(str(instance.socket)) as peer:
        peer.script("GET /v1/me", answer(sample(working_dir=str(repository))))
        peer.script("GET /v1/sessions", answer([]))
        peer.script("GET /v1/workspaces", answer([]))
        peer.script("POST /v1/sessions", HANG_UP, refusal)
        command = ("spawn", "Sleeper", "x", "--worktree", "--name", "login")
        said = instance.run(
            *command, cwd=repository, env={"SM_SESSION_ID": "11111111", "SM_SOCKET": peer.path}
        )
    assert "is named login already" in said.stderr
    assert (repository / ".sm" / "worktrees" / "login").exists()
    assert branches(repository) == ["main", "sm/login"]


def test_a_worktree_that_a_session_has_is_not_taken_back(instance: Instance, repository: Path) -> None:
    instance.socket.parent.mkdir(parents=True, mode=0o700)
    made = repository / ".sm" / "worktrees" / "login"
    has_it = sample(worktree={"path": str(made), "branch": "sm/login"})
    with Peer(str(instance.socket)) as peer:
        peer.script("GET /v1/me", answer(sample(working_dir=str(repository))))
        peer.script("GET /v1/sessions", answer([]), answer([has_it]))
        peer.script("GET /v1/workspaces", answer([]))
        peer.script("POST /v1/sessions", error("usage", "no", 400))
        done = instance.run(
            "spawn", "Sleeper", "x", "--worktree", "--name", "login", cwd=repository,
            env={"SM_SESSION_ID": "11111111", "SM_SOCKET": peer.path},
        )  # fmt: skip
    assert done.returncode == 2
    assert made.exists()


def test_a_repeated_spawn_that_could_not_be_planned_any_more_gets_its_session(instance: Instance) -> None:
    instance.sm("all")
    gone = instance.work / "gone"
    gone.mkdir()
    client = Client(str(instance.socket))
    body = {"agent_type": "Sleeper", "prompt": "x", "working_dir": str(gone)}
    first = client.post("/v1/sessions", body, key="k" * 16)
    shutil.rmtree(gone)
    assert client.post("/v1/sessions", body, key="k" * 16)["session_id"] == first["session_id"]
    with pytest.raises(SmError, match="does not exist"):
        client.post("/v1/sessions", body, key="l" * 16)
    with pytest.raises(UsageError, match="another request"):
        client.post("/v1/sessions", {**body, "prompt": "y"}, key="k" * 16)


def test_a_worktree_of_a_submodule_is_no_part_of_anothers(instance: Instance, repository: Path) -> None:
    above = instance.work / "super"
    above.mkdir()
    git(above, "init", "-q", "-b", "main")
    git(above, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(repository), "sub")
    git(above, "commit", "-q", "-m", "first")
    one = instance.spawn("Sleeper", "x", "--worktree", "--name", "one", cwd=above / "sub")
    two = instance.spawn("Sleeper", "x", "--worktree", "--name", "two", cwd=Path(one["working_dir"]))
    where = Path(two["worktree"]["path"])
    assert where.parent == Path(one["worktree"]["path"]).parent == above / "sub" / ".sm" / "worktrees"
    (where / "new.txt").write_text("precious\n")
    instance.sm("kill", one["session_id"])
    assert instance.run("rm", one["session_id"]).stderr == ""
    assert not Path(one["working_dir"]).exists()
    assert (where / "new.txt").exists()


def test_a_worktree_with_another_one_in_it_stays(instance: Instance, repository: Path) -> None:
    session = instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repository)
    where = Path(session["worktree"]["path"])
    (where / ".gitignore").write_text("inner\n")
    git(where, "add", ".gitignore")
    git(where, "commit", "-q", "-m", "second")
    git(where, "worktree", "add", "-q", "inner")
    (where / "inner" / "new.txt").write_text("precious\n")
    instance.sm("kill", session["session_id"])
    assert "another worktree lies in it" in instance.run("rm", session["session_id"]).stderr
    assert (where / "inner" / "new.txt").exists()


def test_a_worktree_is_in_the_workspace_of_what_it_is_one_of(instance: Instance, repository: Path) -> None:
    instance.sm("workspace", "create", "api", "--working-dir", str(repository / "api"))
    options = ("Sleeper", "x", "--worktree", "--name")
    assert instance.spawn(*options, "one", cwd=repository / "api")["workspace"] == "api"
    assert instance.spawn(*options, "two", cwd=repository)["workspace"] is None
    instance.sm("workspace", "create", "outer", "--working-dir", str(repository))
    assert instance.spawn(*options, "three", cwd=repository / "api")["workspace"] == "api"
    assert instance.spawn(*options, "four", cwd=repository)["workspace"] == "outer"


def test_a_branch_whose_commits_are_in_another_goes(instance: Instance, repository: Path) -> None:
    session = instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repository)
    where = Path(session["worktree"]["path"])
    git(where, "commit", "-q", "--allow-empty", "-m", "second")
    git(repository, "branch", "feature", "sm/login")
    instance.sm("kill", session["session_id"])
    assert instance.run("rm", session["session_id"]).stderr == ""
    assert branches(repository) == ["feature", "main"]


def test_what_is_left_of_a_worktree_that_somebody_removed_goes_too(
    instance: Instance, repository: Path
) -> None:
    session = instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repository)
    instance.sm("kill", session["session_id"])
    shutil.rmtree(session["worktree"]["path"])
    assert instance.run("rm", session["session_id"]).stderr == ""
    assert branches(repository) == ["main"]
    instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repository)
