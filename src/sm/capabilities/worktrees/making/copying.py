"""Makes a planned copy of a directory, with nothing left behind if that fails or is cancelled.

It is made under another name, and gets its own one when it is complete.
"""

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sm.capabilities.worktrees.copies.bases import ATTRIBUTES, BASE, MARK
from sm.capabilities.worktrees.copies.copy_work import copy_work, remove_copy
from sm.capabilities.worktrees.copies.merging import AUTHOR
from sm.capabilities.worktrees.git.calls import git
from sm.capabilities.worktrees.git.long_commands import Cancelled, Report, git_with_progress
from sm.capabilities.worktrees.making import claims
from sm.capabilities.worktrees.making.claims import Claim
from sm.capabilities.worktrees.making.file_copies import FileCopies
from sm.capabilities.worktrees.making.filling import disk_full, is_full
from sm.capabilities.worktrees.making.source_files import SourceFiles, source_files
from sm.capabilities.worktrees.model import MadeTree, PlannedTree
from sm.capabilities.worktrees.rules import ANOTHER_NAME, PLACE
from sm.core.text import folded
from sm.errors import ExternalError, IllegalState, SmError, UsageError

_REMEMBERING = "remembering the files"
_TELLS_EVERY_S = 30.0
_FILES_PER_S = 500
_BYTES_PER_S = 10 << 20
_CONFIG = """[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
\tlogallrefupdates = true
\tprotectHFS = false
\tprotectNTFS = false
"""


def make_copy(
    plan: PlannedTree,
    max_bytes: int,
    claim: Claim,
    within_s: float,
    report: Report,
    cancelled: threading.Event,
) -> MadeTree:
    """Make the copy. `within_s`: a limit that grows with the number and the size of the files.

    Raises Cancelled, ExternalError and UsageError, with nothing left behind.
    """
    try:
        os.makedirs(os.path.dirname(plan.path), exist_ok=True)
        mark = claim.add_copy()
        made = _Copy(plan, _unfinished(plan, mark), mark, report, cancelled)
        return made.make(max_bytes, within_s)
    except (SmError, Cancelled) as error:
        full = _full_disk(plan) if isinstance(error, ExternalError) else None
        remove_copy_remains(plan, claim, report, is_new=True)
        if full is not None and isinstance(error, ExternalError):
            raise disk_full(full, error.message) from None
        raise
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        full = _full_disk(plan)
        remove_copy_remains(plan, claim, report, is_new=True)
        why = f"{error.strerror} ({error.filename})" if isinstance(error, OSError) else str(error)
        if full is not None:
            raise disk_full(full, why) from None
        raise ExternalError(f"cannot make the copy {plan.path}: {folded(why, 300)}") from None


def remove_copy_remains(
    plan: PlannedTree,
    claim: Claim,
    report: Report = lambda step, percent: None,
    *,
    is_new: bool = False,
) -> None:
    """Remove what was made of the copy of this plan, as `remove_remains`. Raises ExternalError for what stays."""
    for mark in claim.copies():
        if os.path.isdir(unfinished := _unfinished(plan, mark)):
            os.makedirs(f"{unfinished}/.git", exist_ok=True)
            remove_copy(unfinished, report)
    if claim.has_copy(plan.path):
        if not is_new:
            _refuse_work(plan)
        remove_copy(plan.path, report)
    above = [os.path.dirname(plan.path)]
    if above[-1] == f"{plan.repository}/{PLACE}":
        above.append(os.path.dirname(above[-1]))  # `.sm`
    for directory in above:
        with suppress(OSError):  # only an empty one: not what somebody else has put there
            os.rmdir(directory)
    claim.clear()


def _refuse_work(plan: PlannedTree) -> None:
    """Raise ExternalError unless it is certain that nobody has worked in the copy."""
    kept = f"kept the copy {folded(plan.path, 4096)}"
    try:
        found = copy_work(plan.path, plan.repository, None)
    except (ExternalError, IllegalState, OSError) as error:
        why = error.message if isinstance(error, (ExternalError, IllegalState)) else error.strerror
        raise ExternalError(f"{kept}: sm cannot look for work in it: {why}") from None
    if found:
        raise ExternalError(f"{kept}: it has {'; '.join(found)}")


def _unfinished(plan: PlannedTree, mark: str) -> str:
    """The directory of a copy that is not complete."""
    return f"{os.path.dirname(plan.path)}/.sm-copy-{mark}"


def _full_disk(plan: PlannedTree) -> str | None:
    """The directory of the plan whose disk is full, or None."""
    directory = os.path.dirname(plan.path)
    with suppress(OSError):
        disk = os.statvfs(directory)
        if is_full(disk.f_bavail * disk.f_frsize, disk.f_favail, disk.f_files):
            return directory
    return None


class _Copy:
    """A copy that is being made at `top`."""

    def __init__(
        self, plan: PlannedTree, top: str, mark: str, report: Report, cancelled: threading.Event
    ) -> None:
        self._plan = plan
        self._top = top
        self._mark = mark
        self._report = report
        self._cancelled = cancelled

    def make(self, max_bytes: int, within_s: float) -> MadeTree:
        plan = self._plan
        self._report("looking at the files", None)
        found = source_files(plan.source, plan.path, max_bytes, self._check)
        until = time.monotonic() + within_s + len(found.files) / _FILES_PER_S + found.size / _BYTES_PER_S
        os.mkdir(self._top, 0o700)
        self._copy_files(found, until)
        start = self._make_repository(until)
        shutil.copymode(plan.source, self._top)
        self._check()
        if os.path.lexists(plan.path):
            raise UsageError(f"worktree {plan.path} already exists", ANOTHER_NAME)
        os.rename(self._top, plan.path)
        return MadeTree(start, len(found.files), found.size, (), found.notes())

    def _check(self) -> None:
        if self._cancelled.is_set():
            raise Cancelled

    def _copy_files(self, found: SourceFiles, until: float) -> None:
        for directory in found.directories:
            os.mkdir(f"{self._top}/{directory}", 0o700)
        count = len(found.files)
        copies = FileCopies(self._plan.source, self._top, until, self._check)
        copies.copy(
            [path for path, _ in found.files], lambda done: self._report("copying files", 100 * done // count)
        )
        for directory in reversed(found.directories):  # a read-only one last, and with its times
            shutil.copystat(f"{self._plan.source}/{directory}", f"{self._top}/{directory}")

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Tell again and again that the process goes on, which `git add` does not do."""
        done = threading.Event()

        def tell() -> None:
            while not done.wait(_TELLS_EVERY_S):
                self._report(_REMEMBERING, None)

        thread = threading.Thread(target=tell, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _make_repository(self, until: float) -> str:
        """Make the git repository of the copy, with one commit. Returns the commit. No program of anybody runs."""
        self._report(_REMEMBERING, None)
        own, branch = f"{self._top}/.git", self._plan.branch
        for name in ("objects", "refs/heads", "refs/tags", "info", "logs"):
            os.makedirs(f"{own}/{name}")
        contents = {
            "HEAD": f"ref: refs/heads/{branch}\n",
            "config": _CONFIG,
            "info/attributes": ATTRIBUTES,
            MARK: "",
            claims.MARK: self._mark,
        }
        for name, text in contents.items():
            with open(f"{own}/{name}", "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(text)
        with self._telling():
            git_with_progress(
                self._top,
                *("add", "--all", "--", "."),
                report=self._report,
                cancelled=self._cancelled,
                within_s=max(1.0, until - time.monotonic()),
            )
        tree = git(self._top, "write-tree")
        message = f"{self._plan.source} when sm copied it"
        start = git(self._top, "commit-tree", tree, "-m", message, variables=AUTHOR)
        for ref in (BASE, f"refs/heads/{branch}"):
            git(self._top, "update-ref", "-m", "copied by sm", ref, start)
        return start
