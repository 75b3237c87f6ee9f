"""`sm pr`: pushes the branch of a session and opens a pull request, with a double of gh and a bare repository."""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.fixtures import context_fixture
from tests.gh_double import GhDouble
from tests.git_repositories import branches, commit, git, make_app
from tests.played.test_worktree import change_record
from tests.sim.stage import Instance

pytestmark = pytest.mark.processes  # git

instance = context_fixture("function", Instance)
URL = "https://github.com/octo/app.git"


@pytest.fixture
def repo(instance: Instance) -> Path:
    """A repository whose remote is on GitHub, which the person's own configuration replaces by a bare repository."""
    path = make_app(instance.work)
    git(path, "config", "user.name", "x")
    git(path, "config", "user.email", "x@localhost")
    git(path, "remote", "add", "origin", URL)
    git(instance.work, "clone", "-q", "--bare", str(path), str(instance.work / "origin.git"))
    rule = f'[url "{instance.work}/origin.git"]\n\tinsteadOf = {URL}\n'
    (instance.home / ".gitconfig").write_text(rule)
    return path


@pytest.fixture
def gh(instance: Instance) -> GhDouble:
    double = GhDouble(instance.work / "bin")
    instance.env["PATH"] = f"{double.place}:{os.environ['PATH']}"
    return double


@pytest.fixture
def worktree(instance: Instance, repo: Path) -> Path:
    session = instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repo)
    path = Path(session["worktree"]["path"])
    git(path, "config", "user.name", "x")
    return path


def remote_tip(instance: Instance, branch: str = "sm/login") -> str:
    return git(instance.work / "origin.git", "for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}")


def test_pr_pushes_the_branch_and_opens_a_pull_request(
    instance: Instance, worktree: Path, gh: GhDouble, repo: Path
) -> None:
    made = commit(worktree, "Fix the login\n")
    opened = instance.run("pr", "sleeper-login", "--draft", "--base", "main")
    assert (opened.returncode, opened.stdout) == (
        0,
        f"Pushed sm/login to origin: 1 commit\nOpened pull request 12: {gh.url}\n",
    )
    assert "still works" in opened.stderr
    assert remote_tip(instance) == made == git(repo, "rev-parse", "refs/remotes/origin/sm/login")
    (create,) = gh.calls("pr", "create")
    assert create["argv"][2:] == [
        "--repo=github.com/octo/app",
        "--head=sm/login",
        "--title=Fix the login",
        "--base=main",
        "--draft",
        "--body-file=-",
    ]
    (event,) = [e for e in instance.events() if e["type"] == "pull_request"]
    assert event["message"] == f"Session sleeper-login has pull request 12 for sm/login: {gh.url}"
    assert event["metadata"]["url"] == gh.url


def test_gh_runs_outside_of_the_tree_and_without_a_terminal(
    instance: Instance, worktree: Path, gh: GhDouble
) -> None:
    commit(worktree, "work\n")
    more = {
        "GIT_DIR": "/evil",
        "GH_REPO": "evil/evil",
        "GH_TOKEN": "mine",
        "GH_DEBUG": "api",
        "GH_PAGER": "less",
    }
    instance.sm("pr", "sleeper-login", env=more, cwd=worktree)
    assert [call["argv"][:2] for call in gh.calls()] == [["pr", "list"], ["repo", "view"], ["pr", "create"]]
    for call in gh.calls():
        env = call["env"]
        assert (call["cwd"], call["tty"], env["GH_TOKEN"]) == ("/", False, "mine")
        assert (env["GH_PROMPT_DISABLED"], env["GH_PAGER"]) == ("1", "cat")
        assert not {"GIT_DIR", "GH_REPO", "GH_DEBUG"} & env.keys()


def test_pr_names_the_pull_request_that_the_branch_has(
    instance: Instance, worktree: Path, gh: GhDouble
) -> None:
    commit(worktree, "work\n")
    first = instance.json("pr", "sleeper-login")
    assert (first["pushed"], first["opened"], first["number"]) == (True, True, 12)
    gh.has_pull_request("sm/login")
    assert instance.sm("pr", "sleeper-login") == (
        f"Nothing to push: sm/login to origin\nPull request 12 is already open: {gh.url}\n"
    )
    made = commit(worktree, "more\n")
    trial = instance.sm("pr", "sleeper-login", "--dry-run")
    assert trial.startswith(f"Can push sm/login to origin ({URL}): 1 commit\n")
    again = instance.json("pr", "sleeper-login")
    assert (again["pushed"], again["opened"], again["url"]) == (True, False, gh.url)
    assert remote_tip(instance) == made
    commit(worktree, "even more\n")
    commit(worktree, "still more\n")
    assert instance.sm("pr", "sleeper-login").startswith("Pushed sm/login to origin: 2 commits\n")
    assert len(gh.calls("pr", "create")) == 1
    assert [e["type"] for e in instance.events()].count("pull_request") == 1


def test_dry_run_changes_nothing(instance: Instance, repo: Path, worktree: Path, gh: GhDouble) -> None:
    commit(worktree, "It's $HOME\n")
    before = git(repo, "for-each-ref")
    shown = instance.sm("pr", "sleeper-login", "--dry-run")
    assert shown.splitlines() == [
        f"Can push sm/login to origin ({URL}): 1 commit",
        "Can open a pull request in github.com/octo/app: It's $HOME",
        f"  git -C {worktree} push origin refs/heads/sm/login",
        "  gh pr create --repo=github.com/octo/app --head=sm/login '--title=It'\"'\"'s $HOME' --body ''",
    ]
    assert (remote_tip(instance), git(repo, "for-each-ref")) == ("", before)
    assert gh.calls("pr", "create") == []
    assert instance.json("pr", "sleeper-login", "--dry-run")["opened"] is False
    assert "pull_request" not in [e["type"] for e in instance.events()]


def test_pr_without_gh_names_the_commands(instance: Instance, worktree: Path) -> None:
    commit(worktree, "first\n")
    commit(worktree, "second\n")
    programs = instance.work / "programs"
    programs.mkdir()
    (programs / "git").symlink_to(shutil.which("git") or "")
    problem = instance.refused("pr", "sleeper-login", exit_code=9, env={"PATH": str(programs)})
    create = (
        "gh pr create --repo=github.com/octo/app --head=sm/login --title=first "
        """--body "$(printf '%s\\n' '- first' '- second')\""""
    )
    assert problem == (
        "sm: gh, the program of GitHub, is not installed: nothing was pushed or opened\n"
        f"hint: https://cli.github.com; or: git -C {worktree} push origin refs/heads/sm/login && {create}\n"
    )
    assert remote_tip(instance) == ""


def test_pr_without_a_login_names_the_commands(instance: Instance, worktree: Path, gh: GhDouble) -> None:
    commit(worktree, "first\n")
    gh.is_logged_out("pr-list")
    problem = instance.refused("pr", "sleeper-login", exit_code=9)
    assert problem.startswith("sm: gh is not logged in to github.com: nothing was pushed or opened\n")
    assert "hint: gh auth login --hostname github.com; or: git -C" in problem
    assert remote_tip(instance) == ""


def test_pull_request_that_gh_refuses_is_named_with_the_command(
    instance: Instance, worktree: Path, gh: GhDouble
) -> None:
    made = commit(worktree, "first\n")
    gh.answer("pr-create", "", code=1, errors="pull request create failed: \x1b[31mno\x1b[0m\n")
    problem = instance.refused("pr", "sleeper-login", exit_code=9)
    assert "gh did not open the pull request: pull request create failed" in problem
    assert "\x1b" not in problem
    assert "hint: gh pr create --repo=github.com/octo/app" in problem
    assert remote_tip(instance) == made


def is_fork(gh: GhDouble) -> None:
    gh.answer("repo-view", {"isFork": True, "parent": {"id": "R_1", "name": "app", "owner": {"login": "up"}}})


def test_pr_of_a_fork_asks_which_repository_gets_it(instance: Instance, worktree: Path, gh: GhDouble) -> None:
    commit(worktree, "first\n")
    is_fork(gh)
    problem = instance.refused("pr", "sleeper-login", exit_code=2)
    assert problem == (
        "sm: octo/app is a fork of up/app: which of them gets the pull request?\n"
        "hint: sm pr sleeper-login --repo up/app; or: sm pr sleeper-login --repo octo/app\n"
    )
    assert (remote_tip(instance), gh.calls("pr", "create")) == ("", [])


def test_pr_of_a_fork_goes_to_the_repository_that_is_named(
    instance: Instance, worktree: Path, gh: GhDouble
) -> None:
    made = commit(worktree, "first\n")
    is_fork(gh)
    shown = instance.sm("pr", "sleeper-login", "--repo", "up/app", "--dry-run")
    assert "Can open a pull request in github.com/up/app: first\n" in shown
    assert "  gh pr create --repo=github.com/up/app --head=octo:sm/login --title=first --body ''\n" in shown
    gh.answer("pr-create", "https://github.com/up/app/pull/3\n")
    opened = instance.json("pr", "sleeper-login", "--repo", "up/app")
    assert (opened["url"], opened["repository"]) == ("https://github.com/up/app/pull/3", "github.com/up/app")
    assert remote_tip(instance) == made
    assert gh.calls("pr", "create")[0]["argv"][2:4] == ["--repo=github.com/up/app", "--head=octo:sm/login"]
    gh.has_pull_request("sm/login", fork="octo")
    assert "Pull request 12 is already open" in instance.sm("pr", "sleeper-login", "--repo", "up/app")


def test_later_commits_of_a_fork_go_to_the_pull_request_that_was_opened(
    instance: Instance, worktree: Path, gh: GhDouble
) -> None:
    """Only the first command needs --repo."""
    commit(worktree, "first\n")
    is_fork(gh)
    gh.answer("pr-create", "https://github.com/up/app/pull/3\n")
    instance.sm("pr", "sleeper-login", "--repo", "up/app")
    made = commit(worktree, "second\n")
    assert "is a fork of up/app" in instance.refused("pr", "sleeper-login", exit_code=2)
    gh.has_pull_request("sm/login", fork="octo")
    again = instance.json("pr", "sleeper-login")
    assert (again["pushed"], again["opened"], again["repository"]) == (True, False, "github.com/up/app")
    assert remote_tip(instance) == made
    assert gh.calls("pr", "list")[-1]["argv"][2] == "--repo=github.com/up/app"


def test_pr_of_a_fork_may_stay_in_the_fork(instance: Instance, worktree: Path, gh: GhDouble) -> None:
    commit(worktree, "first\n")
    is_fork(gh)
    instance.sm("pr", "sleeper-login", "--repo", "Octo/App")
    assert "--head=sm/login" in gh.calls("pr", "create")[0]["argv"]


@pytest.mark.parametrize("kind", ["uncommitted", "new file", "no commits", "unrelated", "ahead"])
def test_pr_is_refused_before_anything_changes(
    instance: Instance, repo: Path, worktree: Path, gh: GhDouble, kind: str
) -> None:
    if kind != "no commits":
        commit(worktree, "work\n")
    if kind == "uncommitted":
        (worktree / "api" / "a.txt").write_text("more\n")
    if kind == "new file":
        (worktree / "new").write_text("more\n")
    if kind == "unrelated":
        git(repo, "push", "-q", str(instance.work / "origin.git"), "main:refs/heads/sm/login")
        git(instance.work / "origin.git", "update-ref", "refs/heads/sm/login", commit_of_somebody(instance))
    if kind == "ahead":
        git(worktree, "push", "-q", str(instance.work / "origin.git"), "HEAD:refs/heads/sm/login")
        git(worktree, "reset", "-q", "--hard", "HEAD~1")
        commit(worktree, "other work\n")
    before = remote_tip(instance)
    problem = instance.refused("pr", "sleeper-login", exit_code=4)
    expected = {
        "uncommitted": "sleeper-login has uncommitted changes, which a pull request would leave behind: api/a.txt",
        "new file": "sleeper-login has uncommitted changes, which a pull request would leave behind: new",
        "no commits": "sleeper-login has no commits for a pull request on sm/login",
        "unrelated": "the remote origin has a branch sm/login with other commits",
        "ahead": "the remote origin has a branch sm/login with other commits",
    }
    assert problem.startswith(f"sm: {expected[kind]}\n")
    assert (remote_tip(instance), gh.calls()) == (before, [])


def commit_of_somebody(instance: Instance) -> str:
    """A commit of the remote that the repository of the session lacks."""
    clone = instance.work / "somebody"
    git(instance.work, "clone", "-q", str(instance.work / "origin.git"), str(clone))
    made = commit(clone, "of somebody\n")
    git(clone, "push", "-q", "origin", "HEAD:refs/heads/theirs")
    return made


def test_pr_is_refused_for_a_directory_that_others_share(
    instance: Instance, repo: Path, gh: GhDouble
) -> None:
    instance.spawn("Sleeper", "x", "--name", "shared", cwd=repo)
    assert "has no worktree of its own" in instance.refused("pr", "sleeper-shared", exit_code=4)


@pytest.mark.parametrize(
    ("option", "value", "code", "words"),
    [
        ("--title", "a\nb", 2, "title: must be one line"),
        ("--title", "a\x1b[2J", 2, "title: character U+001B"),
        ("--title", " ", 2, "the title is empty"),
        ("--body", "a\x1b[2J", 2, "body: character U+001B"),
        ("--repo", "-x/app", 2, "'-x/app' is no repository of github.com: OWNER/NAME"),
        ("--repo", "git.example/up/app", 2, "'git.example/up/app' is no repository of github.com"),
        ("--base", "-x", 2, "invalid branch name '-x'"),
        ("--remote", "-x", 2, "there is no remote '-x'"),
        ("--remote", "other", 2, "there is no remote 'other'"),
    ],
)
def test_pr_refuses_arguments(
    instance: Instance, worktree: Path, gh: GhDouble, option: str, value: str, code: int, words: str
) -> None:
    commit(worktree, "work\n")
    assert words in instance.refused("pr", "sleeper-login", f"{option}={value}", exit_code=code)
    assert remote_tip(instance) == ""


def test_text_that_looks_like_an_option_is_a_value(instance: Instance, worktree: Path, gh: GhDouble) -> None:
    commit(worktree, "--web\x1b[2J\n\nInjected\x07: body\n")
    instance.sm("pr", "sleeper-login")
    (create,) = gh.calls("pr", "create")
    assert "--title=--web [2J" in create["argv"]
    assert create["stdin"] == "Injected: body"
    gh.answer("pr-list", [])
    instance.sm("pr", "sleeper-login", "--title=--web", "--body=-x")
    assert "--title=--web" in gh.calls("pr", "create")[-1]["argv"]
    assert gh.calls("pr", "create")[-1]["stdin"] == "-x"


def test_branch_like_an_option_is_refused(instance: Instance, worktree: Path, gh: GhDouble) -> None:
    made = commit(worktree, "work\n")
    git(worktree, "update-ref", "refs/heads/-x", made)
    git(worktree, "symbolic-ref", "HEAD", "refs/heads/-x")
    git(worktree, "update-ref", "-d", "refs/heads/sm/login")
    problem = instance.refused("pr", "sleeper-login", exit_code=4)
    assert "sleeper-login has a branch that no remote could have: '-x'" in problem
    assert gh.calls() == []


def test_branch_of_the_agent_is_quoted(instance: Instance, worktree: Path, gh: GhDouble) -> None:
    git(worktree, "switch", "-q", "-c", "`id`;'&$(id)")
    commit(worktree, "work\n")
    shown = instance.sm("pr", "sleeper-login", "--dry-run")
    assert "push origin 'refs/heads/`id`;'\"'\"'&$(id)'\n" in shown
    instance.sm("pr", "sleeper-login")
    assert "`id`;'&$(id)" in branches(instance.work / "origin.git")
    assert "--head=`id`;'&$(id)" in gh.calls("pr", "create")[0]["argv"]


def planted(instance: Instance) -> tuple[Path, Path]:
    """A program that leaves a mark, and the mark."""
    mark, program = instance.work / "ran", instance.work / "evil.sh"
    program.write_text(f"#!/bin/sh\ntouch {mark}\ncat >/dev/null\nexit 0\n")
    program.chmod(0o755)
    return program, mark


@pytest.mark.parametrize(
    "trick",
    ["pre-push", "sshCommand", "insteadOf", "ext", "credential", "receivepack", "includes", "vcs"],
)
def test_no_program_of_the_repository_runs(
    instance: Instance, repo: Path, worktree: Path, gh: GhDouble, trick: str
) -> None:
    program, mark = planted(instance)
    commit(worktree, "work\n")
    match trick:
        case "pre-push":
            hook = repo / ".git" / "hooks" / "pre-push"
            hook.parent.mkdir(exist_ok=True)
            hook.symlink_to(program)
            git(repo, "config", "core.hooksPath", str(hook.parent))
        case "sshCommand":
            git(repo, "config", "core.sshCommand", str(program))
            git(repo, "remote", "set-url", "origin", "git@127.0.0.1:octo/app.git")
        case "insteadOf":
            git(repo, "config", f"url.ext::{program} .insteadOf", URL)
            git(repo, "config", f"url.ext::{program} .pushInsteadOf", URL)
        case "ext":
            git(repo, "remote", "set-url", "origin", f"ext::{program}")
        case "credential":
            git(repo, "config", "credential.helper", f"!{program}")
        case "receivepack":
            git(repo, "config", "remote.origin.receivepack", str(program))
        case "includes":
            (repo / ".git" / "more").write_text(f'[remote "origin"]\n\tpushurl = ext::{program}\n')
            git(repo, "config", "include.path", "more")
        case "vcs":
            git(repo, "config", "remote.origin.vcs", "ext")
        case _:
            raise AssertionError(trick)
    instance.run("pr", "sleeper-login")
    assert not mark.exists()


def test_push_url_is_the_one_that_is_used(
    instance: Instance, repo: Path, worktree: Path, gh: GhDouble
) -> None:
    made = commit(worktree, "work\n")
    other = instance.work / "other.git"
    git(instance.work, "clone", "-q", "--bare", str(repo), str(other))
    git(repo, "remote", "set-url", "--push", "origin", "https://github.com/octo/fork")
    with (instance.home / ".gitconfig").open("a") as file:
        file.write(f'[url "{other}"]\n\tpushInsteadOf = https://github.com/octo/fork\n')
    instance.sm("pr", "sleeper-login")
    assert (remote_tip(instance), git(other, "rev-parse", "sm/login")) == ("", made)
    assert "--repo=github.com/octo/fork" in gh.calls("pr", "create")[0]["argv"]
    git(repo, "remote", "set-url", "--push", "origin", "ext::sh -c true")
    problem = instance.refused("pr", "sleeper-login", exit_code=4)
    assert problem.startswith("sm: sm does not push to the remote origin: ext::sh -c true\n")
    git(repo, "remote", "set-url", "--push", "--add", "origin", URL)
    assert "the remote origin has 2 URLs to push to" in instance.refused("pr", "sleeper-login", exit_code=4)


@pytest.mark.parametrize("setting", ["hooks", "alternates"])
def test_hooks_and_settings_of_a_remote_on_this_machine_do_not_run(
    instance: Instance, worktree: Path, gh: GhDouble, setting: str
) -> None:
    program, mark = planted(instance)
    origin = instance.work / "origin.git"
    made = commit(worktree, "work\n")
    match setting:
        case "hooks":
            for name in ("pre-receive", "update", "post-receive", "post-update", "reference-transaction"):
                (origin / "hooks").mkdir(exist_ok=True)
                (origin / "hooks" / name).symlink_to(program)
        case "alternates":
            (origin / "objects" / "info").mkdir(exist_ok=True)
            (origin / "objects" / "info" / "alternates").write_text(f"{worktree.parents[2]}/.git/objects\n")
            git(origin, "config", "core.alternateRefsCommand", str(program))
        case _:
            raise AssertionError(setting)
    instance.run("pr", "sleeper-login")
    assert (remote_tip(instance), mark.exists()) == (made, False)


def test_remote_that_asks_for_a_password_is_refused(
    instance: Instance, repo: Path, worktree: Path, gh: GhDouble
) -> None:
    commit(worktree, "work\n")
    git(repo, "remote", "set-url", "origin", "ssh://git@127.0.0.1:1/octo/app")
    problem = instance.refused("pr", "sleeper-login", exit_code=9)
    assert problem.startswith("sm: cannot push sm/login to ssh://127.0.0.1:1/octo/app: ")


def test_remote_that_is_not_of_github_is_named(
    instance: Instance, repo: Path, worktree: Path, gh: GhDouble
) -> None:
    commit(worktree, "work\n")
    git(repo, "remote", "set-url", "origin", str(instance.work / "origin.git"))
    problem = instance.refused("pr", "sleeper-login", exit_code=9)
    assert problem.startswith("sm: the remote origin is no repository of GitHub: ")
    assert f"hint: push the branch and open the pull request there: git -C {worktree} push" in problem
    assert remote_tip(instance) == ""


def test_gh_of_the_worktree_does_not_run(instance: Instance, worktree: Path) -> None:
    double = GhDouble(worktree / "bin")
    (worktree / ".gitignore").write_text("bin\n")
    git(worktree, "add", ".gitignore")
    commit(worktree, "work\n")
    path = f"bin:{worktree}/bin:{os.environ['PATH']}"
    problem = instance.refused("pr", "sleeper-login", exit_code=9, cwd=worktree, env={"PATH": path})
    assert problem.startswith("sm: gh is a program of the worktree, which does not run")
    assert double.calls() == []


@pytest.mark.parametrize("place", ["origin.git", "app"])
def test_pr_is_refused_in_the_reach_of_a_sandboxed_session(
    instance: Instance, worktree: Path, gh: GhDouble, place: str
) -> None:
    commit(worktree, "work\n")
    near = instance.spawn("Sleeper", "x", "--working-dir", str(instance.work / place))
    instance.sm("kill", near["session_id"])
    change_record(instance, near, effective_mode="sandboxed")
    problem = instance.refused("pr", "sleeper-login", exit_code=5)
    assert "a sandboxed session may have changed the programs that git runs in" in problem
    assert (remote_tip(instance), gh.calls()) == ("", [])


def test_large_files_are_not_left_out(instance: Instance, worktree: Path, gh: GhDouble) -> None:
    (worktree / ".gitattributes").write_text("*.bin filter=lfs\n")
    (worktree / "a.bin").write_text("pointer\n")
    git(worktree, "-c", "filter.lfs.clean=cat", "add", ".")
    git(worktree, "-c", "filter.lfs.clean=cat", "commit", "-q", "-m", "large")
    problem = instance.refused("pr", "sleeper-login", exit_code=4)
    assert problem.startswith("sm: 1 file of git-lfs would not be uploaded, because no hook runs: a.bin\n")
    git(worktree, "push", "-q", str(instance.work / "origin.git"), "sm/login")
    assert instance.json("pr", "sleeper-login")["opened"] is True


def test_pull_request_is_recorded_once_and_checked(instance: Instance, worktree: Path) -> None:
    (session,) = json.loads(instance.sm("all", "--json"))
    path = f"/v1/sessions/{session['session_id']}/pull-requests"
    good = {"url": "https://github.com/octo/app/pull/7", "number": 7, "branch": "sm/login"}
    for body, code in (
        ({**good, "url": "javascript:alert(1)"}, "text_refused"),
        ({**good, "url": "https://x/\x1b[2J"}, "text_refused"),
        ({**good, "number": 0}, "usage"),
        ({**good, "branch": "a\nb"}, "text_refused"),
    ):
        assert instance.request_as(None, ("POST", path, None, body))[0][0] == code
    for _ in range(2):
        assert instance.request_as(None, ("POST", path, None, good))[0][0] == "ok"
    assert [e["type"] for e in instance.events()].count("pull_request") == 1
    (shown,) = instance.get(path)
    assert (shown["url"], shown["state"], shown["retries"], shown["reported"]) == (good["url"], "open", 0, [])
