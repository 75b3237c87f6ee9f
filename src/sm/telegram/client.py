"""The client of the Bot API: the `Bot` of python-telegram-bot, without its Application and Updater.

Only this module imports the library, which costs 8 MB: the daemon imports the module in a thread, when a bot is
configured. No error that leaves the module contains the token, which is a part of every URL.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
from telegram import (
    Bot,
    BotCommandScopeAllPrivateChats,
    BotCommandScopeChat,
    ChatMember,
    ChatMemberAdministrator,
    ForumTopic,
    InlineKeyboardMarkup,
    Message,
    ReplyParameters,
    Update,
)
from telegram import error as errors
from telegram.request import HTTPXRequest

from sm.core.telegram import BotMethod, GroupRights, Outgoing, well_formed
from sm.core.telegram_threads import ForumFacts
from sm.telegram.outcome import (
    AnswerLost,
    CallFailed,
    Conflict,
    Done,
    Failure,
    Flooded,
    Migrated,
    NotSent,
    Outcome,
    Rejected,
    Unauthorized,
)
from sm.telegram.updates import ALLOWED_UPDATES, IncomingUpdate, UpdateKind

log = logging.getLogger(__name__)

DEFAULT_URL = "https://api.telegram.org"
CALL_TIMEOUT_S = 30.0
_CONNECTIONS = 4
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)

# httpx logs every URL at INFO, and the library every parameter at DEBUG.
for _name in ("httpx", "httpcore", "telegram"):
    logging.getLogger(_name).setLevel(logging.WARNING)
# The library logs the whole body of an answer that is not JSON, with its traceback, such as the page of a gateway.
logging.getLogger("telegram.request").setLevel(logging.CRITICAL)


class BotClient:
    """Makes calls with one token. `async with` opens and closes its connections."""

    def __init__(self, token: str, base_url: str | None, timeout_s: float = CALL_TIMEOUT_S) -> None:
        self._token = token
        self._url = f"{base_url or DEFAULT_URL}/bot"
        self._timeout_s = timeout_s
        self._tls = httpx.create_ssl_context()  # a megabyte of certificates, for all connections
        self._calls: HTTPXRequest
        self._polls: HTTPXRequest
        self._bot = self._new_bot()

    @property
    def bot_id(self) -> int:
        """The id of the bot, which is the first part of its token."""
        return int(self._token.partition(":")[0])

    def _request(self) -> HTTPXRequest:
        timeout = self._timeout_s
        return HTTPXRequest(
            _CONNECTIONS,
            read_timeout=timeout,
            write_timeout=timeout,
            connect_timeout=timeout,
            pool_timeout=timeout,
            httpx_kwargs={"verify": self._tls},
        )

    def _new_bot(self) -> Bot:
        self._calls, self._polls = self._request(), self._request()
        return Bot(self._token, self._url, request=self._calls, get_updates_request=self._polls)

    async def __aenter__(self) -> "BotClient":
        await asyncio.gather(self._calls.initialize(), self._polls.initialize())
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(self._calls.shutdown(), self._polls.shutdown(), return_exceptions=True)

    async def renew(self) -> None:
        """Throw the connections away, and use new ones from now on."""
        old = self._calls, self._polls
        self._bot = self._new_bot()
        await self.__aenter__()
        await asyncio.gather(*(request.shutdown() for request in old), return_exceptions=True)

    async def user_name(self) -> str:
        """The name of the bot, such as `my_fleet_bot`. Raises CallFailed."""
        try:
            return (await self._bot.get_me()).username or ""
        except errors.TelegramError as error:
            raise CallFailed(self._failure(error)) from None

    async def group_rights(self, chat_id: int) -> GroupRights:
        """The rights of the bot in a group. A failure is a part of the answer."""
        try:
            me = await self._bot.get_me()
            chat = await self._bot.get_chat(chat_id)
            member = await self._bot.get_chat_member(chat_id, self.bot_id)
        except errors.TelegramError as error:
            return GroupRights(chat_id, problem=self._without_token(error.message))
        return GroupRights(
            chat_id,
            chat.title or "",
            bool(chat.is_forum),
            _manages_topics(member),
            isinstance(member, ChatMemberAdministrator) or bool(me.can_read_all_group_messages),
        )

    async def announce(self, commands: Sequence[tuple[str, str]], groups: Sequence[int]) -> None:
        """Set the menu of commands in private chats and in these groups, and in no other group.

        A failure is only logged: the commands work without a menu.
        """
        for scope in (BotCommandScopeAllPrivateChats(), *map(BotCommandScopeChat, groups)):
            try:
                await self._bot.set_my_commands(commands, scope=scope)
            except errors.TelegramError as error:
                log.info("could not set the menu of commands: %s", self._failure(error))

    async def forum(self, chat_id: int, owners: Sequence[int]) -> ForumFacts:
        """The group, the right of the bot to manage topics, and those of the owners who are members.

        Raises CallFailed; Rejected: the bot is not in the group.
        """
        try:
            chat = await self._bot.get_chat(chat_id)
            bot = await self._bot.get_chat_member(chat_id, self.bot_id)
        except errors.TelegramError as error:
            raise CallFailed(self._failure(error)) from None
        members = [owner for owner in owners if await self._is_member(chat_id, owner)]
        return ForumFacts(chat_id, bool(chat.is_forum), _manages_topics(bot), tuple(members))

    async def _is_member(self, chat_id: int, user_id: int) -> bool:
        """True if Telegram says so: nobody loses reports because of a question without an answer."""
        try:
            member = await self._bot.get_chat_member(chat_id, user_id)
        except errors.TelegramError:
            return False
        return member.status not in ("left", "kicked")

    async def updates(self, offset: int | None, wait_s: int) -> list[IncomingUpdate]:
        """The unconfirmed updates from `offset` on, at most 100, after up to `wait_s` seconds. Raises CallFailed."""
        try:
            updates = await self._bot.get_updates(offset, timeout=wait_s, allowed_updates=ALLOWED_UPDATES)
        except errors.TelegramError as error:
            raise CallFailed(self._failure(error)) from None
        return [_incoming(update) for update in updates]

    async def make(self, call: Outgoing) -> Outcome:
        """Make a call. Never raises for a failure of Telegram or of the connection."""
        try:
            method = BotMethod(call.method)
            parameters = _arguments(call.parameters)
        except (ValueError, TypeError, KeyError) as error:
            return Rejected(f"invalid call: {type(error).__name__}")
        if call.chat_id is not None:
            parameters["chat_id"] = call.chat_id
        try:
            result = await getattr(self._bot, method.value)(**parameters)
        except errors.TelegramError as error:
            return self._failure(error)
        except (TypeError, ValueError) as error:  # a parameter that the method does not have
            return Rejected(f"invalid call: {type(error).__name__}")
        if isinstance(result, Message):
            return Done(result.message_id, result.message_thread_id, result.date.timestamp())
        if isinstance(result, ForumTopic):
            return Done(thread_id=result.message_thread_id)
        return Done()

    def _failure(self, error: errors.TelegramError) -> Failure:
        reason = self._without_token(error.message)
        match error:
            case errors.RetryAfter():
                wait = error.retry_after
                return Flooded(float(wait if isinstance(wait, int) else wait.total_seconds()))
            case errors.ChatMigrated():
                return Migrated(error.new_chat_id)
            case errors.InvalidToken():
                return Unauthorized()
            case errors.Conflict():
                return Conflict(reason)
            case errors.Forbidden() | errors.BadRequest():
                return Rejected(reason)
            case errors.NetworkError():
                cause = error.__cause__
                if isinstance(cause, _NEVER_SENT):
                    return NotSent(f"no connection: {type(cause).__name__}")
                if isinstance(cause, httpx.HTTPError):
                    return AnswerLost(f"no answer: {type(cause).__name__}")
                # The server answered with a status of 5xx, which the library names in the message.
                return (
                    NotSent(reason[:100])
                    if "(5" in reason or "Bad Gateway" in reason
                    else AnswerLost(reason[:100])
                )
            case _:
                return NotSent(reason[:100])

    def _without_token(self, text: str) -> str:
        return text.replace(self._token, "[token]").replace(self._token.partition(":")[2], "[token]")


def _manages_topics(bot: ChatMember) -> bool:
    return isinstance(bot, ChatMemberAdministrator) and bool(bot.can_manage_topics)


def _arguments(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters as the library takes them."""
    arguments = dict(parameters)
    if (keyboard := arguments.get("reply_markup")) is not None:
        arguments["reply_markup"] = InlineKeyboardMarkup.de_json(keyboard, None)
    arguments.pop("instead", None)  # for the sender
    if (reply := arguments.pop("reply_to", None)) is not None:
        arguments["reply_parameters"] = ReplyParameters(int(reply), allow_sending_without_reply=True)
    if (document := arguments.get("document")) is not None:
        arguments["document"] = str(document).encode()
    return arguments


def _incoming(update: Update) -> IncomingUpdate:
    """The update, with texts that can be stored."""
    if (query := update.callback_query) is not None:
        shown = query.message
        return IncomingUpdate(
            update.update_id,
            UpdateKind.CALLBACK_QUERY,
            user_id=query.from_user.id,
            user_name=well_formed(query.from_user.full_name),
            is_bot=query.from_user.is_bot,
            chat_id=shown.chat.id if shown else None,
            chat_kind=shown.chat.type if shown else "",
            chat_title=well_formed(shown.chat.title or "") if shown else "",
            message_id=shown.message_id if shown else None,
            callback_id=query.id,
            callback_data=well_formed(query.data or ""),
        )
    if (member := update.my_chat_member) is not None:
        return IncomingUpdate(
            update.update_id,
            UpdateKind.MY_CHAT_MEMBER,
            user_id=member.from_user.id,
            user_name=well_formed(member.from_user.full_name),
            is_bot=member.from_user.is_bot,
            chat_id=member.chat.id,
            chat_kind=member.chat.type,
            chat_title=well_formed(member.chat.title or ""),
            at=member.date.timestamp(),
            is_member=member.new_chat_member.status not in ("left", "kicked"),
        )
    message = update.message or update.edited_message
    if message is None:
        return IncomingUpdate(update.update_id, UpdateKind.OTHER)
    sender = message.from_user
    return IncomingUpdate(
        update.update_id,
        UpdateKind.MESSAGE if update.message else UpdateKind.EDITED_MESSAGE,
        user_id=sender.id if sender else None,
        user_name=well_formed(sender.full_name) if sender else "",
        is_bot=sender.is_bot if sender else False,
        chat_id=message.chat.id,
        chat_kind=message.chat.type,
        chat_title=well_formed(message.chat.title or ""),
        at=message.date.timestamp(),
        message_id=message.message_id,
        thread_id=message.message_thread_id if message.is_topic_message else None,
        reply_to=message.reply_to_message.message_id if message.reply_to_message else None,
        text=None if message.text is None else well_formed(message.text),
        is_forwarded=message.forward_origin is not None,
        is_anonymous=message.sender_chat is not None,
    )
