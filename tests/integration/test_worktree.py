"""Worktrees that are interrupted while the daemon makes them: nothing of them stays, or they are made again."""

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from sm.client.http import Client
from tests.git_repositories import branches, commit, git, make_app
from tests.instance import SM, Instance

pytestmark = pytest.mark.processes


@pytest.fixture
def repo(instance: Instance) -> Path:
    return make_app(instance.work)


class SlowGit:
    """A `git` first on the PATH of the caller, whose checkouts wait for as long as `held` exists."""

    def __init__(self, instance: Instance) -> None:
        self._bin = instance.home / "slow"
        self._bin.mkdir()
        self.held, self._began = self._bin / "held", self._bin / "began"
        self.held.touch()
        program = self._bin / "git"
        program.write_text(
            "#!/bin/sh\n"
            f'case " $* " in *" checkout "*) touch {self._began};'
            f" while test -e {self.held}; do sleep 0.05; done;; esac\n"
            'exec /usr/bin/git "$@"\n'
        )
        program.chmod(0o755)
        self.env = {"PATH": f"{self._bin}:{os.environ['PATH']}"}
        self._instance = instance

    def wait_for_checkout(self) -> None:
        self._instance.until(self._began.exists, "a checkout of git")
        self._began.unlink()


@pytest.fixture
def slow_git(instance: Instance) -> SlowGit:
    return SlowGit(instance)


def begin(instance: Instance, repo: Path, slow_git: SlowGit) -> str:
    """Start a session whose worktree is not made before `slow_git` goes on. Returns its id."""
    body = {"agent_type": "Sleeper", "prompt": "x", "name": "login", "cwd": str(repo), "new_worktree": True}
    path = {"PATH": slow_git.env["PATH"], "HOME": str(instance.home)}
    instance.start_daemon()
    client = Client(str(instance.socket))
    session_id: str = client.post("/v1/sessions", {**body, "environment": path})["session_id"]
    slow_git.wait_for_checkout()
    return session_id


def nothing_is_left(repo: Path) -> bool:
    return not (repo / ".sm" / "worktrees").exists() and branches(repo) == ["main"]


def test_killed_session_leaves_no_worktree(instance: Instance, repo: Path, slow_git: SlowGit) -> None:
    session_id = begin(instance, repo, slow_git)
    assert "its worktree is being made" in instance.session(session_id)["status_reason"]
    instance.sm("kill", session_id)
    assert instance.session(session_id)["worktree"] is None
    assert nothing_is_left(repo)
    assert git(repo, "worktree", "list").count("\n") == 0


def test_worktree_is_made_again_after_a_crash_of_the_daemon(
    instance: Instance, repo: Path, slow_git: SlowGit
) -> None:
    session_id = begin(instance, repo, slow_git)
    instance.kill_daemon()
    slow_git.held.unlink()
    instance.sm("daemon", "start")
    session = instance.in_status(session_id, "running")
    path = Path(session["worktree"]["path"])
    assert (git(path, "status", "--porcelain"), git(path, "symbolic-ref", "--short", "HEAD")) == (
        "",
        "sm/login",
    )


def test_process_ends_with_the_daemon_and_leaves_nothing(
    instance: Instance, repo: Path, slow_git: SlowGit
) -> None:
    begin(instance, repo, slow_git)
    instance.kill_daemon()
    instance.until(lambda: nothing_is_left(repo), "the worktree is undone")


def test_interrupted_spawn_ends_the_session(instance: Instance, repo: Path, slow_git: SlowGit) -> None:
    instance.start_daemon()
    command = [SM, "spawn", "Sleeper", "x", "--worktree", "--name", "login"]
    with subprocess.Popen(command, cwd=repo, env={**instance.env, **slow_git.env}) as spawn:
        slow_git.wait_for_checkout()
        spawn.send_signal(signal.SIGINT)
        assert spawn.wait() == 130
    (session,) = instance.json("ls", "--all")
    assert (session["status"], session["worktree"]) == ("killed", None)
    assert nothing_is_left(repo)


def maker_of(instance: Instance) -> int:
    """The pid of the process that makes a worktree for the daemon."""

    def look() -> int | None:
        children = Path(f"/proc/{instance.daemon_pid}/task").glob("*/children")
        for pid in " ".join(file.read_text() for file in children).split():
            with suppress(OSError):
                if b"worktrees.making" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return int(pid)
        return None

    found: int = instance.until(look, "a process makes a worktree")
    return found


def test_killed_process_leaves_nothing(instance: Instance, repo: Path, slow_git: SlowGit) -> None:
    session_id = begin(instance, repo, slow_git)
    os.kill(maker_of(instance), signal.SIGKILL)
    assert "has ended" in instance.in_status(session_id, "error")["status_reason"]
    assert nothing_is_left(repo)
    slow_git.held.unlink()
    assert instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repo)["worktree"] is not None


def test_work_of_a_person_at_the_place_is_left_alone(
    instance: Instance, repo: Path, slow_git: SlowGit
) -> None:
    """The daemon is killed, its process undoes the worktree, and a person makes one there before the next daemon."""
    session_id = begin(instance, repo, slow_git)
    instance.kill_daemon()
    instance.until(lambda: nothing_is_left(repo), "the worktree is undone")
    slow_git.held.unlink()
    path = repo / ".sm" / "worktrees" / "login"
    git(repo, "worktree", "add", "-q", "-b", "sm/login", str(path))
    made = commit(path, "of a person\n")
    (path / "new").write_text("of a person\n")
    instance.sm("daemon", "start")
    assert "already exists" in instance.in_status(session_id, "error")["status_reason"]
    assert ((path / "new").read_text(), git(repo, "rev-parse", "sm/login")) == ("of a person\n", made)


def test_two_sessions_of_one_name_do_not_share_a_worktree(
    instance: Instance, repo: Path, slow_git: SlowGit
) -> None:
    first = begin(instance, repo, slow_git)
    error = instance.refused("spawn", "Sh", "true", "--worktree", "--name", "login", exit_code=2, cwd=repo)
    assert "already exists" in error
    slow_git.held.unlink()
    path = Path(instance.in_status(first, "running")["worktree"]["path"])
    assert git(path, "symbolic-ref", "--short", "HEAD") == "sm/login"


def kill_all(instance: Instance) -> None:
    """SIGKILL the daemon, the process that makes the worktree, and its git."""
    maker = maker_of(instance)
    os.kill(maker, signal.SIGSTOP)  # so that it undoes nothing
    instance.kill_daemon()
    os.kill(maker, signal.SIGKILL)
    instance.until(lambda: not Path(f"/proc/{maker}").exists(), "the process is gone")


def test_work_in_a_half_made_worktree_is_kept(instance: Instance, repo: Path, slow_git: SlowGit) -> None:
    """A person completes the worktree of a killed daemon, and works in it."""
    session_id = begin(instance, repo, slow_git)
    kill_all(instance)
    slow_git.held.unlink()
    path = repo / ".sm" / "worktrees" / "login"
    git(path, "reset", "-q", "--hard")
    made = commit(path, "of a person\n")
    (path / "new").write_text("of a person\n")
    instance.sm("daemon", "start")
    assert (
        "it has changes that exist nowhere else" in instance.in_status(session_id, "error")["status_reason"]
    )
    assert ((path / "new").read_text(), git(repo, "rev-parse", "sm/login")) == ("of a person\n", made)


def test_clone_in_the_place_of_a_half_made_worktree_is_kept(
    instance: Instance, repo: Path, slow_git: SlowGit
) -> None:
    session_id = begin(instance, repo, slow_git)
    kill_all(instance)
    slow_git.held.unlink()
    path = repo / ".sm" / "worktrees" / "login"
    shutil.rmtree(path)
    git(repo, "clone", "-q", str(repo), str(path))
    made = commit(path, "only in the clone\n")
    instance.sm("daemon", "start")
    assert "already exists" in instance.in_status(session_id, "error")["status_reason"]
    assert git(path, "rev-parse", "HEAD") == made


def test_half_made_worktree_of_a_killed_daemon_is_made_again(
    instance: Instance, repo: Path, slow_git: SlowGit
) -> None:
    session_id = begin(instance, repo, slow_git)
    kill_all(instance)
    slow_git.held.unlink()
    instance.sm("daemon", "start")
    path = Path(instance.in_status(session_id, "running")["worktree"]["path"])
    assert git(path, "status", "--porcelain") == ""


def test_worktree_of_a_killed_merge_is_removed_by_the_next_one(instance: Instance, repo: Path) -> None:
    scratch, began, gate = (instance.home / name for name in ("scratch", "began", "gate"))
    scratch.mkdir()
    os.mkfifo(gate)
    env = {**instance.env, "TMPDIR": str(scratch)}
    for key, value in (("name", "x"), ("email", "x@localhost")):
        git(repo, "config", f"user.{key}", value)
    session = instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repo)
    commit(Path(session["worktree"]["path"]), "b\n")
    command = [SM, "merge", "sleeper-login", "--check"]
    with subprocess.Popen([*command, f"echo x >{began}; read x <{gate}"], cwd=repo, env=env) as merge:
        instance.until(began.exists, "the check of the merge")
        merge.kill()
    assert git(repo, "worktree", "list").count("\n") == 2
    (left,) = scratch.iterdir()
    subprocess.run([*command, "false"], cwd=repo, env=env, check=False)
    assert list(scratch.iterdir()) == [left]  # the command of the check still runs
    gate.write_text("x\n")
    instance.until(lambda: not _is_working_dir(left / "files"), "the end of the check")
    subprocess.run([*command, "true"], cwd=repo, env=env, check=True)
    assert list(scratch.iterdir()) == []
    assert git(repo, "worktree", "list").count("\n") == 1


def _is_working_dir(path: Path) -> bool:
    for directory in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):
            if directory.readlink() == path:
                return True
    return False


def test_session_starts_when_the_claim_of_its_worktree_cannot_be_removed(
    instance: Instance, repo: Path, slow_git: SlowGit
) -> None:
    session_id = begin(instance, repo, slow_git)
    (lock,) = (instance.home / "state" / "worktrees").glob("*.lock")
    lock.unlink()
    lock.mkdir()  # so that the daemon cannot unlink it
    slow_git.held.unlink()
    log = instance.state / "log" / "daemon.log"
    instance.until(lambda: "cannot end the claim of a worktree" in log.read_text(), "a warning in the log")
    session = instance.in_status(session_id, "running")
    assert Path(session["worktree"]["path"], "api", "a.txt").exists()
    assert branches(repo) == ["main", "sm/login"]
    assert [tree["state"] for tree in instance.json("worktree", "ls", "--all")] == ["made"]


def test_many_worktrees_are_listed_in_their_order_with_the_work_in_each(
    instance: Instance, repo: Path
) -> None:
    names = [f"t{number}" for number in range(5)]
    for name in names:
        session = instance.spawn("Sleeper", "x", "--worktree", "--name", name, cwd=repo)
        (Path(session["worktree"]["path"]) / name).touch()
    listed = instance.json("worktree", "ls", "--all")
    assert [tree["branch"] for tree in listed] == [f"sm/{name}" for name in names]
    assert [tree["work"] for tree in listed] == [f"1 uncommitted or untracked file ({n})" for n in names]
