"""Measures the start of a session with a worktree of a large repository, and its removal, next to git by hand."""

import random
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.instance import SM, Instance
from bench.row import Effort, Judged, Pairs, Row, timed_ms

_GATE = 1.1
_DIRECTORIES = 2_000
_SEED = 1


def measure(effort: Effort) -> Iterator[Row]:
    with Instance() as instance:
        repository = _make_repository(instance.home, effort.files)
        made, removed = Pairs([], []), Pairs([], [])
        for number in range(-1, effort.trees):  # the first one, which fills caches, is not counted
            times = _by_turns(_Worktree(instance, repository, number), ours_first=number % 2 == 0)
            if number >= 0:
                made.ours.append(times["spawn"])
                made.floor.append(times["add"])
                removed.ours.append(times["rm"])
                removed.floor.append(times["remove"])
        what = f"spawn with a worktree of {effort.files:,} files"
        yield made.row(what, "git worktree add", Judged.RATIO, _GATE, _GATE)
        yield removed.row(
            "  sm rm of its session", "git worktree remove, branch -D", Judged.RATIO, None, None
        )


class _Worktree:
    """A worktree that sm makes and removes, and one by hand."""

    def __init__(self, instance: Instance, repository: Path, number: int) -> None:
        self._instance = instance
        self._repository = repository
        self._name = f"tree{number}"
        self._by_hand = f"{repository}-by-hand-{number}"

    def spawn(self) -> None:
        self._run(SM, "spawn", "Sleep", "--worktree", "--name", self._name)

    def kill(self) -> None:
        self._run(SM, "kill", f"sleep-{self._name}")

    def rm(self) -> None:
        self._run(SM, "rm", f"sleep-{self._name}")

    def add(self) -> None:
        self._run("git", "worktree", "add", "--quiet", "-b", f"by-hand-{self._name}", self._by_hand)

    def remove(self) -> None:
        self._run("git", "worktree", "remove", self._by_hand)
        self._run("git", "branch", "--quiet", "-D", f"by-hand-{self._name}")

    def _run(self, *argv: str) -> None:
        null = subprocess.DEVNULL
        subprocess.run(
            argv, cwd=self._repository, env=self._instance.env, stdin=null, stdout=null, check=True
        )


def _by_turns(tree: _Worktree, *, ours_first: bool) -> dict[str, float]:
    """The milliseconds of each step. Neither order is better for the caches of the kernel in all rounds."""
    made, removed = [tree.spawn, tree.add], [tree.rm, tree.remove]
    if not ours_first:
        made.reverse()
        removed.reverse()
    times = {act.__name__: timed_ms(act) for act in made}
    tree.kill()
    return times | {act.__name__: timed_ms(act) for act in removed}


def _make_repository(directory: Path, files: int) -> Path:
    path = directory / "app"
    git = partial(subprocess.run, check=True, cwd=directory)
    git(("git", "init", "--quiet", "--initial-branch=main", str(path)))
    git(("git", "-C", str(path), "fast-import", "--quiet"), input=b"".join(_commit(files)))
    git(("git", "-C", str(path), "reset", "--quiet", "--hard"))
    return path


def _commit(files: int) -> Iterator[bytes]:
    """The input of `git fast-import` for one commit. Files have 5 to 60 lines."""
    lines = random.Random(_SEED)
    yield b"commit refs/heads/main\ncommitter bench <bench@localhost> 1700000000 +0000\ndata 1\nx\n"
    for number in range(files):
        text = b"".join(
            b"line %d of %d\n" % (lines.randrange(10**6), number) for _ in range(lines.randrange(5, 60))
        )
        directory = number % _DIRECTORIES
        path = b"src/part%02d/room%04d/file%06d.txt" % (directory % 20, directory, number)
        yield b"M 100644 inline %s\ndata %d\n%s\n" % (path, len(text), text)
