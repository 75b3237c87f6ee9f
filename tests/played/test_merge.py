"""`sm merge` of commits on other branches than that of the worktree, and of branches that are gone."""

from pathlib import Path

import pytest

from tests.fixtures import context_fixture
from tests.git_repositories import commit, git, make_app
from tests.sim.stage import Instance

pytestmark = pytest.mark.processes  # git

instance = context_fixture("function", Instance)


@pytest.fixture
def repo(instance: Instance) -> Path:
    path = make_app(instance.work)
    git(path, "config", "user.name", "x")
    git(path, "config", "user.email", "x@localhost")
    return path


@pytest.fixture
def worktree(instance: Instance, repo: Path) -> Path:
    session = instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repo)
    return Path(session["worktree"]["path"])


def refused(instance: Instance, repo: Path) -> tuple[str, str]:
    """The error and the hint of a merge, which changes nothing."""
    before = git(repo, "for-each-ref")
    error, hint = instance.refused("merge", "sleeper-login", exit_code=4, cwd=repo).splitlines()
    assert git(repo, "for-each-ref") == before
    return error.removeprefix("sm: "), hint.removeprefix("hint: ")


@pytest.mark.parametrize("name", ["feature", "`id`;'&$(id)", "uber-\N{SNOWMAN}"])
@pytest.mark.parametrize("end", ["as it was", "deleted", "behind"])
def test_merge_takes_the_branch_that_the_agent_has_made(
    instance: Instance, repo: Path, worktree: Path, name: str, end: str
) -> None:
    if end == "behind":
        commit(worktree, "first of the agent\n")
    git(worktree, "switch", "-q", "-c", name)
    made = commit(worktree, "b\n")
    if end == "deleted":
        git(worktree, "branch", "-D", "sm/login")
    merged = instance.json("merge", "sleeper-login", cwd=repo)
    assert (merged["branch"], merged["into"]) == (name, "main")
    assert git(repo, "rev-parse", "HEAD") == made
    assert "Nothing to merge" in instance.sm("merge", "sleeper-login", cwd=repo)


def test_merge_names_the_own_branch_of_an_agent_when_it_has_conflicts(
    instance: Instance, repo: Path, worktree: Path
) -> None:
    git(worktree, "switch", "-q", "-c", "a;b")
    commit(worktree, "b\n")
    commit(repo, "c\n")
    error, hint = refused(instance, repo)
    assert error.startswith(f"cannot merge a;b in {repo}: conflicts in api/a.txt")
    assert hint == f"git -C {repo} merge 'a;b'"


def test_merge_is_refused_when_the_agent_has_commits_on_two_branches(
    instance: Instance, repo: Path, worktree: Path
) -> None:
    git(worktree, "switch", "-q", "-c", "feature")
    commit(worktree, "b\n")
    git(worktree, "switch", "-q", "sm/login")
    commit(worktree, "c\n")
    git(worktree, "switch", "-q", "feature")
    assert refused(instance, repo) == (
        "sleeper-login has commits on two branches, sm/login and feature, and a merge takes only one",
        "sm send sleeper-login 'Merge the branch sm/login into the branch that is checked out'",
    )
    instance.sm("kill", "sleeper-login")
    assert refused(instance, repo)[1] == f"git -C {worktree} merge sm/login"


def test_merge_is_refused_when_a_commit_is_on_no_branch(
    instance: Instance, repo: Path, worktree: Path
) -> None:
    git(worktree, "checkout", "-q", "--detach")
    commit(worktree, "b\n")
    assert refused(instance, repo) == (
        "sleeper-login has a commit that is not on its branch sm/login, which a merge would leave behind",
        "sm send sleeper-login 'Bring your commits to the branch sm/login'",
    )
    git(worktree, "branch", "-D", "sm/login")
    assert refused(instance, repo) == (
        "the branch sm/login of sleeper-login was deleted, and no branch is checked out in its worktree",
        f"git -C {worktree} switch -c sm/login",
    )


def test_commands_name_a_deleted_branch_in_their_own_words(
    instance: Instance, repo: Path, worktree: Path
) -> None:
    lost = commit(worktree, "b\n")
    git(worktree, "update-ref", "-d", "refs/heads/sm/login")
    error, hint = refused(instance, repo)
    assert error == (
        f"sleeper-login has a branch without a commit in {worktree}: its branch sm/login was deleted, "
        "or it has made a new one"
    )
    log = f"{repo}/.git/worktrees/login/logs/HEAD"
    assert hint == f"{log} lists the commits; to restore sm/login: git -C {worktree} branch sm/login COMMIT"
    assert instance.refused("diff", "sleeper-login", exit_code=4) == f"sm: {error}\nhint: {hint}\n"
    (found,) = instance.json("digest")["not_compared"]
    assert found["reason"] == error
    assert lost in Path(log).read_text()
    git(worktree, "branch", "sm/login", lost)
    assert instance.sm("merge", "sleeper-login", cwd=repo).startswith("Merged sm/login into main")


def test_commands_name_a_branch_without_a_commit_in_their_own_words(
    instance: Instance, repo: Path, worktree: Path
) -> None:
    commit(worktree, "b\n")
    git(repo, "checkout", "-q", "--orphan", "empty")
    assert refused(instance, repo) == (
        f"the branch that is checked out in {repo} has no commit",
        f"git -C {repo} switch BRANCH",
    )
    git(worktree, "checkout", "-q", "--orphan", "new")
    assert "has a branch without a commit" in refused(instance, repo)[0]
    assert instance.json("digest")["not_compared"] == []
    assert instance.run("diff", "sleeper-login", "--stat").returncode == 0


def test_hint_in_a_new_repository_takes_the_first_commits(instance: Instance) -> None:
    repo = instance.work / "new"
    repo.mkdir()
    git(repo, "init", "-q", "-b", "main")
    (tree,) = spawn_trees(instance, repo, "login")
    made = new_file(tree, "a", "a\n")
    refusal, hint = refused(instance, repo)
    assert refusal == f"the branch that is checked out in {repo} has no commit"
    assert hint == f"git -C {repo} merge sm/login"
    git(repo, "merge", "-q", "sm/login")
    assert git(repo, "rev-parse", "main") == made


def test_merge_around_a_bare_repository_needs_a_branch(instance: Instance, repo: Path) -> None:
    around = instance.work / "around"
    git(repo, "clone", "-q", "--bare", str(repo), str(around / ".bare"))
    (around / ".git").write_text("gitdir: ./.bare\n")
    (tree,) = spawn_trees(instance, around, "login")
    commit(tree, "b\n")
    assert refused(instance, around) == (
        f"the repository in {around} is bare: no branch is checked out in it",
        "sm merge sleeper-login --onto BRANCH",
    )
    assert "Merged" in instance.sm("merge", "sleeper-login", "--onto", "main", cwd=around)


def test_hint_for_uncommitted_changes_is_not_to_write_to_an_ended_agent(
    instance: Instance, repo: Path, worktree: Path
) -> None:
    (worktree / "new.txt").write_text("b\n")
    assert refused(instance, repo)[1] == "sm send sleeper-login 'Commit your work'"
    instance.sm("kill", "sleeper-login")
    assert refused(instance, repo)[1] == f"commit them in {worktree}, then merge again"


def test_merge_into_a_branch_that_is_checked_out_nowhere(
    instance: Instance, repo: Path, worktree: Path
) -> None:
    git(repo, "branch", "release")
    made = commit(worktree, "b\n")
    merged = instance.json("merge", "sleeper-login", "--onto", "release", cwd=repo)
    assert (merged["into"], merged["directory"], merged["commits"]) == ("release", None, 1)
    assert (git(repo, "rev-parse", "release"), git(repo, "rev-parse", "main") == made) == (made, False)
    git(repo, "switch", "-q", "release")
    commit(worktree, "c\n")
    merged = instance.json("merge", "sleeper-login", "--onto", "release", "--squash", cwd=worktree)
    assert merged["directory"] == str(repo)
    assert (repo / "api" / "a.txt").read_text() == "c\n"
    assert "there is no branch 'none'" in instance.refused(
        "merge", "sleeper-login", "--onto", "none", exit_code=2, cwd=repo
    )
    assert git(repo, "worktree", "list").count("\n") == 1


def test_hint_for_a_conflict_with_a_branch_that_is_checked_out_nowhere_merges_that_branch(
    instance: Instance, repo: Path, worktree: Path
) -> None:
    commit(worktree, "b\n")
    commit(repo, "c\n")
    git(repo, "branch", "release")
    git(repo, "reset", "-q", "--hard", "HEAD~1")
    refused = instance.refused("merge", "sleeper-login", "--onto", "release", exit_code=4, cwd=repo)
    assert refused.startswith("sm: cannot merge sm/login in release: conflicts in api/a.txt")
    assert refused.endswith(f"hint: git -C {worktree} merge release\n")
    git(worktree, "merge", "release", fails=True)
    commit(worktree, "b and c\n")
    instance.sm("merge", "sleeper-login", "--onto", "release", cwd=repo)


def test_dry_run_names_the_files_in_conflict_and_changes_nothing(
    instance: Instance, repo: Path, worktree: Path
) -> None:
    commit(worktree, "b\n")
    before = git(repo, "for-each-ref")
    assert instance.sm("merge", "sleeper-login", "--dry-run", cwd=repo) == (
        "Can merge sm/login into main: 1 commit, no conflicts\n"
    )
    assert git(repo, "for-each-ref") == before
    commit(repo, "c\n")
    both = git(repo, "for-each-ref"), git(repo, "status", "--porcelain=v2", "--branch")
    for words in (["--dry-run"], [], ["--rebase"], ["--squash"], ["--check", "true"]):
        error = instance.refused("merge", "sleeper-login", *words, exit_code=4, cwd=repo)
        assert "conflicts in api/a.txt; nothing was changed" in error
        assert (git(repo, "for-each-ref"), git(repo, "status", "--porcelain=v2", "--branch")) == both


def test_rebase_repeats_the_commits_on_top_of_the_branch(
    instance: Instance, repo: Path, worktree: Path
) -> None:
    (worktree / "new.txt").write_text("new\n")
    git(worktree, "add", ".")
    git(worktree, "commit", "-q", "-m", "of the agent")
    tip = git(worktree, "rev-parse", "HEAD")
    own = commit(repo, "c\n")
    instance.sm("merge", "sleeper-login", "--rebase", cwd=repo)
    assert git(repo, "log", "--format=%s", "-2").splitlines() == ["of the agent", "c"]
    assert git(repo, "rev-parse", "HEAD~1") == own
    assert (repo / "new.txt").read_text() == "new\n"
    assert git(worktree, "rev-parse", "HEAD") == tip


def test_several_are_merged_up_to_the_first_conflict(instance: Instance, repo: Path, worktree: Path) -> None:
    trees = [worktree]
    for name in ("second", "third"):
        session = instance.spawn("Sleeper", "x", "--worktree", "--name", name, cwd=repo)
        trees.append(Path(session["worktree"]["path"]))
    for number, tree in enumerate(trees):
        commit(tree, f"{number}\n")
    done = instance.run("merge", "sleeper-login", "sleeper-second", "sleeper-third", "--ask-agent", cwd=repo)
    assert done.returncode == 4
    assert done.stdout.splitlines()[0].startswith("Merged sm/login into main")
    assert "conflicts in api/a.txt" in done.stderr
    (asked,) = instance.json("log", "sleeper-second")
    assert "Please rebase your branch onto main (git rebase main)" in asked["text"]
    assert instance.json("log", "sleeper-third") == []


def spawn_trees(instance: Instance, repo: Path, *names: str) -> list[Path]:
    """The worktrees of new sessions of these names."""
    found = []
    for name in names:
        session = instance.spawn("Sleeper", "x", "--worktree", "--name", name, cwd=repo)
        found.append(Path(session["worktree"]["path"]))
    return found


def new_file(tree: Path, name: str, text: str) -> str:
    (tree / name).write_text(text)
    git(tree, "add", name)
    git(tree, "commit", "-q", "-m", name)
    return git(tree, "rev-parse", "HEAD")


@pytest.mark.parametrize("words", [[], ["--squash"], ["--rebase"], ["--onto", "release"]])
def test_dry_run_of_several_tries_each_on_the_outcome_of_those_before_it(
    instance: Instance, repo: Path, worktree: Path, words: list[str]
) -> None:
    git(repo, "branch", "release")
    second, third = spawn_trees(instance, repo, "second", "third")
    new_file(worktree, "one", "1\n")
    git(second, "merge", "-q", "--ff-only", "sm/login")
    new_file(second, "f", "of the second\n")
    new_file(third, "f", "of the third\n")
    names = ("sleeper-login", "sleeper-second", "sleeper-third")
    before = git(repo, "for-each-ref"), git(repo, "status", "--porcelain=v2", "--branch")
    tried = instance.run("merge", *names, "--dry-run", *words, cwd=repo)
    into = "release" if "--onto" in words else "main"
    own = 2 if words == ["--squash"] else 1  # the commit of the first one has another name then
    assert tried.stdout.splitlines() == [
        f"Can merge sm/login into {into}: 1 commit, no conflicts",
        f"Can merge sm/second into {into}: {own} commit{'s' if own > 1 else ''}, no conflicts",
    ]
    assert (tried.returncode, "conflicts in f; nothing was changed" in tried.stderr) == (4, True)
    assert (git(repo, "for-each-ref"), git(repo, "status", "--porcelain=v2", "--branch")) == before
    done = instance.run("merge", *names, *words, cwd=repo)
    assert done.returncode == 4 and "conflicts in f; nothing was changed" in done.stderr
    assert len(done.stdout.splitlines()) == 2


def test_dry_run_of_the_same_branch_twice_has_nothing_left_to_merge(
    instance: Instance, repo: Path, worktree: Path
) -> None:
    commit(worktree, "b\n")
    assert instance.sm("merge", "sleeper-login", "sleeper-login", "--dry-run", cwd=repo).splitlines() == [
        "Can merge sm/login into main: 1 commit, no conflicts",
        "Nothing to merge: sm/login has no new commits",
    ]


def test_merge_of_a_branch_without_a_common_past_is_refused(
    instance: Instance, repo: Path, worktree: Path
) -> None:
    git(worktree, "checkout", "-q", "--orphan", "new")
    git(worktree, "commit", "-q", "-m", "without a past")
    git(worktree, "branch", "-D", "sm/login")
    git(worktree, "branch", "-m", "sm/login")
    error = f"cannot merge sm/login in {repo}: it has no commit in common with main"
    assert refused(instance, repo) == (error, f"git -C {repo} merge --allow-unrelated-histories sm/login")
    assert error in instance.refused("merge", "sleeper-login", "--dry-run", exit_code=4, cwd=repo)


@pytest.mark.parametrize("wrong", ["nosuch", "sleeper-shared"])
def test_merge_of_several_begins_when_all_of_them_are_found(
    instance: Instance, repo: Path, worktree: Path, wrong: str
) -> None:
    instance.spawn("Sleeper", "x", "--name", "shared", cwd=repo)
    commit(worktree, "b\n")
    before = git(repo, "for-each-ref")
    instance.refused("merge", "sleeper-login", wrong, exit_code=3 if wrong == "nosuch" else 4, cwd=repo)
    assert git(repo, "for-each-ref") == before


def test_merge_commit_has_the_message_of_git(instance: Instance, repo: Path, worktree: Path) -> None:
    git(repo, "switch", "-q", "-c", "next")
    new_file(repo, "own", "own\n")
    new_file(worktree, "new", "new\n")
    instance.sm("merge", "sleeper-login", cwd=repo)
    assert git(repo, "log", "--format=%s", "-1") == "Merge branch 'sm/login' into next"
    new_file(worktree, "more", "more\n")
    new_file(repo, "more of the own", "own\n")
    instance.sm("merge", "sleeper-login", "--squash", cwd=repo)
    assert git(repo, "log", "--format=%s", "-1") == "Squashed commit of the following:"


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
@pytest.mark.parametrize("words", [[], ["--check", "true"], ["--dry-run"], ["--squash"], ["--rebase"]])
def test_merge_names_a_changed_file_that_git_was_told_not_to_look_at(
    instance: Instance, repo: Path, worktree: Path, flag: str, words: list[str]
) -> None:
    commit(worktree, "b\n")
    git(repo, "update-index", flag, "api/a.txt")
    (repo / "api" / "a.txt").write_text("mine\n")
    before = git(repo, "for-each-ref")
    problem = instance.refused("merge", "sleeper-login", *words, exit_code=4, cwd=repo)
    assert problem.startswith(
        f"sm: the merge would overwrite changes that git was told not to look at in {repo}: api/a.txt\n"
    )
    assert git(repo, "for-each-ref") == before
    assert (repo / "api" / "a.txt").read_text() == "mine\n"


@pytest.mark.parametrize("way", [[], ["--squash"], ["--rebase"]])
def test_merge_is_refused_when_a_file_takes_the_place_of_a_directory_with_an_ignored_file(
    instance: Instance, repo: Path, worktree: Path, way: list[str]
) -> None:
    (repo / ".git" / "info" / "exclude").write_text("/.sm/worktrees\n*.env\n")
    mine = repo / "api" / "my.env"
    mine.write_text("mine\n")
    git(worktree, "rm", "-q", "-r", "api")
    (worktree / "api").write_text("a file\n")
    git(worktree, "add", ".")
    git(worktree, "commit", "-q", "-m", "a file")
    error = instance.refused("merge", "sleeper-login", *way, exit_code=4, cwd=repo)
    assert "the merge would overwrite files that git does not track" in error
    assert "api/my.env" in error
    assert mine.read_text() == "mine\n"


@pytest.mark.parametrize("kind", ["rebase", "rebase --apply", "bisect"])
def test_branch_to_which_an_operation_in_progress_returns_is_neither_moved_nor_continued(
    instance: Instance, repo: Path, worktree: Path, kind: str
) -> None:
    """HEAD has no branch then, but git will move the branch at the end, or check it out again."""
    directory = instance.work / "other"
    git(repo, "worktree", "add", "-q", "-b", "topic", str(directory))
    for number in range(3):
        commit(directory, f"topic {number}\n")
    (worktree / "new").touch()
    git(worktree, "add", "new")
    git(worktree, "commit", "-q", "-m", "new")
    commit(repo, "c\n")
    if kind == "bisect":
        git(directory, "bisect", "start", "topic", "topic~2")
    else:
        git(directory, *kind.split(), "main", fails=True)
    assert git(directory, "branch", "--show-current") == ""
    before = git(repo, "for-each-ref")
    refused = instance.refused("merge", "sleeper-login", "--onto", "topic", exit_code=4, cwd=repo)
    assert f"a rebase, merge, cherry-pick or bisect is in progress in {directory}" in refused
    words = ("spawn", "Sleeper", "x", "--worktree", "--branch", "topic")
    assert f"branch topic is checked out in {directory}" in instance.refused(*words, exit_code=2, cwd=repo)
    assert git(repo, "for-each-ref") == before


def test_rebase_moves_no_other_branch_although_the_user_has_configured_that(
    instance: Instance, repo: Path, worktree: Path
) -> None:
    (instance.home / ".gitconfig").write_text("[rebase]\n\tupdateRefs = true\n")
    part = commit(worktree, "b\n")
    git(worktree, "branch", "part")
    commit(worktree, "c\n")
    (repo / "new").touch()
    git(repo, "add", "new")
    git(repo, "commit", "-q", "-m", "new")
    instance.sm("merge", "sleeper-login", "--rebase", cwd=repo)
    assert git(repo, "rev-parse", "part") == part
    assert git(repo, "show", "main:api/a.txt") == "c"
