"""Publishes the branch of a session in a remote repository, for `sm pr`."""

import shlex
from dataclasses import replace

from sm.capabilities.worktrees.git.calls import git, git_paths
from sm.capabilities.worktrees.git.pushing import (
    PushRemote,
    PushState,
    RemoteBranch,
    keep_pushed,
    push,
    push_remote,
)
from sm.capabilities.worktrees.merge_sources import branch_to_merge, own_branch
from sm.capabilities.worktrees.rules import is_branch
from sm.capabilities.worktrees.work import Work, quoted, refuse_sandboxed
from sm.core.dataclass import dataclass
from sm.core.lines import plural
from sm.core.session_lines import label, name_to_type
from sm.core.text import folded
from sm.errors import IllegalState, UsageError

_COMMITS_MAX = 100


@dataclass(frozen=True, slots=True)
class BranchCommit:
    """A commit of a session, with its message as the agent has written it."""

    subject: str
    body: str


@dataclass(frozen=True, slots=True)
class Publication:
    """The branch of a session, and the remote repository that gets it."""

    work: Work
    branch: str
    remote: PushRemote
    commits: tuple[BranchCommit, ...]
    """The newest ones since the session began, oldest first."""
    there: RemoteBranch

    @property
    def has_news(self) -> bool:
        """True if the remote lacks commits of the branch."""
        return self.there.state is not PushState.SAME

    def count(self) -> int:
        """The number of commits that the remote lacks."""
        if self.there.tip is None:
            return len(self.commits)
        newer = f"{self.there.tip}..refs/heads/{self.branch}"
        return int(git(self.work.top, "rev-list", "--count", newer, "--"))

    @property
    def command(self) -> str:
        """The command of git with which a person pushes."""
        ref = shlex.quote(f"refs/heads/{self.branch}")
        return f"git -C {quoted(self.remote.directory)} push {shlex.quote(self.remote.name)} {ref}"


def plan_publication(work: Work, remote_name: str | None) -> Publication:
    """Check the work as `sm merge` does, and ask the remote whether it would take the branch. Changes nothing.

    Raises IllegalState, UsageError, NotPermitted and ExternalError.
    """
    own_branch(work)
    if work.is_copy:
        raise IllegalState(
            f"{label(work.session)} works in a copy of a directory without git, which has no remote repository",
            f"sm merge {name_to_type(work.session)}",
        )
    branch = branch_to_merge(work, "a pull request")
    if not is_branch(branch):
        raise IllegalState(
            f"{label(work.session)} has a branch that no remote could have: {folded(branch, 200)!r}"
        )
    remote = push_remote(work.top, remote_name)
    if not is_branch(remote.name):
        raise UsageError(f"the remote has no name for git: {folded(remote.name, 80)!r}")
    if remote.place is not None:
        refuse_sandboxed(work.client, work.session, {remote.place})
    work = replace(work, branch=branch)
    commits = _commits(work, branch)
    if not commits:
        raise IllegalState(
            f"{label(work.session)} has no commits for a pull request on {folded(branch, 200)}"
        )
    publication = Publication(work, branch, remote, commits, push(work.top, remote, branch, trial=True))
    if publication.has_news:
        _refuse_large_files(publication)
    return publication


def publish(publication: Publication) -> None:
    """Push the branch. Raises IllegalState and ExternalError."""
    top, remote, branch = publication.work.top, publication.remote, publication.branch
    if publication.has_news:
        push(top, remote, branch)
        keep_pushed(top, remote, branch)


def _commits(work: Work, branch: str) -> tuple[BranchCommit, ...]:
    log = ("log", "--reverse", f"--max-count={_COMMITS_MAX}", "--no-merges", "-z", "--format=%s%n%b")
    words = git_paths(work.top, *log, f"{work.base}..refs/heads/{branch}", "--")
    parts = (word.partition("\n") for word in words)
    return tuple(BranchCommit(subject, body.strip()) for subject, _, body in parts)


def _refuse_large_files(publication: Publication) -> None:
    """Raise IllegalState if the push would publish pointers of git-lfs without their files: its hook does not run."""
    top, work = publication.work.top, publication.work
    changed = git_paths(
        top,
        "diff",
        "--name-only",
        "-z",
        "--diff-filter=d",
        work.base,
        f"refs/heads/{publication.branch}",
        "--",
    )
    if not changed:
        return
    text = b"".join(path.encode("utf-8", "surrogateescape") + b"\0" for path in changed)
    words = git_paths(top, "check-attr", "-z", "--stdin", "filter", text=text)
    large = [path for path, value in zip(words[::3], words[2::3], strict=False) if value == "lfs"]
    if large:
        raise IllegalState(
            f"{plural(len(large), 'file')} of git-lfs would not be uploaded, because no hook runs: "
            f"{folded(large[0], 200)}",
            f"push the branch yourself, then repeat: {publication.command}",
        )
