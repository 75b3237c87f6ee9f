"""Set-up and tear-down of worktrees with real processes, tmux and git."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.git_repositories import branches, make_app
from tests.instance import SM, Instance

pytestmark = pytest.mark.processes

PLACE = ".sm/worktrees/login"
WORDS = ("Sleeper", "x", "--worktree", "--name", "login")


@pytest.fixture
def repo(instance: Instance) -> Path:
    return make_app(instance.work)


def configure(instance: Instance, settings: str) -> None:
    instance.config.write_text(f"{instance.config.read_text()}\nworktrees: {{{settings}}}\n")


def test_setup_and_teardown_run_in_the_tree_with_the_identity_of_the_session(
    instance: Instance, repo: Path
) -> None:
    who = "echo $SM_SESSION_ID > who.txt; echo who.txt > .git-ignored; cp who.txt ../../who.txt; rm who.txt"
    configure(instance, f'setup: ["test -t 1", "{who}; rm .git-ignored"], teardown: ["pwd > ../../down.txt"]')
    session = instance.spawn(*WORDS, cwd=repo)
    assert (repo / ".sm" / "who.txt").read_text() == f"{session['session_id']}\n"
    assert instance.session(session["session_id"])["status"] == "running"
    instance.sm("kill", "sleeper-login")
    done = instance.run("rm", "sleeper-login")
    assert (done.returncode, done.stderr) == (0, "")
    assert (repo / ".sm" / "down.txt").read_text() == f"{repo / PLACE}\n"
    assert ((repo / PLACE).exists(), branches(repo)) == (False, ["main"])


def test_failed_setup_fails_the_spawn_and_removes_the_tree(instance: Instance, repo: Path) -> None:
    configure(instance, 'setup: ["cd api && cat a.txt && cat missing.txt"]')
    done = instance.run("spawn", *WORDS, cwd=repo)
    assert done.returncode == 9
    assert "the set-up of the worktree ended with exit code 1: " in done.stderr
    assert "| a | cat: missing.txt: No such file or directory" in done.stderr
    assert ((repo / PLACE).exists(), branches(repo)) == (False, ["main"])


def test_setup_goes_on_when_the_daemon_is_killed(instance: Instance, repo: Path) -> None:
    go_on = repo / "go-on"
    wait = f"until test -e {go_on}; do sleep 0.05; done"
    configure(instance, f'setup: ["echo begun >> ../../runs.txt; {wait}; echo ended >> ../../runs.txt"]')
    runs = repo / ".sm" / "runs.txt"
    instance.start_daemon()
    with subprocess.Popen([SM, "spawn", *WORDS], cwd=repo, env=instance.env) as spawning:
        instance.until(runs.exists, "the set-up has begun")
        instance.kill_daemon()
        go_on.touch()
        assert spawning.wait() == 0
    assert runs.read_text() == "begun\nended\n"
    (session,) = instance.json("all")
    assert (session["status"], session["friendly_name"]) == ("running", "sleeper-login")


def test_failed_setup_leaves_no_process_in_the_background(instance: Instance, repo: Path) -> None:
    child = "echo $$ > ../../pid.txt; exec sleep 1000"
    wait = "until test -s ../../pid.txt; do sleep 0.05; done"
    configure(instance, f"setup: [\"setsid sh -c '{child}' & {wait}; exit 3\"]")
    done = instance.run("spawn", *WORDS, cwd=repo)
    assert done.returncode == 9
    pid = int((repo / ".sm" / "pid.txt").read_text())
    instance.until(lambda: not os.path.exists(f"/proc/{pid}"), "the process of the set-up has ended")


def test_kill_ends_the_setup_with_its_processes(instance: Instance, repo: Path) -> None:
    configure(instance, 'setup: ["(sleep 1000 & echo $! > ../../pid.txt; wait)"]')
    pid_file = repo / ".sm" / "pid.txt"
    instance.start_daemon()
    with subprocess.Popen([SM, "spawn", *WORDS], cwd=repo, env=instance.env) as spawning:
        instance.until(lambda: pid_file.exists() and pid_file.read_text().strip(), "the set-up has begun")
        instance.sm("kill", "sleeper-login")
        assert spawning.wait() == 9
    pid = int(pid_file.read_text())
    instance.until(lambda: not os.path.exists(f"/proc/{pid}"), "the process of the set-up has ended")
    assert ((repo / PLACE).exists(), branches(repo)) == (False, ["main"])


WAITING_TEARDOWN = "echo $$ > ../../pid.txt; until test -e ../../go; do sleep 0.05; done"


@contextmanager
def removal_with_teardown(instance: Instance, repo: Path, *words: str) -> Iterator["subprocess.Popen[str]"]:
    """Run `sm rm` with these words, until the tear-down of the first worktree waits for the file `.sm/go`."""
    with subprocess.Popen(
        ["env", "--default-signal=HUP", SM, "rm", *words],  # nohup ignores it, for all that it starts
        cwd=repo,
        env=instance.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as removing:
        instance.until(
            lambda: (repo / ".sm" / "pid.txt").read_text().endswith("\n"), "the tear-down has begun"
        )
        yield removing


def ended_in_trees(instance: Instance, repo: Path, *names: str) -> None:
    for name in names:
        instance.spawn("Sleeper", "x", "--worktree", "--name", name, cwd=repo)
        instance.sm("kill", f"sleeper-{name}")


def test_session_that_begins_during_the_teardown_keeps_its_worktree(instance: Instance, repo: Path) -> None:
    configure(instance, f'teardown: ["{WAITING_TEARDOWN}"]')
    ended_in_trees(instance, repo, "login", "other")
    words = ("sleeper-login", "sleeper-other", "--discard", "--yes")
    (repo / PLACE / "old.txt").touch()
    with removal_with_teardown(instance, repo, *words) as removing:
        for name in ("login", "other"):
            instance.spawn("Sleeper", "x", "--working-dir", str(repo / ".sm" / "worktrees" / name))
        (repo / PLACE / "new.txt").touch()
        (repo / ".sm" / "go").touch()
        _, errors = removing.communicate()
    for name in ("login", "other"):
        path = repo / ".sm" / "worktrees" / name
        assert f"kept the worktree {path}: another session works there" in errors
        assert path.exists()
    assert branches(repo) == ["main", "sm/login", "sm/other"]
    assert (repo / PLACE / "new.txt").exists()


def test_ctrl_c_during_a_teardown_names_the_worktrees_that_stay(instance: Instance, repo: Path) -> None:
    configure(instance, f'teardown: ["{WAITING_TEARDOWN}"]')
    ended_in_trees(instance, repo, "login", "other")
    with removal_with_teardown(instance, repo, "sleeper-login", "sleeper-other") as removing:
        removing.send_signal(signal.SIGINT)
        _, errors = removing.communicate()
    paths = ", ".join(str(repo / ".sm" / "worktrees" / name) for name in ("login", "other"))
    assert f"interrupted; kept {paths}; to delete the worktrees: sm worktree prune" in errors
    (repo / ".sm" / "go").touch()
    assert instance.run("worktree", "prune", "--yes").stderr == ""
    assert branches(repo) == ["main"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal_that_ends_sm_rm_ends_the_teardown(
    instance: Instance, repo: Path, number: signal.Signals
) -> None:
    configure(instance, f'teardown: ["{WAITING_TEARDOWN}"]')
    ended_in_trees(instance, repo, "login")
    with removal_with_teardown(instance, repo, "sleeper-login") as removing:
        removing.send_signal(number)
        assert removing.wait() == -number
    pid = int((repo / ".sm" / "pid.txt").read_text())
    instance.until(lambda: not os.path.exists(f"/proc/{pid}"), "the tear-down has ended")
    assert (repo / PLACE).exists()


def test_discard_removes_the_tree_of_a_failing_teardown(instance: Instance, repo: Path) -> None:
    configure(instance, 'teardown: ["echo no server; exit 3"]')
    ended_in_trees(instance, repo, "login", "other")
    failed = "its tear-down 'echo no server; exit 3' ended with exit code 3: no server"
    done = instance.run("rm", "sleeper-login", "--discard", "--yes")
    assert (done.returncode, done.stderr) == (0, f"warning: {failed}\n")
    assert f"{failed}; to run it again: sm worktree prune; " in instance.run("rm", "sleeper-other").stderr
    assert instance.run("worktree", "prune").stdout == "Kept 1 worktree\n"
    done = instance.run("worktree", "prune", "--discard", "--yes")
    path = repo / ".sm" / "worktrees" / "other"
    assert (done.stdout, done.stderr) == (f"Removed {path}\n", f"warning: {failed}\n")
    assert branches(repo) == ["main"]
