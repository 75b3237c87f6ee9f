"""The part of a channel that one tab has not been sent yet. Nothing is queued: a slow reader skips states."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from sm.board.words import shown
from sm.core.lines import agent_line
from sm.web.channels import Channel, Kind

_ROW_CHARACTERS_MAX = 2000


class ChannelView:
    def __init__(self, kind: Kind, session_id: str, channel: Channel) -> None:
        self._kind = kind
        self._session_id = session_id
        self._channel = channel
        self._number = -1
        self._rows: Mapping[int, object] = {}
        self._actions: Sequence[Mapping[str, Any]] = ()

    def frame(self) -> bytes | None:
        """The frame that leads from the sent state to the present one; None if there is nothing new."""
        channel = self._channel
        if channel.number == self._number:
            return None
        is_first = self._number < 0
        self._number = channel.number
        if is_first and not channel.number:
            return None
        fields = self._screen() if self._kind == "screen" else self._tail(is_first=is_first)
        state = {"over": channel.is_over, "trouble": channel.trouble or None}
        return orjson.dumps(
            {"t": self._kind, "session": self._session_id, **fields, **state}, option=orjson.OPT_NON_STR_KEYS
        )

    def _screen(self) -> dict[str, Any]:
        rows, sent = dict(self._channel.rows), self._rows
        self._rows = rows
        changed = {number: _safe(runs) for number, runs in rows.items() if sent.get(number) is not runs}
        return {"height": self._channel.height, "rows": changed}

    def _tail(self, *, is_first: bool) -> dict[str, Any]:
        actions, sent = self._channel.actions, self._actions
        self._actions = actions
        last = max((place for place, entry in enumerate(actions) if sent and entry == sent[-1]), default=None)
        new = actions if last is None else actions[last + 1 :]
        safe = [{**entry, "text": shown(entry["text"], 4000)} for entry in new]
        return {"reset": last is None, "actions": safe}


def _safe(runs: Sequence[Sequence[str]]) -> list[list[str]]:
    """The runs without control and bidirectional characters."""
    return [[agent_line(text[:_ROW_CHARACTERS_MAX]), style] for text, style in runs]
