"""The message that shows the progress of a session, and its summary at the end. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from sm.core.effects import EffectState
from sm.core.figures import dollars
from sm.core.labels import label
from sm.core.lifecycle import is_ended
from sm.core.models import Checkpoint, Session
from sm.core.states import TrustLevel
from sm.core.statuses import Status
from sm.core.telegram_model import BotMethod, Need, NewCall, TelegramChange, is_group
from sm.core.telegram_text import escaped
from sm.core.telegram_threads import ProgressCard, progress_subject
from sm.core.text import folded
from sm.core.usage import SessionUsage
from sm.core.wording import status_words
from sm.core.work_time import elapsed_s
from sm.telegram.cards import UNTRUSTED

PRIVATE_EVERY_S = 5.0
GROUP_EVERY_S = 20.0
_TEXT_MAX = 300
_RESULT_MAX = 1000
_MINUTE_S = 60
_HOUR_MINUTES = 60
_DAY_HOURS = 24


def progress_text(
    session: Session,
    used: SessionUsage,
    activity: str | None,
    checkpoint: Checkpoint | None,
    children: Iterable[Session],
    now: str,
) -> str:
    """HTML for one message. `checkpoint`: the newest one. Fields without a measurement have no line."""
    own = f" {UNTRUSTED}" if session.effective_mode is TrustLevel.SANDBOXED else ""
    ended = is_ended(session.status)
    lines = [
        f"<b>{escaped(label(session))}</b> ({session.id}): {status_words(session)}",
        " · ".join(_figures(session, used, now)),
    ]

    def said(name: str, text: str | None, limit: int = _TEXT_MAX, mark: str = own) -> None:
        if text and (line := folded(text, limit)):
            lines.append(f"{name}: {escaped(line)}{mark}")

    if ended:
        said("result", session.completion_message, _RESULT_MAX)
        said("reason", session.status_reason, mark="")
    else:
        said("note", session.note)
        said("activity", activity)
        said("last tool", used.last_tool.name if used.last_tool else None)
    said("checkpoint", None if checkpoint is None else checkpoint.message)
    said("children", _children(children), mark="")
    return "\n".join(lines)


def _figures(session: Session, used: SessionUsage, now: str) -> Iterator[str]:
    until = session.completed_at if is_ended(session.status) else None
    if until is None:
        until = session.status_at if session.status is Status.IDLE else now
    yield elapsed(elapsed_s(session, until, session.worked_s))
    if used.tokens is not None:
        yield f"{used.tokens.used:,} tokens"
    if used.cost_usd is not None:
        yield dollars(used.cost_usd)
    if used.context_percent is not None:
        yield f"context {used.context_percent}%"


def _children(children: Iterable[Session]) -> str | None:
    """`2 running, 1 completed`"""
    counts: dict[Status, int] = {}
    for child in children:
        counts[child.status] = counts.get(child.status, 0) + 1
    return ", ".join(f"{counts[status]} {status}" for status in Status if status in counts) or None


def elapsed(seconds: float) -> str:
    """`5 min`, `1 h 05 min`, `2 d 3 h`. Whole minutes, so that a quiet session changes its card once in a minute."""
    minutes = int(max(0.0, seconds)) // _MINUTE_S
    hours, minute = divmod(minutes, _HOUR_MINUTES)
    days, hour = divmod(hours, _DAY_HOURS)
    if days:
        return f"{days} d {hour} h"
    if hours:
        return f"{hours} h {minute:02} min"
    return f"{minutes} min" if minutes else "less than a minute"


def is_due(session: Session, chat_id: int, since_s: float, *, is_news: bool) -> bool:
    """True if the card may change again, `since_s` after the last look. `is_news`: an event happened since.

    The end of a session is shown at once. An idle session changes only with an event.
    """
    if is_ended(session.status):
        return True
    if session.status is Status.IDLE and not is_news:
        return False
    return since_s >= (GROUP_EVERY_S if is_group(chat_id) else PRIVATE_EVERY_S)


def card_change(card: ProgressCard, text: str, state: EffectState | None, *, ended: bool) -> TelegramChange:
    """The change that shows the text in the card. `state`: that of the waiting call of the card, None without one."""
    subject, need = progress_subject(card.session_id), Need.ENDING if ended else Need.PROGRESS
    if card.message_id is None and state is None:  # the message was left out, because too many calls waited
        return TelegramChange(lost_cards=[card])
    if card.message_id is not None and ended and text == card.shown:
        return TelegramChange(cards=[replace(card, is_live=False)])
    if text == card.shown or (card.message_id is None and state is EffectState.TAKEN):
        return TelegramChange()
    parameters: dict[str, Any] = {"text": text, "parse_mode": "HTML"}
    if card.message_id is None:
        call = NewCall(card.chat_id, BotMethod.SEND_MESSAGE, parameters, need, subject, replaces=True)
        return TelegramChange([call], cards=[replace(card, shown=text)])
    parameters["message_id"] = card.message_id
    call = NewCall(card.chat_id, BotMethod.EDIT_MESSAGE_TEXT, parameters, need, subject)
    return TelegramChange([call], cards=[replace(card, shown=text, is_live=not ended)])
