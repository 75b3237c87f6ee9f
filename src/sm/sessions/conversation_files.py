"""Finds the transcript of a conversation for a new process, and gives it back from an archive."""

import asyncio
import errno
import os
import time
from collections.abc import Iterable, Iterator
from itertools import chain

from sm.core.dataclass import dataclass
from sm.core.labels import short_label
from sm.core.models import Launch, Session
from sm.core.session_index import oldest_first
from sm.errors import IllegalState, StorageFull
from sm.linux.placed_files import PlacedFile
from sm.operations.hints import Hint, Use
from sm.operations.session_operations import SPAWN
from sm.providers.base import Provider
from sm.providers.readers import TranscriptReader
from sm.sandboxes.home import ContainerHome, HomeOf
from sm.sessions.home_files import UserOf
from sm.sessions.keepers import KeptTranscript, SessionKeeper
from sm.sessions.transcript_recovery import Recovery, has_copy, recovery_of
from sm.store import Store
from sm.store.history import Chosen

_DIRECTORIES_MAX = 2_000
_LOOKED_AT = 20
"""The number of other sessions with the same conversation whose archives are read."""


@dataclass(frozen=True, slots=True)
class ConversationFiles:
    """`user_of`: the user of a container's agents."""

    _store: Store
    _home_of: HomeOf
    _keeper: SessionKeeper
    _user_of: UserOf = lambda workspace: None

    async def recovery(
        self, session: Session, provider: Provider, launch: Launch, conversation: str, *, copied: bool = False
    ) -> Recovery:
        """Compare the transcript that a process with this launch finds with all copies. Writes nothing.

        `copied`: the process makes a copy, and does not continue the conversation. Raises IllegalState when nothing of
        the conversation can be read anywhere.
        """
        reader = provider.readers.transcripts
        if reader is None:
            return Recovery()
        copies = await self._copies(session, conversation)
        sessions = self._store.sessions.values()
        living = any(s.conversation == conversation and s.exit is None and s.process for s in sessions)
        found = await asyncio.to_thread(
            self._look, session, reader, launch, conversation, copies, living=living
        )
        if found.refusal is not None:
            verb = "copied" if copied else "resumed"
            raise IllegalState(
                f"the conversation of session {short_label(session)} cannot be {verb}: {found.refusal}",
                Hint("start a new session: ", Use(SPAWN, "AGENT_TYPE")),
            )
        return found

    async def is_archived(self, session: Session) -> bool:
        """True if an archive has the transcript of the session's conversation."""
        if session.conversation is None:
            return False
        copies = await self._copies(session, session.conversation)
        return await asyncio.to_thread(has_copy, session.conversation, copies)

    async def give_back(self, session: Session, recovery: Recovery) -> None:
        """Raises StorageFull, and IllegalState when the transcript cannot be written; then nothing is changed."""
        try:
            await asyncio.to_thread(recovery.carry_out)
        except OSError as error:
            why = error.strerror or str(error)
            what = f"cannot write the transcript of session {short_label(session)}: {why}"
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StorageFull(what, "free disk space, then try again") from None
            raise IllegalState(what, "sm export writes the archive of the session to a file") from None

    async def _copies(self, session: Session, conversation: str) -> Iterator[KeptTranscript]:
        """The copies of the session and of others with the same conversation, such as the original of a fork."""
        past = await self._store.history.all(Chosen("conversation = ?", (conversation,)))
        kept = [s for s in self._store.sessions.values() if s.conversation == conversation]
        newest = sorted([*past, *kept], key=oldest_first)[-_LOOKED_AT:]
        ids = dict.fromkeys((session.id, *(s.id for s in newest)))
        return chain.from_iterable(map(self._keeper.transcripts, ids))

    def _look(
        self,
        session: Session,
        reader: TranscriptReader,
        launch: Launch,
        conversation: str,
        copies: Iterable[KeptTranscript],
        *,
        living: bool,
    ) -> Recovery:
        home = self._home_of(session)
        if home is not None:
            user = self._user_of(session.workspace)
            place, elsewhere = _contained_place(session, reader, launch, conversation, home, user)
        else:
            place, elsewhere = _place(session, reader, launch, conversation)
        if place is None:
            return Recovery()
        return recovery_of(place, conversation, reader, copies, elsewhere, living=living, now_s=time.time())


def _reported(session: Session, conversation: str) -> str | None:
    """The transcript that the agent itself has reported for this conversation."""
    transcript = session.transcript
    return transcript if transcript is not None and conversation in os.path.basename(transcript) else None


def _contained_place(
    session: Session,
    reader: TranscriptReader,
    launch: Launch,
    conversation: str,
    home: ContainerHome,
    user: tuple[int, int] | None,
) -> tuple[PlacedFile | None, list[str]]:
    """The file in the home directory of a container. An agent can write there: nothing outside is looked at."""
    expected = home.host_path(reader.path(launch.environment, session.working_dir, conversation))
    paths = [path for path in (_reported(session, conversation), expected) if path is not None]
    below = [place for path in paths if (place := _below(home.directory, path, user=user)) is not None]
    there = next((place for place in below if home.has_file(place.path)), None)
    return there or (below[0] if below else None), []


def _place(
    session: Session, reader: TranscriptReader, launch: Launch, conversation: str
) -> tuple[PlacedFile | None, list[str]]:
    """The file on this host, and other places at which it may be."""
    root = reader.root(launch.environment)
    expected = reader.path(launch.environment, os.path.realpath(session.working_dir), conversation)
    reported = _reported(session, conversation)
    below = [
        place
        for path in (reported, expected)
        if path is not None and (place := _below(root, path, follow=True)) is not None
    ]
    there = next((place for place in below if os.path.lexists(place.path)), None)
    if there is not None:
        return there, []
    elsewhere = [] if reported is None else [reported]
    elsewhere += _other_projects(root, f"{conversation}.jsonl")
    return (below[0] if below else None), elsewhere


def _below(
    base: str, path: str, *, follow: bool = False, user: tuple[int, int] | None = None
) -> PlacedFile | None:
    for start in (base, os.path.realpath(base)) if follow else (base,):
        parts = os.path.relpath(path, start).split("/")
        if ".." not in parts and parts != ["."]:
            return PlacedFile(base, tuple(parts), follow, user)
    return None


def _other_projects(root: str, name: str) -> list[str]:
    """The files of this name in the directories below `root`."""
    try:
        names = os.listdir(root)[:_DIRECTORIES_MAX]
    except OSError:
        return []
    return [path for directory in names if os.path.isfile(path := f"{root}/{directory}/{name}")]
