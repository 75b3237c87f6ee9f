"""Asks capabilities for what they keep of sessions beyond their terminals and transcripts, such as archives."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TypeAlias

from sm.core.dataclass import dataclass
from sm.linux.files import FilePart

OpenPart: TypeAlias = Callable[[], AbstractContextManager[FilePart]]
"""Opens something for reading. Raises OSError."""


@dataclass(frozen=True, slots=True)
class KeptTranscript:
    """A copy of a transcript. `name`: as of `monitor.transcripts.archive_names`.

    With an empty name, the copies cannot be read: `open` raises the reason.
    """

    name: str
    open: OpenPart
    begins_at: int = 0
    """The first byte of the transcript that the copy has."""


@dataclass(frozen=True, slots=True)
class RemovedSession:
    """Facts about a removed session. Each is one line of text, because `Records.remove` joins them by newlines."""

    session_id: str
    effective_mode: str = ""
    worktree: str = ""
    """Empty for none."""
    branch: str = ""
    label: str = ""
    """Empty in the results of older versions."""


@dataclass(frozen=True, slots=True)
class PlaceUse:
    """Other sessions at the place of a removed session, including those that the caller may not see."""

    used: bool
    """A session works there."""
    sandboxed: bool
    """The removed session was sandboxed, or another sandboxed session could write there."""
    repository: str | None = None
    """The repository of the place, if sm has made the place in it."""
    git_directory: str | None = None
    """The git directory of that repository."""
    start: str | None = None
    """The commit that the place began with, empty for none."""
    keeps_branch: bool = False
    """The branch was there before the place, and stays after it."""
    teardown: Sequence[str] = ()
    """Commands to run in the place before it is removed."""
    teardown_within_s: float = 0.0


class SessionKeeper:
    """Keeps the output and the transcripts of sessions. This base keeps nothing.

    `since_s`: the start of the process in the terminal, in seconds since the epoch.
    """

    async def keep(self, session_id: str, terminal: str, since_s: float) -> str | None:
        """Keep the session as it is. Return the reason for a failure.

        Raises TerminalUnreachable, and StorageFull when the disk is full: try again later.
        """
        return None

    async def is_kept(self, session_id: str, since_s: float) -> bool:
        """True if the terminal of the process can be closed: all of its output is kept, or nothing keeps it."""
        return True

    async def read(self, session_id: str, lines: int, since_s: float) -> list[str] | None:
        """The last `lines` lines that were kept after `since_s`, or None if there are none. Raises ExternalError."""
        return None

    async def erase(self, session_id: str) -> str | None:
        """Delete what is kept of a removed session. Return the reason for a failure: try again later."""
        return None

    def transcripts(self, session_id: str) -> Iterator[KeptTranscript]:
        """The copies of its transcripts, the newest first. Blocks. Raises no OSError."""
        return iter(())

    async def use_of(self, removed: RemovedSession) -> PlaceUse | None:
        """The use of the place that was made for a removed session, or None if it had no place of its own."""
        return None


class Keepers(SessionKeeper):
    """The keepers of all capabilities, which add theirs to `each`."""

    def __init__(self, *each: SessionKeeper) -> None:
        self.each = list(each)

    async def keep(self, session_id: str, terminal: str, since_s: float) -> str | None:
        reasons = [await keeper.keep(session_id, terminal, since_s) for keeper in self.each]
        return next(filter(None, reasons), None)

    async def is_kept(self, session_id: str, since_s: float) -> bool:
        return all([await keeper.is_kept(session_id, since_s) for keeper in self.each])

    async def read(self, session_id: str, lines: int, since_s: float) -> list[str] | None:
        for keeper in self.each:
            if (found := await keeper.read(session_id, lines, since_s)) is not None:
                return found
        return None

    async def erase(self, session_id: str) -> str | None:
        reasons = [await keeper.erase(session_id) for keeper in self.each]
        return next(filter(None, reasons), None)

    def transcripts(self, session_id: str) -> Iterator[KeptTranscript]:
        for keeper in self.each:
            yield from keeper.transcripts(session_id)

    async def use_of(self, removed: RemovedSession) -> PlaceUse | None:
        uses = [await keeper.use_of(removed) for keeper in self.each]
        return next(filter(None, uses), None)
