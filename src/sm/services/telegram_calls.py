"""The calls to Telegram that wait in the database: added by every part of the bot, made by its sender."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sm.core.effects import EffectState
from sm.core.telegram_model import (
    QUEUE_MAX,
    NewCall,
    Outgoing,
    TelegramChange,
    TelegramChat,
    topic_of,
)
from sm.core.telegram_threads import Topic, session_of_progress
from sm.store import Store, Transaction

_SUMMARY_BELOW = QUEUE_MAX // 2

Choose = Callable[[Iterable[Outgoing]], Outgoing | None]
"""Chooses the call to make next, or returns None if no call may be made now."""
Summarize = Callable[[int, Sequence[Outgoing], int], NewCall]
"""Makes the summary for a chat, of these reports and of a number of reports that were left out."""
ChangeTopic = Callable[[Topic], tuple[Topic, Sequence[NewCall]]]
"""Decides the next state of a topic, and the calls that follow."""


class CallQueue:
    """Each method that changes calls is one transaction."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._choose: Choose | None = None
        """Set while the sender has nothing to do."""

    @property
    def calls(self) -> Mapping[int, Outgoing]:
        """The calls that wait, and the one that the sender makes, by id. Never changed in place."""
        return self._store.mail.open.outgoing

    async def add(self, tx: Transaction, change: TelegramChange) -> None:
        """Write a change in a transaction. A sender without work need not begin the first call in another one."""
        await tx.telegram.apply(change)
        calls = tx.mail.open.outgoing.values()
        if self._choose is None or any(call.state is EffectState.TAKEN for call in calls):
            return
        if (due := self._choose(calls)) is not None:
            tx.telegram.begin(due)

    # For the sender

    async def wait(self, calls: Mapping[int, Outgoing], choose: Choose, within_s: float | None) -> None:
        """Wait until the calls differ from `calls`, at most `within_s` seconds.

        Meanwhile the transaction that adds a call also begins the one that `choose` names: see `begun`.
        """
        self._choose = choose
        try:
            await self._store.wait_until(lambda: self.calls is not calls, within_s)
        finally:
            self._choose = None

    @property
    def begun(self) -> Outgoing | None:
        """The call that was begun while the sender waited, or before the end of the daemon."""
        return next((call for call in self.calls.values() if call.state is EffectState.TAKEN), None)

    async def begin(self, call: Outgoing) -> Outgoing | None:
        """Record that the call begins. Returns None if it was removed meanwhile."""
        async with self._store.transaction() as tx:
            current = tx.mail.open.outgoing.get(call.id)
            return None if current is None else tx.telegram.begin(current)

    async def again(self, call: Outgoing, **changes: Any) -> None:
        """Let the call wait again, with these changes."""
        async with self._store.transaction() as tx:
            tx.telegram.again(call, **changes)

    async def finish(
        self, call: Outgoing, message_id: int | None, thread_id: int | None, summarize: Summarize
    ) -> None:
        """Remove a call that Telegram carried out. When few calls wait, tell the chats what was left out before."""
        async with self._store.transaction() as tx:
            tx.telegram.finish(call, message_id, thread_id)
            if len(tx.mail.open.outgoing) < _SUMMARY_BELOW:
                for chat_id, left_out in (await tx.telegram.take_left_out()).items():
                    await tx.telegram.queue(summarize(chat_id, (), left_out))

    async def replace(self, call: Outgoing, new: NewCall | None) -> None:
        """Remove a call that Telegram cannot carry out, and make another one in its place."""
        async with self._store.transaction() as tx:
            tx.telegram.finish(call, None, None)
            if new is not None:
                await tx.telegram.queue(new)

    async def drop(self, call: Outgoing, reason: str) -> None:
        """Remove and count a call that Telegram refused for good."""
        async with self._store.transaction() as tx:
            tx.telegram.drop(call, reason)

    async def summarize(
        self,
        crowded: Callable[[Iterable[Outgoing]], Mapping[int, Collection[Outgoing]]],
        summarize: Summarize,
    ) -> None:
        """Replace the reports of each crowded chat by one summary, which counts those left out too."""
        async with self._store.transaction() as tx:
            found = crowded(tx.mail.open.outgoing.values())
            left_out = await tx.telegram.take_left_out()
            for reports in found.values():
                for report in reports:
                    tx.telegram.withdraw(report)
            for chat_id in {**found, **left_out}:
                reports = tuple(found.get(chat_id, ()))
                await tx.telegram.queue(summarize(chat_id, reports, left_out.get(chat_id, 0)))

    async def close_chat(self, call: Outgoing, until: float) -> None:
        """Let the call wait again. Until that time, in seconds since the epoch, its chat takes no calls."""
        async with self._store.transaction() as tx:
            tx.telegram.again(call)
            if call.chat_id is not None:
                chat = await tx.telegram.chat(call.chat_id) or TelegramChat(call.chat_id)
                tx.telegram.put_chat(replace(chat, closed_until=until))

    async def migrate_chat(self, call: Outgoing, new: int) -> None:
        """Let the call wait again, for the supergroup that replaced its chat, as all other calls."""
        assert call.chat_id is not None  # a chat has migrated
        async with self._store.transaction() as tx:
            tx.telegram.again(call)
            await tx.telegram.migrate_chat(call.chat_id, new)

    async def forget_card(self, call: Outgoing) -> None:
        """Remove an edit of a progress card whose message a person deleted. The next work sends a new card."""
        async with self._store.transaction() as tx:
            tx.telegram.finish(call, None, None)
            if (session_id := session_of_progress(call.subject)) is not None and call.chat_id is not None:
                tx.telegram.threads.forget_card(session_id, call.chat_id)

    # Topics

    async def recover_topics(self) -> None:
        """Handle the topics that the end of the daemon left half made."""
        async with self._store.transaction() as tx:
            tx.telegram.threads.lose_unfinished_topics()

    async def begin_topic(self, call: Outgoing, begin: Callable[[Topic], Topic | None]) -> bool:
        """Record that a call makes the topic that `call` needs. False if `begin` returns None or `call` was removed."""
        async with self._store.transaction() as tx:
            topic = begin(await tx.telegram.threads.topic(*topic_of(call)))
            if topic is None or call.id not in tx.mail.open.outgoing:
                return False
            tx.telegram.threads.put_topic(topic)
            return True

    async def change_topic(self, call: Outgoing, change: ChangeTopic, *, again: bool = False) -> None:
        """Change the topic that the call names. `again`: the call waits again."""
        async with self._store.transaction() as tx:
            topic, calls = change(await tx.telegram.threads.topic(*topic_of(call)))
            for new in calls:
                await tx.telegram.queue(new)
            tx.telegram.threads.put_topic(topic)
            if again:
                tx.telegram.again(call)
