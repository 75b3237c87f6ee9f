"""The client of the Bot API: the `Bot` of python-telegram-bot, without its Application and Updater.

Only this module imports the library, which costs 8 MB: the daemon imports the module in a thread, when a bot is
configured. No error that leaves the module contains the token, which is a part of every URL.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import httpx
from telegram import (
    Bot,
    BotCommandScopeAllPrivateChats,
    BotCommandScopeChat,
    InlineKeyboardMarkup,
    ReplyParameters,
)
from telegram import error as errors
from telegram.request import HTTPXRequest

from sm.core.telegram_model import BotMethod, GroupRights, Outgoing
from sm.core.telegram_threads import ForumFacts
from sm.telegram.answers import Chat, Made, Member, Model, Unreadable, User, read, read_updates
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
from sm.telegram.updates import ALLOWED_UPDATES, IncomingUpdate

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


_body: ContextVar[bytes | None] = ContextVar("_body", default=None)
"""The body of the last answer to the running task, or None if no answer came."""


class _Request(HTTPXRequest):
    async def do_request(self, *arguments: Any, **options: Any) -> tuple[int, bytes]:
        status, body = await super().do_request(*arguments, **options)
        _body.set(body)
        return status, body


class BotClient:
    """Makes calls with one token. `async with` opens and closes its connections.

    `tell` is called with a line about each answer that cannot be read. Such an answer costs only its own call.
    """

    def __init__(
        self,
        token: str,
        base_url: str | None,
        timeout_s: float = CALL_TIMEOUT_S,
        tell: Callable[[str], None] = log.warning,
    ) -> None:
        self._token = token
        self._tell = tell
        self._url = f"{base_url or DEFAULT_URL}/bot"
        self._timeout_s = timeout_s
        self._tls = httpx.create_ssl_context()  # a megabyte of certificates, for all connections
        self._calls: _Request
        self._polls: _Request
        self._bot = self._new_bot()

    @property
    def bot_id(self) -> int:
        """The id of the bot, which is the first part of its token."""
        return int(self._token.partition(":")[0])

    def _request(self) -> _Request:
        timeout = self._timeout_s
        return _Request(
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

    async def _result(self, call: Awaitable[object]) -> object:
        """The JSON result of a call, also where the library cannot decode it (see `sm.telegram.answers`).

        Raises TelegramError, and the error of a call that was not made for its arguments.
        """
        _body.set(None)
        try:
            await call
        except errors.TelegramError:
            raise
        except Exception:
            if _body.get() is None:
                raise
        return json.loads(_body.get() or b"{}").get("result")

    async def _read(self, model: type[Model], what: str, call: Awaitable[object]) -> Model:
        """Make a call and read its result. Raises CallFailed."""
        try:
            return read(model, await self._result(call))
        except errors.TelegramError as error:
            raise CallFailed(self._failure(error)) from None
        except Unreadable as error:
            raise CallFailed(AnswerLost(self._unreadable(what, str(error)))) from None

    def _unreadable(self, what: str, why: str) -> str:
        """Tell of an answer that cannot be read, and return the line."""
        line = self._without_token(f"cannot read {what} of telegram: {why}")
        self._tell(line)
        return line

    async def user_name(self) -> str:
        """The name of the bot, such as `my_fleet_bot`. Raises CallFailed."""
        return (await self._read(User, "the bot's own account", self._bot.get_me())).username

    async def _group(self, chat_id: int) -> tuple[Chat, Member]:
        """A group and the bot as its member. Raises CallFailed."""
        chat = await self._read(Chat, "a group", self._bot.get_chat(chat_id))
        bot = self._bot.get_chat_member(chat_id, self.bot_id)
        return chat, await self._read(Member, "the bot's rights", bot)

    async def group_rights(self, chat_id: int) -> GroupRights:
        """The rights of the bot in a group. A failure is a part of the answer."""
        try:
            me = await self._read(User, "the bot's own account", self._bot.get_me())
            chat, bot = await self._group(chat_id)
        except CallFailed as failed:
            return GroupRights(chat_id, problem=getattr(failed.failure, "reason", repr(failed.failure)))
        return GroupRights(
            chat_id,
            chat.title,
            chat.is_forum,
            bot.manages_topics,
            bot.is_administrator or me.can_read_all_group_messages,
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
        chat, bot = await self._group(chat_id)
        members = [owner for owner in owners if await self._is_member(chat_id, owner)]
        return ForumFacts(chat_id, chat.is_forum, bot.manages_topics, tuple(members))

    async def _is_member(self, chat_id: int, user_id: int) -> bool:
        """True if Telegram says so: nobody loses reports because of a question without an answer."""
        try:
            member = await self._read(Member, "a member", self._bot.get_chat_member(chat_id, user_id))
        except CallFailed:
            return False
        return member.is_there

    async def updates(self, offset: int | None, wait_s: int) -> list[IncomingUpdate]:
        """The unconfirmed updates from `offset` on, at most 100, after up to `wait_s` seconds. Raises CallFailed."""
        poll = self._bot.get_updates(offset, timeout=wait_s, allowed_updates=ALLOWED_UPDATES)
        try:
            updates, problems = read_updates(await self._result(poll))
        except errors.TelegramError as error:
            raise CallFailed(self._failure(error)) from None
        except Unreadable as error:
            raise CallFailed(NotSent(self._unreadable("the updates", str(error)))) from None
        failures = [self._unreadable("an update", problem) for problem in problems]
        # There is nothing to confirm, so the next poll would have the same answer at once.
        if failures and not updates:
            raise CallFailed(NotSent(failures[-1]))
        return updates

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
            result = await self._result(getattr(self._bot, method.value)(**parameters))
        except errors.TelegramError as error:
            return self._failure(error)
        except (TypeError, ValueError) as error:  # a parameter that the method does not have
            return Rejected(f"invalid call: {type(error).__name__}")
        if result is True:
            return Done()
        try:
            made = read(Made, result)
        except Unreadable as error:
            self._unreadable(f"the answer to {method.value}", str(error))
            return Done()
        return Done(made.message_id, made.message_thread_id, None if made.date is None else float(made.date))

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
