"""Reads what a session changed: as a patch for `sm diff` and `sm top`, and its numbers for a proposed completion."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from sm.capabilities.worktrees.change_counts import ChangeCounts, change_counts
from sm.capabilities.worktrees.git.calls import time_limit
from sm.capabilities.worktrees.git.submodules import hidden_changes_warning
from sm.capabilities.worktrees.patch_reading import Begun, ObjectSizes, ReadLimits, difference_lines
from sm.capabilities.worktrees.work import Work, work_of
from sm.cli.display.patch_lines import Sizes
from sm.client.http import Client
from sm.core.lines import JsonObject
from sm.core.patches import FilePatch, read_patch
from sm.core.session_lines import name_to_type
from sm.errors import SmError

__all__ = [
    "ReadLimits",
    "Work",
    "difference_lines",
    "files_of",
    "hidden_changes_warning",
    "proposed_changes",
    "work_of",
]
_COUNT_WITHIN_S = 10.0


@contextmanager
def files_of(
    work: Work, *, limits: ReadLimits | None = None, begun: Begun = lambda end: None
) -> Iterator[Iterator[tuple[FilePatch, Sizes]]]:
    """Yield the changed files one by one, as soon as git has written each. The arguments: as `difference_lines`."""
    with (
        difference_lines(work, "--full-index", limits=limits, begun=begun) as lines,
        closing(ObjectSizes(work.top)) as sizes,
    ):
        yield ((file, _sizes(file, sizes)) for file in read_patch(lines))


def _sizes(file: FilePatch, sizes: ObjectSizes) -> Sizes:
    if not file.is_binary:
        return Sizes()
    old = None if file.old_path is None else sizes.of_object(file.old_object)
    return Sizes(old, None if file.new_path is None else sizes.of_file(file.new_path))


def proposed_changes(client: Client, request: JsonObject) -> str | None:
    """The numbers of the changes of a proposed completion: `3 files +10 -2 (sm diff engineer-login)`.

    None for a request of another kind, for one that is answered, and where git cannot tell in time.
    """
    if request["kind"] != "completion" or request["state"] != "open":
        return None
    counts = _counts(client, request["session_id"])
    return None if counts is None else f"{counts} (sm diff {name_to_type(request)})"


def _counts(client: Client, session_id: str) -> ChangeCounts | None:
    try:
        with time_limit(_COUNT_WITHIN_S):
            return change_counts(work_of(client, session_id))
    except (SmError, OSError):  # the request can be answered all the same
        return None
