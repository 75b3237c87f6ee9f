"""Bounds the time of calls on a link: a program that accepts nothing must not block its callers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import suppress
from typing import TypeVar

from sm.errors import WaitTimeout
from sm.providers.links import AgentLink, LinkAnswer, LinkEvent, RequestId

T = TypeVar("T")

CALL_WITHIN_S = 10.0
_CLOSED_WITHIN_S = 2.0


class BoundedLink(AgentLink):
    """A link whose calls raise ConnectionError if the program does not take them in time."""

    def __init__(self, link: AgentLink) -> None:
        self._link = link

    def events(self) -> AsyncIterator[LinkEvent]:
        return self._link.events()

    async def send(self, text: str, id: str, *, waits: bool) -> None:
        await within(CALL_WITHIN_S, self._link.send(text, id, waits=waits))

    async def answer(self, request: RequestId, answer: LinkAnswer) -> None:
        await within(CALL_WITHIN_S, self._link.answer(request, answer))

    async def interrupt(self) -> None:
        await within(CALL_WITHIN_S, self._link.interrupt())

    async def close(self) -> None:
        """Close the link, or leave it alone if that takes too long."""
        with suppress(ConnectionError):
            await within(_CLOSED_WITHIN_S, self._link.close())


async def within(limit_s: float, call: Awaitable[T]) -> T:
    """The result of a call. Raises ConnectionError after `limit_s`, or if the link itself has waited too long."""
    try:
        async with asyncio.timeout(limit_s):
            return await call
    except WaitTimeout as error:
        raise ConnectionError(error.message) from None
    except TimeoutError:
        raise ConnectionError(f"the program has not answered within {limit_s:g} s") from None
