"""What agents say beside what they do: who is told of it, and in which order."""

from collections.abc import Callable
from typing import Protocol

from sm.core.observation import Source
from sm.monitor.agent import Observed
from sm.providers.readers import AcceptedInput, HookEvent, TranscriptDelta

_WAITS_FOR_HOOK_S = 5.0
"""How long an agent may wait for a hook that it has called."""


class News(Protocol):
    """Whoever is told of what agents say beside what they do. The same may be told more than once, and late."""

    async def heard(self, session_id: str, heard: AcceptedInput, source: Source) -> None:
        """The agent has taken a text as input, or keeps it for later."""

    async def tool_begins(self, session_id: str) -> None:
        """A tool is about to be used; the agent waits until this returns, and may open a dialog then."""

    async def tool_ended(self, session_id: str, tool_use: str, allowed: bool) -> None:
        """The use of a tool is over. `allowed`: False when a person has refused it."""

    async def turn_ends(self, session_id: str) -> None:
        """Its turn is about to end: as soon as this returns, with which the hook may wait for a moment."""

    async def turn_ended(self, session_id: str, at: float) -> None:
        """A turn was finished, at this time in seconds since the epoch."""

    def gone(self, session_id: str) -> None:
        """Its process is gone: what it said last means nothing for another one."""


async def tell_of_hook(
    news: News, observed: Observed, hook: HookEvent, at: float, clock: Callable[[], float]
) -> None:
    """What a hook says that was emitted at `at`. The agent waits for it, unless it comes out of the spool."""
    session_id = observed.session_id
    who = "" if hook.observation is None else hook.observation.who
    if hook.accepted is not None:
        await news.heard(session_id, hook.accepted, Source.HOOK)
    if hook.turn_finished:
        await news.turn_ended(session_id, at)
        if clock() - at < _WAITS_FOR_HOOK_S:
            await news.turn_ends(session_id)
    if hook.tool_ended is not None:
        observed.uses.ends(hook.tool_ended)
        await news.tool_ended(session_id, hook.tool_ended, True)
    if hook.tool_started is not None:
        observed.uses.begins(hook.tool_started, who, hook.tool_digest)
        if clock() - at < _WAITS_FOR_HOOK_S:  # else it comes out of the spool
            await news.tool_begins(session_id)


async def tell_of_lines(
    news: News, observed: Observed, lines: TranscriptDelta, clock: Callable[[], float]
) -> None:
    """What new lines of a transcript say."""
    session_id = observed.session_id
    for heard in lines.accepted:
        await news.heard(session_id, heard, Source.TRANSCRIPT)
    for tool_use, allowed in lines.tools_ended.items():
        observed.uses.ends(tool_use)
        observed.ledger.used(tool_use)
        await news.tool_ended(session_id, tool_use, allowed)
    if lines.turn_finished is not None:
        await news.turn_ended(session_id, min(lines.turn_finished, clock()))
