"""Writes the transcripts of a new archive, and keeps what only the archive before it has. Every function blocks.

An archive only grows. A transcript takes the place of its archived copy only if it begins with that copy. A transcript
that is gone, unreadable or shorter leaves the copy as it is. One that differs goes to `transcripts/`, and the copy to
`transcripts-N/`, where N counts up.
"""

import errno
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import field
from functools import partial
from typing import Any, TypeAlias

from sm.capabilities.archives.files.copies import holds
from sm.capabilities.archives.files.reader import stored_files
from sm.capabilities.archives.files.tar_files import StoredFile, TarWriter
from sm.core.dataclass import dataclass
from sm.linux.files import FilePart, whole_file
from sm.sessions.keepers import KeptTranscript

TRANSCRIPTS = "transcripts"
CUT = "cut.json"
_GENERATION = re.compile(r"transcripts-([0-9]{1,9})")
_TRANSCRIPTS_MAX_BYTES = 256 * 2**20
_ARCHIVE_MAX_BYTES = 1024 * 2**20
"""The limit for all transcripts of an archive, with those of earlier ones. A full archive takes nothing new."""
_FILES_MAX = 2_000
_SHARE_OF_FREE_SPACE = 4
"""An archive takes at most this part of the free space, so that a few of them do not fill the disk."""
_CUT_MAX_BYTES = 4 * 2**20

OpenFile: TypeAlias = Callable[[], AbstractContextManager[int | None]]
"""Opens a file for reading, as a descriptor, or returns None if it is gone."""


@dataclass(eq=False)
class _Archive:
    """The new archive while its transcripts are written, after the one that has the files `before`."""

    tar: TarWriter
    before: Mapping[str, StoredFile]
    at_s: float
    left_bytes: int
    """The room for new copies."""
    kept: dict[str, str] = field(default_factory=dict)
    """The files of the earlier archive that stay: the new name and the one before, as `transcripts/...`."""
    kept_bytes: int = 0
    files: int = 0
    generation: int = 1
    cut: dict[str, Any] = field(default_factory=dict)
    cut_before: Mapping[str, Any] = field(default_factory=dict)

    def keep(self, name: str, as_name: str | None = None) -> None:
        """Take a file of the earlier archive over. `name`: as `transcripts/...`."""
        target = as_name or name
        self.kept[target] = name
        self.kept_bytes += self.before[name].size
        self.files += 1
        if name in self.cut_before:
            self.cut[target] = self.cut_before[name]

    def drop(self, target: str) -> None:
        """Leave out a file that `keep` took over."""
        self.kept_bytes -= self.before[self.kept.pop(target)].size
        self.files -= 1
        self.cut.pop(target, None)

    def begins_at(self, name: str) -> int:
        """The first byte of the transcript that its copy in the earlier archive has."""
        return _begins_at(self.cut_before.get(name))

    @property
    def room_bytes(self) -> int:
        return max(0, min(self.left_bytes, _ARCHIVE_MAX_BYTES - self.kept_bytes))


def write_transcripts(
    tar: TarWriter,
    directory: str,
    before: Mapping[str, StoredFile],
    transcripts: Mapping[str, OpenFile],
    at_s: float,
) -> int:
    """Write the transcripts of a new archive in `directory`, with those of the archive that has the files `before`.

    `transcripts`: by the name below `transcripts/`, the most important first. All new copies together get
    `_TRANSCRIPTS_MAX_BYTES`, or less on an almost full disk; `cut.json` names the files of which only the end is kept,
    or which cannot be read. Returns the bytes that were left out because there was too little free space.
    """
    disk = os.statvfs(directory)
    left = min(_TRANSCRIPTS_MAX_BYTES, disk.f_bavail * disk.f_frsize // _SHARE_OF_FREE_SPACE)
    earlier = transcripts_of(before)
    numbers = (_number(name) for name in earlier)
    archive = _Archive(tar, before, at_s, left, generation=max(numbers, default=0) + 1)
    archive.cut_before = read_cuts(before)
    wanted, room = 0, left
    for name in earlier:
        if not name.startswith(f"{TRANSCRIPTS}/") or name.removeprefix(f"{TRANSCRIPTS}/") not in transcripts:
            archive.keep(name)
    for name, opened in transcripts.items():
        wanted += _write(archive, f"{TRANSCRIPTS}/{name}", opened, is_kept=f"{TRANSCRIPTS}/{name}" in before)
    for name, earlier_name in archive.kept.items():
        stored = before[earlier_name]
        with stored.open() as part:
            tar.copy(name, part, stored.at_s)
    if archive.cut:
        tar.add(CUT, json_bytes(archive.cut), at_s)
    return max(0, min(wanted, _TRANSCRIPTS_MAX_BYTES) - room)


def json_bytes(record: Any) -> bytes:
    return (json.dumps(record, ensure_ascii=False, indent=2) + "\n").encode(errors="replace")


def _write(archive: _Archive, name: str, opened: OpenFile, *, is_kept: bool) -> int:
    """Write one transcript; return its size if it was copied. `is_kept`: the earlier archive has it."""
    with ExitStack() as stack:
        try:
            source = stack.enter_context(opened())
        except OSError as error:  # the agent decides who may read the file
            if is_kept:
                archive.keep(name)
            else:
                archive.cut[name] = {"kept_bytes": 0, "error": error.strerror}
            return 0
        before = stack.enter_context(archive.before[name].open()) if is_kept else None
        live = None if source is None else FilePart(source, os.fstat(source).st_size)
        if live is None or (before is not None and archive.begins_at(name) == 0 and holds(before, 0, live)):
            if is_kept:
                archive.keep(name)
            return 0
        if archive.files >= _FILES_MAX:
            if is_kept:
                archive.keep(name)
            return 0
        kept = min(live.size, archive.room_bytes)
        if not kept and live.size and is_kept:  # a full archive
            archive.keep(name)
            return live.size
        start = live.size - kept
        copied = archive.tar.copy(name, FilePart(live.descriptor, kept, start), archive.at_s)
        archive.left_bytes -= kept
        archive.files += 1
        if kept < live.size:
            archive.cut[name] = {"kept_bytes": kept, "bytes": live.size}
        # Compare the copy, not the transcript, which may change at any time.
        if before is not None and not holds(copied, archive.begins_at(name) - start, before):
            archive.keep(name, f"{TRANSCRIPTS}-{archive.generation}/{name.removeprefix(f'{TRANSCRIPTS}/')}")
        _drop_included(archive, name, copied, start)
        return live.size


def _drop_included(archive: _Archive, name: str, copied: FilePart, start: int) -> None:
    """Leave out the generations of a transcript that its new copy begins with."""
    below = name.removeprefix(f"{TRANSCRIPTS}/")
    for number in range(1, archive.generation):
        generation = f"{TRANSCRIPTS}-{number}/{below}"
        if generation in archive.kept:
            with archive.before[generation].open() as part:
                if holds(copied, archive.begins_at(generation) - start, part):
                    archive.drop(generation)


def has_only_copy(archive: str, others: Mapping[str, str]) -> bool:
    """True if a conversation in the archive exists nowhere else. `others`: transcripts, by the name of their file.

    The transcripts of sub-agents are not counted.
    """
    try:
        with stored_files(archive) as files:
            cuts = read_cuts(files)
            return any(
                files[name].size
                and not _is_in(others.get(name.rpartition("/")[2]), files[name], _begins_at(cuts.get(name)))
                for name in transcripts_of(files)
                if "/subagents/" not in name
            )
    except OSError:
        return True


def _is_in(path: str | None, copy: StoredFile, begins_at: int) -> bool:
    """True if the file `path` has the content of the copy. Raises OSError."""
    if path is None:
        return False
    with copy.open() as part, whole_file(path) as whole:
        return holds(whole, begins_at, part)


def _begins_at(cut: object) -> int:
    """The first byte of the transcript that a copy has. `cut`: the entry of the copy in `cut.json`."""
    if not isinstance(cut, dict):
        return 0
    whole, kept = cut.get("bytes"), cut.get("kept_bytes")
    return max(0, whole - kept) if isinstance(whole, int) and isinstance(kept, int) else 0


def read_cuts(files: Mapping[str, StoredFile]) -> Mapping[str, Any]:
    """The list of the files of an archive that are not whole; empty if there is none or it cannot be read."""
    try:
        with files[CUT].open() as part:
            value = json.loads(part.read(0, _CUT_MAX_BYTES))
    except (KeyError, OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def kept_transcripts(archive: str) -> Iterator[KeptTranscript]:
    """The transcripts in an archive, those of the newest archive first. Raises no OSError."""
    try:
        with stored_files(archive) as files:
            cuts, names = read_cuts(files), transcripts_of(files)
    except OSError:
        yield KeptTranscript("", partial(_opened, archive, ""))
        return
    for name in names:
        yield KeptTranscript(
            name.partition("/")[2], partial(_opened, archive, name), _begins_at(cuts.get(name))
        )


@contextmanager
def _opened(archive: str, name: str) -> Iterator[FilePart]:
    """Open a file of the archive, which may have been written again meanwhile. Raises OSError."""
    with stored_files(archive) as files:
        if name not in files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{archive}/{name}")
        with files[name].open() as part:
            yield part


def transcripts_of(names: Iterable[str]) -> list[str]:
    """The names of all transcripts in an archive, such as `transcripts/X.jsonl`; those of the newest archive first."""

    def newest_first(name: str) -> tuple[int, str]:
        return -(_number(name) or 10**9), name

    return sorted((name for name in names if _is_transcript(name)), key=newest_first)


def _is_transcript(name: str) -> bool:
    place = name.partition("/")[0]
    return place == TRANSCRIPTS or _GENERATION.fullmatch(place) is not None


def _number(name: str) -> int:
    """The number of the generation of a transcript, or 0 for that of the newest archive."""
    found = _GENERATION.fullmatch(name.partition("/")[0])
    return 0 if found is None else int(found[1])
