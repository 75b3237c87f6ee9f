"""The worktrees that sm makes for sessions: what a caller wishes, what is planned, what was made."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from sm.capabilities.worktrees.rules import is_copy
from sm.core.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class TreeWish:
    """The worktree that a caller wishes for a new session."""

    base: str | None = None
    """A commit in any form that git knows, or None for the one that is checked out."""
    branch: str | None = None
    """A branch that exists, or the name of the new one. None for the name of the configuration."""
    pull_request: int | None = None
    """The number of a pull request whose head is the base."""
    remote_branch: str | None = None
    """A branch of a remote, such as `feature` or `origin/feature`, which the new branch follows."""
    remote: str | None = None
    """The name of the remote with the pull request or the branch, or None if that is clear."""
    copy: bool = False
    """A copy of a directory without version control, in place of a worktree."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A ref of a remote that is fetched before the worktree is made."""

    remote: str
    refs: Sequence[str]
    """The first of them that the remote has is taken."""
    kept: str
    """The local ref that keeps it."""
    what: str
    """Its name for a person: `pull request 12`."""


@dataclass(frozen=True, slots=True)
class TreeCommands:
    """Commands of the shell that run in a worktree: when it is new, and before it is removed."""

    setup: Sequence[str] = ()
    teardown: Sequence[str] = ()
    teardown_within_s: float = 300.0


@dataclass(frozen=True, slots=True)
class PlannedTree:
    """A worktree to be made."""

    path: str
    branch: str
    directory: str
    """The working directory of the session: `path`, or a directory in it."""
    repository: str
    """The main directory of the repository. For a bare one, the directory around it."""
    common: str
    """The git directory that all worktrees of the repository share."""
    source: str
    """The worktree or the directory from which it is made."""
    start: str = ""
    """The commit that it begins with. Empty until it is fetched, and for a branch without commits."""
    is_new_branch: bool = True
    fetched: Fetched | None = None
    follows: tuple[str, str] | None = None
    """The remote and its branch that the new branch follows."""
    planned_at: str = ""
    """When no sandboxed session could have written what git uses."""
    umask: int = 0o022
    """The file mode creation mask of the files."""
    commands: TreeCommands = field(default_factory=TreeCommands)
    """Chosen when the worktree is made, so that later changes of the configuration do not matter."""

    @property
    def is_copy(self) -> bool:
        """True for a copy of the directory `repository`, which has no git."""
        return is_copy(self.path, self.common)


@dataclass(frozen=True, slots=True)
class TreeFiles:
    """The files that come along: paths in the repository, as of the section `worktrees` of config.yaml."""

    copy: Sequence[str] = ()
    link: Sequence[str] = ()
    submodules: bool = False
    """Fill the submodules."""


@dataclass(frozen=True, slots=True)
class MadeTree:
    """A worktree that was made."""

    start: str
    copied: int = 0
    """The number of copied files."""
    copied_bytes: int = 0
    linked: Sequence[str] = ()
    notes: Sequence[str] = field(default_factory=tuple)
    """Facts about it for a person, such as files that were not copied."""
    is_set_up: bool = True
    """False if its set-up has failed, or was ended."""


def planned_from(fields: Mapping[str, Any]) -> PlannedTree:
    """The inverse of `dataclasses.asdict`."""
    fetched, follows = fields.get("fetched"), fields.get("follows")
    return PlannedTree(
        **{
            **fields,
            "fetched": None if fetched is None else Fetched(**fetched),
            "follows": None if follows is None else (follows[0], follows[1]),
            "commands": TreeCommands(**fields.get("commands", {})),
        }
    )
