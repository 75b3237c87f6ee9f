"""Reads what a session changed as a patch: for `sm diff` on a terminal, and for the page of a session in `sm top`."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from sm.capabilities.worktrees.git.submodules import hidden_changes_warning
from sm.capabilities.worktrees.patch_reading import Begun, ObjectSizes, ReadLimits, difference_lines
from sm.capabilities.worktrees.work import Work, work_of
from sm.cli.display.patch_lines import Sizes
from sm.core.patches import FilePatch, read_patch

__all__ = ["ReadLimits", "Work", "difference_lines", "files_of", "hidden_changes_warning", "work_of"]


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
