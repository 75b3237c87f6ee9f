"""Counts what a session has changed, for one line."""

from sm.capabilities.worktrees.file_patches import LISTED, RENAMES, listed_files
from sm.capabilities.worktrees.git.calls import git_bytes
from sm.capabilities.worktrees.git.present_files import DIFF
from sm.capabilities.worktrees.work import Work
from sm.core.dataclass import dataclass
from sm.core.lines import plural


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """The numbers of changed files, and of lines in them."""

    files: int
    added: int
    deleted: int

    def __str__(self) -> str:
        return f"{plural(self.files, 'file')} +{self.added} -{self.deleted}"


def change_counts(work: Work) -> ChangeCounts:
    """Count the changes since the work began. Writes no object. Raises ExternalError."""
    with work.index() as variables:
        output = git_bytes(work.top, *DIFF, *RENAMES, *LISTED, work.base, "--", variables=variables)
    files = listed_files(output)
    return ChangeCounts(
        len(files), sum(file.added or 0 for file in files), sum(file.deleted or 0 for file in files)
    )
