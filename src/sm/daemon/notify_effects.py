"""Sends notices: to the command of the operator and to webhooks."""

import asyncio
import logging
import time
from collections.abc import Mapping

from sm.core.backoff import Backoff
from sm.core.dataclass import dataclass
from sm.core.timestamps import epoch_s
from sm.daemon.effect_record import EffectRecord
from sm.notifiers.base import Notifier, NotifyFailed
from sm.store import Effect

log = logging.getLogger(__name__)

_NOTIFY_PAUSE_S = 1.0
_LONGEST_NOTIFY_PAUSE_S = 300.0
_NOTIFY_FOR_S = 24 * 3600.0


@dataclass(frozen=True, slots=True, eq=False)
class NotifyEffects:
    _effects: EffectRecord
    _notifiers: Mapping[str, Notifier]

    async def notify(self, effect: Effect) -> str | None:
        """Send a notice, as an `EffectHandler` of `kernel`."""
        notifier = self._notifiers[effect.kind]
        if notifier.once:
            await self._effects.mark_taken(effect)
        # Counted from the event, so that neither a restart nor a long queue extends the time.
        give_up_s = epoch_s(effect.payload["body"]["timestamp"]) + _NOTIFY_FOR_S
        backoff = Backoff(_NOTIFY_PAUSE_S, _LONGEST_NOTIFY_PAUSE_S)
        while True:
            try:
                await notifier.send(effect.payload.get("url"), effect.payload["body"])
                return None
            except NotifyFailed as error:
                if not error.retryable or time.time() > give_up_s:
                    return error.message
                log.warning(
                    "could not deliver a notice, will retry: %s",
                    error.message,
                    extra={"sm_session": effect.session_id},
                )
            await asyncio.sleep(backoff.next_s())
