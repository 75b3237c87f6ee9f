"""Finds changed files that `git status` does not show, because somebody has told git not to look at them."""

import os

from sm.capabilities.worktrees.git.calls import git, git_paths


def hidden_changes(path: str) -> list[str]:
    """Changed files that git was told to take for unchanged (`update-index --assume-unchanged`, `--skip-worktree`)."""
    flagged = [
        name
        for tag, name in (entry.split(" ", 1) for entry in git_paths(path, "ls-files", "-v", "-z"))
        if (tag.islower() or tag == "S") and os.path.lexists(f"{path}/{name}")
    ]
    if not flagged:
        return []
    stored = {}
    for entry in git_paths(path, "ls-files", "--stage", "-z"):
        facts, _, name = entry.partition("\t")
        stored[name] = facts.split(" ")[1]
    return [name for name in flagged if _blob(path, name) != stored.get(name)]


def _blob(path: str, name: str) -> str:
    """The object that git would store for a file."""
    if os.path.islink(f"{path}/{name}"):
        return git(path, "hash-object", "--stdin", text=os.fsencode(os.readlink(f"{path}/{name}")))
    return git(path, "hash-object", f"--path={name}", "--", f"{path}/{name}")
