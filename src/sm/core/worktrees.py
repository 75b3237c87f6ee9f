"""The directory and the branch of a worktree that sm makes for a session. Pure.

One rule for who makes one, who believes that one was made, and who removes it.
"""

import re

PLACE = ".sm/worktrees"
"""Below the repository: claude trusts what lies in a directory that it trusts, and a container has it mounted."""
_NAME = (
    r"(?!.*\.(?:\.|lock$|$))[a-z0-9][a-z0-9._-]{0,63}"  # without what git refuses (git-check-ref-format(1))
)
_PATH = re.compile(rf"((?:/.+)?)/{re.escape(PLACE)}/({_NAME})")


def is_name(text: str) -> bool:
    return re.fullmatch(_NAME, text) is not None


def placed(main: str, name: str) -> tuple[str, str]:
    """The path and the branch of the worktree `name` of the repository in `main`."""
    return f"{main.rstrip('/')}/{PLACE}/{name}", f"sm/{name}"


def main_of(path: str, branch: str) -> str | None:
    """The directory of the repository; None for what is no worktree of ours. `path` is normal."""
    found = _PATH.fullmatch(path)
    return (found[1] or "/") if found is not None and branch == f"sm/{found[2]}" else None


def above(top: str) -> str:
    """Where the worktrees of a repository lie that has no main worktree around its `.git`: not within one of them."""
    found = _PATH.fullmatch(top)
    return top if found is None else found[1] or "/"


def outside(working_dir: str, path: str, branch: str) -> str:
    """The directory of the repository that `working_dir` stands for in the worktree at `path`; itself if in none."""
    main = main_of(path, branch)
    return working_dir if main is None else f"{main.rstrip('/')}{working_dir[len(path) :]}" or "/"


def within(path: str, directory: str) -> bool:
    """Whether `path` is `directory` or lies in it; both absolute and without links."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def overlap(one: str, other: str) -> bool:
    """Whether one of two directories is the other or lies in it; both absolute and without links."""
    return within(one, other) or within(other, one)
