"""Exchanges of messages: two sessions that only answer each other. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from sm.core.timestamps import epoch_s

DELAYS_S = (10.0, 30.0, 120.0)
"""The waits of the messages after the warning; the last one for all further messages."""


@dataclass(frozen=True, slots=True)
class MessageExchange:
    """The steps of sm about the messages between two sessions, `first` < `second`."""

    first: str
    second: str
    after_id: int = 0
    """Only messages with a larger id count: the pair was let go on, or was silent for long."""
    owner: str | None = None
    """The session that has the warning and the request; None: no warning is open."""
    request: int | None = None
    """The request that asks whether the pair may go on."""
    is_refused: bool = False
    """Somebody denied the request: no further message until one of the two has worked."""

    @property
    def subject(self) -> str:
        """The subject of its timer."""
        return f"{self.first}/{self.second}"


class ExchangeStep(Enum):
    PASS = auto()
    """Nothing is wrong."""
    OVER = auto()
    """One of the two has worked since the warning: it closes."""
    WARN = auto()
    SLOW = auto()
    HOLD = auto()


@dataclass(frozen=True, slots=True)
class Sent:
    """One message of a pair."""

    id: int
    sender: str
    at: str


def turns_of(sent: Sequence[Sent]) -> list[str]:
    """The times at which one of the two took its turn: several messages of one without an answer are one turn.

    `sent`: in the order of sending.
    """
    return [each.at for n, each in enumerate(sent) if n == 0 or each.sender != sent[n - 1].sender]


def next_step(
    exchange: MessageExchange, sent: Sequence[Sent], *, limit: int, within_s: float
) -> ExchangeStep:
    """Decide what follows from the last message of `sent`, the messages of the pair after its last work."""
    turns = turns_of(sent)
    if exchange.owner is not None:
        if len(sent) == 1:
            return ExchangeStep.OVER
        return ExchangeStep.HOLD if len(turns) >= 2 * limit else ExchangeStep.SLOW
    begin = epoch_s(sent[-1].at) - within_s
    recent = sum(epoch_s(at) > begin for at in turns)
    return ExchangeStep.WARN if recent >= limit else ExchangeStep.PASS


def delay_s(count: int, limit: int) -> float:
    """The wait of the `count`-th message of an exchange with a warning at the `limit`-th."""
    return DELAYS_S[max(0, min(count - limit, len(DELAYS_S)) - 1)]
