"""Finds where each change and each commit below a directory exists, by reading files and asking git.

Each change is a word of its own, which its author has put in a line of a file.
"""

import os
import re
import subprocess
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import field

from sm.core.dataclass import dataclass

_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/nonexistent",
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "x",
    "GIT_AUTHOR_EMAIL": "x@localhost",
    "GIT_COMMITTER_NAME": "x",
    "GIT_COMMITTER_EMAIL": "x@localhost",
    "GIT_EDITOR": ":",
}
_CHANGE = re.compile(rb"w\d{4}x")
_READ_MAX = 1 << 16


def run_git(directory: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run git by hand, also where it fails."""
    return subprocess.run(
        ["git", "-c", "protocol.file.allow=always", "-C", directory, *arguments],
        env=_ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        check=False,
    )


@dataclass(frozen=True, slots=True)
class Places:
    """`files`: the files with each change, from the root. `commits`: the git directories that reach each commit."""

    files: dict[str, set[str]] = field(default_factory=dict)
    commits: dict[str, set[str]] = field(default_factory=dict)
    content: dict[str, set[str]] = field(default_factory=dict)
    """The commits that are reached and have each change."""

    def has(self, change: str) -> bool:
        return change in self.files or change in self.content

    @property
    def changes(self) -> Collection[str]:
        return self.files.keys() | self.content.keys()


class Surveyor:
    """Looks at all that is below a directory. Remembers what is in a commit."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._changes_of: dict[str, frozenset[str]] = {}

    def look(self) -> Places:
        found = Places()
        for git_directory in sorted(set(self._scan(found))):
            self._ask(git_directory, found)
        return found

    def changes_of(self, commit: str) -> Collection[str]:
        """The changes in the commit that none of its parents has."""
        return self._changes_of[commit]

    def _scan(self, found: Places) -> Iterator[str]:
        """Note the changes in files. Yields the git directories."""
        for directory, names, files in os.walk(self._root):
            if ".git" in names:
                names.remove(".git")
                yield from _git_directories(f"{directory}/.git")
            if {"objects", "refs"} <= set(names) and "HEAD" in files:
                names.clear()
                yield directory
                continue
            for name in files:
                path = f"{directory}/{name}"
                shown = os.path.relpath(path, self._root)
                for change in _changes_in(path):
                    found.files.setdefault(change, set()).add(shown)

    def _ask(self, git_directory: str, found: Places) -> None:
        more = [*_shas(f"{git_directory}/logs/refs/stash"), *_own_refs(git_directory)]
        where = ("--git-dir", git_directory, "--work-tree", "/")  # that of a submodule may be gone
        listed = run_git("/", *where, "rev-list", "--all", *more)
        assert listed.returncode == 0, f"{git_directory}: {listed.stderr}"
        commits = listed.stdout.split()
        self._learn(where, [commit for commit in commits if commit not in self._changes_of])
        self._note_staged(git_directory, found)
        shown = os.path.relpath(git_directory, self._root)
        for commit in commits:
            found.commits.setdefault(commit, set()).add(shown)
            for change in self._changes_of[commit]:
                found.content.setdefault(change, set()).add(commit)

    def _learn(self, where: Sequence[str], commits: list[str]) -> None:
        if not commits:
            return
        options = ("--no-walk", "-p", "-m", "-U0", "--no-renames", "--no-ext-diff", "--text")
        told = run_git("/", *where, "log", *options, "--format=%x00%H", *commits, "--")
        assert told.returncode == 0, told.stderr
        for part in told.stdout.split("\0")[1:]:
            commit, _, patch = part.partition("\n")
            added = "\n".join(line for line in patch.split("\n") if line.startswith("+"))
            words = frozenset(word.decode() for word in _CHANGE.findall(added.encode(errors="replace")))
            self._changes_of[commit] = self._changes_of.get(commit, frozenset()) | words

    def _note_staged(self, git_directory: str, found: Places) -> None:
        """Note the changes that only an index has."""
        for own in (git_directory, *_below(f"{git_directory}/worktrees")):
            if not os.path.lexists(f"{own}/{STAGED}"):
                continue
            listed = run_git(own, "--git-dir", own, "ls-files", "--stage").stdout
            for line in listed.split("\n"):
                if line.startswith("100"):
                    text = run_git(own, "--git-dir", own, "cat-file", "blob", line.split()[1]).stdout
                    for word in _CHANGE.findall(text.encode(errors="replace")):
                        place = f"{os.path.relpath(own, self._root)}/index/{line.partition(chr(9))[2]}"
                        found.files.setdefault(word.decode(), set()).add(place)


STAGED = "looked-at"
"""A file in the git directory of a worktree whose index may have changes that its files have not."""


def _git_directories(git_directory: str) -> Iterator[str]:
    """The git directory and those of its submodules."""
    yield git_directory
    for around in (git_directory, *_below(f"{git_directory}/worktrees")):
        yield from _below(f"{around}/modules")


def _below(directory: str) -> list[str]:
    try:
        return [entry.path for entry in os.scandir(directory) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _changes_in(path: str) -> set[str]:
    with suppress(OSError):
        if not os.path.islink(path):
            with open(path, "rb") as file:
                return {word.decode() for word in _CHANGE.findall(file.read(_READ_MAX))}
    return set()


def _own_refs(git_directory: str) -> list[str]:
    """The commits of the refs that only one worktree has."""
    found = []
    for own in _below(f"{git_directory}/worktrees"):
        for directory, _, files in os.walk(f"{own}/refs"):
            for name in files:
                with open(f"{directory}/{name}", encoding="utf-8") as file:
                    found.append(file.read().strip())
    return found


def _shas(log: str) -> list[str]:
    """The newer commit of each entry of a log of a ref."""
    try:
        with open(log, encoding="utf-8", errors="replace") as file:
            return [line.split(" ", 2)[1] for line in file]
    except OSError:
        return []
