"""Defines a delivery to an input box: its contract with the composer, its outcome, the composer's state."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from typing import Protocol

from sm.providers.base import Box, BoxReader, PromptRefusal


class Proof(StrEnum):
    """The evidence from the agent that a message arrived."""

    NONE = "none"
    TAKEN = "taken"
    QUEUED = "queued"
    """The message waits in the agent's own queue."""
    OVER = "over"
    """The delivery is finished otherwise: the message arrived changed, or its session has ended."""


class ComposerDelivery(Protocol):
    """One message on its way to an input box, and its record."""

    session_id: str
    terminal: str
    text: str
    """The whole text, with its header. A command has none."""
    box_reader: BoxReader
    interrupt: str | None
    """The key that interrupts the agent as soon as it has the message; None: the message is not urgent."""

    async def begin(self) -> bool:
        """Record the start of the delivery. False: the message must not be typed any more."""

    async def explain(self, why: str) -> None:
        """Record why the delivery is held up."""

    async def message_in_draft(self, draft: str) -> str | None:
        """The rendered text of the earlier message that `draft` shows; None: the draft is no message.

        claude puts an interrupted prompt without an answer back into the box, and may leave a copy of an accepted
        one. Records the changed state of the message.
        """

    def busy_reason(self, why: str) -> str:
        """The reason for `explain`: the agent accepts no text because of `why`."""

    def is_gone(self) -> bool:
        """True if the agent's process is gone: its terminal may belong to another program."""

    async def agent_has_unread_input(self) -> bool:
        """True if the agent's own terminal holds input: in a container, it is not that of the pane."""

    async def is_behind_queue(self) -> bool:
        """True while an idle agent has not begun the turn that reads its own queue: an Enter would overtake that."""

    def typed_words(self) -> str:
        """The line that tells a person which of their words arrived with the message, once; empty: none did."""

    async def lacks_queue_entry(self) -> bool:
        """Return whether only a hook has reported that the message waits in the agent's queue.

        Waits a moment for the agent to write where the message is.
        """

    async def refuse(self, refusal: PromptRefusal | None) -> None:
        """Record that a hook of the user refused the message. None: it may have, and the queue lacks the message."""

    async def is_in_queue(self) -> bool:
        """True if the message waits in the agent's own queue for the end of the turn in which it was entered.

        Waits until the transcript says where the message is.
        """

    async def proof(self, within_s: float) -> Proof:
        """The evidence for the message. Waits up to `within_s` for evidence."""


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
    """Seconds until the next attempt; None: unknown."""


ARRIVED = DeliveryOutcome(DeliveryEnd.ARRIVED)


def held(why: str, retry_s: float | None = None) -> DeliveryOutcome:
    return DeliveryOutcome(DeliveryEnd.HELD, why, retry_s)


def unconfirmed(why: str) -> DeliveryOutcome:
    return DeliveryOutcome(DeliveryEnd.UNCONFIRMED, why)


class DialogMonitor(Protocol):
    """The part of the monitor that the composer needs."""

    async def blocked_reason(self, session_id: str) -> str | None:
        """The reason why the agent waits for an answer now; None: no dialog is known."""

    async def is_working(self, session_id: str) -> bool:
        """True if the agent works on a turn now."""

    def awaits_first_turn(self, session_id: str) -> bool:
        """True until an agent that was started with a prompt has accepted the prompt and drawn its box anew."""

    async def hold_message(self, session_id: str) -> None:
        """Return when a message may begin a turn: the first one of an agent without hooks waits for its tools."""


class ComposerTerminal(Protocol):
    """The part of `Terminals` that the composer needs."""

    async def capture_styled(self, name: str) -> list[str]: ...

    async def paste(self, name: str, *texts: str) -> None: ...

    async def press(self, name: str, key: str) -> None: ...

    async def key_pause_s(self, name: str) -> float: ...

    async def show_line(self, name: str, text: str) -> None: ...

    async def has_unread_input(self, name: str) -> bool: ...


@dataclass
class ComposerState:
    """The driver's state for one session's input box. Times are those of the running event loop."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held from the last look before the paste until Enter is pressed."""
    overtaken: bool = False
    """A tool, a turn's end or an interrupt stopped waiting for the lock."""
    rests_s: float = float("-inf")
    """Nothing is pasted or entered until this time."""
    rests: str = ""
    """The reason for `rests_s`."""
    draft: str = ""
    draft_since_s: float = 0.0
    garbled_s: float | None = None
    """The time since which the screen has been unknown. A time in the future: the screen was redrawn."""
    rest: Sequence[Sequence[str]] = ()
    """The groups of the current message that are not pasted yet (`BoxReader.paste_groups`)."""
    pasted: str = ""
    """The part of the current message before `rest`, while there is a rest."""
    left_groups: Sequence[Sequence[str]] = ()
    """The groups of the current message, if an earlier daemon typed it, perhaps only the first ones."""
    shown: str = ""
    """The draft that the box showed for the current message."""
    seen: bool = False
    """The box has shown the current message or its beginning."""
    entered: bool = False
    """Enter was pressed for the current message."""
    mixed: bool = False
    """The box has shown other text since the paste."""
    left: str = ""
    """The text of a message that was given up but is in the box, or may still appear there."""
    left_shown: str | None = ""
    """The draft that the box showed for `left` (`BoxReader.shows_message`); None: not shown yet."""
    left_until_s: float = 0.0
    """The time until which `left` may still appear in the box."""
    pastes_lost: int = 0
    """The number of pastes of the current message that the agent has read but not shown."""
    removing: str = ""
    """The text whose removal from the box has begun and may be unfinished."""
    removing_shown: str = ""
    """The draft that the box showed for `removing` before the first key."""
    over_a_draft: bool = False
    """A draft is put aside for the current message."""
    put_aside: str = ""
    """The draft that was put aside last: it comes back unchanged, without another wait for the person."""

    def begin(self, left_groups: Sequence[Sequence[str]] = ()) -> None:
        """Begin with another message."""
        self.overtaken = self.over_a_draft = self.mixed = self.seen = self.entered = False
        self.shown = self.pasted = ""
        self.rest, self.left_groups = (), left_groups

    def take_up(self, delivery: ComposerDelivery, box: Box) -> None:
        """Find the groups that an earlier daemon did not paste, if the box shows those before them and nothing else.

        Enter is pressed only after the last group, so it was not pressed. Nothing is found if the box may show several
        beginnings of the message.
        """
        reader, text = delivery.box_reader, delivery.text
        groups = self.left_groups
        beginnings = ["".join(chain.from_iterable(groups[:count])) for count in range(1, len(groups))]
        found = [
            at for at, pasted in enumerate(beginnings, 1) if reader.shows_message(box.draft, pasted, None)
        ]
        if len(found) == 1 and not reader.shows_message(box.draft, text, None):
            self.rest, self.pasted = groups[found[0] :], beginnings[found[0] - 1]

    def holds_only_message(self, delivery: ComposerDelivery, box: Box) -> bool:
        """True if the box holds the message, or all of it that was pasted so far, and nothing else.

        Remembers how the box shows the message.
        """
        if self.rest:
            shows = delivery.box_reader.shows_message(box.draft, self.pasted, None)
            self.seen |= shows
            return shows
        # A restored draft may look like the message: the box abbreviates two texts of as many lines in the same way.
        is_restored = self.over_a_draft and box.draft == self.put_aside
        if is_restored or not delivery.box_reader.shows_message(box.draft, delivery.text, self.shown or None):
            return False
        self.shown = self.shown or box.draft
        self.seen = True
        return True
