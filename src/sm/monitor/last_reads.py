"""Reads transcripts to their end after the process of their session is gone."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from sm.core.dataclass import dataclass
from sm.errors import SmError
from sm.monitor.agent import Agent
from sm.monitor.sources import Sources

log = logging.getLogger(__name__)

_WITHIN_S = 5.0
_HANGING_MAX = 2
"""How many reads may hang at a time: each may hold a thread, as on a network file system that does not answer."""


@dataclass(eq=False)
class _Reading:
    lock: asyncio.Lock
    """The lock of its `Agent`."""
    task: asyncio.Task[str | None]
    is_late: bool = False


class LastReads:
    """Reads of the last lines. A read that takes long goes on, so that it is never begun twice."""

    def __init__(self, sources: Sources, forget: Callable[[str], None]) -> None:
        """`forget`: called with the id of a session after its last lines were read."""
        self._sources = sources
        self._forget = forget
        self._reading: dict[str, _Reading] = {}

    async def read(self, agent: Agent) -> str | None:
        """Read the transcripts of the agent, or wait for the read that goes on.

        Returns why the last lines are still unread, or None if they were read.
        """
        reading = self._reading.get(agent.session_id)
        if reading is None:
            if sum(other.is_late for other in self._reading.values()) >= _HANGING_MAX:
                return "the transcripts of other sessions cannot be read either"
            reading = _Reading(agent.lock, asyncio.create_task(self._read(agent)))
            self._reading[agent.session_id] = reading
            reading.task.add_done_callback(partial(self._end, agent.session_id, reading))
        await asyncio.wait((reading.task,), timeout=_WITHIN_S)
        if not reading.task.done():
            reading.is_late = True
            return f"no answer within {_WITHIN_S:g} s"
        return "the read was stopped" if reading.task.cancelled() else reading.task.result()

    async def _read(self, agent: Agent) -> str | None:
        try:
            async with agent.lock:
                await self._sources.prepare(agent)
                await self._sources.transcript(agent)
        except (OSError, SmError) as error:
            why = error.message if isinstance(error, SmError) else error.strerror or type(error).__name__
            log.warning(
                "could not read the end of a transcript: %s", why, extra={"sm_session": agent.session_id}
            )
            return why
        except Exception as error:
            log.exception("failed to read the end of a transcript", extra={"sm_session": agent.session_id})
            return type(error).__name__
        return None

    def _end(self, session_id: str, reading: _Reading, task: asyncio.Task[str | None]) -> None:
        if self._reading.get(session_id) is reading:
            del self._reading[session_id]
            self._forget(session_id)

    def stop(self, session_id: str) -> asyncio.Lock | None:
        """Stop the read that goes on: a new process reads all lines of the session.

        Returns the lock that the read holds until it has stopped.
        """
        reading = self._reading.pop(session_id, None)
        if reading is None:
            return None
        reading.task.cancel()
        return reading.lock

    def close(self) -> None:
        for session_id in tuple(self._reading):
            self.stop(session_id)
