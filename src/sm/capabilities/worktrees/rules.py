"""The directory and the branch of a git worktree that sm makes for a session. Pure.

The code that makes, recognizes and removes worktrees shares these rules.
"""

import os
import re

from sm.operations.hints import Argument, Hint

PLACE = ".sm/worktrees"
"""Below the repository: the agent's trust in the repository covers it, and a container has it mounted."""
BRANCH = "sm/{name}"
"""The pattern of the branches of worktrees, unless the configuration has another one."""
ANOTHER_NAME = Hint("choose another name: ", Argument("name", "NAME"))
ANOTHER_BRANCH = Hint("choose another branch: ", Argument("branch", "NAME"))
# Excludes the names that git refuses (git-check-ref-format(1)).
_NAME = r"(?!.*\.(?:\.|lock$|$))[a-z0-9][a-z0-9._-]{0,63}"
_PATH = re.compile(rf"((?:/.+)?)/{re.escape(PLACE)}/({_NAME})")


def is_name(text: str) -> bool:
    return re.fullmatch(_NAME, text) is not None


def is_branch(text: str) -> bool:
    """True for a name that git allows for a branch (git-check-ref-format(1))."""
    return not (
        text in ("@", "HEAD")
        or text.startswith("-")
        or text.endswith(".")
        or re.search(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{", text)
        or any(not part or part.startswith(".") or part.endswith(".lock") for part in text.split("/"))
    )


def branch_name(pattern: str, main: str, name: str) -> str:
    """The branch of the worktree `name` by the pattern of the configuration. `main`: that of the repository."""
    return pattern.replace("{repo}", main.rpartition("/")[2] or "root").replace("{name}", name)


def placed(main: str, directory: str, name: str) -> str:
    """The path of the worktree `name` by the directory of the configuration. `main`: that of the repository."""
    pattern = directory if "{name}" in directory else f"{directory.rstrip('/')}/{{name}}"
    filled = pattern.replace("{repo}", main.rpartition("/")[2] or "root").replace("{name}", name)
    return os.path.normpath(os.path.join(main, os.path.expanduser(filled)))


def repository_of(path: str, branch: str) -> str | None:
    """The directory of the repository; None if sm did not make the worktree. `path` is normalized."""
    match = _PATH.fullmatch(path)
    return (match[1] or "/") if match is not None and branch == f"sm/{match[2]}" else None


def outer_repository(top: str) -> str:
    """The directory for worktrees of a repository without a main worktree around its `.git`.

    If `top` is a worktree itself, this is the directory outside, so that worktrees are not nested.
    """
    match = _PATH.fullmatch(top)
    return top if match is None else match[1] or "/"


def project_of(directory: str) -> str:
    """The repository around a worktree of sm in which `directory` lies; other directories stay unchanged."""
    match = re.match(rf"((?:/.+?)?)/{re.escape(PLACE)}/{_NAME}(?:/|$)", directory)
    return directory if match is None else match[1] or "/"


def map_to_repository(working_dir: str, path: str, branch: str) -> str:
    """Map a directory in the worktree at `path` to its directory in the repository; others stay unchanged."""
    main = repository_of(path, branch)
    return working_dir if main is None else f"{main.rstrip('/')}{working_dir[len(path) :]}" or "/"


def is_copy(path: str, git_directory: str | None) -> bool:
    """True for a copy of a directory. The git directory of a worktree is that of its repository, elsewhere."""
    return git_directory == f"{path}/.git"
