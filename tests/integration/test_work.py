"""`sm diff`, `sm merge` and `sm rm --discard`: the work of an agent comes back, or is discarded on purpose."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures import context_fixture
from tests.git_repositories import branches, commit, git
from tests.instance import SM, Instance, until
from tests.typist import Typist, plain

shared = context_fixture("module", Instance)


@pytest.fixture
def repo(shared: Instance, request: pytest.FixtureRequest) -> Path:
    """A repository with one commit, of which git knows the committer."""
    path: Path = shared.work / request.node.name.replace("[", "-").rstrip("]")
    (path / "api").mkdir(parents=True)
    git(path, "init", "-q", "-b", "main")
    git(path, "config", "user.name", "x")
    git(path, "config", "user.email", "x@localhost")
    (path / "api" / "a.txt").write_text("a\n")
    git(path, "add", ".")
    git(path, "commit", "-q", "-m", "first")
    return path


def spawn(shared: Instance, repo: Path) -> tuple[str, Path]:
    """Spawn a session in a worktree; return its id and the worktree."""
    session = shared.spawn("Sleeper", "x", "--worktree", cwd=repo)
    return session["session_id"], Path(session["worktree"]["path"])


def files(shared: Instance, session_id: str) -> dict[str, tuple[int | None, int | None]]:
    shown = shared.json("diff", session_id)
    return {file["path"]: (file["added"], file["deleted"]) for file in shown["files"]}


def test_diff_shows_commits_changes_and_new_files(shared: Instance, repo: Path) -> None:
    session_id, path = spawn(shared, repo)
    start = git(repo, "rev-parse", "HEAD")
    assert shared.sm("diff", session_id) == ""
    commit(path, "b\n")
    (path / "api" / "a.txt").write_text("b\nc\n")
    (path / "new file.txt").write_text("new\n")
    (path / "über\x1b.txt").write_text("new\n")
    (path / "picture").write_bytes(bytes(range(256)))
    before = (path / ".git").read_text(), git(path, "status", "--porcelain")
    commit(repo, "the branch of the person goes on\n")
    shown = shared.json("diff", session_id)
    assert (shown["base"], shown["directory"]) == (start, str(path))
    assert files(shared, session_id) == {
        "api/a.txt": (2, 1),
        "new file.txt": (1, 0),
        "picture": (None, None),
        "über\x1b.txt": (1, 0),
    }
    names = shared.sm("diff", session_id, "--name-only").splitlines()
    assert names == ["api/a.txt", "new file.txt", "picture", '"über\\033.txt"']
    assert " api/a.txt      |   3 ++-\n" in shared.sm("diff", session_id, "--stat")
    patch = shared.sm("diff", session_id)
    assert "+c\n" in patch
    assert "+new\n" in patch
    assert ((path / ".git").read_text(), git(path, "status", "--porcelain")) == before


def test_diff_leaves_out_a_nested_repository_without_a_commit(shared: Instance, repo: Path) -> None:
    session_id, path = spawn(shared, repo)
    (path / "new.txt").write_text("new\n")
    for place in ("nested", "api/[a] b/nested"):
        git(path, "init", "-q", place)
        (path / place / "f").write_text("x\n")
    (path / "api" / "[a] b" / "own.txt").write_text("own\n")
    assert files(shared, session_id) == {"new.txt": (1, 0), "api/[a] b/own.txt": (1, 0)}
    assert "2 files changed" in shared.sm("diff", session_id, "--stat")
    # One with a commit is shown as git shows it: by its commit.
    git(
        path / "nested",
        "-c",
        "user.name=x",
        "-c",
        "user.email=x@localhost",
        "commit",
        "--allow-empty",
        "-m",
        "x",
    )
    assert files(shared, session_id)["nested"] == (1, 0)


def test_diff_of_a_shared_directory_begins_at_the_commit_of_the_spawn(shared: Instance, repo: Path) -> None:
    before = git(repo, "rev-parse", "HEAD")
    session_id = shared.spawn("Sleeper", "x", cwd=repo / "api")["session_id"]
    (repo / "api" / "a.txt").write_text("b\n")
    assert files(shared, session_id) == {"api/a.txt": (1, 1)}
    assert shared.json("diff", session_id)["base"] == before
    problem = shared.refused("merge", session_id, exit_code=4, cwd=repo)
    assert "has no worktree of its own" in problem


def test_diff_does_not_run_programs_that_the_repository_configures(shared: Instance, repo: Path) -> None:
    session_id, path = spawn(shared, repo)
    ran = shared.home / "ran"
    program = shared.home / "evil"
    program.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n")
    program.chmod(0o755)
    for key in ("diff.external", "diff.evil.textconv", "core.pager", "pager.diff", "core.fsmonitor"):
        git(repo, "config", key, str(program))
    (path / ".gitattributes").write_text("* diff=evil\n")
    (path / "api" / "a.txt").write_text("b\n")
    assert "+b" in shared.sm("diff", session_id)
    assert not ran.exists()


def test_diff_is_printed_on_a_terminal_without_a_pager_when_less_is_not_installed(
    shared: Instance, repo: Path, tmp_path: Path
) -> None:
    session_id, path = spawn(shared, repo)
    (path / "api" / "a.txt").write_text("b\n")
    for program in ("bash", "git"):
        (tmp_path / program).symlink_to(shutil.which(program) or "")
    environment = {name: value for name, value in shared.env.items() if name not in ("PAGER", "GIT_PAGER")}
    terminal = Typist({**environment, "PATH": f"{tmp_path}:{Path(SM).parent}"}, shared.home)
    try:
        code, output = terminal.type(f"sm diff {session_id}")
    finally:
        terminal.end()
    assert (code, "cannot run" in output) == (0, False), output
    assert "+b" in plain(output)


def test_git_runs_filters_of_the_user_and_names_those_of_the_repository(shared: Instance, repo: Path) -> None:
    session_id, path = spawn(shared, repo)
    (path / ".gitattributes").write_text("*.txt filter=upper\n")
    (path / "api" / "a.txt").write_text("b\n")
    git(repo, "config", "filter.upper.clean", "tr a-z A-Z")
    git(repo, "config", "filter.upper.smudge", "tr A-Z a-z")
    problem = shared.refused("diff", session_id, exit_code=4)
    assert (
        f"git does not run in {path}: its configuration names programs to run: filter.upper.clean" in problem
    )
    assert "git config --global --edit" in problem
    assert problem.splitlines()[0] in shared.refused("merge", session_id, exit_code=4, cwd=repo)
    assert "filter.upper.clean" in shared.refused(
        "spawn", "Sleeper", "x", "--worktree", exit_code=4, cwd=repo
    )
    (found,) = [f for f in shared.json("digest")["not_compared"] if f["session_id"] == session_id]
    assert "filter.upper.clean" in found["reason"]
    own = shared.home / ".gitconfig"
    own.write_text('[filter "upper"]\n\tclean = tr a-z A-Z\n')
    try:
        assert "+B\n" in shared.sm("diff", session_id)
    finally:
        own.unlink()
    shared.sm("kill", session_id)
    kept = shared.run("rm", session_id, "--discard")
    assert f"kept the worktree {path}: git does not run in" in kept.stderr


def test_settings_of_the_repository_that_run_nothing_still_count(shared: Instance, repo: Path) -> None:
    session_id, path = spawn(shared, repo)
    git(repo, "config", "core.autocrlf", "true")
    git(repo, "config", "core.pager", "false")
    (path / "api" / "a.txt").write_bytes(b"a\r\n")
    assert files(shared, session_id) == {}
    git(repo, "config", "core.autocrlf", "false")
    assert files(shared, session_id) == {"api/a.txt": (1, 1)}


def test_diff_is_refused_when_there_is_no_repository(shared: Instance) -> None:
    session_id = shared.spawn("Sleeper", "x", cwd=shared.home)["session_id"]
    problem = shared.refused("diff", session_id, exit_code=4)
    assert "does not work in a git repository" in problem
    assert "sm spawn --worktree" in problem
    shared.refused("diff", "nobody", exit_code=3)
    shared.refused("diff", session_id, "--stat", "--json", exit_code=2)


@pytest.mark.parametrize("squash", [False, True])
def test_merge_brings_the_commits_into_the_branch_of_the_main_directory(
    shared: Instance, repo: Path, squash: bool
) -> None:
    session_id, path = spawn(shared, repo)
    commit(path, "b\n")
    commit(path, "c\n")
    (repo / "own.txt").write_text("untracked files stay\n")
    option = ["--squash"] if squash else []
    # The current directory is outside of the repository.
    done = shared.json("merge", session_id, *option, cwd=shared.home)
    assert {key: done[key] for key in ("into", "directory", "commits")} == {
        "into": "main",
        "directory": str(repo),
        "commits": 2,
    }
    assert (repo / "api" / "a.txt").read_text() == "c\n"
    assert git(repo, "rev-list", "--count", "HEAD") == ("2" if squash else "3")
    assert git(repo, "status", "--porcelain") == "?? own.txt"
    assert path.exists()
    if not squash:
        assert "Nothing to merge: " in shared.sm("merge", session_id)


def test_merge_targets_the_worktree_around_the_current_directory(shared: Instance, repo: Path) -> None:
    session_id, path = spawn(shared, repo)
    commit(path, "b\n")
    other = shared.work / f"{repo.name}-other"
    git(repo, "worktree", "add", "-q", "-b", "topic", str(other))
    assert " into topic in " in shared.sm("merge", session_id, cwd=other / "api")
    assert (other / "api" / "a.txt").read_text() == "b\n"
    assert (repo / "api" / "a.txt").read_text() == "a\n"


@pytest.mark.parametrize("left", ["changed", "new"])
def test_merge_is_refused_when_the_agent_has_uncommitted_work(
    shared: Instance, repo: Path, left: str
) -> None:
    session_id, path = spawn(shared, repo)
    commit(path, "b\n")
    file = path / "api" / "a.txt" if left == "changed" else path / "new.txt"
    file.write_text("c\n")
    problem = shared.refused("merge", session_id, exit_code=4, cwd=repo)
    assert f"has uncommitted changes, which a merge would leave behind: {file.relative_to(path)}" in problem
    assert git(repo, "rev-list", "--count", "HEAD") == "1"


def test_merge_is_refused_when_the_target_is_not_clean(shared: Instance, repo: Path) -> None:
    session_id, path = spawn(shared, repo)
    commit(path, "b\n")
    (repo / "api" / "a.txt").write_text("mine\n")
    assert "has uncommitted changes: api/a.txt" in shared.refused("merge", session_id, exit_code=4, cwd=repo)
    assert (repo / "api" / "a.txt").read_text() == "mine\n"
    git(repo, "checkout", "-q", "api/a.txt")
    git(repo, "checkout", "-q", "--detach")
    assert "no branch is checked out" in shared.refused("merge", session_id, exit_code=4, cwd=repo)


@pytest.mark.parametrize("squash", [False, True])
def test_merge_changes_nothing_when_there_are_conflicts(shared: Instance, repo: Path, squash: bool) -> None:
    session_id, path = spawn(shared, repo)
    commit(path, "theirs\n")
    head = commit(repo, "mine\n")
    (repo / "own.txt").write_text("stays\n")
    problem = shared.refused("merge", session_id, *(["--squash"] if squash else []), exit_code=4, cwd=repo)
    assert "conflicts in api/a.txt; nothing was changed" in problem
    assert git(repo, "rev-parse", "HEAD") == head
    assert git(repo, "status", "--porcelain") == "?? own.txt"
    assert (repo / "api" / "a.txt").read_text() == "mine\n"


def test_merge_changes_nothing_when_git_cannot_commit(shared: Instance, repo: Path) -> None:
    session_id, path = spawn(shared, repo)
    commit(path, "b\n")
    head = commit(repo, "mine\n")
    git(repo, "checkout", "-q", "-B", "main", "HEAD~1")
    (repo / "other.txt").write_text("x\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "other")
    git(repo, "config", "user.useConfigOnly", "true")
    git(repo, "config", "--unset", "user.name")
    git(repo, "config", "--unset", "user.email")
    head = git(repo, "rev-parse", "HEAD")
    problem = shared.refused("merge", session_id, exit_code=4, cwd=repo)
    assert "nothing was changed" in problem
    assert git(repo, "rev-parse", "HEAD") == head
    assert git(repo, "status", "--porcelain") == ""


def remove(shared: Instance, session_id: str, *options: str) -> Any:
    shared.sm("kill", session_id)
    return shared.run("rm", session_id, *options)


def test_rm_discard_deletes_unmerged_work(shared: Instance, repo: Path) -> None:
    session_id, path = spawn(shared, repo)
    commit(path, "b\n")
    (path / "new.txt").write_text("x\n")
    done = remove(shared, session_id, "--discard", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert not path.exists()
    assert branches(repo) == ["main"]


def test_rm_discard_keeps_a_worktree_that_another_session_uses(shared: Instance, repo: Path) -> None:
    session_id, path = spawn(shared, repo)
    shared.spawn("Sleeper", "x", cwd=path)
    assert "another session works there" in remove(shared, session_id, "--discard").stderr
    assert path.exists()


def test_rm_discard_keeps_the_branch_of_a_worktree_that_is_gone(shared: Instance, repo: Path) -> None:
    """Nobody was told of its commits, so nobody has given them up."""
    session_id, path = spawn(shared, repo)
    commit(path, "b\n")
    os.rename(path, shared.work / f"{repo.name}-moved")
    assert "does not exist" in shared.refused("diff", session_id, exit_code=4)
    assert (
        "it has commits that no other branch or tag contains"
        in remove(shared, session_id, "--discard").stderr
    )
    assert len(branches(repo)) == 2


def test_rm_discard_needs_named_sessions(shared: Instance) -> None:
    assert "--discard needs SESSION" in shared.refused("rm", "--ended", "--discard", "--yes", exit_code=2)
    error = json.loads(shared.refused("rm", "--ended", "--discard", "--yes", "--json", exit_code=2))
    assert error["error"]["code"] == "usage"


def test_merge_warns_when_the_agent_still_works(shared: Instance, repo: Path) -> None:
    session_id, path = spawn(shared, repo)
    commit(path, "b\n")
    done = shared.run("merge", session_id, cwd=repo)
    assert done.returncode == 0
    assert "still works (running): merge again when it has finished" in done.stderr
    shared.sm("kill", session_id)
    commit(path, "c\n")
    assert shared.run("merge", session_id, cwd=repo).stderr == ""


def test_merge_is_refused_during_a_rebase_of_the_agent(shared: Instance, repo: Path) -> None:
    session_id, path = spawn(shared, repo)
    commit(path, "b\n")
    git(path, "-c", "sequence.editor=sed -i s/^pick/edit/", "rebase", "-q", "-i", "HEAD~1")
    problem = shared.refused("merge", session_id, exit_code=4, cwd=repo)
    assert "has not finished a rebase, merge, cherry-pick or bisect" in problem


def test_merge_overwrites_no_ignored_file_of_the_target(shared: Instance, repo: Path) -> None:
    session_id, path = spawn(shared, repo)
    (path / ".env").write_text("of the agent\n")
    (path / "cache").mkdir()
    (path / "cache" / "x").write_text("of the agent\n")
    git(path, "add", "--force", ".")
    git(path, "commit", "-q", "-m", "add files")
    (repo / ".git" / "info" / "exclude").write_text(".env\ncache\n")
    (repo / ".env").write_text("secret\n")
    (repo / "cache").write_text("precious\n")
    before = git(repo, "rev-parse", "HEAD")
    for option in ((), ("--squash",)):
        problem = shared.refused("merge", session_id, *option, exit_code=4, cwd=repo)
        assert "the merge would overwrite files that git does not track" in problem
        assert ".env, cache" in problem
    assert (repo / ".env").read_text() == "secret\n"
    assert (repo / "cache").read_text() == "precious\n"
    assert git(repo, "rev-parse", "HEAD") == before
    (repo / ".env").unlink()
    (repo / "cache").unlink()
    shared.sm("merge", session_id, cwd=repo)
    assert (repo / "cache" / "x").read_text() == "of the agent\n"


def test_merge_sees_changes_in_a_submodule_that_the_repository_ignores(shared: Instance, repo: Path) -> None:
    library = repo.parent / f"{repo.name}-library"
    library.mkdir()
    git(library, "init", "-q", "-b", "main")
    (library / "l.txt").write_text("l\n")
    git(library, "add", ".")
    git(library, "-c", "user.name=x", "-c", "user.email=x@localhost", "commit", "-q", "-m", "first")
    add = ("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "lib")
    git(repo, *add)
    git(repo, "config", "-f", ".gitmodules", "submodule.lib.ignore", "all")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "library")
    session_id, path = spawn(shared, repo)
    git(path, "-c", "protocol.file.allow=always", "submodule", "update", "--init", "-q")
    (path / "lib" / "l.txt").write_text("changed\n")
    problem = shared.refused("merge", session_id, exit_code=4, cwd=repo)
    assert "has uncommitted changes, which a merge would leave behind: lib" in problem


def test_digest_and_json_show_a_difference_without_marking_the_session_as_seen(
    shared: Instance, repo: Path
) -> None:
    script = "echo new > made; exit 3"
    session_id = shared.spawn("Sh", script, "--worktree", cwd=repo)["session_id"]

    def listed() -> dict[str, Any]:
        found: dict[str, Any] = next(s for s in shared.json("all") if s["session_id"] == session_id)
        return found

    until(lambda: shared.session(session_id)["exit_code"] == 3, "the agent has ended")
    changes = shared.json("digest")["changes"]
    assert [change["files"] for change in changes if change["session_id"] == session_id] == [1]
    assert files(shared, session_id) == {"made": (1, 0)}
    assert listed()["seen_at"] is None
    shared.sm("diff", session_id)
    assert listed()["seen_at"] is not None


def test_check_runs_in_the_merged_files_and_decides(shared: Instance, repo: Path) -> None:
    session_id, path = spawn(shared, repo)
    commit(path, "b\n")
    (repo / "own.txt").write_text("of a person\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "own")
    before = git(repo, "rev-parse", "HEAD")
    error = shared.refused("merge", session_id, "--check", "grep c api/a.txt", exit_code=4, cwd=repo)
    assert "the check of the merged files failed with exit code 1" in error
    assert git(repo, "rev-parse", "HEAD") == before
    shared.sm("merge", session_id, "--check", "grep b api/a.txt && cat own.txt", cwd=repo)
    assert (repo / "api" / "a.txt").read_text() == "b\n"
    assert git(repo, "worktree", "list").count("\n") == 1


@pytest.mark.parametrize("left", ["half", "lock", "edit"])
def test_failed_merge_says_what_it_has_left(shared: Instance, repo: Path, tmp_path: Path, left: str) -> None:
    session_id, path = spawn(shared, repo)
    commit(path, "b\n")
    before, lock = git(repo, "rev-parse", "HEAD"), repo / ".git" / "index.lock"
    env = {}
    if left != "lock":
        killed = f"echo half >{repo}/api/a.txt; : >{lock}; kill -9 $$"
        if left == "edit":  # of a person, in a file that the merge leaves alone
            (repo / "mine.txt").write_text("1\n")
            git(repo, "add", "mine.txt")
            git(repo, "commit", "-qm", "mine")
            before = git(repo, "rev-parse", "HEAD")
            killed = f"echo mine >{repo}/mine.txt; : >{lock}; kill -9 $$"
        program = tmp_path / "git"
        program.write_text(
            f'#!/bin/sh\ncase "$*" in *" merge --no-edit "*) {killed};; esac\nexec /usr/bin/git "$@"\n'
        )
        program.chmod(0o700)
        env = {"PATH": f"{tmp_path}:{shared.env['PATH']}"}
        expected = "git merge was killed by the signal SIGKILL; it has left changes in api/a.txt\n"
        expected += f"hint: rm {lock}, if no other git runs there; then look: git -C {repo} diff HEAD; "
        expected += f"if nothing of it is yours: git -C {repo} reset --hard {before[:12]}\n"
    else:
        lock.touch()
        expected = f"Unable to create '{lock}': File exists.; nothing was changed\n"
    if left == "edit":
        expected = "git merge was killed by the signal SIGKILL; nothing was changed\n"
    code = 9 if left == "half" else 4
    error = shared.refused("merge", session_id, exit_code=code, cwd=repo, env=env)
    assert expected in error
    lock.unlink()
    git(repo, "reset", "--hard", before[:12])
    assert "Merged" in shared.sm("merge", session_id, cwd=repo)


def test_git_that_is_killed_behind_its_merge_has_merged(shared: Instance, repo: Path, tmp_path: Path) -> None:
    session_id, path = spawn(shared, repo)
    commit(path, "b\n")
    lock = repo / ".git" / "index.lock"
    killed = f'/usr/bin/git "$@"; : >{lock}; kill -9 $$'
    program = tmp_path / "git"
    program.write_text(
        f'#!/bin/sh\ncase "$*" in *" merge --no-edit "*) {killed};; esac\nexec /usr/bin/git "$@"\n'
    )
    program.chmod(0o700)
    env = {"PATH": f"{tmp_path}:{shared.env['PATH']}"}
    error = shared.refused("merge", session_id, exit_code=9, cwd=repo, env=env)
    head = git(repo, "rev-parse", "HEAD")
    assert f"git merge was killed by the signal SIGKILL; main is at {head[:12]} now\n" in error
    assert f"hint: rm {lock}, if no other git runs there; then look: git -C {repo} log" in error
    lock.unlink()


def test_check_runs_in_the_environment_of_the_caller(shared: Instance, repo: Path) -> None:
    session_id, path = spawn(shared, repo)
    commit(path, "b\n")
    env = {"GIT_AUTHOR_NAME": "me", "LC_ALL": "C.UTF-8", "GIT_DIR": "/nonexistent"}
    own = "test \"$GIT_AUTHOR_NAME $LC_ALL $GIT_EDITOR $GIT_DIR\" = 'me C.UTF-8  '"
    check = f"git clone -q {repo} clone && {own}"
    assert "Merged" in shared.sm("merge", session_id, "--check", check, cwd=repo, env=env)
