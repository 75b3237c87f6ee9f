"""Makes a planned worktree, with nothing left behind if that fails or is cancelled."""

import os
import shlex
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress

from sm.capabilities.worktrees.git.calls import git, git_answer, repository_around
from sm.capabilities.worktrees.git.exclusions import add_exclusion
from sm.capabilities.worktrees.git.git_config import parse_git_config, write_git_config
from sm.capabilities.worktrees.git.linked import add_linked, write_head, write_links
from sm.capabilities.worktrees.git.long_commands import Cancelled, Report, git_with_progress
from sm.capabilities.worktrees.git.remotes import FETCHED, as_remote, remote_urls, shown_url
from sm.capabilities.worktrees.git.submodules import empty_submodules_warning
from sm.capabilities.worktrees.making.claims import Claim
from sm.capabilities.worktrees.making.extra_files import copy_files, link_files
from sm.capabilities.worktrees.making.remains import remove_remains
from sm.capabilities.worktrees.making.submodule_files import fill_submodules
from sm.capabilities.worktrees.model import Fetched, MadeTree, PlannedTree, TreeFiles
from sm.capabilities.worktrees.rules import ANOTHER_NAME, PLACE
from sm.core.text import folded
from sm.errors import ExternalError, SmError, UsageError
from sm.linux.files import read_file
from sm.linux.repositories import UnreadableRepository, repository_at
from sm.paths import is_within

_ROOM_BYTES = 64 << 10
_WORKERS_MAX = 4
_SPARSE_MAX = 4 << 20
_SPARSE_KEYS = ("core.sparsecheckout", "core.sparsecheckoutcone", "index.sparse")


def make_tree(
    plan: PlannedTree,
    files: TreeFiles,
    claim: Claim,
    within_s: float,
    report: Report,
    cancelled: threading.Event,
) -> MadeTree:
    """Make the worktree. `within_s`: a limit that grows with the number of files.

    Raises Cancelled, ExternalError and UsageError, with nothing left behind.
    """
    try:
        start = plan.start
        if plan.fetched is not None:
            start = _fetch(plan, plan.fetched, within_s, report, cancelled)
        report("making the worktree", None)
        _hide(plan)
        _add(plan, start, claim)
        _check_out(plan, start, within_s, report, cancelled)
        if files.submodules:
            filled = fill_submodules(plan.path, plan.source, report, cancelled, within_s)
        else:
            warning = empty_submodules_warning(plan.path)
            filled = [] if warning is None else [warning]
        copied = copy_files(plan, files.copy, report, cancelled)
        linked, notes = link_files(plan, files.link)
        _make_directory(plan)
        if cancelled.is_set():
            raise Cancelled
        _follow(plan)
    except (SmError, Cancelled) as error:
        full = _full_disk(plan) if isinstance(error, ExternalError) else None
        remove_remains(plan, claim, is_new=True)
        if full is not None and isinstance(error, ExternalError):
            raise disk_full(full, error.message) from None
        raise
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        full = _full_disk(plan)
        remove_remains(plan, claim, is_new=True)
        why = error.strerror if isinstance(error, OSError) else str(error)
        if full is not None:
            raise disk_full(full, str(why)) from None
        raise ExternalError(f"cannot make the worktree {plan.path}: {folded(str(why), 300)}") from None
    return MadeTree(start, copied.files, copied.bytes, linked, [*copied.notes, *notes, *filled])


def _full_disk(plan: PlannedTree) -> str | None:
    """The directory of the plan whose disk is full, or None. Git does not say it of every file that it writes."""
    for directory in (plan.path, plan.common):
        with suppress(OSError):
            disk = os.statvfs(directory)
            if is_full(disk.f_bavail * disk.f_frsize, disk.f_favail, disk.f_files):
                return directory
    return None


def is_full(free_bytes: int, free_files: int, all_files: int) -> bool:
    """True for a disk without room. `all_files`: 0 for a disk that has no limit of files."""
    return free_bytes < _ROOM_BYTES or (all_files > 0 and free_files == 0)


def disk_full(directory: str, why: str) -> ExternalError:
    """The error for a worktree or a copy that has no room."""
    return ExternalError(
        f"the disk of {folded(directory, 4096)} is full ({folded(why, 300)})",
        f"df -h {shlex.quote(folded(directory, 4096))}",
    )


def _make_directory(plan: PlannedTree) -> None:
    """Make the working directory, which the base may not have, unless a link of the base leads elsewhere."""
    if not is_within(os.path.realpath(plan.directory), plan.path):
        raise ExternalError(
            f"cannot make the working directory {folded(plan.directory, 4096)}: a link leads out of the worktree"
        )
    os.makedirs(plan.directory, exist_ok=True)


def _fetch(
    plan: PlannedTree, fetched: Fetched, within_s: float, report: Report, cancelled: threading.Event
) -> str:
    """Fetch the commit that the worktree begins with. Raises ExternalError."""
    report(f"fetching {fetched.what}", None)
    url = remote_urls(repository_around(plan.source)).get(fetched.remote)
    if url is None:
        raise ExternalError(f"there is no remote {folded(fetched.remote, 80)} any more")
    missing = f"{shown_url(url)} has no {fetched.what}"
    for ref in fetched.refs:
        try:
            git_with_progress(
                plan.source,
                *("fetch", "--progress", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules"),
                *("--", FETCHED, f"+{ref}:{fetched.kept}"),
                report=report,
                cancelled=cancelled,
                within_s=within_s,
                variables=as_remote(url),
                network="https:http:ssh:file",
            )
        except ExternalError as error:
            if "remote ref" not in error.message:  # the remote was not reached
                why = error.message.replace(url, shown_url(url))
                missing = f"cannot fetch {fetched.what} from {shown_url(url)}: {why}"
                break
            continue
        return git(plan.source, "rev-parse", "--verify", f"{fetched.kept}^{{commit}}")
    raise ExternalError(missing)


def _add(plan: PlannedTree, start: str, claim: Claim) -> None:
    """Make an empty worktree. Raises UsageError if its directory or its branch is there by now, ExternalError."""
    name = os.path.basename(plan.path)
    os.makedirs(os.path.dirname(plan.path), exist_ok=True)
    try:
        os.mkdir(plan.path)
    except FileExistsError:
        raise UsageError(f"worktree {plan.path} already exists", ANOTHER_NAME) from None
    if not start:
        _add_unborn(plan, claim)
        return
    if plan.is_new_branch:
        message = claim.add_branch(plan.branch, start)
        words = ("-m", message, f"refs/heads/{plan.branch}", start, "0" * len(start))
        try:
            git(plan.source, "update-ref", "--create-reflog", *words)
        except ExternalError as error:
            raise UsageError(f"cannot create branch {plan.branch}: {error.message}", ANOTHER_NAME) from None
    try:
        own = add_linked(plan.source, plan.common, plan.path, plan.path, plan.branch, made=claim.add_worktree)
    except ExternalError as error:
        raise UsageError(f"cannot create worktree {name}: {error.message}") from None
    _copy_sparse(plan, own)


def _add_unborn(plan: PlannedTree, claim: Claim) -> None:
    """Make a worktree on a branch without commits, as `git worktree add --orphan` of git 2.42 does."""
    name, number = os.path.basename(plan.path), 0
    own = f"{plan.common}/worktrees/{name}"
    while os.path.lexists(own):
        number += 1
        own = f"{plan.common}/worktrees/{name}{number}"
    claim.add_git_directory(own)
    os.makedirs(own)
    claim.add_worktree(own)
    write_head(own, plan.branch)
    write_links(plan.path, own)


def _copy_sparse(plan: PlannedTree, own: str) -> None:
    """Let the worktree have the same directories as the sparse one from which it is made."""
    source = repository_at(plan.source)
    if source is None:
        return
    for name in ("info/sparse-checkout", "config.worktree"):
        try:
            content = read_file(f"{source.own}/{name}", _SPARSE_MAX)
        except OSError:
            continue
        data = content.data
        if (
            name == "config.worktree"
        ):  # without what is true of the other worktree only, such as core.worktree
            data = write_git_config(s for s in parse_git_config(data) if s.key in _SPARSE_KEYS)
        os.makedirs(os.path.dirname(f"{own}/{name}"), exist_ok=True)
        with open(f"{own}/{name}", "wb") as file:
            file.write(data)


def _check_out(
    plan: PlannedTree, start: str, within_s: float, report: Report, cancelled: threading.Event
) -> None:
    if not start:
        return
    try:
        _write_files(plan, within_s, report, cancelled)
    except ExternalError as error:
        if not _is_partial(plan):
            raise
        raise ExternalError(
            f"the repository is a partial clone without all files of {start[:12]}: {error.message}",
            "git fetches them when you check the commit out yourself: "
            f"git -C {shlex.quote(folded(plan.repository, 4096))} worktree add --detach DIRECTORY {start[:12]}",
        ) from None


def _is_partial(plan: PlannedTree) -> bool:
    with suppress(SmError, UnreadableRepository, ValueError):
        settings = parse_git_config(repository_around(plan.source).config())
        return any(s.key == "extensions.partialclone" or s.name == "promisor" for s in settings)
    return False


def _write_files(plan: PlannedTree, within_s: float, report: Report, cancelled: threading.Event) -> None:
    report("checking out", 0)
    git_with_progress(
        plan.path,
        *("checkout", "--progress", "--force", "--no-recurse-submodules", "--no-guess", plan.branch, "--"),
        report=report,
        cancelled=cancelled,
        within_s=within_s,
        variables=parallel_checkout(plan.source),
    )


def parallel_checkout(source: str) -> Mapping[str, str]:
    """The variables with which git writes files on several processors, unless the user has configured their number.

    git does so for 100 files and more, and never for files with filters (checkout.workers in git-config(1)).
    """
    if git_answer(source, "config", "--get", "checkout.workers")[1]:
        return {}
    workers = min(_WORKERS_MAX, len(os.sched_getaffinity(0)))
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "checkout.workers",
        "GIT_CONFIG_VALUE_0": str(workers),
    }


def _follow(plan: PlannedTree) -> None:
    """Let the branch follow that of the remote: in the repository's own configuration, which git does not read here."""
    if plan.follows is None:
        return
    remote, branch = plan.follows
    for key, value in (("remote", remote), ("merge", f"refs/heads/{branch}")):
        git(plan.source, "config", "--file", f"{plan.common}/config", f"branch.{plan.branch}.{key}", value)


def _hide(plan: PlannedTree) -> None:
    """Make git ignore the place of the worktrees, through a file that is never committed."""
    if is_within(plan.path, plan.repository):
        add_exclusion(plan.common, f"{_hidden(plan)}/")


def _hidden(plan: PlannedTree) -> str:
    """The path that git ignores: the place of all worktrees if sm has chosen it, else that of this one alone."""
    own = os.path.relpath(plan.path, plan.repository)
    return PLACE if os.path.dirname(own) == PLACE else own
