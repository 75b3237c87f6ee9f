"""Counts the lines that an edit of a file adds and removes. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

from sm.core.lines import plural


class EditCounts(NamedTuple):
    path: str
    words: str
    """`+2 -1`, or `12 lines` for a file that is written whole."""


def edit_counts(arguments: Mapping[str, object] | None) -> EditCounts | None:
    """The file and the numbers of a tool use that edits one file, or None for any other tool use."""
    given = arguments or {}
    path, content = given.get("file_path"), given.get("content")
    if not isinstance(path, str) or not path.strip():
        return None
    if isinstance(content, str):
        return EditCounts(path, plural(len(content.splitlines()), "line"))
    edits = given.get("edits", [given])
    if not isinstance(edits, list) or not edits:
        return None
    added = removed = 0
    for edit in edits:
        texts = (
            (edit.get("old_string"), edit.get("new_string")) if isinstance(edit, Mapping) else (None, None)
        )
        old, new = texts
        if not isinstance(old, str) or not isinstance(new, str):
            return None
        more, less = _changed_lines(old.splitlines(), new.splitlines())
        added, removed = added + more, removed + less
    everywhere = any(edit.get("replace_all") is True for edit in edits)
    return EditCounts(path, f"+{added} -{removed}{' at each place' if everywhere else ''}")


def _changed_lines(old: list[str], new: list[str]) -> tuple[int, int]:
    """The added and the removed lines, without the lines that both texts begin or end with."""
    shorter = min(len(old), len(new))
    begin = next((place for place in range(shorter) if old[place] != new[place]), shorter)
    left = shorter - begin
    end = next((place for place in range(left) if old[-1 - place] != new[-1 - place]), left)
    return len(new) - begin - end, len(old) - begin - end
