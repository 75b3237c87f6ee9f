"""Finds the conversation that a new process of a session resumes or copies."""

import asyncio
import os
from dataclasses import dataclass

from sm.core.labels import short_label
from sm.core.models import Launch, Session
from sm.errors import IllegalState
from sm.providers.base import Provider


@dataclass(frozen=True, slots=True)
class ConversationSource:
    """The conversation with which a process starts."""

    id: str
    copied: bool
    """The process makes a copy of the conversation, and does not continue it."""


async def source_of(session: Session, launch: Launch, provider: Provider) -> ConversationSource:
    """The conversation that continues the session. `launch`: of the session's first process.

    An agent CLI stores a copy only with its first prompt. A fork that ended before has none, and is copied again.
    Raises IllegalState when the session has no conversation.
    """
    if session.conversation is None:
        raise IllegalState(
            f"session {short_label(session)} has no conversation to resume",
            "start a new session: sm spawn AGENT_TYPE",
        )
    fork = provider.fork_in(launch.argv)
    if fork is None or fork.copy != session.conversation or await _is_stored(session, launch, provider):
        return ConversationSource(session.conversation, copied=False)
    return ConversationSource(fork.original, copied=True)


async def _is_stored(session: Session, launch: Launch, provider: Provider) -> bool:
    reader, conversation = provider.readers.transcripts, session.conversation
    if reader is None or conversation is None:
        return True
    real_dir = await asyncio.to_thread(os.path.realpath, session.working_dir)
    paths = [reader.path(launch.environment, real_dir, conversation)]
    if session.transcript is not None and conversation in session.transcript:
        paths.append(session.transcript)
    return await asyncio.to_thread(lambda: any(map(os.path.exists, paths)))
