"""Telegram in the database: updates that were handled, calls in the outbox, chats. `Open.outgoing` has the calls."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from typing import Any

from sm.core.effects import EffectKind, EffectState
from sm.core.telegram_model import (
    QUEUE_MAX,
    CardDraft,
    DroppedCall,
    NewCall,
    Outgoing,
    TelegramButton,
    TelegramChange,
    TelegramChat,
    TelegramCounts,
    is_group,
    session_object,
)
from sm.core.telegram_threads import PLACEMENT, session_of_progress
from sm.core.text import well_formed
from sm.store.connection import Read
from sm.store.message_rows import MailWrites
from sm.store.rows import (
    DROPPED_CALLS,
    OUTBOX,
    TELEGRAM_BUTTONS,
    TELEGRAM_CHATS,
    TELEGRAM_DRAFTS,
    insertion,
    outgoing_payload,
)
from sm.store.telegram_preferences import PreferenceWrites
from sm.store.telegram_texts import TextWrites
from sm.store.telegram_threads import ThreadReads, ThreadWrites
from sm.store.writes import StoreWriter, Writes

_DROPPED_KEPT = 200
_DROPPED, _LEFT_OUT = "dropped", "left_out "
"""Names of counters. The id of the chat follows `left_out`."""
_BUTTONS_KEPT = 64
"""Buttons of one object in one chat. A card that is drawn again gets new ones, and the older ones work meanwhile."""
_COUNT = "INSERT INTO telegram_counts (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = value + ?"


class TelegramWrites(Writes):
    """Writes updates, calls and chats in a transaction."""

    def __init__(
        self, tx: StoreWriter, mail: MailWrites, texts: TextWrites, preferences: PreferenceWrites
    ) -> None:
        super().__init__(tx)
        self._mail = mail
        self._texts = texts
        self._preferences = preferences
        self.threads = ThreadWrites(tx)

    # Updates

    async def begin_bot(self, bot_id: int) -> bool:
        """Record the bot. Returns False if it still throws away what waited before its first start."""
        self._tx.write(
            "INSERT OR IGNORE INTO telegram_bots (bot_id, first_seen_at) VALUES (?, ?)",
            (bot_id, self._tx.now),
        )
        rows = await self._tx.read("SELECT ready FROM telegram_bots WHERE bot_id = ?", (bot_id,))
        return bool(rows[0][0])

    async def discard_updates(self, bot_id: int, update_ids: Collection[int]) -> None:
        """Record updates that are thrown away at the first start of the bot, each counted once."""
        new = [number for number in update_ids if await self.record_update(bot_id, number)]
        self._tx.write(
            "UPDATE telegram_bots SET discarded = discarded + ? WHERE bot_id = ?", (len(new), bot_id)
        )

    async def finish_first_start(self, bot_id: int) -> int:
        """Mark the bot as ready; return how many updates were thrown away."""
        self._tx.write("UPDATE telegram_bots SET ready = 1 WHERE bot_id = ?", (bot_id,))
        rows = await self._tx.read("SELECT discarded FROM telegram_bots WHERE bot_id = ?", (bot_id,))
        return int(rows[0][0])

    async def newest_update(self, bot_id: int) -> int:
        """The highest number of a handled update of the bot, or 0 if there is none."""
        rows = await self._tx.read("SELECT max(update_id) FROM telegram_updates WHERE bot_id = ?", (bot_id,))
        return int(rows[0][0] or 0)

    async def record_update(self, bot_id: int, update_id: int, *, is_newest: bool = False) -> bool:
        """Record that the update is handled in this transaction. Returns False if an earlier transaction handled it.

        `is_newest`: it is known that no earlier transaction did.
        """
        values = (bot_id, update_id)
        known = not is_newest and await self._tx.read(
            "SELECT 1 FROM telegram_updates WHERE bot_id = ? AND update_id = ?", values
        )
        if not known:
            # Without OR IGNORE: the primary key must refuse a second transaction.
            self._tx.write(
                "INSERT INTO telegram_updates (bot_id, update_id, at) VALUES (?, ?, ?)",
                (*values, self._tx.now),
            )
        return not known

    async def report_after(self, bot_id: int, seq: int) -> int:
        """The newest event that the bot has reported; `seq` for a bot that has reported none."""
        self._tx.write(
            "UPDATE telegram_bots SET reported_seq = ? WHERE bot_id = ? AND reported_seq IS NULL",
            (seq, bot_id),
        )
        rows = await self._tx.read("SELECT reported_seq FROM telegram_bots WHERE bot_id = ?", (bot_id,))
        return int(rows[0][0])

    def reported(self, bot_id: int, seq: int) -> None:
        """Record that this transaction reports the event."""
        self._tx.write("UPDATE telegram_bots SET reported_seq = ? WHERE bot_id = ?", (seq, bot_id))

    async def apply(self, change: TelegramChange) -> None:
        """Write a change."""
        for about in change.spent:
            self._tx.write("DELETE FROM telegram_buttons WHERE about = ?", (about,))
            self._tx.write("DELETE FROM telegram_drafts WHERE about = ?", (about,))
        for digest in change.used:
            self._tx.write("DELETE FROM telegram_buttons WHERE digest = ?", (digest,))
        for button in change.buttons:
            self._tx.insert_row(TELEGRAM_BUTTONS.name, TELEGRAM_BUTTONS.row(button))
        for place in {(button.about, button.chat_id) for button in change.buttons}:
            self._tx.write(
                "DELETE FROM telegram_buttons WHERE about = ? AND chat_id = ? AND rowid <= (SELECT rowid FROM"
                " telegram_buttons WHERE about = ? AND chat_id = ? ORDER BY rowid DESC LIMIT 1 OFFSET ?)",
                (*place, *place, _BUTTONS_KEPT),
            )
        for draft in change.drafts:
            row = TELEGRAM_DRAFTS.row(draft)
            self._tx.write(*insertion(TELEGRAM_DRAFTS.name, row, verb="INSERT OR REPLACE"))
        for text in change.watched:
            self._texts.put(text)
        if change.chat is not None:
            self._saw(change.chat)
        for call in list(self._open.values()):
            if (
                call.subject in change.withdrawn
                and call.state is EffectState.PENDING
                and not call.lost_answers
            ):
                self._remove(call)
        if change.forum is not None:
            self.threads.put_forum(change.forum)
        for topic in change.topics:
            self.threads.queued_topic(topic)
        for card in change.cards:
            self.threads.put_card(card)
        for card in change.lost_cards:
            self.threads.forget_card(card.session_id, card.chat_id)
        for new in change.calls:
            await self.queue(new)

    # Chats

    async def chat(self, chat_id: int) -> TelegramChat | None:
        rows = await self._tx.read(f"{TELEGRAM_CHATS.select} WHERE chat_id = ?", (chat_id,))
        return TELEGRAM_CHATS.load(rows[0]) if rows else None

    def put_chat(self, chat: TelegramChat) -> None:
        """Add the chat, or replace the one with its id."""
        self._tx.write(*insertion(TELEGRAM_CHATS.name, TELEGRAM_CHATS.row(chat), verb="INSERT OR REPLACE"))

    def _saw(self, chat: TelegramChat) -> None:
        """Add the chat, or update what an update tells of it."""
        row = TELEGRAM_CHATS.row(replace(chat, seen_at=self._tx.now))
        told = "kind = excluded.kind, title = excluded.title, seen_at = excluded.seen_at"
        conflict = f"ON CONFLICT (chat_id) DO UPDATE SET {told}"
        self._tx.write(*insertion(TELEGRAM_CHATS.name, row, conflict=conflict))

    async def migrate_chat(self, old: int, new: int) -> None:
        """Use `new` in place of the group `old`, also for calls that wait."""
        known = await self.chat(old) or TelegramChat(old)
        self.put_chat(replace(known, migrated_to=new))
        self.put_chat(await self.chat(new) or TelegramChat(new, "supergroup", known.title))
        self.threads.migrate_chat(old, new)
        self._preferences.move(old, new)
        for call in list(self._open.values()):
            if call.chat_id == old:
                self._replace(call, replace(call, chat_id=new))

    # Calls

    @property
    def _open(self) -> Mapping[int, Outgoing]:
        return self._tx.open.outgoing

    def _set_open(self, calls: Mapping[int, Outgoing]) -> None:
        self._tx.open = replace(self._tx.open, outgoing=calls)

    async def queue(self, new: NewCall) -> None:
        """Add a call. It replaces the waiting call with its subject.

        If `QUEUE_MAX` calls wait, the oldest of the least needed ones is left out and counted.
        """
        parameters = {
            name: well_formed(value) if isinstance(value, str) else value
            for name, value in new.parameters.items()
        }
        chat_id = await self._current(new.chat_id)
        waiting = [call for call in self._open.values() if call.state is EffectState.PENDING]
        if new.subject is not None:
            for call in waiting:
                if (call.subject, call.chat_id, call.method) == (new.subject, chat_id, new.method):
                    kept = {name: value for name, value in call.parameters.items() if name in PLACEMENT}
                    changed = replace(call, parameters=kept | parameters, need=min(call.need, int(new.need)))
                    self._replace(call, changed)
                    return
        if new.replaces:
            return
        if len(self._open) >= QUEUE_MAX:
            least = max(waiting, key=lambda call: (call.need, -call.id), default=None)
            if least is None or least.need < new.need:
                self._count_left_out(chat_id)
                return
            self._count_left_out(least.chat_id)
            self._remove(least)
        call = Outgoing(
            self._mail.new_id(OUTBOX.name),
            chat_id,
            new.method,
            parameters,
            int(new.need),
            self._tx.now,
            subject=new.subject,
            about=new.about,
        )
        row = {"id": call.id, "kind": EffectKind.TELEGRAM, "payload": outgoing_payload(call)}
        self._tx.insert_row(OUTBOX.name, row | {"state": call.state, "created_at": call.created_at})
        self._set_open({**self._open, call.id: call})

    async def _current(self, chat_id: int | None) -> int | None:
        """The chat, or the supergroup that replaced it."""
        chat = await self.chat(chat_id) if chat_id is not None and is_group(chat_id) else None
        return chat_id if chat is None or chat.migrated_to is None else chat.migrated_to

    def begin(self, call: Outgoing) -> Outgoing:
        """Record that the call begins. After a crash it is known that nobody knows its outcome."""
        return self._replace(call, replace(call, state=EffectState.TAKEN))

    def again(self, call: Outgoing, **changes: Any) -> None:
        """Let the call wait again, unless it was removed meanwhile."""
        if (current := self._open.get(call.id)) is not None:
            self._replace(current, replace(current, state=EffectState.PENDING, **changes))

    def finish(self, call: Outgoing, message_id: int | None, thread_id: int | None) -> None:
        """Remove a call that Telegram carried out, and keep the message of its object."""
        self._remove(call)
        session_id = session_of_progress(call.subject)
        if session_id is not None and message_id is not None and call.chat_id is not None:
            self.threads.sent_card(session_id, call.chat_id, message_id)
        if call.about is not None and message_id is not None:
            row = {
                "chat_id": call.chat_id,
                "message_id": message_id,
                "thread_id": thread_id,
                "about": call.about,
                "at": self._tx.now,
            }
            self._tx.write(*insertion("telegram_messages", row, verb="INSERT OR REPLACE"))

    def drop(self, call: Outgoing, reason: str) -> None:
        """Remove a call that Telegram refused for good, and count it."""
        self._remove(call)
        session_id = session_of_progress(call.subject)
        if session_id is not None and call.chat_id is not None:
            self.threads.forget_card(session_id, call.chat_id)
        self._tx.write(_COUNT, (_DROPPED, 1, 1))
        dropped = DroppedCall(self._tx.now, call.chat_id, call.method, reason)
        self._tx.insert_row(DROPPED_CALLS.name, asdict(dropped))
        self._tx.write(
            "DELETE FROM telegram_dropped WHERE id <= (SELECT max(id) FROM telegram_dropped) - ?",
            (_DROPPED_KEPT,),
        )

    def _count_left_out(self, chat_id: int | None) -> None:
        self._tx.write(_COUNT, (f"{_LEFT_OUT}{'' if chat_id is None else chat_id}", 1, 1))

    async def take_left_out(self) -> Mapping[int, int]:
        """The number of calls to each chat that were left out since the last call of this method."""
        rows = await self._tx.read(
            "SELECT substr(name, ?), value FROM telegram_counts WHERE name GLOB ?",
            (len(_LEFT_OUT) + 1, f"{_LEFT_OUT}*"),
        )
        if rows:
            self._tx.write("DELETE FROM telegram_counts WHERE name GLOB ?", (f"{_LEFT_OUT}*",))
        return {int(row[0]): int(row[1]) for row in rows if row[0]}

    def withdraw(self, call: Outgoing) -> None:
        """Remove a call that need not be made any more."""
        self._remove(call)

    def forget(self, session_id: str) -> None:
        """Remove the waiting calls about a removed session, and its messages."""
        about = session_object(session_id)
        for call in [call for call in self._open.values() if call.about == about]:
            self._remove(call)
        self._tx.write("DELETE FROM telegram_messages WHERE about = ?", (about,))
        self.threads.forget(session_id)

    def _replace(self, call: Outgoing, after: Outgoing) -> Outgoing:
        self._tx.write(
            "UPDATE outbox SET state = ?, payload = ? WHERE id = ?",
            (after.state, outgoing_payload(after), call.id),
        )
        self._set_open({**self._open, call.id: after})
        return after

    def _remove(self, call: Outgoing) -> None:
        self._tx.write("DELETE FROM outbox WHERE id = ?", (call.id,))
        self._set_open({number: other for number, other in self._open.items() if number != call.id})


class TelegramReads:
    """Reads of committed chats and counts."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self.threads = ThreadReads(read)

    async def chats(self) -> list[TelegramChat]:
        rows = await self._read(f"{TELEGRAM_CHATS.select} ORDER BY chat_id", ())
        return [TELEGRAM_CHATS.load(row) for row in rows]

    async def is_handled(self, bot_id: int, update_id: int) -> bool:
        rows = await self._read(
            "SELECT 1 FROM telegram_updates WHERE bot_id = ? AND update_id = ?", (bot_id, update_id)
        )
        return bool(rows)

    async def is_carried_out(self, caller: str, key: str) -> bool:
        """True if a request of the caller with this idempotency key has a result."""
        rows = await self._read("SELECT 1 FROM idempotency WHERE caller = ? AND key = ?", (caller, key))
        return bool(rows)

    async def button(self, digest: str) -> TelegramButton | None:
        rows = await self._read(f"{TELEGRAM_BUTTONS.select} WHERE digest = ?", (digest,))
        return TELEGRAM_BUTTONS.load(rows[0]) if rows else None

    async def has_buttons(self, about: str, chat_id: int) -> bool:
        rows = await self._read(
            "SELECT 1 FROM telegram_buttons WHERE about = ? AND chat_id = ? LIMIT 1", (about, chat_id)
        )
        return bool(rows)

    async def draft(self, about: str, chat_id: int) -> CardDraft:
        """The choices on the card of an object in a chat; those of an untouched card without a row."""
        rows = await self._read(f"{TELEGRAM_DRAFTS.select} WHERE about = ? AND chat_id = ?", (about, chat_id))
        return TELEGRAM_DRAFTS.load(rows[0]) if rows else CardDraft(about, chat_id)

    async def object_of(self, chat_id: int, message_id: int) -> str | None:
        """The object that a message of the bot shows."""
        rows = await self._read(
            "SELECT about FROM telegram_messages WHERE chat_id = ? AND message_id = ?", (chat_id, message_id)
        )
        return str(rows[0][0]) if rows else None

    async def messages_of(self, about: str) -> list[tuple[int, int]]:
        """The messages that show an object, oldest first: chat and message."""
        rows = await self._read(
            "SELECT chat_id, message_id FROM telegram_messages WHERE about = ? ORDER BY message_id", (about,)
        )
        return [(int(row[0]), int(row[1])) for row in rows]

    async def dropped(self, limit: int = 10) -> list[DroppedCall]:
        """The newest calls that Telegram refused, oldest first."""
        rows = await self._read(f"{DROPPED_CALLS.select} ORDER BY id DESC LIMIT ?", (limit,))
        return [DROPPED_CALLS.load(row) for row in rows][::-1]

    async def counts(self) -> TelegramCounts:
        rows = await self._read(
            "SELECT name, value FROM telegram_counts WHERE name = ? OR name GLOB ?",
            (_DROPPED, f"{_LEFT_OUT}*"),
        )
        left_out = sum(int(row[1]) for row in rows if row[0] != _DROPPED)
        return TelegramCounts(sum(int(row[1]) for row in rows) - left_out, left_out)
