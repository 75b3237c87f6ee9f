"""Unfinished work and the rows of capabilities, of which the store has a copy in memory."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from sm.core.dataclass import dataclass
from sm.core.effects import Effect
from sm.core.messages import Message, Notice
from sm.core.requests import Request
from sm.core.telegram_model import Outgoing, WatchedText
from sm.core.timers import Timer

Rows = Any
"""The copy of a part's rows in memory. It is never changed in place."""
Parts = Mapping[Any, Rows]
"""The rows by `TablePart`."""


@dataclass(frozen=True)  # without slots, for `replaced`
class Open:
    """Unfinished work by id, in order."""

    messages: Mapping[int, Message] = field(default_factory=dict)
    """Queued and delivering."""
    requests: Mapping[int, Request] = field(default_factory=dict)
    """Open, unclaimed and unconfirmed."""
    notices: Mapping[int, Notice] = field(default_factory=dict)
    """Not yet part of a message."""
    effects: Mapping[int, Effect] = field(default_factory=dict)
    """Pending and taken."""
    timers: Mapping[tuple[str, str], Timer] = field(default_factory=dict)
    """By subject and kind."""
    outgoing: Mapping[int, Outgoing] = field(default_factory=dict)
    """Calls to Telegram."""
    texts: Mapping[int, WatchedText] = field(default_factory=dict)
    """Texts from Telegram whose outcome is still to be told, by the number of their message."""
    parts: Parts = field(default_factory=dict)
    """The rows of capabilities. A part without rows has no entry."""
