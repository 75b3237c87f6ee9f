"""Defines the instructions of the composer's machine, the events that answer them, and the outcome of a delivery."""

from collections.abc import Generator, Sequence
from enum import StrEnum
from typing import Any, Generic, TypeVar, overload

from sm.core.dataclass import dataclass
from sm.errors import TerminalError
from sm.providers.base import PromptRefusal
from sm.terminals.base import Busy

A = TypeVar("A")
T = TypeVar("T")


class Proof(StrEnum):
    """The evidence from the agent that a message arrived."""

    NONE = "none"
    TAKEN = "taken"
    QUEUED = "queued"
    """The message waits in the agent's own queue."""
    OVER = "over"
    """The delivery is finished otherwise: the message arrived changed, or its session has ended."""


class DeliveryEnd(StrEnum):
    HELD = "held"
    """Nothing was typed; the message stays queued."""
    ARRIVED = "arrived"
    """There is a proof, or no proof is needed any more."""
    UNCONFIRMED = "unconfirmed"
    FAILED = "failed"
    """The message cannot have arrived."""


@dataclass(frozen=True, slots=True)
class DeliveryOutcome:
    end: DeliveryEnd
    why: str = ""
    retry_s: float | None = None
    """Seconds until the next attempt, or None if unknown."""


ARRIVED = DeliveryOutcome(DeliveryEnd.ARRIVED)


def held(why: str, retry_s: float | None = None) -> DeliveryOutcome:
    return DeliveryOutcome(DeliveryEnd.HELD, why, retry_s)


def unconfirmed(why: str) -> DeliveryOutcome:
    return DeliveryOutcome(DeliveryEnd.UNCONFIRMED, why)


# Events


@dataclass(frozen=True, slots=True)
class CarriedOut:
    """The driver has carried out the instruction, at `at_s` on the clock of the event loop."""

    at_s: float
    value: Any = None
    """The answer (`Order`)."""


@dataclass(frozen=True, slots=True)
class TerminalFailed:
    """The terminal did not answer, or is gone."""

    at_s: float
    error: TerminalError


class Disturbance(StrEnum):
    """An event outside of the delivery, after which nothing is typed for a moment. The value is the reason."""

    TOOL_STARTS = "a tool is starting"
    """The tool may open a dialog."""
    TURN_ENDS = "a turn is ending"
    """The next turn begins with the agent's own queue."""
    INTERRUPTED = "the agent was just interrupted"
    """The last prompt may come back into the box."""


# Instructions


@dataclass(frozen=True, slots=True, eq=False)
class Order(Generic[A, T]):
    """A kind of instruction, with an argument of type `A`. The event that answers it has a value of type `T`."""

    name: str


# Orders without a description are methods of ComposerDelivery, DialogMonitor and ComposerTerminal (`driver`).
LOOK: Order[None, Sequence[str]] = Order("look")
"""Capture the lines of the terminal, with their styles."""
PASTE: Order[Sequence[str], Busy | None] = Order("paste")
"""Paste the pieces of one group."""
PRESS: Order[str, Busy | None] = Order("press")
SHOW_LINE: Order[str, None] = Order("show line")
KEY_PAUSE: Order[None, float] = Order("key pause")
"""Measure the seconds since a person pressed a key."""
PANE_HAS_UNREAD_INPUT: Order[None, bool] = Order("pane has unread input")
AGENT_HAS_UNREAD_INPUT: Order[None, bool] = Order("agent has unread input")
IS_GONE: Order[None, bool] = Order("is gone")

HOLD_BOX: Order[None, object] = Order("hold box")
"""Wait until nobody else holds the box, and hold it: tools and interrupts wait a moment for its release."""
RELEASE_BOX: Order[None, None] = Order("release box")
"""Release the box. The driver also releases it at the end of the delivery."""
SLEEP: Order[float, None] = Order("sleep")
AWAIT_TURN: Order[None, None] = Order("await turn")
"""Wait until a message may begin a turn."""
AWAIT_PROOF: Order[float, Proof] = Order("await proof")
"""Wait for evidence of the message, at most so many seconds."""

BLOCKED_REASON: Order[None, str | None] = Order("blocked reason")
AWAITS_FIRST_TURN: Order[None, bool] = Order("awaits first turn")
IS_WORKING: Order[None, bool] = Order("is working")
IS_BEHIND_QUEUE: Order[None, bool] = Order("is behind queue")
IS_IN_QUEUE: Order[None, bool] = Order("is in queue")
LACKS_QUEUE_ENTRY: Order[None, bool] = Order("lacks queue entry")
MESSAGE_IN_DRAFT: Order[str, str | None] = Order("message in draft")
BUSY_REASON: Order[str, str] = Order("busy reason")
TYPED_WORDS: Order[None, str] = Order("typed words")

BEGIN: Order[None, bool] = Order("begin")
EXPLAIN: Order[str, None] = Order("explain")
REFUSE: Order[PromptRefusal | None, None] = Order("refuse")
WARN: Order[str, None] = Order("warn")
"""Write a warning to the log."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """An order to the driver, with its argument."""

    order: Order[Any, Any]
    arguments: tuple[Any, ...] = ()


Steps = Generator[Instruction, Any, T]
"""A part of the machine: yields instructions, is sent the values of their events, and returns its result."""


@overload
def do(order: Order[None, T], /) -> Steps[T]: ...
@overload
def do(order: Order[A, T], argument: A, /) -> Steps[T]: ...
def do(order: Order[Any, T], /, *arguments: object) -> Steps[T]:
    """Have one instruction carried out. Raises the TerminalError of a failure."""
    value: T = yield Instruction(order, arguments)
    return value
