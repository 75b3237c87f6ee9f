"""Finds the conversation that a new process of a session resumes or copies."""

import os

from sm.core.dataclass import dataclass
from sm.core.labels import short_label
from sm.core.models import Launch, Session
from sm.errors import IllegalState
from sm.linux.file_threads import FileThreads
from sm.operations.hints import Hint, Use
from sm.operations.session_operations import SPAWN
from sm.providers.base import Provider
from sm.providers.readers import Readers
from sm.sandboxes.home import ContainerHome
from sm.store import Store


@dataclass(frozen=True, slots=True)
class ConversationSource:
    """The conversation with which a process starts."""

    id: str
    copied: bool
    """The process makes a copy of the conversation, and does not continue it."""
    prompt: str | None = None
    """The prompt of a conversation that has not begun, empty without one to pass. The process begins it."""


async def source_of(
    session: Session,
    launch: Launch,
    provider: Provider,
    store: Store,
    home: ContainerHome | None,
    threads: FileThreads,
) -> ConversationSource:
    """The conversation that continues the session. `launch`: of the session's first process.

    `home`: the home directory of the session's container.

    An agent CLI stores a conversation only with its first prompt. So a session that ended before, such as in a dialog
    of its start, begins with its prompt again, and a fork copies again. Raises IllegalState when the session has no
    conversation.
    """
    if session.conversation is None:
        raise IllegalState(
            f"session {short_label(session)} has no conversation to resume",
            Hint("start a new session: ", Use(SPAWN, "AGENT_TYPE")),
        )
    fork, readers = provider.fork_in(launch.argv), provider.readers
    if fork is not None and fork.copy == session.conversation:
        stored = await _is_stored(session, launch, readers, home, threads)
        return ConversationSource(session.conversation if stored else fork.original, copied=not stored)
    unbegun = await is_unbegun(session, launch, readers, store, home, threads)
    prompt = await _prompt_to_pass(session, store) if unbegun else None
    return ConversationSource(session.conversation, copied=False, prompt=prompt)


async def _prompt_to_pass(session: Session, store: Store) -> str:
    """The prompt of the session; empty without one, and if it waits as a message for the session."""
    prompt = await store.spawn_prompt(session.id) or ""
    waiting = await store.mail.texts([message.id for message in store.mail.queued().get(session.id, ())])
    return "" if prompt in waiting.values() else prompt


async def is_unbegun(
    session: Session,
    launch: Launch,
    readers: Readers,
    store: Store,
    home: ContainerHome | None,
    threads: FileThreads,
) -> bool:
    """True if nothing shows that the agent has ever stored the conversation with which the session was started.

    The daemon's reading position shows a transcript that somebody has deleted. A position at the beginning shows only
    that a hook has named the file.
    """
    if session.conversation not in launch.argv:
        return False
    if any(position.offset for position in (await store.measures.positions(session.id)).values()):
        return False
    return not await _is_stored(session, launch, readers, home, threads)


async def _is_stored(
    session: Session, launch: Launch, readers: Readers, home: ContainerHome | None, threads: FileThreads
) -> bool:
    reader, conversation = readers.transcripts, session.conversation
    if reader is None or conversation is None:
        return True
    reported = []
    if session.transcript is not None and conversation in session.transcript:
        reported.append(session.transcript)
    if home is not None:
        path = home.host_path(reader.path(launch.environment, session.working_dir, conversation))
        paths = [*reported, *([] if path is None else [path])]
        return await threads.run(home.directory, lambda: any(map(home.has_file, paths)))
    real_dir = await threads.run(session.working_dir, os.path.realpath, session.working_dir)
    paths = [reader.path(launch.environment, real_dir, conversation), *reported]
    return await threads.run(paths[0], lambda: any(map(os.path.exists, paths)))
