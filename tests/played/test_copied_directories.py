"""`sm spawn --copy`: a copy of a directory without version control, its comparison, its merge and its removal."""

import json
import os
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from sm.capabilities.worktrees.copies.copy_work import copy_work
from sm.capabilities.worktrees.removal_lock import removal_lock
from sm.capabilities.worktrees.work_parts import items_of, not_given_up
from sm.client.http import Client
from sm.errors import IllegalState
from tests.fixtures import context_fixture
from tests.git_repositories import branches, commit, git, make_app
from tests.played.test_worktree import change_record
from tests.sim.stage import Instance

pytestmark = pytest.mark.processes  # git

instance = context_fixture("function", Instance)


@pytest.fixture
def texts(instance: Instance) -> Path:
    """A directory without version control."""
    path: Path = instance.work / "texts"
    (path / "part").mkdir(parents=True)
    (path / "part" / "a.txt").write_text("one\ntwo\nthree\nfour\nfive\nsix\n")
    (path / "b.txt").write_text("b\n")
    (path / "run").write_text("#!/bin/sh\n")
    (path / "run").chmod(0o750)
    (path / "link").symlink_to("b.txt")
    (path / "empty").mkdir()
    return path


def spawn(instance: Instance, texts: Path, name: str = "login") -> tuple[dict[str, Any], Path]:
    """Spawn a session in a copy; return it and the path of the copy."""
    session = instance.spawn("Sleeper", "x", "--copy", "--name", name, cwd=texts)
    return session, Path(session["worktree"]["path"])


def state(directory: Path) -> dict[str, object]:
    """The files of a directory, without the copies in it."""
    paths = {path.relative_to(directory): path for path in directory.rglob("*")}
    return {
        str(name): os.readlink(path) if path.is_symlink() else (path.read_text(), path.stat().st_mode & 0o777)
        for name, path in paths.items()
        if (path.is_symlink() or path.is_file()) and not {".sm", ".git"} & {*name.parts}
    }


def changed_files(instance: Instance, name: str) -> list[str]:
    """The paths that `sm diff` shows."""
    return [file["path"] for file in json.loads(instance.sm("diff", name, "--json"))["files"]]


def test_copy_has_all_files_and_a_commit_of_them(instance: Instance, texts: Path) -> None:
    session, path = spawn(instance, texts)
    assert session["worktree"] == {"path": str(texts / ".sm/worktrees/login"), "branch": "sm/login"}
    assert session["working_dir"] == str(path)
    assert state(path) == state(texts)
    assert (path / "empty").is_dir()
    assert git(path, "status", "--porcelain") == ""
    assert git(path, "log", "--format=%an %D") == "sm HEAD -> sm/login"
    assert not (texts / ".git").exists()


def test_copy_says_how_much_it_has(instance: Instance, texts: Path) -> None:
    done = instance.run("spawn", "Sleeper", "x", "--copy", "--name", "login", cwd=texts)
    assert f"Copy of {texts}: {texts}/.sm/worktrees/login (4 files, 1 kB)\n" in done.stdout


def test_merge_brings_changes_of_both_sides_together(instance: Instance, texts: Path) -> None:
    _, path = spawn(instance, texts)
    (path / "part" / "a.txt").write_text("ONE\ntwo\nthree\nfour\nfive\nsix\n")
    (texts / "part" / "a.txt").write_text("one\ntwo\nthree\nfour\nfive\nSIX\n")
    (texts / "of a person.txt").write_text("stays\n")
    (path / "new" / "deep").mkdir(parents=True)
    (path / "new" / "deep" / "c.txt").write_text("c\n")
    (path / "b.txt").unlink()
    (path / "run").write_text("#!/bin/sh\ntrue\n")
    assert changed_files(instance, "sleeper-login") == ["b.txt", "new/deep/c.txt", "part/a.txt", "run"]
    before = state(texts)
    assert instance.sm("merge", "sleeper-login", "--dry-run").startswith(
        f"Can merge {path} into {texts}: 4 files"
    )
    assert state(texts) == before
    merged = instance.sm("merge", "sleeper-login")
    assert merged == f"Merged {path} into {texts}: 4 files (b.txt, new/deep/c.txt, part/a.txt, run)\n"
    assert (texts / "part" / "a.txt").read_text() == "ONE\ntwo\nthree\nfour\nfive\nSIX\n"
    assert state(texts).keys() == {"link", "new/deep/c.txt", "of a person.txt", "part/a.txt", "run"}
    assert state(texts)["run"] == ("#!/bin/sh\ntrue\n", 0o750)
    assert changed_files(instance, "sleeper-login") == []
    assert instance.sm("merge", "sleeper-login").startswith("Nothing to merge")


def test_second_merge_brings_only_what_is_new(instance: Instance, texts: Path) -> None:
    _, path = spawn(instance, texts)
    (path / "b.txt").write_text("of the agent\n")
    git(path, "commit", "-q", "-a", "-m", "work")
    instance.sm("merge", "sleeper-login")
    (texts / "b.txt").write_text("of a person\n")
    (path / "c.txt").write_text("c\n")
    assert "1 file (c.txt)" in instance.sm("merge", "sleeper-login")
    assert (texts / "b.txt").read_text() == "of a person\n"


def test_conflicts_are_named_and_nothing_changes(instance: Instance, texts: Path) -> None:
    _, path = spawn(instance, texts)
    for directory, text in ((path, "of the agent\n"), (texts, "of a person\n")):
        (directory / "b.txt").write_text(text)
    (path / "part" / "a.txt").write_text("changed\n")
    (texts / "part" / "a.txt").unlink()
    (path / "c.txt").write_text("c\n")
    before = state(texts)
    for words in (("--dry-run",), ()):
        refused = instance.refused("merge", "sleeper-login", *words, exit_code=4)
        assert refused.startswith(
            f"sm: cannot merge {path} in {texts}: conflicts in b.txt (both have changed it), part/a.txt (the directory "
            "has deleted it, and the copy has changed it); nothing was changed\n"
        )
        assert state(texts) == before


def test_merge_does_not_follow_a_link_of_the_directory(instance: Instance, texts: Path) -> None:
    _, path = spawn(instance, texts)
    outside = instance.work / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text("outside\n")
    (texts / "part" / "a.txt").unlink()
    (texts / "part").rmdir()
    (texts / "part").symlink_to(outside)
    (path / "part" / "new.txt").write_text("new\n")
    refused = instance.refused("merge", "sleeper-login", exit_code=4)
    assert "part/new.txt (part is a link in the directory)" in refused
    assert os.listdir(outside) == ["a.txt"]


def test_merge_writes_neither_into_version_control_nor_into_other_copies(
    instance: Instance, texts: Path
) -> None:
    _, path = spawn(instance, texts)
    for name in (".hg/hgrc", ".sm/worktrees/other/a.txt"):
        (path / name).parent.mkdir(parents=True)
        (path / name).write_text("x\n")
    refused = instance.refused("merge", "sleeper-login", exit_code=4)
    assert (
        ".hg/hgrc (it is in a directory of version control or of sm), .sm/worktrees/other/a.txt (it"
        in refused
    )


def test_file_takes_the_place_of_a_directory_and_back(instance: Instance, texts: Path) -> None:
    _, path = spawn(instance, texts)
    (path / "part" / "a.txt").unlink()
    (path / "part").rmdir()
    (path / "part").write_text("a file\n")
    (path / "b.txt").unlink()
    (path / "b.txt").mkdir()
    (path / "b.txt" / "inner").write_text("b\n")
    (texts / "part" / "mine.txt").write_text("of a person\n")
    refused = instance.refused("merge", "sleeper-login", exit_code=4)
    assert "part (it is a directory with part/mine.txt in the directory)" in refused
    (texts / "part" / "mine.txt").unlink()
    instance.sm("merge", "sleeper-login")
    assert state(texts) == state(path)


def test_rm_is_refused_while_the_directory_does_not_have_the_work(instance: Instance, texts: Path) -> None:
    session, path = spawn(instance, texts)
    (path / "b.txt").write_text("work\n")
    git(path, "commit", "-q", "-a", "-m", "work")
    (path / "b.txt").write_text("more\n")
    instance.sm("kill", session["session_id"])
    refused = instance.refused("rm", session["session_id"], exit_code=4)
    assert (
        f"1 change that {texts} does not have (b.txt); 1 commit whose changes {texts} does not have ("
        in refused
    )
    assert (
        "hint: to keep it: sm merge sleeper-login; to delete it: sm rm sleeper-login --discard\n" in refused
    )
    instance.sm("merge", "sleeper-login")
    done = instance.run("rm", session["session_id"])
    assert (done.returncode, done.stderr, path.exists()) == (0, "", False)
    assert (texts / "b.txt").read_text() == "more\n"


def test_rm_removes_a_copy_without_work(instance: Instance, texts: Path) -> None:
    session, path = spawn(instance, texts)
    instance.sm("kill", session["session_id"])
    done = instance.run("rm", session["session_id"])
    assert (done.returncode, done.stderr, path.exists()) == (0, "", False)


def test_discard_deletes_the_work_of_a_copy(instance: Instance, texts: Path) -> None:
    session, path = spawn(instance, texts)
    (path / "b.txt").write_text("work\n")
    instance.sm("kill", session["session_id"])
    done = instance.run("rm", session["session_id"], "--discard", "--yes")
    assert (done.returncode, done.stderr, path.exists()) == (0, "", False)
    assert (texts / "b.txt").read_text() == "b\n"


@pytest.mark.parametrize("kind", ["stash", "branch", "nested", "hidden", "gone", "no git"])
def test_other_work_of_a_copy_is_kept(instance: Instance, texts: Path, kind: str) -> None:
    session, path = spawn(instance, texts)
    match kind:
        case "stash":
            (path / "b.txt").write_text("work\n")
            git(path, "stash")
        case "branch":
            git(path, "checkout", "-q", "-b", "other")
            (path / "b.txt").write_text("work\n")
            git(path, "commit", "-q", "-a", "-m", "work")
            git(path, "checkout", "-q", "sm/login")
        case "nested":
            make_app(path)
        case "hidden":
            git(path, "update-index", "--assume-unchanged", "b.txt")
            (path / "b.txt").write_text("work\n")
        case "gone":
            (texts / "b.txt").rename(instance.work / "b.txt")
            texts.rename(instance.work / "moved")
            texts.mkdir()
            (texts / ".sm").mkdir()
            (instance.work / "moved" / ".sm" / "worktrees").rename(texts / ".sm" / "worktrees")
            (path / "b.txt").write_text("work\n")
        case _:
            (path / ".git").rename(path / "git")
    instance.sm("kill", session["session_id"])
    instance.refused("rm", session["session_id"], exit_code=4)
    assert path.is_dir()


def test_left_copies_are_listed_and_pruned(instance: Instance, texts: Path) -> None:
    session, path = spawn(instance, texts)
    instance.sm("kill", session["session_id"])
    (path / "b.txt").write_text("work\n")
    instance.request_as(None, ("POST", f"/v1/sessions/{session['session_id']}/remove"))
    assert "1 change that" in instance.sm("worktree", "ls")
    assert "kept" in instance.run("worktree", "prune", "--yes").stderr
    (texts / "b.txt").write_text("work\n")
    assert instance.sm("worktree", "prune", "--yes") == f"Removed {path}\n"


def test_stopped_removal_is_finished(instance: Instance, texts: Path) -> None:
    session, path = spawn(instance, texts)
    instance.sm("kill", session["session_id"])
    instance.request_as(None, ("POST", f"/v1/sessions/{session['session_id']}/remove"))
    (path / ".git" / "sm-removal").touch()
    (path / "b.txt").unlink()
    assert instance.sm("worktree", "prune", "--yes") == f"Removed {path}\n"


def test_copy_whose_removal_was_stopped_before_its_last_step_is_pruned(
    instance: Instance, texts: Path
) -> None:
    session, path = spawn(instance, texts)
    instance.sm("kill", session["session_id"])
    instance.request_as(None, ("POST", f"/v1/sessions/{session['session_id']}/remove"))
    shutil.rmtree(path)
    path.mkdir()
    assert "nothing would be lost" in instance.sm("worktree", "ls")
    assert instance.sm("worktree", "prune", "--yes") == f"Removed {path}\n"
    assert instance.get("/v1/worktrees") == []


def test_work_in_a_copy_that_cannot_be_read_is_not_known(texts: Path) -> None:
    with pytest.raises(IllegalState):
        copy_work(f"{texts}/gone", str(texts), None)


def test_copy_is_not_merged_while_a_command_removes_it(instance: Instance, texts: Path) -> None:
    session, path = spawn(instance, texts)
    (path / "b.txt").write_text("work\n")
    with removal_lock(str(path)):
        refused = instance.refused("merge", session["session_id"], exit_code=4, cwd=texts)
    assert f"cannot merge {path}: another command removes or merges it" in refused
    assert (texts / "b.txt").read_text() == "b\n"
    instance.sm("merge", session["session_id"], cwd=texts)


def test_status_of_a_session_in_a_copy_names_its_directory(instance: Instance, texts: Path) -> None:
    session, path = spawn(instance, texts)
    status = instance.sm("status", session["session_id"])
    assert f"Copy:      {path} of {texts}" in status
    assert "Worktree:" not in status


def test_half_removed_copy_is_not_merged(instance: Instance, texts: Path) -> None:
    """A file that its removal has deleted is no deletion of the agent."""
    session, path = spawn(instance, texts)
    instance.sm("kill", session["session_id"])
    before = state(texts)
    (path / ".git" / "sm-removal").touch()
    (path / "b.txt").unlink()
    refused = instance.refused("merge", session["session_id"], exit_code=4, cwd=texts)
    assert f"the removal of {path} has begun" in refused
    assert state(texts) == before


def test_copy_that_cannot_be_read_does_not_keep_others_from_being_pruned(
    instance: Instance, texts: Path
) -> None:
    paths = []
    for name in ("a", "b"):
        session, path = spawn(instance, texts, name)
        instance.sm("kill", session["session_id"])
        instance.request_as(None, ("POST", f"/v1/sessions/{session['session_id']}/remove"))
        paths.append(path)
    (paths[0] / ".git" / "worktrees" / "x").mkdir(parents=True)
    pruned = instance.run("worktree", "prune", "--yes")
    assert pruned.stdout == f"Removed {paths[1]}\n"
    assert f"kept the worktree {paths[0]}: {paths[0]}/.git/worktrees/x/gitdir: No such file" in pruned.stderr


def test_work_of_a_copy_is_given_up_by_each_of_its_files(instance: Instance, texts: Path) -> None:
    _, path = spawn(instance, texts)
    (tree,) = instance.get("/v1/worktrees")
    for name in range(7):  # more than are named
        (path / f"new{name}").touch()
    given_up = items_of(copy_work(str(path), str(texts), tree["start"]))
    assert not_given_up(copy_work(str(path), str(texts), tree["start"]), given_up) == []
    (path / "new6").rename(path / "other")
    assert not_given_up(copy_work(str(path), str(texts), tree["start"]), given_up) != []


def test_copy_whose_repository_the_agent_has_deleted_stays_listed(instance: Instance, texts: Path) -> None:
    session, path = spawn(instance, texts)
    shutil.rmtree(path / ".git")
    (path / "b.txt").write_text("work\n")
    for command in ("diff", "merge"):
        refused = instance.refused(command, session["session_id"], exit_code=4)
        assert refused.startswith("sm: the copy of sleeper-login is no git repository any more: ")
    instance.sm("kill", session["session_id"])
    instance.run("rm", session["session_id"], "--discard", "--yes")
    assert str(path) in instance.sm("worktree", "ls")
    assert (path / "b.txt").read_text() == "work\n"


def test_no_pull_request_is_opened_for_a_copy(instance: Instance, texts: Path) -> None:
    session, path = spawn(instance, texts)
    git(path, "remote", "add", "origin", "https://nowhere.invalid/x.git")
    refused = instance.refused("pr", session["session_id"], exit_code=4)
    assert "works in a copy of a directory without git" in refused
    assert "sm merge" in refused


def test_what_is_not_copied_is_said(instance: Instance, texts: Path) -> None:
    os.mkfifo(texts / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(texts / "socket"))
    make_app(texts)
    (texts / "out").symlink_to("/etc/hostname")
    session, path = spawn(instance, texts)
    assert session["warnings"] == [
        "not copied, as they are no files: fifo, socket",
        "not copied, as they belong to version control: app/.git",
        "links that lead out of the copy: out",
    ]
    assert os.readlink(path / "out") == "/etc/hostname"
    assert (path / "app" / "api" / "a.txt").read_text() == "a\n"
    assert not (path / "app" / ".git").exists()


def test_copies_are_not_copied(instance: Instance, texts: Path) -> None:
    (instance.config).write_text(f"{instance.config.read_text()}\nworktrees: {{dir: trees}}\n")
    _, first = spawn(instance, texts)
    _, second = spawn(instance, texts, "second")
    assert first == texts / "trees" / "login"
    assert state(second) == {
        name: value for name, value in state(texts).items() if not name.startswith("trees/")
    }


def test_directory_that_is_too_large_is_refused(instance: Instance, texts: Path) -> None:
    (instance.config).write_text(f"{instance.config.read_text()}\nworktrees: {{copy_max_mb: 1}}\n")
    with (texts / "large").open("wb") as file:
        file.truncate(2_000_000)
    refused = instance.refused("spawn", "Sleeper", "x", "--copy", cwd=texts, exit_code=9)
    assert f"{texts} has more than 1 MB, which is the limit for a copy" in refused
    assert not (texts / ".sm").exists()


@pytest.mark.parametrize(
    "words",
    [("--base", "HEAD"), ("--branch", "b"), ("--pr", "1"), ("--remote-branch", "b"), ("--remote", "b")],
)
def test_options_of_git_are_refused_for_a_copy(
    instance: Instance, texts: Path, words: tuple[str, ...]
) -> None:
    refused = instance.refused("spawn", "Sleeper", "x", "--copy", *words, cwd=texts, exit_code=2)
    assert "is for a git worktree, not for a copy of a directory" in refused
    refused = instance.refused("spawn", "Sleeper", "x", "--copy", "--worktree", cwd=texts, exit_code=2)
    assert "--worktree and --copy cannot be used together" in refused
    assert not (texts / ".sm").exists()


def test_each_kind_of_directory_hints_at_the_other_option(instance: Instance, texts: Path) -> None:
    repo = make_app(instance.work)
    refused = instance.refused("spawn", "Sleeper", "x", "--copy", cwd=repo / "api", exit_code=2)
    assert "hint: start the agent in a worktree of it: --worktree\n" in refused
    refused = instance.refused("spawn", "Sleeper", "x", "--worktree", cwd=texts, exit_code=2)
    assert "hint: for a copy of the directory: --copy\n" in refused


@pytest.mark.parametrize("words", [("--squash",), ("--rebase",), ("--onto", "main"), ("--check", "true")])
def test_options_of_branches_are_refused_when_a_copy_is_merged(
    instance: Instance, texts: Path, words: tuple[str, ...]
) -> None:
    spawn(instance, texts)
    refused = instance.refused("merge", "sleeper-login", *words, exit_code=2)
    assert f"{words[0]} is for git worktrees, and sleeper-login works in a copy of a directory" in refused


@pytest.mark.parametrize("place", ["workspace", "directory"])
def test_copy_of_a_directory_that_a_sandboxed_session_could_write(
    instance: Instance, texts: Path, place: str
) -> None:
    session, path = spawn(instance, texts)
    (path / "b.txt").write_text("work\n")
    if place == "workspace":  # contains the directory, but the session works elsewhere in it
        (instance.work / "beside").mkdir()
        instance.sm("workspace", "create", "shop", "--working-dir", str(instance.work))
        near = instance.spawn("Sleeper", "x", "--working-dir", str(instance.work / "beside"))
    else:
        near = instance.spawn("Sleeper", "x", "--working-dir", str(texts / "part"))
    for other in (near, session):
        instance.sm("kill", other["session_id"])
    change_record(instance, near, effective_mode="sandboxed")
    commands = [("spawn", "Sleeper", "x", "--copy"), ("merge", "sleeper-login")]
    for words in [*commands, *([("diff", "sleeper-login")] if place == "workspace" else [])]:
        assert "a sandboxed session may have changed" in instance.refused(*words, exit_code=5, cwd=texts)
    refused = instance.refused("rm", session["session_id"], exit_code=4)
    assert f"{path} that exists nowhere else: a sandboxed session may have changed" in refused
    assert (texts / "b.txt").read_text() == "b\n"


def test_ask_agent_sends_a_message_about_conflicts(instance: Instance, texts: Path) -> None:
    _, path = spawn(instance, texts)
    for directory in (path, texts):
        (directory / "b.txt").write_text(f"{directory}\n")
    done = instance.run("merge", "sleeper-login", "--ask-agent")
    assert done.returncode == 4
    assert f"asked sleeper-login to bring the changes of {texts} into its copy" in done.stderr
    names = f"{texts}/b.txt {path}/b.txt"
    assert (
        f"hint: give the file in the copy the changes of both, or make both the same: diff -u {names}\n"
        in (done.stderr)
    )
    (path / "b.txt").write_text(f"{texts}\n{path}\n")
    assert "1 file (b.txt)" in instance.sm("merge", "sleeper-login")
    assert (texts / "b.txt").read_text() == f"{texts}\n{path}\n"


def test_json_of_a_merge_has_the_files(instance: Instance, texts: Path) -> None:
    session, path = spawn(instance, texts)
    (path / "b.txt").write_text("work\n")
    git(path, "commit", "-q", "-a", "-m", "work")
    assert json.loads(instance.sm("merge", "sleeper-login", "--json")) == {
        "session_id": session["session_id"], "branch": "sm/login", "into": None, "directory": str(texts),
        "commit": None, "commits": 1, "files": ["b.txt"],
    }  # fmt: skip


def test_killed_session_leaves_no_copy(instance: Instance, texts: Path) -> None:
    """As Ctrl-C in `sm spawn`, which ends the session."""
    os.mkfifo(texts / "fifo")
    instance.sm("daemon", "start")
    client = Client(str(instance.socket))
    body = {"agent_type": "Sleeper", "prompt": "x", "name": "login", "cwd": str(texts)}
    started = client.post("/v1/sessions", {**body, "new_copy": True})
    client.post(f"/v1/sessions/{started['session_id']}/kill", {})
    client.get("/v1/worktrees", {"wait_s": 20})
    left = [*(texts / ".sm" / "worktrees").glob("*")] if (texts / ".sm").exists() else []
    # The kill came before it was complete, or it has a row, by which it can be removed.
    assert [str(path) for path in left] == [
        tree["path"] for tree in client.get("/v1/worktrees") if tree["exists"]
    ]


def test_copy_is_not_removed_under_a_worktree_of_it(instance: Instance, texts: Path) -> None:
    session, path = spawn(instance, texts)
    inner = instance.spawn("Sleeper", "x", "--worktree", "--name", "inner", cwd=path)
    assert inner["worktree"]["path"] == str(path / ".sm/worktrees/inner")
    for name in (inner, session):
        instance.sm("kill", name["session_id"])
    done = instance.run("rm", session["session_id"])
    assert f"kept the worktree {path}: its git directory belongs to other worktrees too" in done.stderr
    assert Path(inner["worktree"]["path"]).is_dir()


# Jujutsu


def jj_repository(work: Path) -> Path:
    """A colocated repository of jj 0.30: `.jj` beside `.git`, which has no branch checked out."""
    repo = make_app(work)
    for name, text in {
        ".gitignore": "/*\n",
        "repo/store/type": "git",
        "repo/store/git_target": "../../../.git",
        "repo/op_store/type": "simple_op_store",
        "repo/index/type": "default",
        "working_copy/type": "local",
        "working_copy/checkout": "\x12\x40",
    }.items():
        path = repo / ".jj" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(repo, "checkout", "-q", "--detach")
    git(repo, "update-ref", "refs/jj/keep/1", "HEAD")
    return repo


def test_colocated_repository_of_jj_works_as_one_of_git(instance: Instance) -> None:
    repo = jj_repository(instance.work)
    session = instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repo)
    path = Path(session["worktree"]["path"])
    assert not (path / ".jj").exists()
    work = commit(path, "work\n")
    assert changed_files(instance, "sleeper-login") == ["api/a.txt"]
    refused = instance.refused("merge", "sleeper-login", exit_code=4, cwd=repo)
    assert refused.startswith(f"sm: no branch is checked out in {repo}\n")
    instance.sm("merge", "sleeper-login", "--onto", "main", cwd=repo)
    assert git(repo, "rev-parse", "main") == work
    instance.sm("kill", session["session_id"])
    assert instance.run("rm", session["session_id"]).stderr == ""
    assert (path.exists(), branches(repo)) == (
        False,
        ["(HEAD detached at " + git(repo, "rev-parse", "--short", "HEAD") + ")", "main"],
    )


def test_repository_of_jj_without_git_is_copied(instance: Instance) -> None:
    repo = jj_repository(instance.work)
    (repo / ".git").rename(repo / ".jj" / "repo" / "store" / "git")
    refused = instance.refused("spawn", "Sleeper", "x", "--worktree", cwd=repo, exit_code=2)
    assert "--copy" in refused
    session, path = spawn(instance, repo)
    assert session["warnings"] == ["not copied, as they belong to version control: .jj"]
    assert sorted(name for name in os.listdir(path) if name != ".git") == ["api"]
