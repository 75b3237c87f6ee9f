"""Builds stars, and registers their parts at the kernel."""

from collections.abc import Collection, Mapping
from typing import Any

from sm.capabilities.stars.model import Star, StarTimer
from sm.capabilities.stars.operations import STAR, UNSTAR
from sm.capabilities.stars.settings import StarsSection
from sm.capabilities.stars.tables import PART
from sm.core.labels import short_label
from sm.core.text import validate_text
from sm.core.timers import Timer
from sm.core.timestamps import later
from sm.errors import IllegalState
from sm.kernel import Kernel, OperationCall
from sm.sessions.session_fields import SessionField
from sm.wire_types.session_answers import StarView

_REASON_MAX = 40


class Stars(SessionField):
    """Use cases of stars, and the field of a session."""

    name = "star"

    def __init__(self, kernel: Kernel) -> None:
        self._store, self._authorizer = kernel.store, kernel.authorizer
        self._settings = kernel.config.with_keys(StarsSection).stars

    @property
    def _stars(self) -> Mapping[str, Star]:
        found: Mapping[str, Star] = PART.rows_of(self._store.mail.open)
        return found

    def ids(self) -> Collection[str]:
        return self._stars

    def value(self, session_id: str) -> Any:
        return _view(self._stars[session_id])

    async def star(self, call: OperationCall) -> StarView:
        """Set the star of a session, or replace it."""
        session = self._authorizer.find(call.caller, call.target, STAR.audience)
        reason = validate_text(call.arguments.reason or "", "reason", _REASON_MAX, one_line=True)
        async with self._store.transaction(call.caller, call.key) as tx:
            until = later(tx.now, self._settings.hours * 3600)
            star = Star(session.id, reason, call.caller.name, until)
            if tx.replayed is not None:
                star = tx.part(PART).rows.get(session.id, star)
            else:
                tx.part(PART).put(star)
                tx.timers.set(Timer(session.id, StarTimer.STAR, until))
                tx.remember(session.id)
        return _view(star)

    async def unstar(self, call: OperationCall) -> StarView:
        """Remove the star of a session. Raises IllegalState without one."""
        session = self._authorizer.find(call.caller, call.target, UNSTAR.audience)
        async with self._store.transaction(call.caller, None) as tx:
            star = tx.part(PART).rows.get(session.id)
            if star is None:
                raise IllegalState(f"session {short_label(session)} has no star")
            tx.part(PART).forget(session.id)
            tx.timers.remove(session.id, StarTimer.STAR)
        return _view(star)

    async def end(self, timer: Timer) -> None:
        """End a star whose time is over."""
        async with self._store.transaction() as tx:
            if tx.timers.take(timer):
                tx.part(PART).forget(timer.subject)


def _view(star: Star) -> StarView:
    return StarView(star.reason, star.by, star.until)


def setup(kernel: Kernel) -> None:
    stars = Stars(kernel)
    kernel.fields.append(stars)
    kernel.timers[StarTimer.STAR] = stars.end
    kernel.use_cases[STAR] = stars.star
    kernel.use_cases[UNSTAR] = stars.unstar
