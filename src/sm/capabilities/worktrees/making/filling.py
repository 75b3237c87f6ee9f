"""Makes a planned worktree, with nothing left behind if that fails or is cancelled."""

import os
import shutil
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress

from sm.capabilities.worktrees.git.calls import git, git_answer, git_paths, repository_around
from sm.capabilities.worktrees.git.exclusions import add_exclusion
from sm.capabilities.worktrees.git.git_config import parse_git_config, write_git_config
from sm.capabilities.worktrees.git.linked import add_linked, forget_linked, write_head, write_links
from sm.capabilities.worktrees.git.progress import Cancelled, Report, git_with_progress
from sm.capabilities.worktrees.git.remotes import FETCHED, as_remote, remote_urls, shown_url
from sm.capabilities.worktrees.git.submodules import empty_submodules_warning
from sm.capabilities.worktrees.making.claims import Claim
from sm.capabilities.worktrees.making.extra_files import copy_files, link_files
from sm.capabilities.worktrees.making.submodule_files import fill_submodules
from sm.capabilities.worktrees.model import Fetched, MadeTree, PlannedTree, TreeFiles
from sm.capabilities.worktrees.rules import PLACE
from sm.core.text import folded
from sm.errors import ExternalError, IllegalState, SmError, UsageError
from sm.linux.files import read_file
from sm.linux.repositories import repository_at
from sm.paths import is_within

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
    except (SmError, Cancelled):
        remove_remains(plan, claim)
        raise
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        remove_remains(plan, claim)
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ExternalError(f"cannot make the worktree {plan.path}: {folded(str(why), 300)}") from None
    return MadeTree(start, copied.files, copied.bytes, linked, [*copied.notes, *notes, *filled])


def remove_remains(plan: PlannedTree, claim: Claim) -> None:
    """Remove what was made of the worktree of this plan: the directory, and the new branch while it is at its start.

    Only for a worktree in which nobody has worked. Raises ExternalError for what cannot be removed.
    """
    if claim.has_worktree(plan.path):
        _refuse_work(plan, claim)
        shutil.rmtree(plan.path, ignore_errors=True)
        if claim.has_worktree(plan.path):
            raise ExternalError(f"cannot remove the worktree {plan.path}: see its permissions")
        forget_linked(plan.common, plan.path)
    for directory in (plan.path, os.path.dirname(plan.path)):
        with suppress(OSError):  # only an empty one: not what somebody else has put there
            os.rmdir(directory)
    start = claim.start_of(plan.branch)
    if start is not None:
        with suppress(SmError):
            git(plan.common, "update-ref", "-d", f"refs/heads/{plan.branch}", start)
    claim.clear()


def _refuse_work(plan: PlannedTree, claim: Claim) -> None:
    """Raise ExternalError if somebody has worked in the half-made worktree: it has more than the base has."""
    try:
        if not os.path.lexists(f"{repository_around(plan.path).own}/index"):
            return  # the checkout has not finished, so nobody could use it
        listed = git_paths(plan.path, "status", "--porcelain", "-z", "--no-renames")
    except (ExternalError, IllegalState):
        return  # git has not made it
    head = ""
    with suppress(ExternalError):
        head = git(plan.path, "rev-parse", "--verify", "--quiet", "HEAD")
    start = claim.start_of(plan.branch) or plan.start
    # A file that git has not written yet is a deleted one.
    if [entry for entry in listed if entry[:2] not in (" D", "D ")] or (start and head != start):
        raise ExternalError(f"kept the worktree {plan.path}: somebody has worked in it")


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
        raise UsageError(f"worktree {plan.path} already exists", "choose another --name") from None
    if not start:
        _add_unborn(plan, claim)
        return
    if plan.is_new_branch:
        words = ("-m", f"branch: Created from {start}", f"refs/heads/{plan.branch}", start, "0" * len(start))
        try:
            git(plan.source, "update-ref", "--create-reflog", *words)
        except ExternalError as error:
            raise UsageError(
                f"cannot create branch {plan.branch}: {error.message}", "choose another --name"
            ) from None
        claim.add_branch(plan.branch, start)
    try:
        own = add_linked(plan.source, plan.common, plan.path, plan.path, plan.branch)
    except ExternalError as error:
        raise UsageError(f"cannot create worktree {name}: {error.message}") from None
    claim.add_worktree(own)
    _copy_sparse(plan, own)


def _add_unborn(plan: PlannedTree, claim: Claim) -> None:
    """Make a worktree on a branch without commits, as `git worktree add --orphan` of git 2.42 does."""
    name, number = os.path.basename(plan.path), 0
    own = f"{plan.common}/worktrees/{name}"
    while os.path.lexists(own):
        number += 1
        own = f"{plan.common}/worktrees/{name}{number}"
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
