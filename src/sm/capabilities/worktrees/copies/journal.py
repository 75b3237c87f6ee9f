"""Keeps a merge that has begun in the git directory of its copy, so that the next one can finish it.

Without it, a second merge would take what the first one has merged of a file for a change of a person.
"""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from sm.capabilities.worktrees.copies.bases import TreeEntry
from sm.capabilities.worktrees.copies.three_way import MergeStep, is_possible
from sm.core.dataclass import dataclass
from sm.linux.files import read_file

_NAME = "sm-merge"
_MAX = 64 << 20


@dataclass(frozen=True, slots=True)
class BegunMerge:
    """`base`: the commit that is the base afterwards. `temporary`: the name of the files that it writes."""

    base: str
    temporary: str
    steps: Sequence[MergeStep]


def begun_merge(path: str) -> BegunMerge | None:
    """The merge of the copy that has begun, or None. One that cannot be read has not begun: it is written at once."""
    try:
        found = read_file(f"{path}/.git/{_NAME}", _MAX)
        fields: dict[str, Any] = json.loads(found.data)
        steps = [
            MergeStep(step["path"], _entry(step["before"]), _entry(step["after"])) for step in fields["steps"]
        ]
        merge = BegunMerge(str(fields["base"]), str(fields["temporary"]), steps)
    except (OSError, ValueError, TypeError, KeyError):
        return None
    is_plain = "/" not in merge.temporary and merge.temporary.startswith(".sm-merge-")
    return merge if is_plain and all(is_possible(step.path) for step in steps) else None


def begin(path: str, merge: BegunMerge) -> None:
    """Write the journal of a merge before it changes anything. Raises OSError."""
    own = f"{path}/.git"
    with open(f"{own}/{_NAME}.new", "w", encoding="ascii") as file:
        json.dump(asdict(merge), file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(f"{own}/{_NAME}.new", f"{own}/{_NAME}")


def end(path: str) -> None:
    """Delete the journal."""
    with suppress(FileNotFoundError):
        os.unlink(f"{path}/.git/{_NAME}")


def _entry(fields: Mapping[str, str] | None) -> TreeEntry | None:
    return None if fields is None else TreeEntry(**fields)
