"""Identifies the person behind each update, and carries out commands, texts and presses of buttons."""

import logging
import re
from collections.abc import Awaitable, Callable

from sm.config import TelegramSection
from sm.core.models import Caller, RequestKey
from sm.core.requests import Request
from sm.core.telegram_model import (
    ANYONE,
    BotMethod,
    Need,
    NewCall,
    TelegramButton,
    TelegramChange,
    TelegramChat,
    WatchedText,
    message_object,
    request_object,
    session_object,
    telegram_user,
)
from sm.core.telegram_text import cut, escaped
from sm.core.timestamps import iso
from sm.errors import ExternalError, NotPermitted, SmError, StorageFull
from sm.services import Authorizer, ChatUsers, Telegram
from sm.services.parts import DoorParts
from sm.telegram.card_steps import CardSteps
from sm.telegram.cards import result
from sm.telegram.command_call import CommandCall
from sm.telegram.commands import COMMANDS, send_text, unknown_command
from sm.telegram.forum import Forum
from sm.telegram.presses import BUTTONS
from sm.telegram.replies import BotReply, NewButton, Place, Redrawn, redraw, refusal, render
from sm.telegram.shown_objects import ShownObjects
from sm.telegram.updates import IncomingUpdate, UpdateKind

log = logging.getLogger(__name__)

TOO_OLD_S = 600.0
_TOO_OLD = "This message is too old and was not carried out. Please send it again."
_WELCOME = "This chat is connected to sm. /help shows the commands."
_EDITED = "An edited message is not carried out. Please send it again."
_TEXT_ONLY = "sm takes text only."
_DONE = "Done."
_VOID = "This button is no longer valid."
_COMMAND = re.compile(r"/([A-Za-z_]{1,32})(?:@([A-Za-z0-9_-]{1,64}))?(?:\s+|$)")
_TITLE_MAX = 200
_ANSWER_MAX = 190
"""Characters of the text that a press of a button shows (Bot API: 200)."""


class Conversation:
    """Handles updates. `wall` is the time of day."""

    def __init__(
        self,
        section: TelegramSection,
        forum: Forum,
        wall: Callable[[], float],
        parts: DoorParts,
        *,
        users: ChatUsers,
        telegram: Telegram,
        authorizer: Authorizer,
        steps: CardSteps,
        objects: ShownObjects,
    ) -> None:
        """`parts`: the use cases of commands and buttons."""
        self._users = users
        self._telegram = telegram
        self._authorizer = authorizer
        self._steps = steps
        self._objects = objects
        self._send_text = parts.bound(send_text)
        self._commands = {name: parts.bound(command.run) for name, command in COMMANDS.items()}
        self._presses = {name: parts.bound(press) for name, press in BUTTONS.items()} | dict(steps.presses)
        self._forum = forum
        self._section = section
        self._wall = wall

    async def handle(self, update: IncomingUpdate, key: str) -> TelegramChange | None:
        """Carry out the update. Returns None if it is of a stranger, and nothing follows."""
        if update.chat_id is None or update.user_id is None or update.is_bot:
            return None
        if update.kind is UpdateKind.MY_CHAT_MEMBER:
            return self._joined(update)
        if update.is_forwarded or update.is_anonymous:
            return None
        if not (update.is_private or await self._is_our_group(update.chat_id)):
            return None
        try:
            user = telegram_user(update.user_id)
            caller = self._users.caller(user)
        except ValueError:
            return None
        except NotPermitted:
            return await self._stranger(update, key)
        title = (update.chat_title or update.user_name)[:_TITLE_MAX]
        chat = TelegramChat(update.chat_id, update.chat_kind, title)
        if update.kind is UpdateKind.CALLBACK_QUERY:
            return await self._press(update, caller, key, chat)
        reply = await self._reply(update, caller, key)
        if reply is None:
            return TelegramChange(chat=chat)
        watched = [] if reply.watched is None else [_watched(update, reply.watched, user)]
        if watched and not reply.text:
            return TelegramChange(watched=watched, chat=chat)
        now = iso(self._wall())
        message = render(reply, _place(update), update.user_id, now)
        if reply.card is None:
            return TelegramChange(message.calls, message.buttons, watched=watched, chat=chat)
        presser = update.user_id if update.is_private else ANYONE
        edit, buttons = redraw(reply.card, _place(update), update.reply_to, presser, reply.about or "", now)
        drafts = [reply.card.draft] if reply.card.draft is not None else []
        return TelegramChange([edit, *message.calls], [*buttons, *message.buttons], drafts=drafts, chat=chat)

    async def _is_our_group(self, chat_id: int) -> bool:
        if chat_id in self._section.groups:
            return True
        moved = {chat.migrated_to: chat.chat_id for chat in await self._telegram.chats()}
        return moved.get(chat_id) in self._section.groups

    def _joined(self, update: IncomingUpdate) -> TelegramChange | None:
        """Leave a group that the configuration does not name."""
        assert update.chat_id is not None
        if self._forum.is_group(update.chat_id):
            self._forum.check_again()
        if update.is_private or update.chat_id in self._section.groups or not update.is_member:
            return None
        return TelegramChange([NewCall(update.chat_id, BotMethod.LEAVE_CHAT, {}, Need.PROGRESS)])

    # Strangers

    async def _stranger(self, update: IncomingUpdate, key: str) -> TelegramChange | None:
        """Only /start in a private chat asks for access. Everything else gets no answer."""
        asks = update.kind is UpdateKind.MESSAGE and update.is_private and _first_word(update) == "/start"
        if not (asks and self._section.pairing) or self._is_too_old(update):
            return None
        assert update.user_id is not None
        user = telegram_user(update.user_id)
        answer = await self._users.ask(user, update.user_name, RequestKey(key, user))
        if answer is None:
            return None
        calls, buttons = [_answer(update, answer.text)], list[TelegramButton]()
        if answer.question is not None:
            told = BotReply(
                answer.question.text,
                about=answer.question.about,
                buttons=[[NewButton(*button) for button in answer.question.buttons]],
                buttons_s=answer.question.expires_s,
            )
            for owner in self._section.owner_ids:
                message = render(told, Place(owner), owner, iso(self._wall()), Need.REQUEST)
                calls += message.calls
                buttons += message.buttons
        return TelegramChange(calls, buttons)

    def _is_too_old(self, update: IncomingUpdate) -> bool:
        return update.at is not None and self._wall() - update.at > TOO_OLD_S

    # Messages

    async def _reply(self, update: IncomingUpdate, caller: Caller, key: str) -> BotReply | None:
        if update.kind is UpdateKind.EDITED_MESSAGE:
            return BotReply(_EDITED)
        if update.kind is not UpdateKind.MESSAGE:
            return None
        if self._is_too_old(update):
            return BotReply(_TOO_OLD)
        if update.text is None:
            return BotReply(_TEXT_ONLY) if update.is_private else None
        reply = await self._guarded(self._carry_out(update, caller, key, update.text))
        await self._objects.look(caller, None if reply is None else reply.about)
        return reply

    async def _guarded(self, reply: Awaitable[BotReply | None]) -> BotReply | None:
        """The reply, or the words of the refusal."""
        try:
            return await reply
        except StorageFull:
            raise
        except SmError as error:
            return BotReply(refusal(error))

    async def _carry_out(
        self, update: IncomingUpdate, caller: Caller, key: str, text: str
    ) -> BotReply | None:
        shown = await self._objects.of(update)
        request = shown.removeprefix(request_object("")) if shown.startswith(request_object("")) else None
        session = shown.removeprefix(session_object("")) if shown.startswith(session_object("")) else None
        if request is not None:
            session = await self._objects.session_of(caller, request)
        elif shown.startswith(message_object("")):
            session = await self._objects.recipient_of(caller, shown.removeprefix(message_object("")))
        match = _COMMAND.match(text)
        place, user_id = _place(update), update.user_id or 0
        if match is None:
            call = CommandCall(
                self._authorizer, caller, RequestKey(key, "text"), place, user_id, "text", text, shown=session
            )
            if request is not None:
                return await self._steps.reply_to_card(call, request)
            if session is not None:
                return await self._send_text(call, session, text)
            return BotReply("Reply to a message about a session, or: /help") if update.is_private else None
        name, suffix = match[1].lower(), match[2] or ""
        link = self._telegram.link
        bot = "" if link is None else link.bot or ""
        if suffix and suffix.lower() == bot.lower():
            suffix = ""
        if suffix and name != "new":
            return None  # a command for another bot
        if name == "start":
            return BotReply(_WELCOME)
        if name not in COMMANDS:
            raise unknown_command(name)
        command, rest = COMMANDS[name], text[match.end() :].strip()
        call = CommandCall(
            self._authorizer,
            caller,
            RequestKey(key, name),
            place,
            user_id,
            name,
            rest,
            suffix,
            session,
            command.usage,
        )
        return await self._commands[name](call)

    # Buttons

    async def _press(
        self, update: IncomingUpdate, caller: Caller, key: str, chat: TelegramChat
    ) -> TelegramChange:
        """Carry out a button once, for the user and in the chat that it was made for."""
        assert update.user_id is not None
        telegram = self._telegram
        button = await telegram.pressed(update.callback_data or "")
        if button is None and await telegram.is_carried_out(caller, key):
            # The daemon was killed after the press. The report of the outcome has removed the buttons since.
            return TelegramChange([_callback(update, _DONE)], chat=chat)
        shown = await self._objects.at(update.chat_id, update.message_id)
        if (reason := _refusal(update, button, shown)) is not None:
            telegram.record_refused_press(caller.name, reason)
            # Other buttons of the message may still work, such as those that a step on a card has added.
            keeps = button is not None or await telegram.has_buttons(shown, update.chat_id or 0)
            without = [] if keeps else _without_buttons(update)
            told = _VOID if keeps else _void_words(await self._objects.request(caller, shown))
            return TelegramChange([_callback(update, told), *without], chat=chat)
        assert button is not None
        action, _, rest = button.action.partition(" ")
        call = CommandCall(
            self._authorizer,
            caller,
            RequestKey(key, button.action),
            _place(update),
            update.user_id,
            action,
            rest,
            button=button,
        )
        failed: SmError | None = None
        reply: BotReply | Redrawn
        try:
            press = self._presses.get(action)  # None for the button of a capability that sm no longer has
            reply = BotReply(_VOID) if press is None else await press(call)
        except StorageFull:
            raise
        except SmError as error:
            failed = error
            reply = BotReply(refusal(error))
        await self._objects.look(caller, button.about)
        if isinstance(reply, Redrawn):
            return self._step(update, chat, button, reply)
        calls = [_callback(update, reply.text)]
        if isinstance(failed, (NotPermitted, ExternalError)):  # the button stays: nothing was decided
            return TelegramChange(calls, chat=chat)
        calls.append(await self._edit(update, caller, button, reply))
        watched = [] if reply.watched is None else [_watched(update, reply.watched, caller.name)]
        return TelegramChange(calls, spent=[button.about], watched=watched, chat=chat)

    def _step(
        self, update: IncomingUpdate, chat: TelegramChat, button: TelegramButton, redrawn: Redrawn
    ) -> TelegramChange:
        """Draw the message of the button again, with new buttons."""
        now = iso(self._wall())
        edit, buttons = redraw(redrawn, _place(update), update.message_id, button.user_id, button.about, now)
        calls = [_callback(update, redrawn.told), edit]
        if redrawn.draft is None:
            return TelegramChange(calls, buttons, spent=[button.about], chat=chat)
        return TelegramChange(calls, buttons, used=[button.digest], drafts=[redrawn.draft], chat=chat)

    async def _edit(
        self, update: IncomingUpdate, caller: Caller, button: TelegramButton, reply: BotReply
    ) -> NewCall:
        """Show the outcome in the message of the button, and remove its buttons."""
        text = escaped(cut(reply.text, 1000))
        if (request := await self._objects.request(caller, button.about)) is not None:
            shown = self._steps.card(request).html
            text = shown if not request.open else f"{shown}\n{text}"
        parameters = {"message_id": update.message_id, "text": text, "parse_mode": "HTML"}
        return NewCall(update.chat_id, BotMethod.EDIT_MESSAGE_TEXT, parameters)


def _void_words(request: Request | None) -> str:
    """Tell who was first, if the message shows a request that is over."""
    return _VOID if request is None or request.open else f"{request.name}: {result(request)}"


def _first_word(update: IncomingUpdate) -> str:
    return ((update.text or "").split(maxsplit=1) or [""])[0]


def _place(update: IncomingUpdate) -> Place:
    assert update.chat_id is not None
    return Place(update.chat_id, update.thread_id, update.message_id)


def _watched(update: IncomingUpdate, number: int, user: str) -> WatchedText:
    assert update.chat_id is not None
    return WatchedText(number, update.chat_id, update.message_id or 0, update.thread_id, user)


def _answer(update: IncomingUpdate, text: str) -> NewCall:
    return NewCall(update.chat_id, BotMethod.SEND_MESSAGE, {"text": text, "reply_to": update.message_id})


def _refusal(update: IncomingUpdate, button: TelegramButton | None, shown: str) -> str | None:
    """Why a press does nothing, for the audit log. `shown`: the object of the message, if it is known already."""
    if button is None:
        return "an unknown, expired or used button"
    if button.chat_id != update.chat_id or button.user_id not in (ANYONE, update.user_id):
        return "a button of another user"
    if shown not in ("", button.about):
        return "a button of another message"
    return None


def _callback(update: IncomingUpdate, text: str) -> NewCall:
    parameters = {"callback_query_id": update.callback_id}
    if text:
        parameters["text"] = cut(text, _ANSWER_MAX)
    return NewCall(None, BotMethod.ANSWER_CALLBACK_QUERY, parameters)


def _without_buttons(update: IncomingUpdate) -> list[NewCall]:
    """Remove the buttons of a message."""
    if update.message_id is None:
        return []
    parameters = {"message_id": update.message_id, "reply_markup": {"inline_keyboard": []}}
    return [NewCall(update.chat_id, BotMethod.EDIT_MESSAGE_REPLY_MARKUP, parameters)]
