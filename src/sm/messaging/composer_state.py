"""Defines a delivery to an input box: its contract with the composer, its outcome, the composer's memory."""

import asyncio
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from sm.providers.base import Composer


class Proof(StrEnum):
    """What the agent has said of a message."""

    NONE = "none"
    TAKEN = "taken"
    QUEUED = "queued"
    """It waits in the agent's own queue."""
    OVER = "over"
    """Nobody waits for it any more: it arrived otherwise than it was sent, or its session has ended."""


class ComposerDelivery(Protocol):
    """One message on its way to an input box, and its record."""

    session_id: str
    terminal: str
    letter: str
    """The whole text, with its header."""
    composer: Composer
    interrupt: str | None
    """The key by which the agent is to leave off what it does as soon as it has the message; None: it is not urgent."""

    async def begins(self) -> bool:
        """Note that it is typed from now on. False: it is not to be typed any more."""

    async def explain(self, why: str) -> None:
        """Note why it does not go on."""

    async def returned(self, draft: str) -> str | None:
        """The letter of an earlier message that this draft is: claude puts back what was interrupted before its answer
        began, and may leave a copy of what it has. Notes what that means for it. None: it is somebody else's.
        """

    def busy(self, why: str) -> str:
        """In words, for `explain`: the agent takes no text because of `why`."""

    def gone(self) -> bool:
        """Whether the agent's process is gone: what stands in its terminal is somebody else's by now."""

    async def proof(self, within_s: float) -> Proof:
        """What the agent has said of it; waits so long for anything."""


class DeliveryEnd(StrEnum):
    HELD = "held"
    """Nothing was typed; it stays queued."""
    ARRIVED = "arrived"
    """There is a proof, or nothing more to be proved."""
    UNCONFIRMED = "unconfirmed"
    FAILED = "failed"
    """It cannot have arrived."""


@dataclass(frozen=True, slots=True)
class DeliveryOutcome:
    end: DeliveryEnd
    why: str = ""
    again_s: float | None = None
    """When to try again, if something is known of that."""


ARRIVED = DeliveryOutcome(DeliveryEnd.ARRIVED)


def held(why: str, again_s: float | None = None) -> DeliveryOutcome:
    return DeliveryOutcome(DeliveryEnd.HELD, why, again_s)


def unconfirmed(why: str) -> DeliveryOutcome:
    return DeliveryOutcome(DeliveryEnd.UNCONFIRMED, why)


class DialogMonitor(Protocol):
    """The part of the monitor that typing needs."""

    async def blocked(self, session_id: str) -> str | None:
        """Why the agent waits for an answer at this moment; None: no dialog of the agent is known."""


class ComposerTerminal(Protocol):
    """The part of `Terminals` that typing needs."""

    async def styled(self, name: str) -> list[str]: ...

    async def paste(self, name: str, text: str) -> None: ...

    async def press(self, name: str, key: str) -> None: ...


@dataclass
class ComposerState:
    """The driver's memory of one session's input box."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held from the last look before the paste until Enter is pressed."""
    overtaken: bool = False
    """A tool has begun without waiting any longer."""
    rests_s: float = float("-inf")
    """Until when nothing is pasted or entered, because of what has just begun or ended,"""
    rests: str = ""
    """in words."""
    draft: str = ""
    draft_since_s: float = 0.0
    garbled_s: float | None = None
    """Since when its screen shows nothing that is known; later than now: it was drawn anew."""
    shown: str = ""
    """The draft as which the message that is under way was seen in the box."""
    beside: bool = False
    """The box has shown something else since it was pasted."""
    left: str = ""
    """What was given up while it stood in the box, or could still come to stand there,"""
    left_shown: str | None = ""
    """as which draft (`Composer.is_ours`); None: it has not shown yet, and is not waited for after"""
    left_until_s: float = 0.0
    """this."""
    removing: str = ""
    """The letter whose removal from the box was begun and is not known to be finished,"""
    removing_shown: str = ""
    """and the draft as which the box showed that letter before the first key."""
    over_a_draft: bool = False
    """A draft is put aside for the message that is under way."""
    put_aside: str = ""
    """The draft that we put aside last: it comes back unchanged, and need not be waited for again."""
