"""Submodules in the worktree of an agent: nothing that exists only there is merged or deleted without a word."""

import json
import os
import shlex
import shutil
import subprocess
import zlib
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fixtures import context_fixture
from tests.git_repositories import git
from tests.sim.stage import Instance

pytestmark = pytest.mark.processes  # git
shared = context_fixture("module", Instance)

IDENTITY = ("-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "protocol.file.allow=always")


@dataclass
class Bench:
    """A repository with the submodule `libs/x`, and a session in a worktree of it."""

    shared: Instance
    library: Path
    repo: Path
    session_id: str
    worktree: Path
    spawned: str

    @property
    def inside(self) -> Path:
        return self.worktree / "libs" / "x"

    def fill(self) -> None:
        git(self.worktree, *IDENTITY, "submodule", "--quiet", "update", "--init")

    def commit_inside(self, text: str = "new\n") -> str:
        """Commit in the submodule, and the new commit of the submodule in the worktree."""
        (self.inside / "x.txt").write_text(text)
        git(self.inside, *IDENTITY, "commit", "-qam", "a change inside")
        git(self.worktree, *IDENTITY, "commit", "-qam", "bump x")
        return git(self.inside, "rev-parse", "HEAD")


def make_repository(path: Path, **files: str) -> None:
    path.mkdir(parents=True)
    git(path, "init", "-q", "-b", "main")
    git(path, "config", "user.name", "x")
    git(path, "config", "user.email", "x@localhost")
    for name, text in files.items():
        (path / f"{name}.txt").write_text(text)
    git(path, "add", ".")
    git(path, "commit", "-q", "-m", "first")


@pytest.fixture
def bench(shared: Instance, request: pytest.FixtureRequest) -> Bench:
    base: Path = shared.work / request.node.name.replace("[", "-").rstrip("]")
    library, repo = base / "library", base / "repo"
    make_repository(library, x="x\n")
    git(library, "config", "receive.denyCurrentBranch", "ignore")
    make_repository(repo, a="a\n")
    git(repo, *IDENTITY, "submodule", "--quiet", "add", str(library), "libs/x")
    git(repo, "commit", "-qm", "add x")
    done = shared.run("spawn", "Sleeper", "x", "--worktree", "--json", cwd=repo)
    assert done.returncode == 0, done.stderr
    session = json.loads(done.stdout)
    return Bench(shared, library, repo, session["session_id"], Path(session["worktree"]["path"]), done.stderr)


def end(bench: Bench) -> None:
    bench.shared.sm("kill", bench.session_id, "--force")


def test_spawn_says_that_the_submodules_of_a_new_worktree_are_empty(bench: Bench) -> None:
    assert "1 submodule is empty in the new worktree: libs/x" in bench.spawned
    assert f"git -C {bench.worktree} submodule update --init" in bench.spawned
    assert os.listdir(bench.inside) == []


def test_diff_names_a_submodule_with_changes_that_it_does_not_show(bench: Bench) -> None:
    assert bench.shared.run("diff", bench.session_id).stderr == ""
    bench.fill()
    (bench.inside / "x.txt").write_text("new\n")
    done = bench.shared.run("diff", bench.session_id)
    assert f"are not shown: libs/x; to see them: git -C {bench.inside} diff HEAD" in done.stderr


def forget_copy(repo: Path) -> None:
    """Leave the submodule of the repository empty, as in a clone without submodules."""
    shutil.rmtree(repo / "libs" / "x")
    (repo / "libs" / "x").mkdir()
    shutil.rmtree(repo / ".git" / "modules")


def test_merge_is_refused_while_the_commit_of_a_submodule_exists_only_in_the_worktree(bench: Bench) -> None:
    bench.fill()
    commit = bench.commit_inside()
    forget_copy(bench.repo)
    before = git(bench.repo, "rev-parse", "HEAD")
    problem = bench.shared.refused("merge", bench.session_id, exit_code=4, cwd=bench.repo)
    assert f"the submodule libs/x has the commit {commit[:12]}" in problem
    assert "nobody could check it out" in problem
    assert git(bench.repo, "rev-parse", "HEAD") == before
    # As the hint says, for a branch that does not exist yet: the HEAD of a submodule is detached.
    publish = shlex.split(problem.rpartition("then merge: ")[2].replace("BRANCH", "work"))
    subprocess.run(publish, check=True, capture_output=True, env={**os.environ, **bench.shared.env})
    done = bench.shared.run("merge", bench.session_id, cwd=bench.repo)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Merged ")
    assert "the merge moves submodules, whose files are not updated: libs/x" in done.stderr
    git(bench.repo, *IDENTITY, "submodule", "--quiet", "update", "--init")
    assert (bench.repo / "libs" / "x" / "x.txt").read_text() == "new\n"


@pytest.mark.parametrize(
    "words", [[], ["--squash"], ["--rebase"], ["--onto", "release"], ["--onto", "main"]], ids=" ".join
)
@pytest.mark.parametrize("is_filled", [True, False], ids=["filled", "empty"])
def test_merge_copies_a_commit_of_a_submodule_into_that_of_the_repository(
    bench: Bench, words: list[str], is_filled: bool
) -> None:
    git(bench.repo, "branch", "release")
    bench.fill()
    (bench.inside / "more.txt").write_text("more\n")
    git(bench.inside, *IDENTITY, "add", "more.txt")
    commit = bench.commit_inside()
    if not is_filled:  # its git directory stays
        git(bench.repo, "submodule", "--quiet", "deinit", "libs/x")
    modules = bench.repo / ".git" / "modules" / "libs" / "x"
    before = git(modules, "for-each-ref")
    tried = bench.shared.run("merge", bench.session_id, "--dry-run", *words, cwd=bench.repo)
    assert (tried.returncode, git(modules, "for-each-ref")) == (0, before)
    done = bench.shared.run("merge", bench.session_id, *words, cwd=bench.repo)
    assert done.returncode == 0, done.stderr
    assert f"the commit {commit[:12]} of the submodule libs/x was copied to " in done.stderr
    end(bench)
    bench.shared.sm("rm", bench.session_id)  # nothing of it exists only there
    shutil.rmtree(bench.library)
    git(modules, "gc", "--quiet", "--prune=now")
    if "release" in words:
        git(bench.repo, "switch", "-q", "release")
    git(bench.repo, *IDENTITY, "submodule", "--quiet", "update", "--init")
    assert (bench.repo / "libs" / "x" / "x.txt").read_text() == "new\n"
    assert (bench.repo / "libs" / "x" / "more.txt").read_text() == "more\n"


@pytest.mark.parametrize("is_kept", [True, False], ids=["kept", "unknown"])
def test_merge_copies_commits_of_nested_submodules_or_names_the_one_that_it_cannot_copy(
    bench: Bench, is_kept: bool
) -> None:
    deep = bench.library.parent / "deep"
    make_repository(deep, y="y\n")
    git(bench.library, *IDENTITY, "submodule", "--quiet", "add", str(deep), "deep")
    git(bench.library, "commit", "-qm", "add deep")
    filling = ("submodule", "--quiet", "update", "--init", "--recursive")
    for top in (bench.repo, bench.worktree):  # both have the submodule and the one in it
        git(top, *IDENTITY, "submodule", "--quiet", "update", "--init", "--remote")
    git(bench.repo, *IDENTITY, "commit", "-qam", "bump x")
    git(bench.worktree, "reset", "-q", "--hard", "main")
    for top in (bench.repo, bench.worktree) if is_kept else (bench.worktree,):
        git(top, *IDENTITY, *filling)
    innermost = bench.inside / "deep"
    (innermost / "y.txt").write_text("new\n")
    git(innermost, *IDENTITY, "commit", "-qam", "a change far inside")
    commit = bench.commit_inside()
    if not is_kept:
        problem = bench.shared.refused("merge", bench.session_id, exit_code=4, cwd=bench.repo)
        assert (
            f"the submodule libs/x/deep has the commit {git(innermost, 'rev-parse', 'HEAD')[:12]}" in problem
        )
        git(bench.repo / "libs" / "x", "cat-file", "-e", commit, fails=True)
        return
    done = bench.shared.run("merge", bench.session_id, cwd=bench.repo)
    assert done.returncode == 0, done.stderr
    # The worktree has the commit only until `sm rm`.
    assert f"git -C {bench.repo}/libs/x push origin {commit}:refs/heads/BRANCH" in done.stderr
    end(bench)
    bench.shared.sm("rm", bench.session_id)
    shutil.rmtree(bench.library)
    shutil.rmtree(deep)
    git(bench.repo, *IDENTITY, *filling)
    assert (bench.repo / "libs" / "x" / "deep" / "y.txt").read_text() == "new\n"


def test_merge_copies_no_object_under_a_false_name(bench: Bench) -> None:
    bench.fill()
    commit = bench.commit_inside()
    own = Path(git(bench.inside, "rev-parse", "--absolute-git-dir"))
    blob = git(bench.inside, "rev-parse", "HEAD:x.txt")
    place = own / "objects" / blob[:2] / blob[2:]
    place.chmod(0o644)
    place.write_bytes(zlib.compress(b"blob 5\0evil\n"))
    before = git(bench.repo, "rev-parse", "HEAD")
    problem = bench.shared.refused("merge", bench.session_id, exit_code=4, cwd=bench.repo)
    copied_to = f"of the submodule libs/x cannot be copied to {bench.repo}/libs/x"
    assert f"the commit {commit[:12]} {copied_to}" in problem
    assert f"git -C {bench.inside} push origin {commit}:refs/heads/BRANCH" in problem
    assert git(bench.repo, "rev-parse", "HEAD") == before
    git(bench.repo / "libs" / "x", "cat-file", "-e", commit, fails=True)


def test_merge_runs_nothing_of_a_submodule_when_it_copies_a_commit(bench: Bench, tmp_path: Path) -> None:
    bench.fill()
    bench.commit_inside()
    marker, program = tmp_path / "ran", tmp_path / "evil"
    program.write_text(f"#!/bin/sh\ntouch {marker}\nexec cat\n")
    program.chmod(0o755)
    keys = ("uploadpack.packObjectsHook", "core.fsmonitor", "core.sshCommand", "core.alternateRefsCommand")
    for inside in (bench.inside, bench.repo / "libs" / "x"):
        for key in (*keys, "filter.evil.clean", "filter.evil.smudge"):
            git(inside, "config", key, str(program))
        hooks = Path(git(inside, "rev-parse", "--absolute-git-dir")) / "hooks"
        hooks.mkdir(exist_ok=True)
        for name in ("reference-transaction", "post-checkout", "post-index-change"):
            (hooks / name).symlink_to(program)
    marker.unlink(missing_ok=True)
    bench.shared.run("merge", bench.session_id, cwd=bench.repo)
    assert not marker.exists()


def test_merge_accepts_a_commit_that_the_submodule_of_the_target_has(bench: Bench) -> None:
    bench.fill()
    bench.commit_inside()
    git(bench.repo / "libs" / "x", *IDENTITY, "fetch", "-q", str(bench.inside), "HEAD")
    assert bench.shared.sm("merge", bench.session_id, cwd=bench.repo).startswith("Merged ")


def test_merge_accepts_a_commit_that_somebody_else_has_published(bench: Bench) -> None:
    # The worktree's own submodule stays empty: the agent only merges what others have done.
    git(bench.repo, "branch", "release")
    (bench.library / "x.txt").write_text("theirs\n")
    git(bench.library, "commit", "-qam", "theirs")
    theirs = git(bench.library, "rev-parse", "HEAD")
    git(bench.worktree, "update-index", "--cacheinfo", f"160000,{theirs},libs/x")
    git(bench.worktree, *IDENTITY, "commit", "-qm", "bump x upstream")
    problem = bench.shared.refused("merge", bench.session_id, exit_code=4, cwd=bench.repo)
    assert "nobody could check it out" in problem
    problem = bench.shared.refused(
        "merge", bench.session_id, "--onto", "release", exit_code=4, cwd=bench.repo
    )
    assert "nobody could check it out" in problem
    git(bench.repo, "update-ref", "refs/remotes/origin/main", git(bench.worktree, "rev-parse", "HEAD"))
    assert bench.shared.sm("merge", bench.session_id, cwd=bench.repo).startswith("Merged ")


def test_rm_refuses_while_a_commit_of_a_submodule_exists_nowhere_else(bench: Bench) -> None:
    bench.fill()
    commit = bench.commit_inside()
    git(bench.worktree, *IDENTITY, "commit", "-q", "--amend", "-m", "bump x, not merged")
    end(bench)
    problem = bench.shared.refused("rm", bench.session_id, exit_code=4)
    assert f"submodule libs/x: {commit[:7]} a change inside" in problem
    assert bench.shared.session(bench.session_id)["status"] == "killed"
    problem = bench.shared.refused("rm", bench.session_id, "--discard", exit_code=4)
    assert f"--discard would delete work in {bench.worktree} that exists nowhere else: " in problem
    assert f"sm rm {bench.session_id} --discard --yes" in problem
    assert git(bench.inside, "rev-parse", "HEAD") == commit
    bench.shared.sm("rm", bench.session_id, "--discard", "--yes")
    assert not bench.worktree.exists()


def test_agent_may_not_discard_the_only_copy(bench: Bench) -> None:
    bench.fill()
    commit = bench.commit_inside()
    lead = bench.shared.spawn("Sleeper")["session_id"]
    bench.shared.sm("reparent", bench.session_id, lead)
    end(bench)
    problem = bench.shared.refused(
        "rm", bench.session_id, "--discard", "--yes", exit_code=5, env=bench.shared.as_session(lead)
    )
    assert f"only the operator may delete work in {bench.worktree}" in problem
    assert git(bench.inside, "rev-parse", "HEAD") == commit


def test_rm_of_several_sessions_keeps_only_the_one_with_an_only_copy(bench: Bench) -> None:
    bench.fill()
    bench.commit_inside()
    end(bench)
    other = bench.shared.spawn("Sh", "true")["session_id"]
    bench.shared.ended(other)
    done = bench.shared.run("rm", bench.session_id, other)
    assert done.returncode == 4
    assert "Removed" in done.stdout
    assert f"has work in {bench.worktree} that exists nowhere else" in done.stderr
    assert bench.inside.exists()


def test_rm_ended_skips_a_session_with_an_only_copy(bench: Bench) -> None:
    bench.fill()
    commit = bench.commit_inside()
    end(bench)
    done = bench.shared.run("rm", "--ended", "--yes")
    assert done.returncode == 0
    assert "with work that exists nowhere else" in done.stderr and "commits of submodules" in done.stderr
    assert git(bench.inside, "rev-parse", "HEAD") == commit
    assert bench.shared.session(bench.session_id)["status"] == "killed"


@pytest.mark.parametrize("state", ["empty", "filled", "pushed", "in the main repository"])
def test_rm_deletes_a_worktree_whose_submodules_have_nothing_of_their_own(bench: Bench, state: str) -> None:
    if state != "empty":
        bench.fill()
    if state in ("pushed", "in the main repository"):
        bench.commit_inside()
        git(bench.inside, "push", "-q", "origin", "HEAD:refs/heads/work")
        git(bench.repo, "merge", "-q", "--ff-only", f"sm/{bench.worktree.name}")
    if state == "in the main repository":
        git(bench.repo / "libs" / "x", *IDENTITY, "fetch", "-q", str(bench.inside), "HEAD:refs/heads/work")
        git(bench.inside, "update-ref", "-d", "refs/remotes/origin/work")
    end(bench)
    done = bench.shared.run("rm", bench.session_id)
    assert (done.returncode, done.stderr.strip()) == (0, "")
    assert not bench.worktree.exists()


@pytest.mark.parametrize("change", ["changed", "new", "not to look at", "files without a repository"])
def test_rm_is_refused_when_a_submodule_has_changes(bench: Bench, change: str) -> None:
    if change == "files without a repository":
        (bench.inside / "mine.txt").write_text("mine\n")
    else:
        bench.fill()
        # The files of the project must not be able to hide it.
        git(bench.worktree, "config", "submodule.libs/x.ignore", "all")
        name = "mine.txt" if change == "new" else "x.txt"
        if change == "not to look at":
            git(bench.inside, "update-index", "--assume-unchanged", name)
        (bench.inside / name).write_text("mine\n")
    end(bench)
    problem = bench.shared.refused("rm", bench.session_id, exit_code=4)
    assert "uncommitted or untracked files in the submodule libs/x" in problem
    assert list(bench.inside.glob("*.txt"))


def test_rm_is_refused_when_an_ignored_directory_of_a_submodule_has_a_repository_with_commits(
    bench: Bench,
) -> None:
    bench.fill()
    exclude = git(bench.inside, "rev-parse", "--git-path", "info/exclude")
    Path(bench.inside, exclude).write_text("vendor/\n")
    make_repository(bench.inside / "vendor" / "lib", y="y\n")
    end(bench)
    problem = bench.shared.refused("rm", bench.session_id, exit_code=4)
    assert "the repository libs/x/vendor/lib with 1 commit in no remote branch" in problem
    assert (bench.inside / "vendor" / "lib" / "y.txt").exists()


def test_rm_is_refused_when_git_keeps_commits_of_a_submodule_of_a_missing_directory(bench: Bench) -> None:
    bench.fill()
    bench.commit_inside()
    shutil.rmtree(bench.worktree)
    end(bench)
    problem = bench.shared.refused("rm", bench.session_id, exit_code=4)
    assert "commits of submodules (submodule libs/x: " in problem
    assert (bench.repo / ".git" / "worktrees" / bench.worktree.name / "modules").exists()


def test_submodule_with_a_git_directory_elsewhere_is_not_deleted(bench: Bench, tmp_path: Path) -> None:
    make_repository(tmp_path / "evil", y="y\n")
    shutil.rmtree(bench.inside)
    bench.inside.mkdir()
    (bench.inside / ".git").write_text(f"gitdir: {tmp_path}/evil/.git\n")
    end(bench)
    problem = bench.shared.refused("rm", bench.session_id, exit_code=4)
    assert "its git directory is elsewhere" in problem
