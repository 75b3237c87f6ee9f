"""Closes notices whose content the caller already knows."""

from collections.abc import Callable, Collection

from sm.core.messages import SM_ITSELF, Notice
from sm.core.models import Caller
from sm.core.states import NoticeKind
from sm.state.notices import withdraw
from sm.store import Store


async def acknowledge_endings(store: Store, caller: Caller, session_ids: Collection[str]) -> None:
    """Close the caller's notices about the end of these sessions."""
    await acknowledge(store, caller, session_ids, lambda n: n.kind is NoticeKind.ENDING)


async def acknowledge(
    store: Store, caller: Caller, session_ids: Collection[str], is_known: Callable[[Notice], bool]
) -> None:
    """Close the caller's notices about these sessions whose content the caller knows from an answer."""

    def is_void(notice: Notice) -> bool:
        return notice.recipient == caller.mailbox and is_known(notice)

    pending = [n for n in store.mail.open.notices.values() if n.session_id in session_ids and is_void(n)]
    queued = store.mail.queued().get(caller.mailbox, ())
    if pending or any(message.sender == SM_ITSELF for message in queued):
        async with store.transaction() as tx:
            for session_id in session_ids:
                await withdraw(tx, session_id, is_void, "heard")
