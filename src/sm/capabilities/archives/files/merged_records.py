"""Merges a record of an archive with the same record of the archive before it. Blocks.

Rows and sums only grow, except in a database that was restored from a backup, or whose texts were pruned. Then the
earlier archive has more, which stays.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sm.capabilities.archives.files.tar_files import StoredFile

_EARLIER_MAX_BYTES = 64 * 2**20
_KEYS = ("seq", "id")


def merge_records(earlier: StoredFile | None, name: str, record: Any) -> Any:
    """The record with what only the file in the earlier archive has. One that cannot be read has nothing."""
    if earlier is None or earlier.size > _EARLIER_MAX_BYTES:
        return record
    try:
        with earlier.open() as part:
            data = part.read(0, part.size)
        if name.endswith(".jsonl"):
            rows = [json.loads(line) for line in data.splitlines() if line.strip()]
            return merge_rows(rows, record)
        if name == "usage.json":
            return merge_usage(json.loads(data), record)
    except (OSError, ValueError, RecursionError, TypeError, KeyError):
        return record
    return record


def merge_rows(earlier: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The rows, and those of `earlier` whose number they lack, in the order of the numbers."""
    key = next((name for name in _KEYS if any(name in row for row in (*rows[:1], *earlier[:1]))), None)
    if key is None:
        return list(rows)
    return [row for _, row in sorted({row[key]: row for row in (*earlier, *rows)}.items())]


def merge_usage(earlier: Mapping[str, Any], usage: Mapping[str, Any]) -> dict[str, Any]:
    """For each model and each tool the larger one of both sums."""
    models: dict[Any, Any] = {}
    for entry in (*earlier["models"], *usage["models"]):
        other = models.get(entry["model"])
        if other is None or _tokens(other) <= _tokens(entry):
            models[entry["model"]] = entry
    tools = {
        name: max(earlier["tools"].get(name, 0), usage["tools"].get(name, 0))
        for name in {**usage["tools"], **earlier["tools"]}
    }
    return {**usage, "models": list(models.values()), "tools": tools}


def _tokens(entry: Mapping[str, Any]) -> int:
    return sum(value for value in entry.values() if isinstance(value, int) and not isinstance(value, bool))
