"""Adds linked worktrees to a repository through the git directory that git gets here, whose path nobody else knows."""

import os
import shutil
from contextlib import suppress

from sm.capabilities.worktrees.git.calls import git


def add_linked(source: str, common: str, path: str, *words: str) -> str:
    """Add an empty worktree at `path`. `words`: options and the commit of `git worktree add`.

    Returns the git directory of the worktree. Raises ExternalError, and OSError.
    """
    git(source, "worktree", "add", "--quiet", "--no-checkout", *words)
    # git wrote the path of the directory that it got.
    with open(f"{path}/.git", encoding="utf-8", errors="surrogateescape") as file:
        own = f"{common}/worktrees/{os.path.basename(file.read().rstrip())}"
    write_links(path, own)
    return own


def missing_linked(common: str, path: str) -> list[str]:
    """The git directories that the repository has for a worktree at this path, whose directory is missing."""
    if os.path.lexists(f"{path}/.git"):
        return []
    found = []
    with suppress(OSError), os.scandir(f"{common}/worktrees") as entries:
        for entry in entries:
            with (
                suppress(OSError),
                open(f"{entry.path}/gitdir", encoding="utf-8", errors="surrogateescape") as file,
            ):
                if file.read().rstrip("\n") == f"{path}/.git":
                    found.append(entry.path)
    return found


def forget_linked(common: str, path: str) -> None:
    """Let the repository forget the worktree at this path, whose directory is missing, and no other one."""
    for own in missing_linked(common, path):
        shutil.rmtree(own, ignore_errors=True)


def write_links(path: str, own: str) -> None:
    """Let the worktree and its git directory name each other."""
    _write(f"{own}/gitdir", f"{path}/.git\n")
    _write(f"{path}/.git", f"gitdir: {own}\n")


def write_head(own: str, branch: str) -> None:
    """Let the git directory of a worktree be on a branch, which may have no commit."""
    _write(f"{own}/HEAD", f"ref: refs/heads/{branch}\n")
    _write(f"{own}/commondir", "../..\n")


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
