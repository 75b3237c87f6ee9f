"""Brings files that git does not track into a new worktree: copies, and links to caches."""

import glob
import os
import subprocess
import tempfile
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice

from sm.capabilities.worktrees.git.calls import git_paths
from sm.capabilities.worktrees.git.exclusions import add_exclusion
from sm.capabilities.worktrees.git.long_commands import Cancelled, Report
from sm.capabilities.worktrees.model import PlannedTree
from sm.core.dataclass import dataclass
from sm.core.lines import plural
from sm.core.text import folded
from sm.errors import ExternalError
from sm.linux.files import read_file
from sm.linux.parent_death import die_with_parent
from sm.paths import is_within

INCLUDES = ".worktreeinclude"
"""A file at the top of the repository in the format of .gitignore. claude reads it for its own worktrees too."""
COPIED_MAX = 512 << 20
"""Bytes of all copied files of a worktree."""
_INCLUDES_MAX = 64 * 1024
_FILES_MAX = 100_000
_AT_ONCE = 500
_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class CopiedFiles:
    files: int = 0
    bytes: int = 0
    notes: tuple[str, ...] = ()


def copy_files(
    plan: PlannedTree, patterns: Sequence[str], report: Report, cancelled: threading.Event
) -> CopiedFiles:
    """Copy the files of `.worktreeinclude` and of these patterns into the worktree. Raises ExternalError and Cancelled.

    A link is copied as a link if it leads to a place in the repository. A file that the worktree has stays.
    """
    found = dict.fromkeys((*_included(plan.source), *_matching(plan, patterns)))
    wanted, left, size = list[str](), list[str](), 0
    for path in islice(found, _FILES_MAX):
        if os.path.lexists(f"{plan.path}/{path}"):
            continue
        if not _is_inside(plan.source, path) or not _has_plain_way(plan.path, path):
            left.append(path)
            continue
        wanted.append(path)
        size += os.lstat(f"{plan.source}/{path}").st_size
    if size > COPIED_MAX:
        raise ExternalError(
            f"{plural(len(wanted), 'file')} of {size >> 20} MiB would be copied into the worktree, at most "
            f"{COPIED_MAX >> 20} MiB are",
            f"look at worktrees.copy in config.yaml, and at {INCLUDES}",
        )
    for begin in range(0, len(wanted), _AT_ONCE):
        if cancelled.is_set():
            raise Cancelled
        report("copying files", 100 * begin // len(wanted))
        _copy(plan, wanted[begin : begin + _AT_ONCE])
    if not left:
        return CopiedFiles(len(wanted), size)
    names = ", ".join(folded(path, 200) for path in left[:5])
    return CopiedFiles(len(wanted), size, (f"not copied, as links lead out of the repository: {names}",))


def link_files(plan: PlannedTree, paths: Iterable[str]) -> tuple[list[str], list[str]]:
    """Link paths of the worktree to those of the repository. Returns them, and notes. Raises ExternalError."""
    linked, notes = list[str](), list[str]()
    for path in (given.strip("/") for given in paths):
        source, target = f"{plan.source}/{path}", f"{plan.path}/{path}"
        if not os.path.exists(source) or os.path.lexists(target):
            continue
        is_inside = _is_inside(plan.source, path) and is_within(os.path.realpath(source), plan.source)
        if not is_inside or not _has_plain_way(plan.path, path):
            notes.append(f"not linked, as it leads out of the repository: {folded(path, 200)}")
        elif not _ignored(plan.source, [path]):
            notes.append(f"not linked, as git does not ignore it: {folded(path, 200)}")
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.symlink(os.path.realpath(source), target)
            # A rule for directories, such as `node_modules/`, does not hold for the link.
            if not _ignored(plan.path, [path]):
                add_exclusion(plan.common, path)
            linked.append(path)
    return linked, notes


def _included(source: str) -> Iterator[str]:
    """The ignored files that `.worktreeinclude` names."""
    try:
        text = read_file(f"{source}/{INCLUDES}", _INCLUDES_MAX).data
    except OSError:
        return
    with tempfile.NamedTemporaryFile(prefix="sm-include-") as file:
        file.write(text)
        file.flush()
        listed = git_paths(source, "ls-files", "--others", "--ignored", f"--exclude-from={file.name}", "-z")
    yield from _ignored(source, [path for path in listed if not path.endswith("/")])


def _ignored(source: str, paths: Sequence[str]) -> list[str]:
    """The paths among these that git ignores."""
    if not paths:
        return []
    text = b"".join(os.fsencode(path) + b"\0" for path in paths)
    try:
        return git_paths(source, "check-ignore", "--stdin", "-z", text=text)
    except ExternalError:  # none of them
        return []


def _matching(plan: PlannedTree, patterns: Collection[str]) -> Iterator[str]:
    for pattern in patterns:
        for path in glob.iglob(pattern.strip("/"), root_dir=plan.source, recursive=True, include_hidden=True):
            if not _is_in_repository_of_its_own(plan.source, path):
                yield from _files(plan.source, path)


def _is_in_repository_of_its_own(source: str, path: str) -> bool:
    """True for what is in a git directory, in a worktree or in another nested repository."""
    parts = path.split("/")
    return ".git" in parts or any(
        os.path.lexists(f"{source}/{'/'.join(parts[:count])}/.git") for count in range(1, len(parts) + 1)
    )


def _files(source: str, path: str) -> Iterator[str]:
    """The file, or all files below the directory. Follows no link, and enters neither git directories nor worktrees."""
    full = f"{source}/{path}"
    if os.path.islink(full) or os.path.isfile(full):
        yield path
        return
    with suppress(OSError), os.scandir(full) as entries:
        for entry in entries:
            if entry.name != ".git" and not os.path.lexists(f"{full}/.git"):
                yield from _files(source, f"{path}/{entry.name}")


def _is_inside(source: str, path: str) -> bool:
    """True if no link on the way leads out of the repository, nor the file itself if it is a link."""
    full = f"{source}/{path}"
    above = os.path.realpath(os.path.dirname(full))
    if not is_within(above, source):
        return False
    if not os.path.islink(full):
        return True
    target = os.readlink(full)
    return not os.path.isabs(target) and is_within(os.path.normpath(os.path.join(above, target)), source)


def _has_plain_way(top: str, path: str) -> bool:
    """True if no link of the worktree, which the base may have, stands where a directory for the path is needed."""
    above = os.path.dirname(path)
    while above:
        full = f"{top}/{above}"
        if os.path.islink(full) or (os.path.lexists(full) and not os.path.isdir(full)):
            return False
        above = os.path.dirname(above)
    return True


def _copy(plan: PlannedTree, paths: Sequence[str]) -> None:
    words = ("cp", "--reflink=auto", "--no-dereference", "--preserve=mode,timestamps,links", "--parents")
    done = subprocess.run(
        [*words, "--target-directory", plan.path, "--", *paths],
        cwd=plan.source,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        preexec_fn=die_with_parent(),
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").splitlines() or [
            f"cp ended with exit code {done.returncode}"
        ]
        raise ExternalError(
            f"cannot copy files into the worktree: {folded(lines[0].removeprefix('cp: '), 300)}"
        )
