"""A message that is typed into an input box, as the database, its session and its process have it."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from sm.core.messages import IN_ITS_QUEUE, Message
from sm.core.models import Session
from sm.core.states import MessageState
from sm.linux.processes import is_alive
from sm.messaging.messages import busy
from sm.messaging.outcome import Proof
from sm.providers.base import Composer
from sm.store import Store


class Typed:
    """A `Delivery`. `begins`, `explains` and `returned` write down what the typist has to say of it."""

    def __init__(
        self,
        store: Store,
        begins: Callable[[], Awaitable[bool]],
        explains: Callable[[str], Awaitable[None]],
        returned: Callable[[str], Awaitable[str | None]],
        session: Session,
        message: Message,
        composer: Composer,
        letter: str,
        interrupt: str | None,
    ) -> None:
        self.session_id = session.id
        self.terminal = session.terminal
        self.letter = letter
        self.composer = composer
        self.interrupt = interrupt
        self._begins = begins
        self._explains = explains
        self._returned = returned
        self._store = store
        self._message = message

    async def begins(self) -> bool:
        return await self._begins()

    async def explain(self, why: str) -> None:
        await self._explains(why)

    async def returned(self, draft: str) -> str | None:
        return await self._returned(draft)

    def busy(self, why: str) -> str:
        session = self._store.sessions.get(self.session_id)
        return why if session is None else busy(session, self._store.mail.open, why)

    def gone(self) -> bool:
        session = self._store.sessions.get(self.session_id)
        return (
            session is None
            or session.exit is not None
            or session.process is None
            or not is_alive(session.process)
        )

    async def proof(self, within_s: float) -> Proof:
        if self._waits() and within_s > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await self._store.changed(lambda: not self._waits())
        if self._waits():
            return Proof.NONE
        message = await self._store.mail.message(self._message.id)
        if message.state is not MessageState.SUBMITTED:
            return Proof.OVER
        return Proof.QUEUED if message.evidence == IN_ITS_QUEUE else Proof.TAKEN

    def _waits(self) -> bool:
        now = self._store.mail.open.messages.get(self._message.id)
        return now is not None and now.state is MessageState.DELIVERING
