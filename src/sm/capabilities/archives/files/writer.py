"""Writes the file of an archive beside its place, and renames it. Every function blocks.

`ID.tar` is complete, `ID.tar.new` is being written.
"""

import errno
import json
import os
import re
import stat
import time
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from sm.capabilities.archives.files.copies import new_file
from sm.capabilities.archives.files.kept_transcripts import OpenFile, json_bytes, write_transcripts
from sm.capabilities.archives.files.older_archives import OLDER, TERMINAL, delete, recover
from sm.capabilities.archives.files.reader import stored_files
from sm.capabilities.archives.files.tar_files import TAR, StoredFile, TarWriter
from sm.core.dataclass import dataclass
from sm.store.part import OUTPUTS_MAX

_EARLIER_MAX_BYTES = 64 * 2**20
_KEYS = ("seq", "id")
NEW = f"{TAR}.new"
_EARLIER_NAME = "terminal-{}.txt"
_EARLIER = re.compile(r"terminal-([0-9]{1,9})\.txt")


def merge_records(earlier: StoredFile | None, name: str, record: Any) -> Any:
    """The record with what only the file in the earlier archive has. One that cannot be read has nothing.

    Rows and sums only grow, except in a database that was restored from a backup, or whose texts were pruned. Then the
    earlier archive has more, which stays.
    """
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


@dataclass(frozen=True, slots=True)
class ArchiveContents:
    """The contents of an archive beside the terminal's output."""

    records: Mapping[str, Any] = field(default_factory=dict)
    """By the name of the file. A `.jsonl` file has one object on each line."""
    transcripts: Mapping[str, OpenFile] = field(default_factory=dict)
    """By the path below `transcripts/`, the most important first."""


def write_archive(
    directory: str,
    session_id: str,
    contents: ArchiveContents,
    lines: Sequence[str] | None,
    since_s: float = 0.0,
) -> int:
    """Write `directory/SESSION_ID.tar` in place of an earlier one, and keep what only the earlier one has.

    `lines`: the output of the process that began at `since_s` (seconds since the epoch), or None if its terminal is
    gone. The outputs of earlier processes stay. For transcripts see `write_transcripts`.

    Returns the bytes of transcripts that were left out because there was too little free space. Raises OSError: the
    earlier archive is unchanged.
    """
    os.makedirs(directory, 0o700, exist_ok=True)
    if os.path.islink(directory):
        raise OSError(errno.ELOOP, "it is a link", directory)
    path = f"{directory}/{session_id}"
    recover(path)
    delete(path + NEW)
    if os.path.lexists(path + TAR) and not stat.S_ISREG(os.lstat(path + TAR).st_mode):
        delete(path + TAR)
    try:
        with stored_files(path) as before, new_file(path + NEW) as descriptor:
            tar, now_s = TarWriter(descriptor, session_id), time.time()
            for name, record in contents.records.items():
                tar.add(name, _record_bytes(name, merge_records(before.get(name), name, record)), now_s)
            missing = write_transcripts(tar, directory, before, contents.transcripts, now_s)
            if lines is not None:
                output = "".join(f"{line}\n" for line in lines)
                tar.add(TERMINAL, output.encode(errors="replace"), now_s)
            _keep_outputs(tar, before, lines, since_s)
            tar.finish()
        os.rename(path + NEW, path + TAR)
    except OSError:
        delete(path + NEW)  # a partial archive would only keep the disk full
        raise
    _sync(directory)
    for end in OLDER:
        delete(path + end)
    return missing


def _record_bytes(name: str, record: Any) -> bytes:
    """JSON: in a `.jsonl` file one object on each line."""
    if not name.endswith(".jsonl"):
        return json_bytes(record)
    text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in record)
    return text.encode(errors="replace")


def _sync(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _keep_outputs(
    tar: TarWriter, before: Mapping[str, StoredFile], lines: Sequence[str] | None, since_s: float
) -> None:
    """Take the outputs of earlier processes over from the archive before, with their times.

    They are numbered, the oldest first. The newest one stays the current one if there is none yet (`lines`).
    """
    outputs = sorted(
        (int(found[1]), name) for name in before if (found := _EARLIER.fullmatch(name)) is not None
    )
    number, newest = outputs[-1][0] if outputs else 0, before.get(TERMINAL)
    if newest is not None:
        if lines is None:
            _copy_output(tar, newest, TERMINAL)
        elif newest.at_s < since_s or _count_lines(newest) > len(lines):
            outputs.append((number + 1, TERMINAL))  # a terminal that was cleared has less of the same process
    for number, name in outputs[1 - OUTPUTS_MAX :]:
        _copy_output(tar, before[name], _EARLIER_NAME.format(number))


def _copy_output(tar: TarWriter, output: StoredFile, name: str) -> None:
    with output.open() as part:
        tar.copy(name, part, output.at_s)


def _count_lines(output: StoredFile) -> int:
    with output.open() as part:
        return part.read(0, part.size).count(b"\n")
