"""Entries that need a person: requests, failed sessions, failed and unread messages, stale sessions, trouble. Pure.

After them come the completed sessions that the operator has not seen. They need nobody, but a look.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from sm.board.row import BoardRow
from sm.board.words import request_words, shown, status_word
from sm.core.dataclass import dataclass
from sm.core.messages import SM_ITSELF, TYPED_WHOLE
from sm.core.session_lines import loss
from sm.core.states import OPEN_STATES, MessageState
from sm.core.timestamps import epoch_s

Data = Mapping[str, Any]
_FAILED = frozenset({MessageState.FAILED, MessageState.EXPIRED, MessageState.UNCONFIRMED})
_MESSAGE_AGE_MAX_S = 86_400


class NeedKind(StrEnum):
    """In the order of the list."""

    LOSS = "loss"
    REQUEST = "request"
    FAILURE = "failed"
    MESSAGE = "message"
    STALE = "stale"
    DAEMON = "daemon"
    DONE = "done"


_ENDS: Mapping[str, NeedKind] = {"failed": NeedKind.FAILURE, "done": NeedKind.DONE}


@dataclass(frozen=True, slots=True)
class BoardNeed:
    kind: NeedKind
    key: str
    """Identifies the entry while it is shown: `r57`, `message 12`."""
    session_id: str | None
    label: str
    text: str
    """Safe to show, like `label`."""
    since_s: float
    """The daemon's time, or 0 if unknown."""
    request: Data | None = None
    message_id: int | None = None
    """Of a message to the operator that nobody has read."""

    @property
    def is_urgent(self) -> bool:
        """False for a completed session that the operator has not seen."""
        return self.kind is not NeedKind.DONE

    @property
    def digest(self) -> str | None:
        """Of the shown request, for the answer to it."""
        return None if self.request is None else self.request.get("digest")


def needs(
    rows: Mapping[str, BoardRow],
    requests: Sequence[Data],
    messages: Sequence[Data],
    overview: Data,
    now_s: float,
) -> list[BoardNeed]:
    """All entries, open requests first, and within each kind the oldest first.

    `requests`: of `/v1/requests`; `messages`: of `/v1/messages`; `overview`: of `/v1/status`.
    """
    found = [_request(request) for request in requests if _is_open(request)]
    found += _ends(rows)
    found += [_message(message) for message in messages if _is_failed(message, now_s)]
    found += [_unread(message) for message in messages if _is_unread(message)]
    found += [
        BoardNeed(
            NeedKind.STALE,
            f"stale {row.id}",
            row.id,
            row.label,
            f"no sign that it is still {status_word(row.status, stale=False)}; last: {row.task()}",
            row.status_at_s,
        )
        for row in rows.values()
        if row.stale and not row.requests and not row.data["archived"]  # a request is an entry already
    ]
    found += [
        BoardNeed(NeedKind.DAEMON, f"trouble {number}", None, "daemon", shown(text), 0.0)
        for number, text in enumerate(overview.get("trouble") or ())
    ]
    if letters := overview.get("dead_letters"):
        text = f"{letters} undelivered: sm status"
        found.append(BoardNeed(NeedKind.DAEMON, "dead letters", None, "daemon", text, 0.0))
    order = list(NeedKind)
    return sorted(found, key=lambda need: (order.index(need.kind), need.since_s))


def _ends(rows: Mapping[str, BoardRow]) -> list[BoardNeed]:
    """The ended sessions that the operator has not seen, those of a loss as one entry."""
    lost = [row for row in rows.values() if row.data["lost"]]
    found = [
        BoardNeed(kind, f"{kind} {row.id}", row.id, row.label, row.task(), row.status_at_s)
        for row in rows.values()
        if (kind := _ENDS.get(row.attention)) is not None and not row.data["lost"]
    ]
    if lost:
        since_s = min(row.status_at_s for row in lost)
        found.append(BoardNeed(NeedKind.LOSS, "loss", None, "lost sessions", loss(len(lost))[0], since_s))
    return found


def _is_open(request: Data) -> bool:
    return request["state"] == "open" and request["answer"] is None


def _request(request: Data) -> BoardNeed:
    return BoardNeed(
        NeedKind.REQUEST,
        request["request_id"],
        request["session_id"],
        shown(request["label"], 150),
        request_words(request),
        epoch_s(request["created_at"]),
        request,
    )


def _is_failed(message: Data, now_s: float) -> bool:
    """A message of the operator that did not arrive, of the last day. Other senders are told by notices."""
    is_own = message["from"] == "operator" and message["session_id"] is not None
    is_recent = now_s - epoch_s(message["created_at"]) < _MESSAGE_AGE_MAX_S
    may_have_failed = message["status"] in _FAILED and message["reason"] != TYPED_WHOLE
    return is_own and may_have_failed and is_recent


def _is_unread(message: Data) -> bool:
    """A message of a session to the operator, which waits in the inbox."""
    return message["session_id"] is None and message["from"] != SM_ITSELF and message["status"] in OPEN_STATES


def _unread(message: Data) -> BoardNeed:
    text = f"to you: {shown(message.get('text') or '', 200)}"
    label, at_s = shown(message["from_label"], 150), epoch_s(message["created_at"])
    key = f"message {message['message_id']}"
    return BoardNeed(
        NeedKind.MESSAGE, key, message["from"], label, text, at_s, message_id=message["message_id"]
    )


def _message(message: Data) -> BoardNeed:
    reason = f" ({shown(message['reason'], 100)})" if message["reason"] else ""
    text = f"{message['status']}{reason}: {shown(message.get('text') or '', 200)}"
    number, session_id = message["message_id"], message["session_id"]
    label, at_s = shown(message["label"], 150), epoch_s(message["created_at"])
    return BoardNeed(NeedKind.MESSAGE, f"message {number}", session_id, label, text, at_s)


class Quiet:
    """Since when nothing has needed a person."""

    def __init__(self) -> None:
        self.since_s: float | None = None
        """None while something needs a person, or it is not known. 0 if nothing has since before the first look."""
        self._has_looked = False

    def update(self, found: Sequence[BoardNeed], now_s: float) -> None:
        if any(need.is_urgent for need in found):
            self.since_s = None
        elif self.since_s is None:
            self.since_s = now_s if self._has_looked else 0.0
        self._has_looked = True
