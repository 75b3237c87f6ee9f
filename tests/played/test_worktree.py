"""`sm spawn --worktree`: creation of the worktree, and its removal by `sm rm` when nothing is lost."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sm.client.http import Client
from sm.errors import SmError, UsageError
from tests.fixtures import context_fixture
from tests.git_repositories import branches, commit, git, make_app
from tests.sim.command import Terminal
from tests.sim.stage import Instance

pytestmark = pytest.mark.processes  # git


instance = context_fixture("function", Instance)


@pytest.fixture
def repo(instance: Instance) -> Path:
    return make_app(instance.work)


def spawn_login(instance: Instance, repo: Path) -> tuple[dict[str, Any], Path]:
    """Spawn a session in the worktree `login`; return it and the path of the worktree."""
    session = instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repo)
    return session, Path(session["worktree"]["path"])


def test_spawn_worktree_creates_a_worktree_and_a_branch(instance: Instance, repo: Path) -> None:
    path = repo / ".sm" / "worktrees" / "login"
    session = instance.spawn("Sleeper", "x", "--worktree", "--name", "Login", cwd=repo / "api")
    assert session["worktree"] == {"path": str(path), "branch": "sm/login"}
    assert session["working_dir"] == str(path / "api")
    assert git(path, "rev-parse", "--abbrev-ref", "HEAD") == "sm/login"
    assert git(repo, "status", "--porcelain") == ""
    assert f"Worktree:  {path}, branch sm/login" in instance.sm("status", session["session_id"])
    unnamed = instance.spawn("Sleeper", "x", "--worktree", "--working-dir", str(repo))
    assert unnamed["worktree"]["path"] != session["worktree"]["path"]
    # A worktree spawned from a worktree is its sibling.
    nested = instance.spawn("Sleeper", "x", "--worktree", "--name", "nested", cwd=path)
    assert nested["worktree"]["path"] == str(path.parent / "nested")


def test_rm_removes_the_worktree_and_its_branch(instance: Instance, repo: Path) -> None:
    session = instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repo)
    instance.sm("kill", session["session_id"])
    done = instance.run("rm", session["session_id"])
    assert (done.returncode, done.stderr) == (0, "")
    assert not (repo / ".sm" / "worktrees" / "login").exists()
    assert branches(repo) == ["main"]
    again = instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repo)
    assert again["worktree"]["branch"] == "sm/login"


WORK = {
    "changed": "1 uncommitted or untracked file (api/a.txt)",
    "new": "1 uncommitted or untracked file (new file.txt)",
    "renamed": "1 uncommitted or untracked file (b.txt)",
    "committed": "1 commit in no other branch or tag ({commit} b)",
    "detached": "2 commits in no other branch or tag ({commit} c and 1 more)",
    "orphan": "1 uncommitted or untracked file (api/a.txt)",
}


def work_in(path: Path, kind: str) -> str:
    """Make work of this kind in a worktree, and return how sm describes it."""
    match kind:
        case "changed":
            (path / "api" / "a.txt").write_text("b\n")
        case "new":
            (path / "new file.txt").write_text("b\n")
        case "renamed":
            git(path, "mv", "api/a.txt", "b.txt")
        case "committed":
            commit(path, "b")
        case "detached":
            commit(path, "b")
            git(path, "checkout", "-q", "--detach")
            commit(path, "c")
        case _:
            git(path, "checkout", "-q", "--orphan", "new")
    return WORK[kind].format(commit="" if kind == "orphan" else git(path, "rev-parse", "--short", "HEAD"))


@pytest.mark.parametrize("kind", WORK)
def test_rm_is_refused_when_work_exists_nowhere_else(instance: Instance, repo: Path, kind: str) -> None:
    session, path = spawn_login(instance, repo)
    work = work_in(path, kind)
    before = git(path, "status", "--porcelain"), branches(repo)
    found = f"work in {path} that exists nowhere else: {work}"
    commit_it = "" if "commit in" in work or "commits in" in work else f"commit it in {path}, then: "
    instance.sm("kill", session["session_id"])
    assert instance.refused("rm", session["session_id"], exit_code=4) == (
        f"sm: sleeper-login has {found}\nhint: to keep it: {commit_it}sm merge sleeper-login; "
        "to delete it: sm rm sleeper-login --discard\n"
    )
    assert instance.refused("rm", session["session_id"], "--discard", exit_code=4) == (
        f"sm: --discard would delete {found}\nhint: to delete it: sm rm sleeper-login --discard --yes\n"
    )
    assert (git(path, "status", "--porcelain"), branches(repo)) == before
    assert instance.session(session["session_id"])["status"] == "killed"
    done = instance.run("rm", session["session_id"], "--discard", "--yes")
    assert (done.returncode, done.stderr, path.exists()) == (0, "", False)
    assert branches(repo) == ["main"]


@pytest.mark.parametrize("words", [("prune", "--yes"), ("rm", "--ended", "--yes")])
def test_prune_keeps_sessions_with_work_and_lists_them_at_the_end(
    instance: Instance, repo: Path, words: tuple[str, ...]
) -> None:
    session, path = spawn_login(instance, repo)
    work = work_in(path, "changed")
    other = instance.spawn("Sleeper", "x", "--worktree", "--name", "other", cwd=repo)
    for each in (session, other):
        instance.sm("kill", each["session_id"])
    done = instance.run(*words)
    assert (done.returncode, done.stdout) == (0, "Removed sleeper-other\n")
    assert done.stderr == (
        "warning: kept 1 session with work that exists nowhere else; "
        "to keep the work: sm merge SESSION; to delete it: sm rm SESSION --discard\n"
        f"warning: sleeper-login: {work} in {path}\n"
    )
    assert [s["session_id"] for s in instance.json("ls", "-a")] == [session["session_id"]]
    again = instance.run(*words, "--json")
    assert (json.loads(again.stdout), again.returncode) == ([], 0)
    assert "kept 1 session" in again.stderr
    assert instance.run(*words).stderr.startswith("no sessions to delete\nwarning: kept 1 session")


def test_rm_of_several_sessions_removes_only_those_without_work(instance: Instance, repo: Path) -> None:
    session, path = spawn_login(instance, repo)
    work = work_in(path, "new")
    other = instance.spawn("Sleeper", "x")
    for each in (session, other):
        instance.sm("kill", each["session_id"])
    done = instance.run("rm", session["session_id"], other["session_id"])
    assert (done.returncode, done.stdout) == (4, f"Removed {other['label']}\n")
    assert (
        f"kept: sleeper-login has work in {path} that exists nowhere else: {work}; to keep it" in done.stderr
    )


def test_discard_asks_a_person_at_a_terminal(instance: Instance, repo: Path) -> None:
    session, path = spawn_login(instance, repo)
    work = work_in(path, "new")
    instance.sm("kill", session["session_id"])
    words = ("rm", session["session_id"], "--discard")
    env = {**instance.env, "TERM": "xterm-256color"}
    refused = instance.command.run(words, env, instance.work, Terminal("n\n", 200))
    assert f"Delete work in {path} that exists nowhere else: {work}? [y/N] " in refused.stdout
    assert (refused.returncode, path.exists()) == (4, True)
    agreed = instance.command.run(words, env, instance.work, Terminal("y\n", 200))
    assert (agreed.returncode, path.exists()) == (0, False)


def test_agent_may_not_discard_work(instance: Instance, repo: Path) -> None:
    lead = instance.spawn("Sleeper", "x")["session_id"]
    session = instance.spawn("Sleeper", "x", "--worktree", "--parent", lead, "--working-dir", str(repo))
    path = Path(session["worktree"]["path"])
    work = work_in(path, "changed")
    instance.sm("kill", session["session_id"])
    words = ("rm", session["session_id"], "--discard", "--yes")
    error = instance.refused(*words, exit_code=5, env=instance.as_session(lead))
    assert f"only the operator may delete work in {path} that exists nowhere else: {work}" in error
    assert path.exists()


def test_agent_compares_the_worktree_of_another_one_that_it_may_see(instance: Instance, repo: Path) -> None:
    session, path = spawn_login(instance, repo)
    commit(path, "of the agent\n")
    (repo / "api" / "b.txt").write_text("b\n")
    reviewer = instance.spawn("Sleeper", "x", cwd=repo)["session_id"]
    env = instance.as_session(reviewer)
    assert [file["path"] for file in instance.json("diff", session["session_id"], env=env)["files"]] == [
        "api/a.txt"
    ]
    assert instance.json("worktree", "ls", "--all", env=env) == []


def test_rm_removes_a_worktree_whose_commits_were_squashed(instance: Instance, repo: Path) -> None:
    session, path = spawn_login(instance, repo)
    commit(path, "b")
    commit(path, "c")
    git(repo, "merge", "-q", "--squash", "sm/login")
    git(repo, "commit", "-q", "-m", "squashed")
    instance.sm("kill", session["session_id"])
    done = instance.run("rm", session["session_id"])
    assert (done.returncode, path.exists()) == (0, False)
    assert "kept the branch sm/login: it has commits that no other branch or tag contains" in done.stderr


def test_rm_of_a_live_session_says_that_its_process_runs(instance: Instance, repo: Path) -> None:
    session, path = spawn_login(instance, repo)
    work_in(path, "changed")
    assert "still runs" in instance.refused("rm", session["session_id"], exit_code=4)


def test_rm_removes_ignored_files_with_the_worktree(instance: Instance, repo: Path) -> None:
    (repo / ".git" / "info" / "exclude").write_text("*.o\n")
    session, path = spawn_login(instance, repo)
    (path / "a.o").write_text("built")
    assert remove(instance, session) == ""
    assert not path.exists()


def test_rm_keeps_untracked_files_when_git_is_configured_to_hide_them(instance: Instance, repo: Path) -> None:
    git(repo, "config", "status.showUntrackedFiles", "no")
    session, path = spawn_login(instance, repo)
    (path / "new.txt").write_text("b\n")
    instance.sm("kill", session["session_id"])
    assert "1 uncommitted or untracked file (new.txt)" in instance.refused(
        "rm", session["session_id"], exit_code=4
    )
    assert (path / "new.txt").exists()


def remove(instance: Instance, session: dict[str, Any], **options: Any) -> str:
    """Kill the session, remove it and return what `sm rm` prints on stderr."""
    instance.sm("kill", session["session_id"])
    done = instance.run("rm", session["session_id"], **options)
    assert done.returncode == 0, done
    return done.stderr


@pytest.mark.parametrize("reference", [("branch", "kept"), ("tag", "kept")])
def test_rm_removes_the_worktree_when_a_branch_or_tag_has_its_commits(
    instance: Instance, repo: Path, reference: tuple[str, str]
) -> None:
    session, path = spawn_login(instance, repo)
    git(path, "checkout", "-q", "--detach")
    commit_id = commit(path, "b")
    git(path, *reference)
    assert remove(instance, session) == ""
    assert not path.exists()
    assert git(repo, "rev-parse", "kept") == commit_id


@pytest.mark.parametrize("operation", ["rebase", "merge", "cherry-pick", "revert", "bisect"])
def test_rm_is_refused_when_a_git_operation_is_in_progress(
    instance: Instance, repo: Path, operation: str
) -> None:
    session, path = spawn_login(instance, repo)
    first = git(path, "rev-parse", "HEAD")
    match operation:
        case "rebase":  # stopped with a clean working tree
            commit(path, "b")
            git(path, "rebase", "-q", "--exec", "false", first, fails=True)
        case "merge":
            git(path, "checkout", "-q", "-b", "other")
            commit(path, "b")
            git(path, "checkout", "-q", "sm/login")
            git(path, "merge", "-q", "--no-ff", "--no-commit", "-s", "ours", "other")
        case "bisect":
            git(path, "bisect", "start")
        case _:  # the conflict is resolved with the old content
            commit(path, "b")
            commit(path, "c")
            git(path, operation, "HEAD~1", fails=True)
            git(path, "checkout", "HEAD", "--", ".")
    assert git(path, "status", "--porcelain") == ""
    instance.sm("kill", session["session_id"])
    error = instance.refused("rm", session["session_id"], exit_code=4)
    assert "an unfinished rebase, merge, cherry-pick or bisect" in error
    assert path.exists()


# Worktrees that sm did not create


@pytest.mark.parametrize("kind", ["elsewhere", "branch", "dots", "name", "no branch"])
def test_spawn_refuses_a_worktree_that_sm_does_not_create(instance: Instance, repo: Path, kind: str) -> None:
    own = instance.work / "own"
    git(repo, "worktree", "add", "-q", "-b", "mine", str(own))
    made = repo / ".sm" / "worktrees" / "login"
    made.mkdir(parents=True)
    path, branch = {
        "elsewhere": (own, "mine"),
        "branch": (made, "mine"),
        "dots": (f"{made.parent}/../../.sm/worktrees/../../../own", "sm/own"),
        "name": (f"{repo}/.sm/worktrees/a..b", "sm/a..b"),
        "no branch": (made, None),
    }[kind]
    body = {"agent_type": "Sleeper", "prompt": "x", "working_dir": str(path), "branch": branch}
    instance.sm("all")
    with pytest.raises(UsageError):
        Client(str(instance.socket)).post("/v1/sessions", {**body, "worktree": str(path)})


def change_record(instance: Instance, session: dict[str, Any], **columns: object) -> None:
    """Change the record of a session, while no daemon runs."""
    instance.sm("daemon", "stop")
    with closing(sqlite3.connect(instance.state / "sm.db")) as database, database:
        for name, value in columns.items():
            database.execute(
                f"UPDATE sessions SET {name} = ? WHERE id = ?",  # noqa: S608 - a column name of these tests
                [value, session["session_id"]],
            )
    instance.sm("daemon", "start")


@pytest.mark.parametrize("kind", ["elsewhere", "no worktree", "of another"])
def test_rm_keeps_a_worktree_that_sm_did_not_create(instance: Instance, repo: Path, kind: str) -> None:
    session = instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repo)
    instance.sm("kill", session["session_id"])
    path, branch = Path(session["worktree"]["path"]), "sm/login"
    match kind:
        case "elsewhere":
            path, branch = instance.work / "own", "mine"
            git(repo, "worktree", "add", "-q", "-b", branch, str(path))
        case "no worktree":
            path, branch = path.parent / "plain", "sm/plain"
            path.mkdir()
            git(repo, "branch", branch)
        case _:
            other = instance.work / "other"
            git(instance.work, "clone", "-q", str(repo), str(other))
            path, branch = path.parent / "there", "sm/there"
            git(other, "worktree", "add", "-q", "-b", branch, str(path))
    change_record(instance, session, worktree=str(path), branch=branch)
    done = instance.run("rm", session["session_id"])
    assert f"kept the worktree {path}: " in done.stderr
    assert path.exists()


# Other sessions in the worktree


def test_rm_keeps_the_worktree_when_another_session_works_there(instance: Instance, repo: Path) -> None:
    session = instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repo)
    child = instance.spawn("Sleeper", "x", env={"SM_SESSION_ID": session["session_id"]})
    assert child["working_dir"] == session["working_dir"]
    assert child["worktree"] is None
    assert "another session works there" in remove(instance, session)
    assert Path(session["working_dir"]).exists()


def test_rm_keeps_the_worktree_when_a_session_works_there_through_a_link(
    instance: Instance, repo: Path
) -> None:
    session = instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repo)
    link = instance.work / "link"
    link.symlink_to(session["worktree"]["path"])
    instance.spawn("Sleeper", "x", "--working-dir", str(link / "api"))
    assert "another session works there" in remove(instance, session)
    assert Path(session["working_dir"]).exists()


def test_rm_keeps_the_worktree_when_a_hidden_session_works_there(instance: Instance, repo: Path) -> None:
    for slug in ("shop", "bank"):
        (instance.work / slug).mkdir()
        instance.sm("workspace", "create", slug, "--working-dir", str(instance.work / slug))
    caller = instance.spawn("Sleeper", "x", "--workspace", "shop")
    env = {"SM_SESSION_ID": caller["session_id"]}
    session = instance.spawn(
        "Sleeper", "x", "--worktree", "--name", "login", "--working-dir", str(repo), env=env
    )
    hidden = instance.spawn(
        "Sleeper", "x", "--workspace", "bank", "--working-dir", session["worktree"]["path"]
    )
    error = remove(instance, session, env=env)
    assert "another session works there" in error
    assert hidden["session_id"] not in error
    assert Path(session["working_dir"]).exists()


def test_rm_removes_the_worktree_when_the_other_session_has_an_unknown_exit(
    instance: Instance, repo: Path
) -> None:
    session = instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repo)
    other = instance.spawn("Sleeper", "x", "--working-dir", session["worktree"]["path"])
    instance.sm("kill", other["session_id"])
    change_record(instance, other, exit_code=None, exit_signal=None)
    assert remove(instance, session) == ""
    assert not Path(session["working_dir"]).exists()


# Repositories that a sandboxed agent can write


@pytest.mark.parametrize("place", ["workspace", "directory"])
def test_git_does_not_run_in_a_repository_that_a_sandboxed_session_could_write(
    instance: Instance, repo: Path, place: str
) -> None:
    session = instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repo)
    if place == "workspace":  # contains the repository, but the session works elsewhere in it
        (instance.work / "beside").mkdir()
        instance.sm("workspace", "create", "shop", "--working-dir", str(instance.work))
        near = instance.spawn("Sleeper", "x", "--working-dir", str(instance.work / "beside"))
    else:
        near = instance.spawn("Sleeper", "x", "--working-dir", str(repo / "api"))
    instance.sm("kill", near["session_id"])
    change_record(instance, near, effective_mode="sandboxed")
    error = instance.refused("spawn", "Sleeper", "x", "--worktree", exit_code=5, cwd=repo)
    assert "sandbox" in error
    path = session["worktree"]["path"]
    instance.sm("kill", session["session_id"])
    unknown = f"{path} that exists nowhere else: a sandboxed session may have changed the programs"
    assert unknown in instance.refused("rm", session["session_id"], exit_code=4)
    done = instance.run("rm", session["session_id"], "--discard")
    assert f"kept the worktree {path}: a sandboxed session" in done.stderr
    assert (done.returncode, Path(path).exists()) == (0, True)


def test_refused_spawn_leaves_no_worktree(instance: Instance, repo: Path) -> None:
    instance.spawn("Sleeper", "x", "--name", "taken")
    for arguments, code in (
        (("Sleeperr", "x"), 2),
        (("Sleeper", "x", "--name", "taken"), 2),
        (("Sleeper", "x", "--title", "\x1b"), 2),
        (("Sleeper", "x", "--workspace", "nope"), 3),
    ):
        instance.refused("spawn", *arguments, "--worktree", exit_code=code, cwd=repo)
    assert branches(repo) == ["main"]
    assert git(repo, "worktree", "list", "--porcelain").count("worktree ") == 1
    # The branch `other` has commits that the branch checked out in the repository does not have.
    other = instance.work / "other"
    git(repo, "worktree", "add", "-q", "-b", "other", str(other))
    commit(other, "b")
    instance.refused("spawn", "Sleeperr", "x", "--worktree", exit_code=2, cwd=other)
    assert branches(repo) == ["main", "other"]


def test_spawn_worktree_is_refused_with_a_reason(instance: Instance, repo: Path) -> None:
    problem = instance.refused("spawn", "Sleeper", "x", "--worktree", exit_code=2, cwd=instance.home)
    assert "is not in a git repository" in problem
    git(repo, "branch", "sm/login")
    problem = instance.refused(
        "spawn", "Sleeper", "x", "--worktree", "--name", "login", exit_code=2, cwd=repo
    )
    assert "already exists" in problem
    (repo / ".sm").symlink_to(instance.home)
    problem = instance.refused("spawn", "Sleeper", "x", "--worktree", exit_code=2, cwd=repo)
    assert "contains a link" in problem


def test_worktree_of_a_repository_without_commits_has_a_branch_without_commits(instance: Instance) -> None:
    empty = instance.work / "empty"
    empty.mkdir()
    git(empty, "init", "-q", "-b", "main")
    session, path = spawn_login(instance, empty)
    assert git(path, "symbolic-ref", "HEAD") == "refs/heads/sm/login"
    (path / "a.txt").write_text("a\n")
    git(path, "add", "a.txt")
    assert [file["path"] for file in instance.json("diff", session["session_id"])["files"]] == ["a.txt"]
    git(path, "commit", "-q", "-m", "first")
    assert git(empty, "log", "--format=%s", "sm/login") == "first"


def test_branch_without_worktree_is_refused(instance: Instance, repo: Path) -> None:
    problem = instance.refused("spawn", "Sleeper", "x", "--base", "main", exit_code=2, cwd=repo)
    assert problem == (
        "sm: a base is only for a new worktree\nhint: ask for a new worktree too: --worktree\n"
    )


def test_worktree_begins_at_a_base(instance: Instance, repo: Path) -> None:
    first = git(repo, "rev-parse", "HEAD")
    commit(repo, "second")
    session = instance.spawn("Sleeper", "x", "--worktree", "--name", "login", "--base", first[:10], cwd=repo)
    assert git(Path(session["worktree"]["path"]), "rev-parse", "HEAD") == first
    problem = instance.refused(
        "spawn", "Sleeper", "x", "--worktree", "--base", "--all", exit_code=2, cwd=repo
    )
    assert "invalid base '--all'" in problem
    problem = instance.refused("spawn", "Sleeper", "x", "--worktree", "--base", "none", exit_code=2, cwd=repo)
    assert (
        problem
        == f"sm: there is no commit 'none' in {repo}\nhint: git -C {repo} branch --all; then: --base REF\n"
    )


def test_branch_that_exists_is_continued_and_stays(instance: Instance, repo: Path) -> None:
    git(repo, "branch", "topic")
    words = ("spawn", "Sleeper", "x", "--worktree", "--branch", "topic")
    session = instance.json(*words, "--name", "login", cwd=repo)
    path = Path(session["worktree"]["path"])
    assert git(path, "symbolic-ref", "--short", "HEAD") == "topic"
    problem = instance.refused(*words, exit_code=2, cwd=repo)
    assert (
        problem == f"sm: branch topic is checked out in {path}\nhint: choose another branch: --branch NAME\n"
    )
    assert "branch main is checked out" in instance.refused(*words[:-1], "main", exit_code=2, cwd=repo)
    assert remove(instance, session) == ""
    assert (path.exists(), branches(repo)) == (False, ["main", "topic"])


@pytest.mark.parametrize("dir", ["../{repo}-trees/{name}", "../{repo}-trees"])
def test_worktree_is_made_where_the_configuration_says(instance: Instance, repo: Path, dir: str) -> None:
    with instance.config.open("a") as file:
        file.write(f"worktrees: {{dir: '{dir}', branch: 'agents/{{name}}'}}\n")
    session = instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repo / "api")
    path = repo.parent / "app-trees" / "login"
    assert session["worktree"] == {"path": str(path), "branch": "agents/login"}
    assert session["working_dir"] == str(path / "api")
    (path / "api" / "a.txt").write_text("b\n")
    instance.sm("kill", session["session_id"])
    assert "1 uncommitted" in instance.refused("rm", session["session_id"], exit_code=4)
    git(path, "commit", "-q", "-a", "-m", "work")
    assert "Merged agents/login into main" in instance.sm("merge", session["session_id"], cwd=repo)
    assert instance.run("rm", session["session_id"]).stderr == ""
    assert (path.exists(), branches(repo)) == (False, ["main"])


@pytest.mark.parametrize("name", ["post-checkout", "reference-transaction"])
def test_git_hooks_of_the_repository_do_not_run(instance: Instance, repo: Path, name: str) -> None:
    hook = repo / ".git" / "hooks" / name
    hook.write_text(f"#!/bin/sh\ntouch {instance.home}/ran\n")
    hook.chmod(0o755)
    session = instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repo)
    assert remove(instance, session) == ""
    instance.refused("spawn", "Sleeperr", "x", "--worktree", exit_code=2, cwd=repo)
    assert branches(repo) == ["main"]
    assert not (instance.home / "ran").exists()


def test_exclude_file_without_a_final_newline_keeps_its_rules(instance: Instance, repo: Path) -> None:
    exclude = repo / ".git" / "info" / "exclude"
    exclude.write_bytes(b"\xff\n*.o")
    for _ in range(2):
        instance.spawn("Sleeper", "x", "--worktree", cwd=repo)
    assert exclude.read_bytes() == b"\xff\n*.o\n/.sm/worktrees/\n"


def test_worktree_is_created_in_the_repository_of_the_parent(instance: Instance, repo: Path) -> None:
    parent = instance.spawn("Sleeper", "x", cwd=repo / "api")
    child = instance.spawn(
        "Sleeper", "x", "--worktree", "--name", "login", "--parent", parent["session_id"], cwd=instance.home
    )
    assert child["working_dir"] == f"{repo}/.sm/worktrees/login/api"


def test_retried_spawn_returns_its_session_when_the_directory_is_gone(instance: Instance) -> None:
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


def test_worktrees_of_a_submodule_are_siblings(instance: Instance, repo: Path) -> None:
    outer = instance.work / "super"
    outer.mkdir()
    git(outer, "init", "-q", "-b", "main")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(repo), "sub")
    git(outer, "commit", "-q", "-m", "first")
    first = instance.spawn("Sleeper", "x", "--worktree", "--name", "one", cwd=outer / "sub")
    second = instance.spawn("Sleeper", "x", "--worktree", "--name", "two", cwd=Path(first["working_dir"]))
    path = Path(second["worktree"]["path"])
    assert path.parent == Path(first["worktree"]["path"]).parent == outer / "sub" / ".sm" / "worktrees"
    (path / "new.txt").write_text("precious\n")
    instance.sm("kill", first["session_id"])
    assert instance.run("rm", first["session_id"]).stderr == ""
    assert not Path(first["working_dir"]).exists()
    assert (path / "new.txt").exists()


def test_rm_keeps_a_worktree_that_contains_another_worktree(instance: Instance, repo: Path) -> None:
    session, path = spawn_login(instance, repo)
    (path / ".gitignore").write_text("inner\n")
    git(path, "add", ".gitignore")
    git(path, "commit", "-q", "-m", "second")
    git(repo, "merge", "-q", "sm/login")
    git(path, "worktree", "add", "-q", "inner")
    (path / "inner" / "new.txt").write_text("precious\n")
    instance.sm("kill", session["session_id"])
    assert "it contains another worktree" in instance.run("rm", session["session_id"]).stderr
    assert (path / "inner" / "new.txt").exists()


def test_worktree_session_belongs_to_the_workspace_of_its_repository(instance: Instance, repo: Path) -> None:
    instance.sm("workspace", "create", "api", "--working-dir", str(repo / "api"))
    options = ("Sleeper", "x", "--worktree", "--name")
    assert instance.spawn(*options, "one", cwd=repo / "api")["workspace"] == "api"
    assert instance.spawn(*options, "two", cwd=repo)["workspace"] is None
    instance.sm("workspace", "create", "outer", "--working-dir", str(repo))
    assert instance.spawn(*options, "three", cwd=repo / "api")["workspace"] == "api"
    assert instance.spawn(*options, "four", cwd=repo)["workspace"] == "outer"


def test_rm_removes_the_branch_when_another_branch_has_its_commits(instance: Instance, repo: Path) -> None:
    session, path = spawn_login(instance, repo)
    git(path, "commit", "-q", "--allow-empty", "-m", "second")
    git(repo, "branch", "feature", "sm/login")
    instance.sm("kill", session["session_id"])
    assert instance.run("rm", session["session_id"]).stderr == ""
    assert branches(repo) == ["feature", "main"]


def test_rm_removes_the_branch_when_the_worktree_was_deleted_by_hand(instance: Instance, repo: Path) -> None:
    session = instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repo)
    instance.sm("kill", session["session_id"])
    shutil.rmtree(session["worktree"]["path"])
    assert instance.run("rm", session["session_id"]).stderr == ""
    assert branches(repo) == ["main"]
    instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repo)


@pytest.mark.parametrize("kind", ["detached", "staged", "own ref", "moved"])
def test_rm_is_refused_when_git_keeps_work_of_a_worktree_whose_directory_is_missing(
    instance: Instance, repo: Path, kind: str
) -> None:
    session, path = spawn_login(instance, repo)
    if kind == "staged":
        (path / "api" / "a.txt").write_text("staged\n")
        git(path, "add", ".")
        work = "staged changes"
    else:
        git(path, "checkout", "-q", "--detach")
        made = commit(path, "b")
        work = f"1 commit in no other branch or tag ({git(path, 'rev-parse', '--short', made)} b)"
    if kind == "own ref":
        git(path, "update-ref", "refs/worktree/mine", made)
        git(path, "reset", "-q", "--hard", "HEAD~1")
    if kind == "moved":
        path.rename(path.parent / "away")
    else:
        shutil.rmtree(path)
    own = repo / ".git" / "worktrees" / "login"
    instance.sm("kill", session["session_id"])
    assert instance.refused("rm", session["session_id"], exit_code=4) == (
        f"sm: sleeper-login has work in {path} that exists nowhere else: {work}\n"
        "hint: to keep it: move the directory back, or: git branch NAME COMMIT; "
        "to delete it: sm rm sleeper-login --discard\n"
    )
    assert own.exists()
    done = instance.run("rm", session["session_id"], "--discard", "--yes")
    assert (done.returncode, done.stderr, own.exists()) == (0, "", False)
    assert branches(repo) == ["main"]


@pytest.mark.parametrize("kind", ["missing", "squashed"])
def test_discard_keeps_commits_that_it_has_not_named(instance: Instance, repo: Path, kind: str) -> None:
    session, path = spawn_login(instance, repo)
    made = commit(path, "b")
    if kind == "missing":
        shutil.rmtree(path)
    else:
        git(path, "revert", "--no-edit", "HEAD")
        (path / "new.txt").write_text("b\n")
    instance.sm("kill", session["session_id"])
    done = instance.run("rm", session["session_id"], "--discard", "--yes")
    assert (done.returncode, path.exists()) == (0, False)
    assert "kept the branch sm/login: it has commits that no other branch or tag contains" in done.stderr
    assert made in git(repo, "rev-list", "sm/login")


def test_rm_is_refused_when_commits_of_no_branch_undo_each_other(instance: Instance, repo: Path) -> None:
    session, path = spawn_login(instance, repo)
    git(path, "checkout", "-q", "--detach")
    commit(path, "b")
    git(path, "revert", "--no-edit", "HEAD")
    instance.sm("kill", session["session_id"])
    error = instance.refused("rm", session["session_id"], exit_code=4)
    assert "2 commits in no other branch or tag" in error
    assert path.exists()


def test_rm_keeps_the_branch_when_only_a_stash_has_its_commits(instance: Instance, repo: Path) -> None:
    session, path = spawn_login(instance, repo)
    commit(path, "b")
    (path / "api" / "a.txt").write_text("c\n")
    git(path, "stash", "-q")
    git(repo, "merge", "-q", "--squash", "sm/login")
    git(repo, "commit", "-q", "-m", "squashed")
    assert "kept the branch sm/login" in remove(instance, session)
    assert branches(repo) == ["main", "sm/login"]


def test_rm_is_refused_when_only_a_ref_of_the_worktree_has_a_commit(instance: Instance, repo: Path) -> None:
    session, path = spawn_login(instance, repo)
    made = commit(path, "b")
    git(path, "update-ref", "refs/worktree/mine", made)
    git(path, "reset", "-q", "--hard", "HEAD~1")
    instance.sm("kill", session["session_id"])
    error = instance.refused("rm", session["session_id"], exit_code=4)
    assert f"1 commit in no other branch or tag ({git(path, 'rev-parse', '--short', made)} b)" in error
    assert path.exists()


def test_left_worktrees_are_listed_with_their_work_and_pruned(instance: Instance, repo: Path) -> None:
    instance.spawn("Sleeper", "x", "--worktree", "--name", "live", cwd=repo)
    ended, kept, gone = (
        instance.spawn("Sleeper", "x", "--worktree", "--name", name, cwd=repo)
        for name in ("ended", "kept", "gone")
    )
    assert (
        instance.sm("worktree", "ls")
        == "No worktrees of ended agents. Those of live agents: sm worktree ls --all\n"
    )
    (Path(kept["worktree"]["path"]) / "new").write_text("x" * 2_000_000)
    for session in (ended, kept, gone):
        instance.sm("kill", session["session_id"])
    for session in (kept, gone):  # as another client, which does not remove the worktree
        instance.request_as(None, ("POST", f"/v1/sessions/{session['session_id']}/remove"))
    found = {tree["branch"]: tree for tree in instance.json("worktree", "ls")}
    assert {name: tree["label"] for name, tree in found.items()} == {
        "sm/ended": "sleeper-ended",
        "sm/kept": None,
        "sm/gone": None,
    }
    assert found["sm/kept"]["work"] == "1 uncommitted or untracked file (new)"
    assert found["sm/kept"]["bytes"] > 2_000_000 > found["sm/gone"]["bytes"] > 0
    pruned = instance.run("worktree", "prune", "--yes")
    assert pruned.stdout == f"Removed {gone['worktree']['path']}\n"
    assert f"kept {kept['worktree']['path']}: 1 uncommitted or untracked file (new)" in pruned.stderr
    assert branches(repo) == ["main", "sm/ended", "sm/kept", "sm/live"]
    assert {tree["branch"] for tree in instance.json("worktree", "ls")} == {"sm/ended", "sm/kept"}
    assert instance.json("worktree", "open", "kept") == {"path": kept["worktree"]["path"]}
    assert "no worktree gone" in instance.refused("worktree", "open", "gone", exit_code=3)


@pytest.mark.parametrize("rule", ["vendor/", ""])
def test_rm_is_refused_while_a_nested_repository_has_work(instance: Instance, repo: Path, rule: str) -> None:
    (repo / ".git" / "info" / "exclude").write_text(f"{rule}\n")
    session, path = spawn_login(instance, repo)
    inner = path / "vendor" / "lib"
    inner.mkdir(parents=True)
    git(inner, "init", "-q")
    (inner / "x").write_text("x")
    git(inner, "add", "x")
    git(inner, "commit", "-q", "-m", "only here")
    instance.sm("kill", session["session_id"])
    assert "the repository vendor/lib with 1 commit in no remote branch" in instance.refused(
        "rm", session["session_id"], exit_code=4
    )
    assert inner.exists()


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_rm_is_refused_for_a_change_that_git_does_not_look_at(
    instance: Instance, repo: Path, flag: str
) -> None:
    session, path = spawn_login(instance, repo)
    git(path, "update-index", flag, "api/a.txt")
    instance.sm("kill", session["session_id"])
    (tree,) = instance.json("worktree", "ls")
    assert tree["work"] is None
    (path / "api" / "a.txt").write_text("precious\n")
    assert "changes that git was told not to look at (api/a.txt)" in instance.refused(
        "rm", session["session_id"], exit_code=4
    )


def test_rm_is_refused_for_a_change_in_a_nested_clone_that_git_does_not_look_at(
    instance: Instance, repo: Path
) -> None:
    (repo / ".git" / "info" / "exclude").write_text("vendor/\n")
    session, path = spawn_login(instance, repo)
    inner = path / "vendor" / "app"
    git(path, "clone", "-q", str(repo), str(inner))
    git(inner, "update-index", "--skip-worktree", "api/a.txt")
    (inner / "api" / "a.txt").write_text("precious\n")
    instance.sm("kill", session["session_id"])
    error = instance.refused("rm", session["session_id"], exit_code=4)
    assert "the repository vendor/app with 1 changed file" in error
    assert (inner / "api" / "a.txt").read_text() == "precious\n"


def test_copies_and_links_follow_no_link_of_the_base(instance: Instance, repo: Path) -> None:
    with instance.config.open("a") as file:
        file.write("worktrees: {copy: [config/local.yml], link: [a/cache]}\n")
    outside = instance.home / "outside"
    outside.mkdir()
    (repo / ".gitignore").write_text("config/\na/\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "ignore")
    git(repo, "switch", "-q", "-c", "evil")
    for name in ("config", "a"):
        (repo / name).symlink_to(outside)
        git(repo, "add", "--force", name)
    git(repo, "commit", "-q", "-m", "links")
    git(repo, "switch", "-q", "main")
    (repo / "config").mkdir()
    (repo / "config" / "local.yml").write_text("secret\n")
    (repo / "a" / "cache").mkdir(parents=True)
    done = instance.run("spawn", "Sleeper", "x", "--worktree", "--base", "evil", cwd=repo)
    assert done.returncode == 0, done.stderr
    assert list(outside.iterdir()) == []
    assert "not copied, as links lead out of the repository: config/local.yml" in done.stderr
    assert "not linked, as it leads out of the repository: a/cache" in done.stderr
    done = instance.run("spawn", "Sleeper", "x", "--worktree", "--name", "good", cwd=repo)
    assert (repo / ".sm" / "worktrees" / "good" / "config" / "local.yml").read_text() == "secret\n"
    assert (repo / ".sm" / "worktrees" / "good" / "a" / "cache").is_symlink()


def test_copies_do_not_come_from_other_worktrees(instance: Instance, repo: Path) -> None:
    with instance.config.open("a") as file:
        file.write("worktrees: {copy: ['**/.env']}\n")
    (repo / ".git" / "info" / "exclude").write_text(".env\n")
    (repo / "api" / ".env").write_text("S=1\n")
    for name in ("one", "two", "three"):
        spawned = instance.spawn("Sleeper", "x", "--worktree", "--name", name, cwd=repo)
        assert spawned["worktree_files"]["copied_files"] == 1


def test_files_have_the_umask_of_the_caller(instance: Instance, repo: Path) -> None:
    _, path = spawn_login(instance, repo)
    modes = [oct((path / name).stat().st_mode & 0o777) for name in ("api/a.txt", "api")]
    assert modes == ["0o644", "0o755"]


def test_only_the_worktree_itself_is_hidden_in_a_directory_of_the_repository(
    instance: Instance, repo: Path
) -> None:
    with instance.config.open("a") as file:
        file.write("worktrees: {dir: 'api/{name}'}\n")
    instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repo)
    (repo / "api" / "new.txt").write_text("new\n")
    assert git(repo, "status", "--porcelain") == "?? api/new.txt"


def test_exclusions_are_not_written_through_a_link(instance: Instance, repo: Path) -> None:
    exclude, other = repo / ".git" / "info" / "exclude", instance.home / "other"
    other.write_text("mine\n")
    exclude.unlink()
    exclude.symlink_to(other)
    assert "cannot write" in instance.run("spawn", "Sleeper", "x", "--worktree", cwd=repo).stderr
    assert other.read_text() == "mine\n"


def test_failed_worktree_leaves_those_of_a_person_alone(instance: Instance, repo: Path) -> None:
    away, back = instance.work / "usb", instance.work / "away"
    git(repo, "worktree", "add", "-q", "--detach", str(away))
    (away / "api" / "a.txt").write_text("on a disk\n")
    git(away, "commit", "-q", "-a", "-m", "on a disk")
    away.rename(back)
    instance.run("spawn", "Sleeper", "x", "--worktree", "--pr", "7", cwd=repo)
    git(repo, "remote", "add", "origin", str(instance.work / "none"))
    assert instance.run("spawn", "Sleeper", "x", "--worktree", "--pr", "7", cwd=repo).returncode == 9
    session, path = spawn_login(instance, repo)
    shutil.rmtree(path)
    remove(instance, session)
    back.rename(away)
    assert git(away, "log", "-1", "--format=%s") == "on a disk"


def test_spawn_that_reports_a_failed_worktree_leaves_no_session(instance: Instance, repo: Path) -> None:
    git(repo, "remote", "add", "origin", str(instance.work / "none"))
    arguments = ("spawn", "Sleeper", "x", "--worktree", "--name", "login", "--pr", "7")
    problem = instance.refused(*arguments, exit_code=9, cwd=repo)
    assert "cannot fetch pull request 7" in problem
    assert json.loads(instance.sm("all", "--json")) == []
    assert instance.sm("inbox", "--json").strip() == "[]"
    assert problem == instance.refused(*arguments, exit_code=9, cwd=repo)
    # Nobody waits for this one, so the session has the reason.
    body = {"agent_type": "Sleeper", "name": "login", "cwd": str(repo)}
    client = Client(str(instance.socket))
    started = client.post("/v1/sessions", {**body, "new_worktree": True, "pull_request": 7})
    instance.sm("wait", started["session_id"], "--until", "error")
    assert "cannot fetch pull request 7" in instance.session(started["session_id"])["status_reason"]


def test_worktree_in_which_a_session_works_is_not_pruned(instance: Instance, repo: Path) -> None:
    session, path = spawn_login(instance, repo)
    instance.sm("kill", session["session_id"])
    instance.spawn("Sleeper", "x", "--working-dir", str(path))
    instance.request_as(None, ("POST", f"/v1/sessions/{session['session_id']}/remove"))
    assert "No worktrees to delete" in instance.sm("worktree", "prune", "--yes")
    assert path.exists()


def test_worktree_of_a_bare_repository_is_beside_its_other_worktrees(instance: Instance, repo: Path) -> None:
    around = instance.work / "around"
    git(instance.work, "clone", "-q", "--bare", str(repo), str(around / ".bare"))
    main = around / "main"
    git(around / ".bare", "worktree", "add", "-q", str(main), "main")
    for number, directory in enumerate((main / "api", around / ".bare")):
        name = f"login{number}"
        session = instance.spawn("Sleeper", "x", "--worktree", "--name", name, cwd=directory)
        path = around / ".sm" / "worktrees" / name
        assert session["worktree"]["path"] == str(path)
        commit(path, "work\n")
        instance.sm("kill", session["session_id"])
        assert "1 commit in no other branch" in instance.refused("rm", session["session_id"], exit_code=4)
        instance.sm("merge", session["session_id"], "--onto", "main", cwd=instance.work)
        assert instance.run("rm", session["session_id"]).stderr == ""
        assert (path.exists(), (main / "api" / "a.txt").read_text()) == (False, "work\n")
        git(main, "reset", "-q", "--hard", "HEAD~1")
    assert branches(around / ".bare") == ["main"]


@pytest.mark.parametrize("words", [("sleeper-login", "sleeper-other"), ("--ended", "--yes")])
def test_sessions_removed_together_keep_no_commit_for_each_other(
    instance: Instance, repo: Path, words: tuple[str, ...]
) -> None:
    _, path = spawn_login(instance, repo)
    other = instance.spawn("Sleeper", "x", "--worktree", "--name", "other", cwd=repo)
    made = commit(path, "work\n")
    git(Path(other["worktree"]["path"]), "merge", "-q", "sm/login")
    for name in ("sleeper-login", "sleeper-other"):
        instance.sm("kill", name)
    instance.run("rm", *words)
    assert git(repo, "rev-parse", "sm/login") == git(repo, "rev-parse", "sm/other") == made
    assert len(instance.json("ls", "--all")) == 2


def test_commit_of_another_session_at_which_a_worktree_began_is_work(instance: Instance, repo: Path) -> None:
    _, path = spawn_login(instance, repo)
    made = commit(path, "work\n")
    instance.spawn("Sleeper", "x", "--worktree", "--name", "other", "--base", "sm/login", cwd=repo)
    for name in ("sleeper-login", "sleeper-other"):
        instance.sm("kill", name)
    assert instance.run("rm", "sleeper-login").returncode == 0  # the other branch has its commit
    assert made[:7] in instance.refused("rm", "sleeper-other", exit_code=4)


def test_untouched_worktree_of_a_pull_request_is_removed(instance: Instance, repo: Path) -> None:
    origin = instance.work / "origin"
    git(instance.work, "clone", "-q", "--bare", str(repo), str(origin))
    git(repo, "remote", "add", "origin", str(origin))
    made = commit(repo, "of a stranger\n")
    git(repo, "push", "-q", "origin", "HEAD:refs/pull/7/head")
    git(repo, "reset", "-q", "--hard", "HEAD~1")
    session = instance.spawn("Sleeper", "x", "--worktree", "--pr", "7", cwd=repo)
    path = Path(session["worktree"]["path"])
    assert git(path, "rev-parse", "HEAD") == made
    instance.sm("kill", session["session_id"])
    assert instance.run("rm", session["session_id"]).stderr == ""
    assert not path.exists()


@pytest.mark.parametrize("below", [".git", ".git/hooks"])
def test_spawn_in_a_git_directory_is_refused(instance: Instance, repo: Path, below: str) -> None:
    problem = instance.refused(
        "spawn", "Sleeper", "x", "--worktree", "--name", "login", exit_code=2, cwd=repo / below
    )
    assert problem == (
        f"sm: {repo}/{below} is a git directory, without the files of a worktree\n"
        f"hint: start in the repository: --working-dir {repo}\n"
    )
    assert instance.json("all") == []


def test_place_below_a_file_is_refused_when_it_is_planned(instance: Instance, repo: Path) -> None:
    (repo / ".sm").write_text("a file\n")
    problem = instance.refused(
        "spawn", "Sleeper", "x", "--worktree", "--name", "login", exit_code=2, cwd=repo
    )
    assert problem.startswith(f"sm: cannot create worktree login: {repo}/.sm is not a directory\n")
    assert instance.json("all") == []
    assert branches(repo) == ["main"]


def test_failed_worktree_leaves_no_empty_directory(instance: Instance, repo: Path) -> None:
    (repo / "x.bin").write_text("x\n")
    (repo / ".gitattributes").write_text("*.bin filter=lfs\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "a file of LFS")
    (instance.home / ".gitconfig").write_text(
        '[filter "lfs"]\n\tsmudge = git-lfs smudge -- %f\n\trequired = true\n'
    )
    problem = instance.run("spawn", "Sleeper", "x", "--worktree", "--name", "login", cwd=repo)
    assert problem.returncode == 9
    assert "x.bin: smudge filter lfs failed (" in problem.stderr
    assert "git-lfs: not found)" in problem.stderr
    assert not (repo / ".sm").exists()


def test_partial_clone_without_the_files_is_refused_in_words(instance: Instance, repo: Path) -> None:
    (repo / "big").write_text("big\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "a big file")
    git(repo, "config", "uploadpack.allowFilter", "true")
    partial = instance.work / "partial"
    git(repo, "clone", "-q", "--no-checkout", "--filter=blob:none", f"file://{repo}", str(partial))
    done = instance.run("spawn", "Sleeper", "x", "--worktree", "--name", "login", cwd=partial)
    start = git(partial, "rev-parse", "--short=12", "HEAD")
    assert done.returncode == 9
    assert f"the repository is a partial clone without all files of {start}" in done.stderr
    assert f"git -C {partial} worktree add --detach DIRECTORY {start}" in done.stderr
    git(partial, "worktree", "add", "-q", "--detach", str(instance.work / "mine"), start)
    instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=partial)


def test_base_without_a_name_is_refused(instance: Instance, repo: Path) -> None:
    problem = instance.refused("spawn", "Sleeper", "x", "--worktree", "--base", "", exit_code=2, cwd=repo)
    assert "invalid base ''" in problem


def test_two_beginnings_are_refused_with_a_hint_at_both(instance: Instance, repo: Path) -> None:
    problem = instance.refused(
        "spawn", "Sleeper", "x", "--worktree", "--base", "main", "--pr", "1", exit_code=2, cwd=repo
    )
    assert problem == (
        "sm: a base and a pull request cannot be used together\nhint: omit --base REF or --pr N\n"
    )
