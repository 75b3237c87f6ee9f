"""Reads what a session changed for its page in `sm top`, with git as `sm diff` runs it, in a thread."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial
from subprocess import SubprocessError

from sm.cli.display.patch_lines import (
    Piece,
    PieceRole,
    Pieces,
    Sizes,
    file_counts,
    file_details,
    file_lines,
    file_name,
    safe,
)
from sm.cli.display.patch_syntax import Syntax, SyntaxReader
from sm.cli.session_patch import ReadLimits, files_of, hidden_changes_warning, work_of
from sm.cli.tui.source import in_thread
from sm.client.http import Client
from sm.core.dataclass import dataclass
from sm.core.lines import plural
from sm.core.patches import FilePatch, LineSign
from sm.core.session_lines import name_to_type
from sm.errors import SmError

_EVERY_S = 5.0
_REST = 10
"""The pause between two readings is at least so many times as long as a reading."""
_SHOWN_S = 0.3
"""The first reading shows what it has after this time, and then each time it has passed again."""
_LIMITS = ReadLimits(seconds=120.0, line_bytes=65_536, all_bytes=16 << 20)
_ROWS_MAX = 20_000
_RULE = 500
"""The view cuts the rule below the name of a file to its width."""


@dataclass(frozen=True, slots=True)
class ShownChanges:
    """The files and their lines, as far as they are read."""

    rows: Sequence[Pieces] = ()
    files: Sequence[Pieces] = ()
    file_rows: Sequence[int] = ()
    """The row with the name of each file."""
    hunk_rows: Sequence[int] = ()
    """The row with the numbers of each hunk."""
    summary: str = ""


def words_alone(*lines: str) -> ShownChanges:
    return ShownChanges([[(safe(line), PieceRole.CONTEXT, Syntax.NONE)] for line in lines])


@dataclass(slots=True)
class _Collected:
    """The rows so far."""

    rows: list[Pieces] = field(default_factory=list)
    files: list[Pieces] = field(default_factory=list)
    file_rows: list[int] = field(default_factory=list)
    hunk_rows: list[int] = field(default_factory=list)
    added: int = 0
    deleted: int = 0

    def add(self, file: FilePatch, sizes: Sizes, reader: SyntaxReader) -> None:
        if self.rows:
            self.rows.append([])
        self.file_rows.append(len(self.rows))
        self.files.append(_file_row(file, sizes))
        self.added += file.count(LineSign.ADDED)
        self.deleted += file.count(LineSign.DELETED)
        for number, pieces in enumerate(file_lines(file, sizes, _RULE, reader)):
            if number and self.is_full:
                return
            if pieces and pieces[0][1] is PieceRole.HUNK:
                self.hunk_rows.append(len(self.rows))
            self.rows.append(pieces)

    @property
    def is_full(self) -> bool:
        return len(self.rows) >= _ROWS_MAX

    def shown(self) -> ShownChanges:
        summary = f"{plural(len(self.files), 'file')} +{self.added} -{self.deleted}"
        return ShownChanges(
            list(self.rows), list(self.files), list(self.file_rows), list(self.hunk_rows), summary
        )


def _file_row(file: FilePatch, sizes: Sizes) -> Pieces:
    details = ", ".join(file_details(file, sizes))
    more: list[Piece] = [(f"  {details}", PieceRole.DETAIL, Syntax.NONE)] if details else []
    name = (f" {file_name(file)}", PieceRole.CONTEXT, Syntax.NONE)
    return [name, *file_counts(file), *more]


async def follow_changes(client: Client, session_id: str, show: Callable[[ShownChanges], object]) -> None:
    """Call `show` with the changes, and again when they are other ones. Ends git when it is cancelled."""
    loop, is_first = asyncio.get_running_loop(), True
    while True:
        reading = ChangesReading(client, session_id, lambda found: loop.call_soon_threadsafe(show, found))
        began_s = loop.time()
        try:
            await in_thread(partial(reading.run, in_parts=is_first))
        finally:
            reading.end()
        is_first = False
        await asyncio.sleep(max(_EVERY_S, _REST * (loop.time() - began_s)))


class ChangesReading:
    """One reading. `show` is called in the thread of `run`."""

    def __init__(
        self,
        client: Client,
        session_id: str,
        show: Callable[[ShownChanges], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._session_id = session_id
        self._show = show
        self._clock = clock
        self._is_ended = False
        self._end_git: Callable[[], None] = lambda: None

    def end(self) -> None:
        """Let the reading end soon, without a further call of `show`."""
        self._is_ended = True
        self._end_git()

    def _begin(self, end: Callable[[], None]) -> None:
        self._end_git = end
        if self._is_ended:
            end()

    def run(self, *, in_parts: bool = False) -> None:
        """Read the changes, and show them, or the reason why they cannot be read."""
        try:
            found = self._read(in_parts=in_parts)
        except SmError as error:
            found = words_alone(error.message, *([f"hint: {error.hint}"] if error.hint else []))
        except (OSError, SubprocessError) as error:  # such as a full disk: the view goes on
            found = words_alone(f"git cannot run: {error}")
        if not self._is_ended:
            self._show(found)

    def _read(self, *, in_parts: bool) -> ShownChanges:
        work = work_of(self._client, self._session_id, {"seen": True})
        found, reader, shown_s = _Collected(), SyntaxReader(), self._clock()
        warning = hidden_changes_warning(work.top)
        if warning is not None:
            found.rows += words_alone(warning).rows
        with files_of(work, limits=_LIMITS, begun=self._begin) as files:
            for file, sizes in files:
                if self._is_ended:
                    break
                found.add(file, sizes, reader)
                if found.is_full:
                    command = f"sm diff {name_to_type(work.session)}"
                    found.rows += words_alone(
                        f"only the first {_ROWS_MAX:,} lines are shown; all of them: {command}"
                    ).rows
                    break
                if in_parts and self._clock() - shown_s > _SHOWN_S:
                    self._show(found.shown())
                    shown_s = self._clock()
        return found.shown() if found.rows else words_alone("no changes")
