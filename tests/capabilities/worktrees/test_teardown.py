"""The commands that run in a worktree before it is removed."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sm.capabilities.worktrees.own_trees import OwnTree
from sm.capabilities.worktrees.trees import remove_tree
from tests.git_repositories import branches, commit, git, make_app
from tests.waits import until

pytestmark = pytest.mark.processes

MakeTree = Callable[..., OwnTree]


def free() -> None:
    """Say that nobody works in the worktree."""


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_app(Path(os.path.realpath(tmp_path)))


@pytest.fixture
def make_tree(repo: Path) -> MakeTree:
    def make(*teardown: str, within_s: float = 60.0) -> OwnTree:
        path = repo / ".sm" / "worktrees" / "login"
        git(repo, "worktree", "add", "-q", "-b", "sm/login", str(path))
        start, common = git(repo, "rev-parse", "HEAD"), str(repo / ".git")
        return OwnTree(str(path), "sm/login", str(repo), start, common, True, teardown, within_s)

    return make


def test_teardown_runs_in_the_tree_before_it_is_removed(
    repo: Path, make_tree: MakeTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = make_tree("pwd > ../../one.txt", "git status > ../../two.txt", "env > ../../three.txt")
    for name in ("DIR", "WORK_TREE", "INDEX_FILE", "COMMON_DIR", "OBJECT_DIRECTORY"):  # as in a hook
        monkeypatch.setenv(f"GIT_{name}", "/nowhere")
    assert remove_tree(tree, free) is None
    assert (os.path.exists(tree.path), branches(repo)) == (False, ["main"])
    assert (repo / ".sm" / "one.txt").read_text() == f"{tree.path}\n"
    assert "On branch sm/login" in (repo / ".sm" / "two.txt").read_text()
    assert "/nowhere" not in (repo / ".sm" / "three.txt").read_text()


@pytest.mark.parametrize(
    ("command", "how", "within_s"),
    [
        ("echo no server; exit 3", "ended with exit code 3: no server", 60.0),
        ("sleep 100 & sleep 100", "did not end within 0.2 s: it printed nothing", 0.2),
        ("kill -9 $$", "ended with signal 9: it printed nothing", 60.0),
        ("for n in 1 2 3 4 5 6; do echo $n; done; false", "exit code 1: 2 | 3 | 4 | 5 | 6", 60.0),
    ],
)
def test_failed_teardown_keeps_the_tree_and_stops_at_the_first_command(
    repo: Path, make_tree: MakeTree, command: str, how: str, within_s: float
) -> None:
    tree = make_tree(command, "touch ../../later.txt", within_s=within_s)
    kept = remove_tree(tree, free)
    assert kept is not None
    assert kept.startswith(f"kept the worktree {tree.path}: its tear-down {command!r}")
    assert f"{how}; to run it again: sm worktree prune; without it: sm worktree prune --discard" in kept
    assert (os.path.exists(tree.path), branches(repo)) == (True, ["main", "sm/login"])
    assert not (repo / ".sm" / "later.txt").exists()


def test_background_program_of_a_teardown_does_not_hold_the_removal(make_tree: MakeTree) -> None:
    tree = make_tree("exec 3>&1; (sleep 5 >&3) & echo started")
    assert remove_tree(tree, free) is None


def test_everything_that_a_teardown_has_started_ends_when_its_time_is_over(
    repo: Path, make_tree: MakeTree
) -> None:
    pipe = repo.parent / "pipe"
    os.mkfifo(pipe)
    descriptor = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    def has_no_writer() -> bool:
        try:
            return os.read(descriptor, 1) == b""
        except BlockingIOError:
            return False

    try:
        assert remove_tree(make_tree(f"sleep 100 >{pipe} & sleep 100", within_s=1.0), free) is not None
        until(has_no_writer, "the program in the background has ended")
    finally:
        os.close(descriptor)


def test_commands_of_a_teardown_have_one_time_limit_together(make_tree: MakeTree) -> None:
    kept = remove_tree(make_tree("sleep 0.7", "sleep 0.7", within_s=1.0), free)
    assert kept is not None
    assert "did not end within 1 s" in kept


def test_discard_removes_the_tree_of_a_failed_teardown_and_says_so(repo: Path, make_tree: MakeTree) -> None:
    tree = make_tree("exit 3")
    Path(tree.path, "new.txt").touch()
    expected = "its tear-down 'exit 3' ended with exit code 3: it printed nothing"
    assert remove_tree(tree, free, {"file new.txt"}) == expected
    assert (os.path.exists(tree.path), branches(repo)) == (False, ["main"])


@pytest.mark.parametrize(
    ("command", "work"),
    [
        ("echo dump > dump.sql", "1 uncommitted or untracked file (dump.sql)"),
        (
            "echo b > api/a.txt; git -c user.name=x -c user.email=x@x commit -q -a -m saved",
            "1 commit in no other branch or tag",
        ),
    ],
)
def test_tree_stays_when_its_teardown_leaves_work(make_tree: MakeTree, command: str, work: str) -> None:
    tree = make_tree(command)
    kept = remove_tree(tree, free)
    assert kept is not None
    assert kept.startswith(f"kept the worktree {tree.path}: it has {work}")
    assert os.path.exists(tree.path)


@pytest.mark.parametrize("kind", ["work", "link", "lock"])
def test_teardown_does_not_run_in_a_tree_that_is_not_removed(
    repo: Path, make_tree: MakeTree, kind: str
) -> None:
    tree = make_tree(f"touch {repo}/ran.txt")
    if kind == "work":
        commit(Path(tree.path), "b")
    elif kind == "lock":
        git(repo, "worktree", "lock", tree.path)
    else:
        os.rename(tree.path, f"{tree.path}-moved")
        os.symlink(f"{tree.path}-moved", tree.path)
    kept = remove_tree(tree, free)
    assert kept is not None
    assert kept.startswith(f"kept the worktree {tree.path}")
    assert not (repo / "ran.txt").exists()


def test_teardown_output_has_no_escape_sequences(make_tree: MakeTree) -> None:
    kept = remove_tree(make_tree(r"printf '\033]0;title\007red\n'; false"), free)
    assert kept is not None
    assert "\033" not in kept


@pytest.mark.parametrize("given_up", [None, frozenset[str]()])
def test_tree_stays_when_somebody_begins_to_work_there_during_the_teardown(
    repo: Path, make_tree: MakeTree, given_up: frozenset[str] | None
) -> None:
    tree, ran = make_tree(f"touch {repo}/ran.txt"), repo / "ran.txt"
    kept = remove_tree(tree, lambda: "another session works there" if ran.exists() else None, given_up)
    assert kept == f"kept the worktree {tree.path}: another session works there"
    assert (os.path.exists(tree.path), branches(repo), ran.exists()) == (True, ["main", "sm/login"], True)


def test_sessions_are_asked_for_again_just_before_the_teardown_and_the_removal(
    repo: Path, make_tree: MakeTree
) -> None:
    """Git looks into the worktree before, which may take minutes."""
    tree, ran, asked = make_tree(f"touch {repo}/ran.txt"), repo / "ran.txt", list[bool]()

    def reason_of_use() -> str | None:
        asked.append(ran.exists())
        return "a sandboxed session" if len(asked) == last else None

    for last, has_run in ((1, False), (2, False), (3, False), (4, True), (5, True)):
        asked.clear()
        assert remove_tree(tree, reason_of_use) == f"kept the worktree {tree.path}: a sandboxed session"
        assert (asked[-1], len(asked), ran.exists()) == (has_run, last, has_run)
        ran.unlink(missing_ok=True)
    last = 0
    assert remove_tree(tree, reason_of_use) is None


def test_discard_keeps_work_that_the_user_was_not_told_of(repo: Path, make_tree: MakeTree) -> None:
    tree = make_tree("echo b > api/a.txt; git -c user.name=x -c user.email=x@x commit -q -a -m later")
    old = commit(Path(tree.path), "old")
    Path(tree.path, "old.txt").touch()
    Path(tree.path, "new.txt").touch()
    kept = remove_tree(tree, free, {old, "file old.txt"})
    assert kept is not None and "2 uncommitted or untracked files (new.txt, old.txt)" in kept
    kept = remove_tree(tree, free, {old, "file old.txt", "file new.txt"})
    assert kept is not None and "2 commits in no other branch or tag" in kept
    assert (os.path.exists(tree.path), branches(repo)) == (True, ["main", "sm/login"])


def test_discard_removes_the_rest_of_the_work_that_the_user_was_told_of(
    repo: Path, make_tree: MakeTree
) -> None:
    tree = make_tree("rm old.txt")
    Path(tree.path, "old.txt").touch()
    Path(tree.path, "new.txt").touch()
    assert remove_tree(tree, free, {"file old.txt", "file new.txt"}) is None
    assert (os.path.exists(tree.path), branches(repo)) == (False, ["main"])


def test_two_commands_do_not_tear_down_one_tree_at_the_same_time(repo: Path, make_tree: MakeTree) -> None:
    tree = make_tree(f"echo ran >> {repo}/ran.txt; until test -e {repo}/go; do sleep 0.05; done")
    with ThreadPoolExecutor() as pool:
        first = pool.submit(remove_tree, tree, free)
        until((repo / "ran.txt").exists, "the first tear-down runs")
        expected = "another command removes or merges it, or its tear-down still runs"
        assert remove_tree(tree, free) == f"kept the worktree {tree.path}: {expected}"
        (repo / "go").touch()
        assert first.result() is None
    assert (repo / "ran.txt").read_text() == "ran\n"


def test_long_line_of_a_teardown_is_cut(make_tree: MakeTree) -> None:
    kept = remove_tree(make_tree("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end; false"), free)
    assert kept is not None
    assert " | end; " in kept and len(kept) < 1_000


def test_teardown_that_cannot_start_keeps_the_tree(make_tree: MakeTree) -> None:
    kept = remove_tree(make_tree("x" * 200_000), free)  # more than an argument can have
    assert (
        kept is not None
        and "cannot start: Argument list too long; to run it again: sm worktree prune; " in kept
    )


# A signal comes as soon as the process of a command exists.
SIGNAL_AT_START = """
import signal, subprocess
start = subprocess.Popen.__init__
def start_with_signal(process, argv, **options):
    start(process, argv, **options)
    if {mark!r} in argv:
        open({file!r}, "w").write(str(process.pid))
        signal.raise_signal(signal.SIGTERM)
subprocess.Popen.__init__ = start_with_signal
"""


def test_signal_while_a_command_starts_ends_it(make_tree: MakeTree, tmp_path: Path) -> None:
    tree, pid = make_tree("exec sleep 1000"), tmp_path / "pid"
    code = f"""{SIGNAL_AT_START.format(mark="exec sleep 1000", file=str(pid))}
from sm.capabilities.worktrees.own_trees import OwnTree
from sm.capabilities.worktrees.teardown import tear_down
tear_down({tree!r})
"""
    ended = subprocess.run([sys.executable, "-c", code], check=False)
    assert ended.returncode == -signal.SIGTERM
    until(lambda: not os.path.exists(f"/proc/{pid.read_text()}"), "the command has ended")
