"""Replies of the bot, and the calls and buttons that they become. Pure but for the nonces of buttons."""

import secrets
from collections.abc import Sequence
from dataclasses import field
from typing import Any

from sm.core.dataclass import dataclass
from sm.core.telegram_model import BotMethod, CardDraft, Need, NewCall, TelegramButton, nonce_digest
from sm.core.telegram_text import cut, escaped, pages, preformatted
from sm.core.timestamps import later
from sm.errors import SmError
from sm.operations.hints import Use, parts_of

PAGE_MAX = 3800
"""UTF-16 code units of one message, with room for markup and marks."""
_PAGES_MAX = 3
_CAPTION_MAX = 900
_LABEL_MAX = 64
_NONCE_BYTES = 16


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a chat: the thread of a forum, and the message that a reply refers to."""

    chat_id: int
    thread_id: int | None = None
    reply_to: int | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        found = {"message_thread_id": self.thread_id, "reply_to": self.reply_to}
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True)
class NewButton:
    label: str
    action: str


@dataclass(frozen=True, slots=True)
class Redrawn:
    """The next state of a message with buttons."""

    html: str
    buttons: Sequence[Sequence[NewButton]]
    """Rows."""
    told: str = ""
    """The words that the person who pressed sees."""
    draft: CardDraft | None = None
    """The choices on a card. The other buttons that its message had still work."""
    buttons_s: float | None = None
    """As in `BotReply`."""


@dataclass(frozen=True, slots=True)
class BotReply:
    """An answer to a command. `text` is plain text, which `is_output` shows with a fixed width."""

    text: str
    is_output: bool = False
    name: str = "output"
    """The name of the file that a long text becomes."""
    about: str | None = None
    buttons: Sequence[Sequence[NewButton]] = ()
    """Rows."""
    buttons_s: float | None = None
    """Seconds after which the buttons expire, or None if they expire with their object."""
    watched: int | None = None
    """The number of the message that the text of the person became. Its outcome is the answer, in place of `text`."""
    card: Redrawn | None = None
    """The next state of the card that the person replied to."""


@dataclass(slots=True)
class RenderedReply:
    """The calls of a reply, and the buttons below its last message."""

    calls: list[NewCall] = field(default_factory=list)
    buttons: list[TelegramButton] = field(default_factory=list)


def keyboard(
    place: Place,
    user_id: int,
    about: str,
    rows: Sequence[Sequence[NewButton]],
    now: str,
    expires_s: float | None,
) -> tuple[dict[str, Any], list[TelegramButton]]:
    """A keyboard, and its buttons with the digests of their nonces."""
    markup, buttons = [], []
    expires_at = None if expires_s is None else later(now, expires_s)
    for row in rows:
        shown = []
        for new in row:
            nonce = secrets.token_urlsafe(_NONCE_BYTES)
            shown.append({"text": cut(new.label, _LABEL_MAX).strip() or "-", "callback_data": nonce})
            buttons.append(
                TelegramButton(nonce_digest(nonce), place.chat_id, user_id, new.action, about, expires_at)
            )
        markup.append(shown)
    return {"inline_keyboard": markup}, buttons


def redraw(
    redrawn: Redrawn, place: Place, message_id: int | None, user_id: int, about: str, now: str
) -> tuple[NewCall, list[TelegramButton]]:
    """The edit that shows the next state of a message, and the new buttons. A later edit replaces a waiting one."""
    markup, buttons = keyboard(place, user_id, about, redrawn.buttons, now, redrawn.buttons_s)
    parameters = {
        "message_id": message_id,
        "text": redrawn.html,
        "parse_mode": "HTML",
        "reply_markup": markup,
    }
    subject = f"edit {place.chat_id} {message_id}"
    return NewCall(place.chat_id, BotMethod.EDIT_MESSAGE_TEXT, parameters, subject=subject), buttons


def render(reply: BotReply, place: Place, user_id: int, now: str, need: Need = Need.ANSWER) -> RenderedReply:
    """The calls that send the reply: at most three messages, or a file with its last lines in the caption."""
    message = RenderedReply()
    texts = pages(reply.text.split("\n"), PAGE_MAX)
    if len(texts) > _PAGES_MAX:
        caption = preformatted(cut(reply.text[-_CAPTION_MAX // 2 :], _CAPTION_MAX))
        document = {"document": reply.text, "filename": f"{reply.name}.txt", "caption": caption}
        parameters = {**place.parameters, **document, "parse_mode": "HTML"}
        message.calls.append(
            NewCall(place.chat_id, BotMethod.SEND_DOCUMENT, parameters, need, about=reply.about)
        )
        return message
    about = reply.about
    if about is None and reply.buttons:
        about = f"reply {secrets.token_hex(8)}"
    for number, text in enumerate(texts, start=1):
        # Telegram refuses a text of spaces.
        text = text if text.strip() else "(empty)"
        shown = preformatted(text) if reply.is_output else escaped(text)
        parameters = {**place.parameters, "text": shown, "parse_mode": "HTML"}
        if reply.buttons and about is not None and number == len(texts):
            parameters["reply_markup"], buttons = keyboard(
                place, user_id, about, reply.buttons, now, reply.buttons_s
            )
            message.buttons.extend(buttons)
        message.calls.append(NewCall(place.chat_id, BotMethod.SEND_MESSAGE, parameters, need, about=about))
    return message


def refusal(error: SmError) -> str:
    """The words of `sm` for a refusal, with a hint for the chat."""
    return error.message if error.hint is None else f"{error.message}\nhint: {in_chat(error.hint)}"


def in_chat(hint: str) -> str:
    """`list requests: /requests` for `list requests: sm requests`."""
    return "".join(part.in_chat() if isinstance(part, Use) else str(part) for part in parts_of(hint))
