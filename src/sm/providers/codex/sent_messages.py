"""Follows the messages that sm sent over a link, until the conversation proves what became of them. Pure."""

from collections.abc import Callable, Iterator

from sm.core.dataclass import dataclass
from sm.core.text import folded
from sm.providers.codex.recent import keep
from sm.providers.links import MessageUpdate, Receipt

_REASON_MAX = 300


@dataclass(slots=True)
class SentMessage:
    thread: str
    turn: str = ""
    """The turn that accepted the message. Empty if unknown, and in the queue: no turn's end loses such a message."""
    receipt: Receipt | None = None
    is_begun: bool = False
    """Its item has begun: the end of the turn is no proof any more that the message was not delivered."""


class SentMessages:
    """The messages of one link, by the ids that sm gave them. `at`: seconds since the epoch."""

    def __init__(self) -> None:
        self._messages: dict[str, SentMessage] = {}

    def send(self, id: str, thread: str) -> None:
        keep(self._messages, id, SentMessage(thread))

    def expect(self, id: str, thread: str) -> None:
        """A message that an earlier process sent, without a receipt."""
        keep(self._messages, id, SentMessage(thread, receipt=Receipt.UNKNOWN))

    def accept(self, id: str, turn: str, at: float) -> Iterator[MessageUpdate]:
        """The program took the message, for this turn, or for the queue (an empty `turn`)."""
        message = self._messages.get(id)
        if message is None:
            return
        message.turn = turn
        if message.receipt is None:
            yield self._update(id, Receipt.ACCEPTED, at)

    def refuse(self, id: str, reason: str, at: float) -> Iterator[MessageUpdate]:
        message = self._messages.get(id)
        if message is not None and message.receipt is None:
            yield self._update(id, Receipt.NOT_DELIVERED, at, reason)

    def begin(self, id: str) -> None:
        """The item with the message has begun."""
        if id in self._messages:
            self._messages[id].is_begun = True

    def echo(self, id: str, at: float) -> Iterator[MessageUpdate]:
        """The conversation has an item with the message."""
        message = self._messages.get(id)
        if message is not None and message.receipt is not Receipt.SUBMITTED:
            yield self._update(id, Receipt.SUBMITTED, at)

    def end_turn(self, thread: str, turn: str, at: float) -> Iterator[MessageUpdate]:
        """The turn has ended: a message that it accepted and did not echo is lost."""
        for id, message in self._messages.items():
            is_lost = message.receipt is Receipt.ACCEPTED and not message.is_begun
            if is_lost and (message.thread, message.turn) == (thread, turn):
                yield self._update(id, Receipt.NOT_DELIVERED, at, "the turn ended before it took the message")

    def miss(self, thread: str, is_read: Callable[[str], bool], at: float) -> Iterator[MessageUpdate]:
        """Items were read after the link was lost: a message that its turn had accepted and does not show is lost.

        `is_read`: tells whether a turn has ended and all its items were read. The program may not have read yet a
        message that it had not accepted before the link was lost.
        """
        for id, message in self._messages.items():
            is_open = (message.receipt, message.thread) == (Receipt.UNKNOWN, thread)
            if is_open and message.turn and is_read(message.turn):
                yield self._update(
                    id, Receipt.NOT_DELIVERED, at, "the conversation does not have the message"
                )

    def lose(self, reason: str, at: float) -> Iterator[MessageUpdate]:
        """The link was lost."""
        for id, message in self._messages.items():
            if message.receipt in (None, Receipt.ACCEPTED):
                yield self._update(id, Receipt.UNKNOWN, at, reason)

    def _update(self, id: str, receipt: Receipt, at: float, reason: str = "") -> MessageUpdate:
        self._messages[id].receipt = receipt
        return MessageUpdate(id, receipt, at, folded(reason, _REASON_MAX))
