"""Records how far the outbox is with an effect."""

from sm.core.dataclass import dataclass
from sm.core.states import EventType
from sm.core.wording import subject
from sm.store import Effect, Store


@dataclass(frozen=True, slots=True, eq=False)
class EffectRecord:
    _store: Store

    async def mark_taken(self, effect: Effect) -> None:
        """Mark the effect as started. A crash from here on makes it a dead letter, because effects run once."""
        async with self._store.transaction() as tx:
            await tx.take(effect)

    async def mark_finished(self, effect: Effect, *, dead: str | None = None) -> None:
        """Mark the effect as done, or as failed for the reason `dead`, which becomes an event of the session."""
        async with self._store.transaction() as tx:
            await tx.finish(effect, dead=dead)
            session = tx.find(effect.session_id)
            if dead and session is not None:
                await tx.event(EventType.WARNING, session, tx.now, f"{subject(session)} - {dead}", {})
