"""Decides what a new process gets of a conversation: its transcript, or more from the archives. Blocks.

An agent CLI writes each entry of a conversation with the entry that it follows, and a new process goes back from the
last entry. A transcript is poorer than an archive if it has less of that chain: it is gone, shorter, or begins in the
middle. The archive then gives its lines back, before those of the transcript. A transcript whose chain is whole stays,
whatever the archive has.
"""

import errno
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from functools import partial
from itertools import takewhile

from sm.core.dataclass import dataclass
from sm.core.text import folded
from sm.linux.files import Content, FilePart, NotRegular, whole_file
from sm.linux.placed_files import PlacedFile
from sm.providers.readers import TranscriptEntry, TranscriptReader
from sm.sessions.keepers import KeptTranscript, OpenPart

_COMPARED_MAX_BYTES = 64 * 2**20
"""Larger transcripts are given back whole when they are gone, but not compared."""
_PIECE_BYTES = 2**20
_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Recovery:
    """The change of a transcript before the new process starts."""

    place: PlacedFile | None = None
    pieces: Callable[[], Iterable[bytes]] | None = None
    """The new content, or None if the file stays."""
    replaced: os.stat_result | None = None
    aside: str | None = None
    """A new name for a replaced file that has lines which nobody can read."""
    touched: bool = False
    """The file is old: agent CLIs delete old ones at their start."""
    loss: str | None = None
    """The part that the new process will not know, as the end of a sentence."""
    refusal: str | None = None
    """The reason why no process can continue the conversation."""

    def carry_out(self) -> None:
        """Raises OSError; then nothing is changed."""
        if self.place is None:
            return
        if self.pieces is not None:
            self.place.write(self.pieces(), self.replaced, self.aside)
        elif self.touched:
            self.place.touch()


@dataclass(frozen=True, slots=True)
class _Copy:
    """A transcript in an archive, or at another place."""

    open: OpenPart
    begins_at: int = 0
    data: bytes | None = field(default=None, repr=False)
    """None if it is too large to compare."""

    def lines(self) -> Iterator[bytes]:
        """The copy in pieces, from the beginning of its first whole line, with a line end at its end."""
        with self.open() as part:
            position = 0 if not self.begins_at else _after_line(part)
            while piece := part.read(position, _PIECE_BYTES):
                position += len(piece)
                yield piece
            if part.size and part.read(part.size - 1, 1) != b"\n":
                yield b"\n"


def _after_line(part: FilePart) -> int:
    """The position after the first line end; the size without one."""
    position = 0
    while piece := part.read(position, _PIECE_BYTES):
        if (end := piece.find(b"\n")) >= 0:
            return position + end + 1
        position += len(piece)
    return part.size


@dataclass(frozen=True, slots=True)
class _Version:
    """One possible content of the transcript. `chain`: its last entries, newest first."""

    data: bytes = field(repr=False)
    ids: frozenset[str] = frozenset()
    chain: tuple[TranscriptEntry, ...] = ()
    whole: bool = False
    """The chain goes back to the beginning."""

    @property
    def begins(self) -> str:
        return self.chain[-1].at if self.chain else ""


def recovery_of(
    place: PlacedFile,
    conversation: str,
    reader: TranscriptReader,
    kept: Iterable[KeptTranscript],
    elsewhere: Sequence[str] = (),
    *,
    living: bool = False,
    now_s: float = 0.0,
) -> Recovery:
    """`kept`: copies of transcripts, the most important first. `elsewhere`: other places of the transcript.

    `living`: another process writes to the transcript, so it must not be replaced. Raises no OSError.
    """
    copies, unreadable = _copies(conversation, kept, elsewhere)
    try:
        found = place.read(_COMPARED_MAX_BYTES)
    except OSError as error:
        if error.errno != errno.ENOENT or isinstance(error, NotRegular):
            reason = folded(error.strerror or str(error), 200)
            loss = f"its transcript cannot be compared with its archive ({reason})" if copies else None
            return Recovery(loss=loss)
        found = None
    if found is not None and found.cut:
        return Recovery(place, touched=_is_old(found.status, now_s))
    compared = [copy for copy in copies if copy.data is not None]
    if (found is None or not (found.data or living)) and len(compared) < len(copies):
        return _large_recovery(place, copies, found, reader)
    live = _Version(b"") if found is None else _version(found.data, reader)
    readable = live.data if live.ids else b""
    extra = [copy for copy in compared if not _includes(live.data, copy)]
    if found is not None and live.data and not extra:
        return Recovery(place, touched=_is_old(found.status, now_s), loss=_broken(live))
    versions = [_version(copy.data or b"", reader) for copy in compared]
    joined = _version(_join([*(copy.data or b"" for copy in compared), readable], reader), reader)
    if live.ids:
        assert found is not None
        is_cut = any((copy.data or b"").startswith(live.data) for copy in extra) and joined.ids > live.ids
        if living or not (is_cut or _is_richer(joined, live)):
            loss = _broken(live) or _lack(live, versions)
            return Recovery(place, touched=not living and _is_old(found.status, now_s), loss=loss)
        return Recovery(place, lambda: [joined.data], found.status, loss=_broken(joined))
    newest_first = [joined, *reversed(versions)]
    richest = next((version for version in newest_first if version.whole), None)
    richest = richest or max(newest_first, key=lambda version: len(version.chain))
    if not richest.ids:
        if found is not None and found.data:  # in a form that this version does not know
            return Recovery(place)
        what = "is empty" if found is not None else "is gone"
        why = f"its archive cannot be read ({unreadable})" if unreadable else "no archive has it"
        if compared:
            why = "its archive has no readable entry of it"
        return Recovery(refusal=f"the transcript {folded(place.path, 4096)} {what}, and {why}")
    if living and found is not None:
        return Recovery(place, loss="its transcript has no readable entry")
    aside = None if found is None or not found.data else f"{place.parts[-1]}.{os.urandom(4).hex()}.damaged"
    replaced = None if found is None else found.status
    loss = _broken(richest) or _lack(richest, versions)
    return Recovery(place, lambda: [richest.data], replaced, aside, loss=loss)


def _is_richer(one: _Version, other: _Version) -> bool:
    return not other.whole and (one.whole or len(one.chain) > len(other.chain))


def _lack(version: _Version, others: Sequence[_Version]) -> str | None:
    """Name the entries that only the others have, as the end of a sentence."""
    lacks = frozenset[str]().union(*(other.ids for other in others)) - version.ids
    if not lacks:
        return None
    more = "1 more entry" if len(lacks) == 1 else f"{len(lacks)} more entries"
    return f"its archive has {more}; sm export writes them to a file"


def _large_recovery(
    place: PlacedFile, copies: Sequence[_Copy], found: Content | None, reader: TranscriptReader
) -> Recovery:
    """Give back the newest copy that is too large to compare, with the lines of those that are newer.

    `found`: the empty transcript, or None if it is gone.
    """
    newest = max(number for number, copy in enumerate(copies) if copy.data is None)
    large, newer = copies[newest], copies[newest + 1 :]

    def pieces() -> Iterator[bytes]:
        yield from large.lines()
        yield _join((copy.data or b"" for copy in newer), reader)

    loss = None
    if large.begins_at:
        loss = (
            f"the first {large.begins_at:,} bytes of the conversation are lost: its archive has only the rest"
        )
    replaced = None if found is None else found.status
    return Recovery(place, pieces, replaced, loss=loss)


def has_copy(conversation: str, kept: Iterable[KeptTranscript]) -> bool:
    """True if one of them is a transcript of the conversation. Blocks."""
    return any(_is_of(conversation, copy.name) for copy in kept)


def _is_of(conversation: str, name: str) -> bool:
    return name.rpartition("/")[2] == f"{conversation}.jsonl" and "/subagents/" not in name


def _copies(
    conversation: str, kept: Iterable[KeptTranscript], elsewhere: Sequence[str]
) -> tuple[list[_Copy], str | None]:
    """The readable copies, oldest first, and why one cannot be read."""
    found, unreadable = list[_Copy](), None
    for copy in reversed([copy for copy in kept if not copy.name or _is_of(conversation, copy.name)]):
        try:
            found.append(_read(copy.open, copy.begins_at))
        except OSError as error:
            unreadable = folded(error.strerror or str(error), 200)
    for path in elsewhere:
        try:
            found.append(_read(partial(whole_file, path)))
        except OSError as error:
            if error.errno != errno.ENOENT:
                unreadable = folded(error.strerror or str(error), 200)
    return found, unreadable


def _read(open: OpenPart, begins_at: int = 0) -> _Copy:
    with open() as part:
        data = None if part.size > _COMPARED_MAX_BYTES else part.read(0, part.size)
    return _Copy(open, begins_at, data)


def _includes(live: bytes, copy: _Copy) -> bool:
    data = copy.data or b""
    return live[copy.begins_at : copy.begins_at + len(data)] == data


def _version(data: bytes, reader: TranscriptReader) -> _Version:
    entries = reader.entries([line for line in data.split(b"\n") if line])
    by_id = {entry.id: entry for entry in entries}
    chain, seen = list[TranscriptEntry](), set[str]()
    entry = entries[-1] if entries else None
    while entry is not None and entry.id not in seen:
        seen.add(entry.id)
        chain.append(entry)
        entry = by_id.get(entry.follows or "")
    return _Version(data, frozenset(by_id), tuple(chain), bool(chain) and not chain[-1].follows)


def _join(parts: Iterable[bytes], reader: TranscriptReader) -> bytes:
    """The lines of all parts in their order, and each entry once. A last line that was cut off is left out.

    Other lines come again, as those of the modes: the last one of a kind counts.
    """
    lines = list[bytes]()
    for part in parts:
        known, whole = frozenset(lines), list(_whole_lines(part))
        shared = list(takewhile(known.__contains__, whole))
        if not any(reader.entries([line]) for line in shared):
            shared = []  # a part that begins later also begins with a mode
        new = whole[len(shared) :]
        lines += [line for line in new if line not in known or not reader.entries([line])]
    return b"".join(line + b"\n" for line in lines)


def _whole_lines(part: bytes) -> list[bytes]:
    *lines, last = part.split(b"\n")
    try:
        json.loads(last or b"x")
    except (ValueError, RecursionError):
        pass
    else:
        lines.append(last)
    return [line for line in lines if line]


def _broken(version: _Version) -> str | None:
    if version.whole or not version.chain:
        return None
    return f"the conversation before {version.begins} is lost: its transcript begins there"


def _is_old(status: os.stat_result, now_s: float) -> bool:
    return now_s - status.st_mtime > _DAY_S
