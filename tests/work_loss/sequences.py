"""Plays a sequence of acts in one repository, with a played daemon and the real git, and judges each command of `sm`.

A command may delete no change and no commit, but for the files that git ignores in a worktree that it removes, and for
what `--discard` has named. A commit whose changes are all in other commits, as after `--squash`, is not lost.
"""

import atexit
import json
import os
import random
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import Any

from sm.capabilities.worktrees.git.linked import is_half_removed
from sm.core.dataclass import dataclass
from tests.forked_making import ForkedMaking, forked_makings, load_making
from tests.sim import guards
from tests.sim.replacing import replaced
from tests.sim.stage import Instance
from tests.work_loss.acts import AGENT_ACTS, BRANCHES, PERSON_ACTS, Act, Hand
from tests.work_loss.deaths import run_until_death
from tests.work_loss.places import Places, Surveyor, run_git

_NAMES = ("a", "b", "c")
_COMMANDS = {
    "spawn": 6,
    "merge": 8,
    "rm": 7,
    "rm --discard": 4,
    "rm --ended": 2,
    "prune": 2,
    "worktree prune": 4,
    "forget": 2,
    "restart": 1,
}
"""The commands of `sm` with their weights. `forget` removes a session beside the command, so that its tree stays."""
_ENDED = ("completed", "error", "abandoned", "killed")
_STEPS = (4, 13)
_KINDS = 5
_DIES = 0.3
"""The part of the commands that die."""
_MORE = "worktrees: {{link: [shared], submodules: {submodules}}}"


@dataclass(frozen=True, slots=True)
class Script:
    """A sequence. `has_submodule`: the repository has one. `fills`: sm fills it."""

    acts: tuple[Act, ...]
    has_submodule: bool
    fills: bool


def script(seed: int) -> Script:
    """The sequence of a seed."""
    chance = random.Random(seed)
    has_submodule = chance.random() < 0.2
    weights = {name: weight for name, (weight, _) in AGENT_ACTS.items()}
    if has_submodule:
        weights |= {"submodule": 20, "hide in the submodule": 4}
    # Few kinds of acts in one sequence meet more often than all kinds would.
    chosen = {"commit", *chance.sample([name for name, weight in weights.items() if weight], _KINDS)}
    weights = {name: weight if name == "commit" else 5 for name, weight in weights.items() if name in chosen}
    acts = [Act("spawn", _numbers(chance))]
    for _ in range(chance.randint(*_STEPS)):
        kind = chance.choices(("agent", "person", "sm"), (55, 12, 33))[0]
        if kind == "agent":
            name = chance.choices(list(weights), list(weights.values()))[0]
        elif kind == "person":
            name = f"person: {chance.choice(PERSON_ACTS)}"
        else:
            name = chance.choices(list(_COMMANDS), list(_COMMANDS.values()))[0]
        acts.append(Act(name, _numbers(chance)))
    last = chance.choice(("rm", "rm", "rm --ended", "worktree prune", "merge"))
    acts += [Act(last, _numbers(chance)), Act("rm", _numbers(chance))]
    return Script(tuple(acts), has_submodule, chance.random() < 0.5)


def _numbers(chance: random.Random) -> tuple[int, int, int]:
    return chance.randrange(1000), chance.randrange(1000), chance.randrange(1000)


@dataclass(slots=True)
class _Tree:
    """The worktree of a session. `session_id`: None when the session is removed."""

    path: str
    branch: str
    session_id: str | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """`lost`: the faults, in words. `trace`: what was done."""

    lost: list[str] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)


@cache
def prepare() -> None:
    """Make once what all sequences need. For a process that forks the players."""
    load_making()
    play(Script((Act("spawn", (30, 0, 1)), Act("rm", (0, 1, 0))), has_submodule=True, fills=False))
    _template(has_submodule=False)


def play(wanted: Script) -> Outcome:
    """Play a sequence to its end or to its first loss."""
    with ExitStack() as stack:
        stack.enter_context(forked_makings())
        stack.enter_context(replaced((guards, "_PLAIN", guards._PLAIN | {"sh"})))
        ForkedMaking.deaths.clear()
        fills = "true" if wanted.fills and wanted.has_submodule else "false"
        instance = stack.enter_context(Instance(_MORE.format(submodules=fills)))
        instance.start_daemon()
        sequence = _Sequence(instance, has_submodule=wanted.has_submodule)
        stack.enter_context(sequence.temporary())
        for act in wanted.acts:
            sequence.carry_out(act)
            if sequence.outcome.lost:
                break
        return sequence.outcome


class _Sequence:
    def __init__(self, instance: Instance, *, has_submodule: bool) -> None:
        self._instance = instance
        self.outcome = Outcome()
        self._root = f"{instance.work}/all"
        self._app = f"{self._root}/app"
        _copy(_template(has_submodule=has_submodule), self._root)
        self._surveyor = Surveyor(self._root)
        self._trees: list[_Tree] = []
        self._changes = 0
        self._names = 0
        self._commands: dict[str, Callable[[Act], None]] = {
            "spawn": self._spawn,
            "merge": self._merge,
            "rm": self._rm,
            "rm --discard": self._discard,
            "rm --ended": lambda act: self._remove_all(act, "rm", "--ended", "--yes"),
            "prune": lambda act: self._remove_all(act, "prune", "--yes"),
            "worktree prune": lambda act: self._remove_all(act, "worktree", "prune", "--yes"),
            "forget": self._forget,
            "restart": self._restart,
        }

    @contextmanager
    def temporary(self) -> Iterator[None]:
        """Let what a dead command leaves be removed with the instance."""
        place = f"{self._instance.work}/tmp"
        os.mkdir(place)
        with replaced((tempfile, "tempdir", place)):
            yield

    def carry_out(self, act: Act) -> None:
        if (command := self._commands.get(act.kind)) is not None:
            command(act)
            return
        is_person = act.kind.startswith("person: ")
        tree = None if is_person else self._tree(act.numbers[2])
        if not is_person and tree is None:
            return
        top, branch = (self._app, "main") if tree is None else (tree.path, tree.branch)
        self._tell(f"{act} in {os.path.relpath(top, self._root)}")
        AGENT_ACTS[act.kind.removeprefix("person: ")][1](
            Hand(top, self._app, branch, act.numbers, self._change)
        )

    def _tree(self, number: int) -> _Tree | None:
        there = [tree for tree in self._trees if os.path.lexists(f"{tree.path}/.git")]
        return there[number % len(there)] if there else None

    def _session(self, number: int) -> _Tree | None:
        known = [tree for tree in self._trees if tree.session_id is not None]
        return known[number % len(known)] if known else None

    def _change(self) -> str:
        self._changes += 1
        return f"w{self._changes:04}x"

    def _tell(self, text: str) -> None:
        self.outcome.trace.append(text)

    # Commands

    def _spawn(self, act: Act) -> None:
        first, second, third = act.numbers
        name = _NAMES[first % len(_NAMES)]
        words = ["spawn", "Sleeper", "x", "--worktree", "--name", name]
        if second % 3 == 1:
            words += ["--base", (*BRANCHES, "HEAD~1", "t0")[third % 5]]
        if second % 3 == 2:
            words += ["--branch", (*BRANCHES, f"sm/{name}", f"sm/{_NAMES[third % 3]}")[third % 5]]
        cwd = self._app
        if third % 7 == 0 and (tree := self._tree(first)) is not None:
            cwd = tree.path
        if first // 10 % 10 == 0:
            ForkedMaking.deaths[:] = [None, second % 40]
        if first // 10 % 10 == 1:
            self._instance.drop_after(second * 2)
        self._judged(act, words, cwd)
        ForkedMaking.deaths.clear()
        self._awake()
        known = {tree.session_id for tree in self._trees}
        for session in self._sessions():
            if session["session_id"] not in known and (made := session["worktree"]):
                self._trees = [tree for tree in self._trees if tree.path != made["path"] or tree.session_id]
                self._trees.append(_Tree(made["path"], made["branch"], session["session_id"]))

    def _merge(self, act: Act) -> None:
        first, second, third = act.numbers
        if (tree := self._session(first)) is None:
            return
        words = ["merge", str(tree.session_id)]
        if third % 5 == 0 and (other := self._session(first + 1)) is not None and other is not tree:
            words.append(str(other.session_id))
        words += ((), (), ("--squash",), ("--rebase",), ("--check", "true"), ("--check", "false"))[second % 6]
        if third % 3 == 1:
            words += ["--onto", (*BRANCHES, "main")[third // 3 % 4]]
        at = self._tree(second) if third % 11 == 0 else None
        self._judged(act, words, self._app if at is None else at.path, death=self._death(act))

    def _rm(self, act: Act) -> None:
        if (tree := self._session(act.numbers[0])) is None:
            return
        chosen = [tree]
        if act.numbers[1] % 4 == 0 and (other := self._session(act.numbers[0] + 1)) is not tree and other:
            chosen.append(other)
        for each in chosen:
            self._instance.run("kill", str(each.session_id))
        self._judged(act, ["rm", *(str(each.session_id) for each in chosen)], death=self._death(act))
        self._find_removed()

    def _discard(self, act: Act) -> None:
        if (tree := self._session(act.numbers[0])) is None:
            return
        self._instance.run("kill", str(tree.session_id))
        refused = self._judged(act, ["rm", str(tree.session_id), "--discard"])
        if refused is not None and "--discard would delete" in refused:
            words = ["rm", str(tree.session_id), "--discard", "--yes"]
            self._judged(act, words, named=refused, of=tree, death=self._death(act))
        self._find_removed()

    def _remove_all(self, act: Act, *words: str) -> None:
        for number, tree in enumerate(self._trees):
            if tree.session_id is not None and act.numbers[0] >> number & 1:
                self._instance.run("kill", tree.session_id)
        self._judged(act, words, death=self._death(act))
        self._find_removed()

    def _forget(self, act: Act) -> None:
        """Remove a session by the API alone, as a client that knows of no worktree."""
        if (tree := self._session(act.numbers[0])) is None:
            return
        self._tell(f"{act}: {tree.path} stays without its session")
        self._instance.run("kill", str(tree.session_id))
        self._instance.post_as(None, f"/v1/sessions/{tree.session_id}/remove", {})
        self._find_removed()

    def _restart(self, act: Act) -> None:
        self._tell(str(act))
        self._instance.kill_daemon()
        self._awake()

    def _awake(self) -> None:
        """Let a daemon run that has nothing left to do."""
        self._instance.world.forget_drops()
        self._instance.run("ls")
        self._instance.settle()

    def _sessions(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = json.loads(self._instance.sm("ls", "-a", "--json"))
        return listed

    def _death(self, act: Act) -> int | None:
        chance = random.Random(repr(act))
        return chance.randrange(8) if chance.random() < _DIES else None

    def _find_removed(self) -> None:
        left = {session["session_id"] for session in self._sessions()}
        for tree in self._trees:
            if tree.session_id not in left:
                tree.session_id = None

    # Judgment

    def _judged(
        self,
        act: Act,
        words: Sequence[str],
        cwd: str | None = None,
        *,
        named: str = "",
        of: _Tree | None = None,
        death: int | None = None,
    ) -> str | None:
        """Run a command, which may die, and find what it has lost. Returns its output.

        `named`: the words of `--discard` about the work `of` a worktree.
        """
        before = self._surveyor.look()
        trees = {tree.path for tree in self._trees if os.path.lexists(tree.path)}
        done = run_until_death(death, lambda: self._instance.run(*words, cwd=Path(cwd or self._app)))
        end = "dies" if done is None else f"{done.returncode}: {done.stdout}{done.stderr}".rstrip()
        self._tell(f"{act}: sm {' '.join(words)}, death {death}: {end}".replace(f"{self._root}/", ""))
        after = self._surveyor.look()
        gone = {os.path.relpath(path, self._root) for path in trees if _is_removed(path)}
        if words[0] in ("rm", "prune", "worktree"):
            self._compare(before, after, gone, named, of)
        else:
            self._compare(before, after, set(), "", None)
        return None if done is None else done.stdout + done.stderr

    def _compare(self, before: Places, after: Places, gone: set[str], named: str, of: _Tree | None) -> None:
        inside = "" if of is None else os.path.relpath(of.path, self._root)
        for change in sorted(before.changes):
            if after.has(change):
                continue
            files, commits = before.files.get(change, set()), before.content.get(change, set())
            if not commits and all(_is_ignored(place, gone) for place in files):
                continue
            if of is not None and self._is_named(named, files, commits, inside):
                continue
            self.outcome.lost.append(f"change {change} of {sorted(files)} and commits {sorted(commits)}")
        left = _named_commits(named)
        for commit, places in before.commits.items():
            changes = self._surveyor.changes_of(commit)
            if commit in after.commits or all(change in after.content for change in changes):
                continue
            left -= 1
            if left >= 0:
                continue
            self.outcome.lost.append(f"commit {commit[:8]} of {sorted(places)} with {sorted(changes)}")

    def _is_named(self, named: str, files: set[str], commits: set[str], inside: str) -> bool:
        """True if the refusal has named these commits, or these files of no commit."""
        if commits:
            return "commit" in named
        for place in files:
            path = place.removeprefix(f"{inside}/")
            parts = path.split("/")
            above = ("/".join(parts[:count]) for count in range(1, len(parts) + 1))
            is_own = path != place or "/index/" in place or "/modules/" in place
            is_told = " more" in named or any(part in named for part in above) or _is_index(place, named)
            if not is_own or not is_told:
                return False
        return True


def _named_commits(named: str) -> int:
    """The number of commits that a refusal names."""
    found = sum(map(int, re.findall(r"(\d+) commits? in", named)))
    for copy in re.findall(r"submodule [^;]*?: [0-9a-f]{7}[^;]*", named):
        found += 1 + sum(map(int, re.findall(r" and (\d+) more", copy)))
    return found


def _is_index(place: str, named: str) -> bool:
    path = place.partition("/index/")[2]
    return path != "" and (path in named or "staged changes" in named)


def _is_removed(path: str) -> bool:
    """True for a worktree that is gone, and for one whose removal has begun and died."""
    if not os.path.lexists(f"{path}/.git"):
        return True
    if os.path.isdir(f"{path}/.git"):  # another repository is in its place
        return False
    own = Path(path, ".git").read_text(errors="surrogateescape").strip().removeprefix("gitdir: ")
    return is_half_removed(own)


def _is_ignored(place: str, gone: set[str]) -> bool:
    """True for a file that git ignores, in a worktree that is gone."""
    above = next((path for path in gone if place.startswith(f"{path}/")), None)
    return above is not None and re.search(r"\.ign$", place) is not None


# The repository


@cache
def _template(*, has_submodule: bool) -> str:
    """A directory with the repository `app`, and the source of its submodule."""
    root = tempfile.mkdtemp(prefix="sm-template-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    app = f"{root}/app"
    os.makedirs(f"{app}/d")
    _init(app)
    for number, name in enumerate(("f0", "f1", "d/f2", "d/f3")):
        Path(app, name).write_text("".join(f"{number} {line}\n" for line in range(3)))
    Path(app, ".gitignore").write_text("*.ign\nvendor/\nshared\n")
    os.mkdir(f"{app}/shared")
    Path(app, "shared/cache").write_text("cache\n")
    _commit_all(app)
    if has_submodule:
        source = f"{root}/source"
        os.mkdir(source)
        _init(source)
        Path(source, "s").write_text("s\n")
        Path(source, ".gitignore").write_text("vendor/\n")
        _commit_all(source)
        run_git(app, "submodule", "add", "-q", "../source", "sub")
        _commit_all(app)
    Path(app, "f0").write_text("0 0\n0 1\n0 2\n0 3\n")
    _commit_all(app)
    run_git(app, "branch", "release")
    return root


def _init(directory: str) -> None:
    run_git(directory, "init", "-q", "-b", "main", "--template=")
    for key, value in (("user.name", "x"), ("user.email", "x@localhost"), ("gc.auto", "0")):
        run_git(directory, "config", key, value)


def _commit_all(directory: str) -> None:
    run_git(directory, "add", ".")
    run_git(directory, "commit", "-q", "-m", "first")


def _copy(template: str, root: str) -> None:
    shutil.copytree(template, root, symlinks=True)
    for config in (f"{root}/app/.git/config", f"{root}/app/.git/modules/sub/config"):
        with suppress(FileNotFoundError):
            text = Path(config).read_text()
            Path(config).write_text(text.replace(template, root))
