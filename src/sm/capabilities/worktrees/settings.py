"""The section `worktrees` of config.yaml: the directories and the branches of agents with a worktree of their own."""

import os
import re
import warnings
from typing import Annotated

from pydantic import AfterValidator, Field

from sm.capabilities.worktrees.rules import BRANCH, PLACE, is_branch
from sm.section import Section, without_nul

_NAMES = ("name", "repo")
_PATHS_MAX = 50
_COMMANDS_MAX = 20
_COMMAND_MAX = 4_000


def _filled(value: str) -> str:
    """Replace the names in braces by words. Raises ValueError for another name."""
    for name in re.findall(r"\{([^{}]*)\}", without_nul(value)):
        if name not in _NAMES:
            raise ValueError(f"has {{{name}}}: only {{name}} and {{repo}} are replaced")
    return value.replace("{name}", "login").replace("{repo}", "app")


def _directory(value: str) -> str:
    if not _filled(value).strip("/"):
        raise ValueError("is no directory for worktrees")
    return value


def _branch(value: str) -> str:
    if "{name}" not in value:
        raise ValueError("has no {name}, by which the branches of agents differ")
    if not is_branch(_filled(value)):
        raise ValueError("is no name of a branch")
    return value


def _paths(value: tuple[str, ...]) -> tuple[str, ...]:
    if len(value) > _PATHS_MAX:
        raise ValueError(f"must not contain more than {_PATHS_MAX} paths")
    return value


def _path(value: str) -> str:
    parts = without_nul(value).split("/")
    if os.path.isabs(value) or ".." in parts or not value.strip("/.") or ".git" in parts:
        raise ValueError("is no path inside of a repository, such as config/local.yml")
    return value


def _commands(value: tuple[str, ...]) -> tuple[str, ...]:
    if len(value) > _COMMANDS_MAX:
        raise ValueError(f"must not contain more than {_COMMANDS_MAX} commands")
    return value


def _command(value: str) -> str:
    if not without_nul(value).strip() or len(value) > _COMMAND_MAX:
        raise ValueError(f"is no command of 1 to {_COMMAND_MAX:,} characters")
    return value


warnings.filterwarnings("ignore", 'Field name "copy" .*shadows', UserWarning)
TreePlace = Annotated[str, AfterValidator(_directory)]
BranchPattern = Annotated[str, AfterValidator(_branch)]
RepositoryPaths = Annotated[tuple[Annotated[str, AfterValidator(_path)], ...], AfterValidator(_paths)]
ShellCommands = Annotated[tuple[Annotated[str, AfterValidator(_command)], ...], AfterValidator(_commands)]


class WorktreeSettings(Section):
    """Git worktrees of agents (`sm spawn --worktree`)."""

    dir: TreePlace = PLACE
    """The directory of the worktrees, from the main directory of the repository, such as ../{repo}-worktrees/{name}.
    {repo} is the name of that directory, {name} that of the worktree. Without {name}, it is added at the end."""
    branch: BranchPattern = BRANCH
    """The new branch of a worktree."""
    copy: RepositoryPaths = ()  # type: ignore[assignment]  # of BaseModel.copy, which is deprecated
    """Files that git does not track and that a new worktree gets copies of, such as .env and config/local.yml. *, ?
    and ** are patterns. The files of .worktreeinclude in the repository come along too."""
    link: RepositoryPaths = ()
    """Paths that git ignores and that a new worktree gets links to, such as node_modules. A command that changes
    them through the link, such as npm ci in setup, changes those of the repository."""
    submodules: bool = False
    """Fill the submodules of a new worktree: from the repository where it has them, else from their remote
    repositories."""
    setup: ShellCommands = ()
    """Shell commands that run in a new worktree before its agent starts, such as npm ci: in the agent's sandbox and
    with its environment. If one fails, the agent does not start."""
    teardown: ShellCommands = ()
    """Shell commands that run in a worktree before sm removes it. If one fails, the worktree is kept."""
    setup_timeout_s: float = Field(default=1800, ge=1, le=86_400, allow_inf_nan=False)
    """Seconds in which all commands of setup must end."""
    teardown_timeout_s: float = Field(default=300, ge=1, le=86_400, allow_inf_nan=False)
    """Seconds in which all commands of teardown must end."""
    copy_max_mb: int = Field(default=4000, ge=1, le=100_000_000)
    """Megabytes of all files of a directory without version control of which sm spawn --copy makes a copy."""
    timeout_s: float = Field(default=120, ge=1, le=86_400, allow_inf_nan=False)
    """Seconds in which a worktree must be made. A repository gets one second more for each 1,000 files."""


class WorktreesSection(Section):
    """The keys of config.yaml for worktrees."""

    worktrees: WorktreeSettings = WorktreeSettings()
    """Git worktrees of agents."""


class ProjectCommands(Section):
    """The keys of a project for its worktrees."""

    setup: ShellCommands = ()
    teardown: ShellCommands = ()


class ProjectSection(Section):
    """The content of .sm/project.yaml."""

    worktrees: ProjectCommands = ProjectCommands()


CONFIG = WorktreesSection
