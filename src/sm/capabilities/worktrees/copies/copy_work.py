"""Finds the work in a copy that its directory does not have, and removes copies without any."""

import os
import shutil
import stat
from collections.abc import Iterator, Sequence

from sm.capabilities.worktrees.copies.bases import (
    REMOVAL,
    Change,
    TreeEntry,
    changes_between,
    copy_base,
    refuse_other_repository,
)
from sm.capabilities.worktrees.copies.directories import opened
from sm.capabilities.worktrees.git.calls import git, is_in_operation, repository_around
from sm.capabilities.worktrees.git.hidden_changes import hidden_changes
from sm.capabilities.worktrees.git.long_commands import Report
from sm.capabilities.worktrees.git.present_files import tree_of_files
from sm.capabilities.worktrees.git.submodules import submodules
from sm.capabilities.worktrees.nested_repositories import nested_work
from sm.capabilities.worktrees.work_parts import UNFINISHED, WorkPart, files_part
from sm.core.lines import plural
from sm.core.text import folded
from sm.errors import ExternalError, IllegalState
from sm.linux.mount_points import mount_points
from sm.linux.repositories import has_commit
from sm.paths import is_within

_SHOWN_MAX = 5
_TIPS_MAX = 100
"""Branches, tags and stashes whose files are compared with the directory. Others count as work."""


def copy_work(path: str, directory: str, start: str | None) -> list[WorkPart]:
    """Describe the work in the copy that its directory does not have. Raises IllegalState and ExternalError."""
    if _is_nearly_removed(path):
        return []
    is_removed = os.path.lexists(f"{path}/.git/{REMOVAL}")
    base = copy_base(path, start)
    repository = repository_around(path)
    shown = folded(directory, 4096)
    if not os.path.isdir(directory) or os.path.realpath(directory) != directory:
        return [WorkPart(f"all its files: {shown} is gone")]
    found = [WorkPart(UNFINISHED)] if is_in_operation(repository.own) else []
    changes = changes_between(path, base, tree_of_files(path))
    lost = [
        c.path
        for c in _missing(directory, changes)
        if not (is_removed and not os.path.lexists(f"{path}/{c.path}"))
    ]
    if lost:
        text = f"{plural(len(lost), 'change')} that {shown} does not have ({_named(lost)})"
        found.append(files_part(text, lost))
    if hidden := hidden_changes(path):
        text = f"changes that git was told not to look at ({_named(hidden)})"
        found.append(files_part(text, hidden))
    found += _lost_commits(path, directory, base, has_head=has_commit(repository))
    found += map(WorkPart, nested_work(path, submodules(path)))
    return found


def refuse_removal(path: str) -> None:
    """Raise IllegalState for a copy that cannot be removed as a whole."""
    if _is_nearly_removed(path):
        return
    refuse_other_repository(path)
    if any(os.path.isdir(os.path.dirname(top)) for top in _linked(f"{path}/.git/worktrees")):
        raise IllegalState("its git directory belongs to other worktrees too")
    for mount in mount_points(os.getpid()) or ():
        if is_within(mount, path):
            raise IllegalState(f"something is mounted at {folded(mount, 4096)}")


def _is_nearly_removed(path: str) -> bool:
    """True if a removal was stopped when all files of the copy were gone, with its git directory or after it."""
    try:
        left = os.listdir(path)
    except OSError:  # git says why, as it does not find its directory there
        return False
    return not left or (left == [".git"] and os.path.lexists(f"{path}/.git/{REMOVAL}"))


def remove_copy(path: str, report: Report = lambda step, percent: None) -> None:
    """Remove a copy with all its files. A removal that was stopped halfway can be continued. Raises ExternalError."""
    own = f"{path}/.git"
    try:
        if not os.listdir(path):
            os.rmdir(path)
            return
        os.close(os.open(f"{own}/{REMOVAL}", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o666))
        _make_removable(path)
        for top, last in ((path, ".git"), (own, REMOVAL)):
            for name in os.listdir(top):
                if name != last:
                    report("removing the copy", None)
                    _remove(f"{top}/{name}")
        _remove(own)
        os.rmdir(path)
    except OSError as error:
        what = folded(os.fsdecode(error.filename or path), 200)
        raise ExternalError(f"cannot remove {what}: {error.strerror}") from None


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def _make_removable(path: str) -> None:
    """Allow the owner to delete what is in directories that were read-only."""
    for directory, names, _ in os.walk(path):
        for name in names:
            inner = f"{directory}/{name}"
            mode = os.lstat(inner).st_mode
            if stat.S_ISDIR(mode) and mode & stat.S_IRWXU != stat.S_IRWXU:
                os.chmod(inner, stat.S_IMODE(mode) | stat.S_IRWXU)


def _missing(directory: str, changes: Sequence[Change]) -> Iterator[Change]:
    """The changes that the directory does not have."""
    try:
        with opened(directory, "") as place:
            for change in changes:
                found = place.look(change.path)
                if (found if isinstance(found, TreeEntry) else None) != change.after:
                    yield change
    except OSError as error:
        raise ExternalError(f"{folded(directory, 4096)} cannot be read: {error.strerror}") from None


def _lost_commits(path: str, directory: str, base: str, *, has_head: bool) -> Iterator[WorkPart]:
    """Describe the commits whose changes the directory does not have."""
    tips, known = (["HEAD"] if has_head else []), [base]
    kinds = "%(if)%(*objecttype)%(then)%(*objecttype)%(else)%(objecttype)%(end) %(refname)"
    for line in filter(None, git(path, "for-each-ref", f"--format={kinds}").split("\n")):
        kind, _, ref = line.partition(" ")
        if ref.startswith("refs/sm/"):
            continue
        if kind == "commit":
            tips.append(ref)
        else:
            yield WorkPart(f"the object of {folded(ref, 200)}")
    if "refs/stash" in tips:
        tips += git(path, "log", "--walk-reflogs", "--format=%H", "refs/stash", "--").split()
    if not tips or not git(path, "rev-list", "--max-count=1", *tips, "--not", base, "--"):
        return
    for tip in tips[:_TIPS_MAX]:
        tree = git(path, "rev-parse", "--verify", f"{tip}^{{tree}}")
        if not any(_missing(directory, changes_between(path, base, tree))):
            known.append(tip)
    commits = git(path, "rev-list", *tips, "--not", *known, "--").split()
    if commits:
        newest = git(path, "log", "--max-count=1", "--format=%h %s", commits[0], "--")
        more = f" and {len(commits) - 1} more" if len(commits) > 1 else ""
        shown = folded(directory, 4096)
        text = f"{plural(len(commits), 'commit')} whose changes {shown} does not have ({folded(newest, 100)}{more})"
        yield WorkPart(text, commits)


def _linked(worktrees: str) -> Iterator[str]:
    """The places of the worktrees that belong to a git directory."""
    if not os.path.isdir(worktrees):
        return
    for name in os.listdir(worktrees):
        with open(f"{worktrees}/{name}/gitdir", encoding="utf-8", errors="surrogateescape") as file:
            yield file.read(8192).strip()


def _named(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _SHOWN_MAX} more" if len(paths) > _SHOWN_MAX else ""
    return ", ".join(folded(path, 200) for path in paths[:_SHOWN_MAX]) + more
