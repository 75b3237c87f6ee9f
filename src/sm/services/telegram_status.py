"""The bot of Telegram: the state of its connection, its rows in the database, and `sm telegram`."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace

from sm.core.dataclass import dataclass
from sm.core.effects import EffectState
from sm.core.models import Caller, RequestKey
from sm.core.telegram_model import (
    BotMethod,
    DroppedCall,
    GroupRights,
    Need,
    NewCall,
    Outgoing,
    TelegramButton,
    TelegramChange,
    TelegramChat,
    TelegramCounts,
    WatchedText,
    is_group,
    nonce_digest,
    telegram_user,
)
from sm.core.timestamps import later
from sm.errors import IllegalState, UsageError
from sm.operations.daemon_operations import MUTE_GROUP, SHOW_BOT, TEST_BOT
from sm.services.telegram_calls import CallQueue
from sm.sessions.authorizer import Authorizer
from sm.sessions.chat_users import ChatUsers
from sm.store import Store
from sm.store.audit import REFUSED, Record
from sm.store.telegram_preferences import EVERYTHING

log = logging.getLogger(__name__)

SILENT_AFTER_S = 120.0
UNREADABLE_S = 24 * 3600.0
"""How long the last answer that could not be read is told."""
_TEST = "This is a test of sm. Notices for you arrive in this chat."


@dataclass(slots=True)
class TelegramLink:
    """Facts that the poller and the sender found out about the connection. `clock`: a monotonic clock."""

    clock: Callable[[], float]
    bot: str | None = None
    """The name of the bot, or None if Telegram has not said it yet."""
    last_answer: float | None = None
    """The time of the last answer to a poll."""
    started: float = field(init=False)
    conflict: str | None = None
    """The answer of Telegram while another process polls with the token."""
    groups: Sequence[GroupRights] = ()
    """The rights of the bot in the groups of the configuration."""
    clock_ahead_s: float | None = None
    """How much the clock of this machine is ahead of Telegram's, from the newest message, or None if not known yet."""
    off: str | None = None
    """The reason for which the daemon makes no calls until its next start."""
    unreadable: str | None = None
    """A line about the last answer that could not be read."""
    unreadable_at: float = 0.0

    def __post_init__(self) -> None:
        self.started = self.clock()

    def answered(self) -> None:
        self.last_answer, self.conflict = self.clock(), None

    def tell_unreadable(self, line: str) -> None:
        log.warning("%s", line)
        self.unreadable, self.unreadable_at = line, self.clock()

    @property
    def silent_s(self) -> float:
        """Seconds since the last answer, or since the start."""
        return self.clock() - (self.started if self.last_answer is None else self.last_answer)

    def trouble(self) -> str | None:
        """One sentence for `sm status`, or None if the connection works."""
        if self.off is not None:
            return f"telegram is off until the daemon restarts: {self.off}"
        if self.conflict is not None:
            return "telegram: another process polls with the token of the bot; sm tries again every minute"
        if self.silent_s >= SILENT_AFTER_S:
            return f"telegram has not answered for {int(self.silent_s // 60)} minutes"
        if self.unreadable is not None and self.clock() - self.unreadable_at < UNREADABLE_S:
            return self.unreadable
        return None


@dataclass(frozen=True, slots=True)
class TelegramStatus:
    """The state of the bot. `bot` and `last_answer_s` are None until Telegram has answered."""

    configured: bool
    bot: str | None
    last_answer_s: float | None
    trouble: str | None
    waiting: int
    """Calls that wait."""
    counts: TelegramCounts
    dropped: Sequence[DroppedCall]
    """The newest calls that Telegram refused, oldest first."""
    chats: Sequence[TelegramChat]
    owners: Sequence[str]
    paired: int
    groups: Sequence[GroupRights]
    clock_ahead_s: float | None


class Telegram:
    """The bot for its front door and for `sm telegram`. `link` is None if no bot is configured."""

    def __init__(
        self,
        store: Store,
        authorizer: Authorizer,
        audit: Record,
        link: TelegramLink | None,
        owners: Sequence[int],
        users: ChatUsers,
    ) -> None:
        self._store = store
        self._authorizer = authorizer
        self._audit = audit
        self.link = link
        self._owners = owners
        self._users = users
        self._newest_update: int | None = None
        """No update with a higher number is handled: no other process handles updates. None if not known yet."""
        self._seq_at_start = store.last_seq
        self.queue = CallQueue(store)
        self.object_of = store.telegram.object_of
        self.messages_of = store.telegram.messages_of
        self.draft = store.telegram.draft
        self.has_buttons = store.telegram.has_buttons
        self.followers = store.chat_preferences.followers
        self.followed = store.chat_preferences.followed
        self.chats = store.telegram.chats
        self.threads = store.telegram.threads

    # For the operator

    async def status(self, caller: Caller) -> TelegramStatus:
        """Raises NotPermitted."""
        self._authorizer.require(caller, SHOW_BOT.audience, is_read=True)
        link = self.link
        answered = link is not None and link.last_answer is not None
        return TelegramStatus(
            configured=link is not None,
            bot=None if link is None else link.bot,
            last_answer_s=link.silent_s if link is not None and answered else None,
            trouble=None if link is None else link.trouble(),
            waiting=len(self.outgoing),
            counts=await self._store.telegram.counts(),
            dropped=await self._store.telegram.dropped(),
            chats=await self._store.telegram.chats(),
            owners=[telegram_user(owner) for owner in self._owners],
            paired=len(self._users.admitted),
            groups=() if link is None else link.groups,
            clock_ahead_s=None if link is None else link.clock_ahead_s,
        )

    async def test(self, caller: Caller, user: str | None, key: RequestKey | None) -> list[str]:
        """Queue a message to the owners, or to one owner or paired user; return their names.

        `user`: also the number alone. Raises NotPermitted; IllegalState without a bot; UsageError for another user.
        """
        self._authorizer.require(caller, TEST_BOT.audience, user, "test")
        if self.link is None:
            raise IllegalState("no bot is configured", "set telegram.token_file: sm config")
        known = [telegram_user(owner) for owner in self._owners]
        if user is not None:
            name = user if ":" in user else f"telegram:{user}"
            if name not in (*known, *self._users.admitted):
                raise UsageError(f"{name[:80]} is neither an owner nor a paired user", "sm telegram status")
            known = [name]
        async with self._store.transaction(caller, key) as tx:
            if tx.replayed is None:
                for name in known:
                    chat = int(name.partition(":")[2])
                    await tx.telegram.queue(
                        NewCall(chat, BotMethod.SEND_MESSAGE, {"text": _TEST}, Need.ANSWER)
                    )
                tx.remember(" ".join(known))
        return known

    # For the front door

    @property
    def outgoing(self) -> Mapping[int, Outgoing]:
        """The calls that wait, by id."""
        return self.queue.calls

    def waits_with(self, subject: str) -> EffectState | None:
        """The state of the waiting call with this subject, or None if no call waits."""
        return next((call.state for call in self.outgoing.values() if call.subject == subject), None)

    @property
    def users(self) -> list[int]:
        """The numbers of the owners and of the paired users of Telegram."""
        paired = (user.partition(":") for user in self._users.admitted)
        return [*self._owners, *(int(number) for network, _, number in paired if network == "telegram")]

    async def pressed(self, nonce: str) -> TelegramButton | None:
        """The button with this nonce, or None if it is unknown, expired or used up."""
        button = await self._store.telegram.button(nonce_digest(nonce))
        if button is None or (button.expires_at is not None and button.expires_at <= self._store.now()):
            return None
        return button

    async def is_carried_out(self, caller: Caller, key: str) -> bool:
        """True if the daemon carried out the press with this key before it was killed."""
        return await self._store.telegram.is_carried_out(str(caller), key)

    def record_refused_press(self, user: str, reason: str) -> None:
        """Write to the audit log that a press of a button did nothing."""
        self._audit(user, "press", None, REFUSED, reason)

    # Texts to sessions

    @property
    def watched(self) -> Mapping[int, WatchedText]:
        """The texts whose outcome is still to be told, by the number of their message."""
        return self._store.mail.open.texts

    def is_final(self, number: int) -> bool:
        """True if the message neither waits nor is being delivered."""
        return number not in self._store.mail.open.messages

    async def tell(self, text: WatchedText, calls: Sequence[NewCall], *, is_over: bool) -> None:
        """Queue the calls that tell the state of the text. Once for each state."""
        async with self._store.transaction() as tx:
            if tx.telegram_texts.find(text.id) != text:
                return
            await self.queue.add(tx, TelegramChange(calls))
            if is_over:
                tx.telegram_texts.remove(text.id)
            else:
                tx.telegram_texts.put(replace(text, is_told=True))

    # Preferences of chats

    async def follow(self, chat_id: int, session_id: str, *, follows: bool) -> None:
        """Let the chat follow the session, or end that. Idempotent."""
        async with self._store.transaction() as tx:
            preferences = tx.chat_preferences
            (preferences.follow if follows else preferences.unfollow)(chat_id, session_id)

    async def mute(self, caller: Caller, chat_id: int, session_id: str | None, for_s: float | None) -> None:
        """Mute a session that the caller sees in the chat, or without one the whole chat. `for_s` of None ends that.

        Raises NotPermitted for a whole group.
        """
        if session_id is None and is_group(chat_id):
            self._authorizer.require(caller, MUTE_GROUP, str(chat_id))
        async with self._store.transaction() as tx:
            until = None if for_s is None else later(tx.now, for_s)
            tx.chat_preferences.mute(chat_id, session_id or EVERYTHING, until)

    async def is_muted(self, chat_id: int, session_id: str) -> bool:
        return await self._store.chat_preferences.is_muted(chat_id, session_id, self._store.now())

    # Reports

    async def apply(self, change: TelegramChange) -> None:
        """Write a change that may be written again."""
        async with self._store.transaction() as tx:
            await self.queue.add(tx, change)

    async def begin_reports(self, bot_id: int) -> int:
        """The number of the newest event that the bot has reported.

        At its first start that of the newest event before the daemon: agents work while the bot is loaded.
        """
        async with self._store.transaction() as tx:
            await tx.telegram.begin_bot(bot_id)
            return await tx.telegram.report_after(bot_id, self._seq_at_start)

    async def record_report(self, bot_id: int, seq: int, change: TelegramChange) -> None:
        """Queue the report of the events up to number `seq`."""
        async with self._store.transaction() as tx:
            await self.queue.add(tx, change)
            tx.telegram.reported(bot_id, seq)

    # Updates

    async def begin(self, bot_id: int) -> bool:
        """Record the bot. Returns False if it still throws away what waited before its first start."""
        async with self._store.transaction() as tx:
            self._newest_update = await tx.telegram.newest_update(bot_id)
            return await tx.telegram.begin_bot(bot_id)

    async def discard_updates(self, bot_id: int, update_ids: Sequence[int]) -> None:
        async with self._store.transaction() as tx:
            await tx.telegram.discard_updates(bot_id, update_ids)
        for update_id in update_ids:
            self._handled(update_id)

    async def finish_first_start(self, bot_id: int, tell: Callable[[int], Sequence[NewCall]]) -> None:
        """Mark the bot as ready. `tell` makes the calls that report how many updates were thrown away."""
        async with self._store.transaction() as tx:
            count = await tx.telegram.finish_first_start(bot_id)
            await self.queue.add(tx, TelegramChange(tell(count) if count else ()))

    async def is_handled(self, bot_id: int, update_id: int) -> bool:
        return not self._is_newest(update_id) and await self._store.telegram.is_handled(bot_id, update_id)

    async def record_update(self, bot_id: int, update_id: int, change: TelegramChange) -> None:
        """Record that the update is handled, with everything that follows. Once for each update."""
        is_newest = self._is_newest(update_id)
        async with self._store.transaction() as tx:
            if await tx.telegram.record_update(bot_id, update_id, is_newest=is_newest):
                await self.queue.add(tx, change)
        self._handled(update_id)

    def _is_newest(self, update_id: int) -> bool:
        """True if it is known without a read that the update is not handled."""
        return self._newest_update is not None and update_id > self._newest_update

    def _handled(self, update_id: int) -> None:
        if self._is_newest(update_id):
            self._newest_update = update_id
