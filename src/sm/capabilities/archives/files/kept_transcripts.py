"""Writes the transcripts of a new archive, and keeps what only the archive before it has. Every function blocks.

An archive only grows. A transcript takes the place of its archived copy only if it begins with that copy. A transcript
that is gone, unreadable or shorter leaves the copy as it is. One that differs goes to `transcripts/`, and the copy to
`transcripts-N/`, where N counts up. What is kept is linked, not copied, so it needs no room.
"""

import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from sm.capabilities.archives.files.copies import copy, holds, new_file, write_record
from sm.linux.files import regular_file
from sm.sessions.keepers import KeptTranscript

TRANSCRIPTS = "transcripts"
CUT = "cut.json"
GENERATION = re.compile(r"transcripts-([0-9]{1,9})")
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
    """The new archive at `path` while its transcripts are written, after the archive at `before`."""

    path: str
    before: str
    left_bytes: int
    """The room for new copies."""
    kept_bytes: int = 0
    files: int = 0
    generation: int = 1
    cut: dict[str, Any] = field(default_factory=dict)
    cut_before: Mapping[str, Any] = field(default_factory=dict)

    def keep(self, name: str, as_name: str | None = None) -> None:
        """Take a file of the earlier archive over. `name`: as `transcripts/...`."""
        target = as_name or name
        place = f"{self.path}/{target}"
        os.makedirs(os.path.dirname(place), 0o700, exist_ok=True)
        _link(f"{self.before}/{name}", place)
        self.kept_bytes += os.lstat(place).st_size
        self.files += 1
        if name in self.cut_before:
            self.cut[target] = self.cut_before[name]

    def begins_at(self, name: str) -> int:
        """The first byte of the transcript that its copy in the earlier archive has."""
        return begins_at(self.cut_before.get(name))

    @property
    def room_bytes(self) -> int:
        return max(0, min(self.left_bytes, _ARCHIVE_MAX_BYTES - self.kept_bytes))


def _link(source: str, target: str) -> None:
    """Give the file a second name, or copy it on a file system without links."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        with regular_file(source) as file, new_file(target) as descriptor:
            state = os.fstat(file)
            copy(file, 0, state.st_size, descriptor)
            os.fsync(descriptor)
            os.utime(descriptor, ns=(state.st_atime_ns, state.st_mtime_ns))


def write_transcripts(path: str, before: str, transcripts: Mapping[str, OpenFile]) -> int:
    """Write the transcripts of the new archive `path`, with those of the archive `before`, which may not exist.

    `transcripts`: by the name below `transcripts/`, the most important first. All new copies together get
    `_TRANSCRIPTS_MAX_BYTES`, or less on an almost full disk; `cut.json` names the files of which only the end is kept,
    or which cannot be read. Returns the bytes that were left out because there was too little free space.
    """
    disk = os.statvfs(path)
    left = min(_TRANSCRIPTS_MAX_BYTES, disk.f_bavail * disk.f_frsize // _SHARE_OF_FREE_SPACE)
    earlier, numbers = _transcripts_in(before)
    archive = _Archive(path, before, left, generation=max(numbers, default=0) + 1)
    archive.cut_before = read_cuts(before)
    wanted, room = 0, left
    for name in earlier:
        if not name.startswith(f"{TRANSCRIPTS}/") or name.removeprefix(f"{TRANSCRIPTS}/") not in transcripts:
            archive.keep(name)
    for name, opened in transcripts.items():
        wanted += _write(archive, f"{TRANSCRIPTS}/{name}", opened, earlier)
    if archive.cut:
        write_record(f"{path}/{CUT}", archive.cut)
    return max(0, min(wanted, _TRANSCRIPTS_MAX_BYTES) - room)


def _write(archive: _Archive, name: str, opened: OpenFile, earlier: Mapping[str, None]) -> int:
    """Write one transcript; return its size if it was copied."""
    is_kept = name in earlier
    with ExitStack() as stack:
        try:
            source = stack.enter_context(opened())
        except OSError as error:  # the agent decides who may read the file
            if is_kept:
                archive.keep(name)
            else:
                archive.cut[name] = {"kept_bytes": 0, "error": error.strerror}
            return 0
        before = stack.enter_context(regular_file(f"{archive.before}/{name}")) if is_kept else None
        if source is None or (
            before is not None and archive.begins_at(name) == 0 and holds(before, 0, source)
        ):
            if is_kept:
                archive.keep(name)
            return 0
        if archive.files >= _FILES_MAX:
            if is_kept:
                archive.keep(name)
            return 0
        size = os.fstat(source).st_size
        kept = min(size, archive.room_bytes)
        if not kept and size and is_kept:  # a full archive
            archive.keep(name)
            return size
        place = f"{archive.path}/{name}"
        os.makedirs(os.path.dirname(place), 0o700, exist_ok=True)
        target = stack.enter_context(new_file(place))
        start = size - kept
        copy(source, start, size, target)
        archive.left_bytes -= kept
        archive.files += 1
        if kept < size:
            archive.cut[name] = {"kept_bytes": kept, "bytes": size}
        # Compare the copy, not the transcript, which may change at any time.
        if before is not None:
            if holds(target, archive.begins_at(name) - start, before):
                os.fsync(target)  # the earlier copy is deleted
            else:
                archive.keep(
                    name, f"{TRANSCRIPTS}-{archive.generation}/{name.removeprefix(f'{TRANSCRIPTS}/')}"
                )
        _drop_included(archive, name, target, start)
        return size


def _drop_included(archive: _Archive, name: str, target: int, start: int) -> None:
    """Remove the generations of a transcript that its new copy begins with."""
    below = name.removeprefix(f"{TRANSCRIPTS}/")
    for number in range(1, archive.generation):
        generation = f"{TRANSCRIPTS}-{number}/{below}"
        place = f"{archive.path}/{generation}"
        with suppress(FileNotFoundError), regular_file(place) as part:
            if not holds(target, archive.begins_at(generation) - start, part):
                continue
            os.fsync(target)
            os.unlink(place)
            archive.kept_bytes -= os.fstat(part).st_size
            archive.files -= 1
            archive.cut.pop(generation, None)


def has_only_copy(archive: str, others: Mapping[str, str]) -> bool:
    """True if a conversation in the archive exists nowhere else. `others`: transcripts, by the name of their file.

    The transcripts of sub-agents are not counted.
    """
    cuts = read_cuts(archive)
    for name in transcripts_of(archive):
        if "/subagents/" in name:
            continue
        other = others.get(name.rpartition("/")[2])
        try:
            with regular_file(f"{archive}/{name}") as part:
                if not os.fstat(part).st_size:
                    continue
                if other is None:
                    return True
                with regular_file(other) as whole:
                    if not holds(whole, begins_at(cuts.get(name)), part):
                        return True
        except OSError:
            return True
    return False


def begins_at(cut: object) -> int:
    """The first byte of the transcript that a copy has. `cut`: the entry of the copy in `cut.json`."""
    if not isinstance(cut, dict):
        return 0
    whole, kept = cut.get("bytes"), cut.get("kept_bytes")
    return max(0, whole - kept) if isinstance(whole, int) and isinstance(kept, int) else 0


def read_cuts(archive: str) -> Mapping[str, Any]:
    """The list of the files of an archive that are not whole; empty if there is none or it cannot be read."""
    try:
        with regular_file(f"{archive}/{CUT}") as descriptor:
            value = json.loads(os.pread(descriptor, _CUT_MAX_BYTES, 0))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def kept_transcripts(archive: str) -> Iterator[KeptTranscript]:
    """The transcripts in an archive, those of the newest archive first."""
    cuts = read_cuts(archive)
    for name in transcripts_of(archive):
        generation, _, below = name.partition("/")
        yield KeptTranscript(f"{archive}/{generation}", below, begins_at(cuts.get(name)))


def transcripts_of(archive: str) -> Iterator[str]:
    """The names of all transcripts in an archive, such as `transcripts/X.jsonl`; those of the newest archive first."""
    try:
        places = [name for name in os.listdir(archive) if name == TRANSCRIPTS or GENERATION.fullmatch(name)]
    except OSError:
        return

    def newest_first(place: str) -> int:
        found = GENERATION.fullmatch(place)
        return -int(found[1]) if found is not None else -(10**9)

    for place in sorted(places, key=newest_first):
        for directory, below, names in os.walk(f"{archive}/{place}"):
            below.sort()
            for name in sorted(names):
                path = f"{directory}/{name}"
                with suppress(OSError):
                    if stat.S_ISREG(os.lstat(path).st_mode):
                        yield os.path.relpath(path, archive)


def _transcripts_in(archive: str) -> tuple[dict[str, None], set[int]]:
    """The names of the transcripts in an archive, and the numbers of its generations."""
    names = dict.fromkeys(transcripts_of(archive))
    places = (GENERATION.fullmatch(name.partition("/")[0]) for name in names)
    return names, {int(found[1]) for found in places if found is not None}
