"""The lines of the pages of `sm top`: conversation, messages, events, requests and children of a session."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.text import Text

from sm.board.words import shown
from sm.cli.display.evidence import action_line, why_block
from sm.core.lines import clock, event_line, line
from sm.core.request_lines import request_block
from sm.core.session_lines import label

JsonList = Sequence[Mapping[str, Any]]


def conversation_lines(actions: JsonList, now: datetime) -> list[str]:
    return [action_line(dict(action), now, None) for action in actions] or ["no actions yet"]


def message_lines(messages: JsonList, now: datetime) -> list[str]:
    """Each message, the newest first, with its state, the proof or the reason for it, and its text."""
    lines = list[str]()
    for message in messages:
        sender = line(message.get("from_label") or message["from"])
        head = f"{message['message_id']}  {clock(message['created_at'], now)}  {sender} -> {label(dict(message))}"
        lines += [f"{head}  {_state(message, now)}", f"    {shown(message['text'] or 'text deleted', 500)}"]
    return lines or ["no messages"]


def _state(message: Mapping[str, Any], now: datetime) -> str:
    """`submitted 15:11: prompt hook`, `queued: busy: permission dialog, r57`."""
    at = message["acknowledged_at"] or message["submitted_at"]
    mode = "" if message["mode"] == "auto" else f" ({line(message['mode'])})"
    why = ", ".join(line(text) for text in (message["evidence"], message["reason"]) if text)
    return f"{line(message['status'])}{mode}{f' {clock(at, now)}' if at else ''}{f': {why}' if why else ''}"


def event_lines(
    answer: Mapping[str, Any], now: datetime, types: Sequence[str] = (), rows: Mapping[str, str] | None = None
) -> list[str]:
    """The events of these types, all without one. `rows`: the labels of sessions, to say whose event it is."""
    chosen = [event for event in answer["events"] if not types or event["type"] in types]
    return [_named(event, event_line(event, now), rows or {}) for event in chosen] or ["no events"]


def _named(event: Mapping[str, Any], text: str, rows: Mapping[str, str]) -> str:
    name = rows.get(event["session_id"])
    return text if name is None or name in text or event["session_id"] in text else f"{text} ({name})"


def request_lines(requests: JsonList, now: datetime, width: int) -> list[str]:
    lines = list[str]()
    for request in requests:
        lines += [*request_block(dict(request), now, max(20, width)), ""]
    return lines or ["no requests"]


def why_lines(answer: Mapping[str, Any], now: datetime) -> list[str]:
    """The status with each source, also those that were not believed."""
    return why_block(dict(answer), now)


def children_lines(cells: Sequence[Sequence[tuple[str, Any]]]) -> list[Text | str]:
    """A line for each descendant."""
    return [Text.assemble(*line, no_wrap=True) for line in cells] or ["no children"]
