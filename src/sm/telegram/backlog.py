"""Summaries of reports that waited: after an outage a chat gets one message in place of hundreds. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from sm.core.effects import EffectState
from sm.core.telegram_model import BotMethod, Need, NewCall, Outgoing, session_object
from sm.core.telegram_text import plain_parameters, utf16_length, visible
from sm.core.text import folded

REPORTS_MAX = 20
"""Reports that may wait for one chat. More of them become one summary."""
_LINE_MAX = 200
_LINES_MAX = 3500
"""UTF-16 code units of the newest reports in a summary."""


def crowded_chats(calls: Iterable[Outgoing]) -> Mapping[int, Sequence[Outgoing]]:
    """The reports that wait for each chat with more than `REPORTS_MAX` of them, oldest first."""
    waiting: dict[int, list[Outgoing]] = {}
    for call in calls:
        if call.chat_id is not None and _is_report(call):
            waiting.setdefault(call.chat_id, []).append(call)
    return {chat_id: reports for chat_id, reports in waiting.items() if len(reports) > REPORTS_MAX}


def _is_report(call: Outgoing) -> bool:
    """An event of a session. Not a card, which somebody may have to answer, nor a message that later ones edit."""
    return (
        call.method == BotMethod.SEND_MESSAGE
        and call.state is EffectState.PENDING
        and call.need >= Need.ENDING
        and call.subject is None
        and (call.about or "").startswith(session_object(""))
    )


def summary(chat_id: int, reports: Sequence[Outgoing], left_out: int) -> NewCall:
    """One message for the reports. `left_out`: how many more were dropped because the queue was full."""
    count = len(reports) + left_out
    head = f"{count} {'report' if count == 1 else 'reports'} waited too long for Telegram."
    lines: list[str] = []
    room = _LINES_MAX
    for report in reversed(reports[-REPORTS_MAX:]):
        line = visible(folded(str(plain_parameters(report.parameters).get("text", "")), _LINE_MAX))
        room -= utf16_length(line) + 1
        if room < 0:
            break
        lines.insert(0, line)
    if lines:
        head += f" The newest {len(lines)}:"
    text = "\n".join([head, *lines, "/list all shows every session."])
    return NewCall(chat_id, BotMethod.SEND_MESSAGE, {"text": text}, Need.ENDING)
