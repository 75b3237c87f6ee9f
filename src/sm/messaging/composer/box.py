"""Holds what is known of an input box, and the steps there: look, press a key, remove a message. Pure."""

from collections.abc import Sequence
from itertools import chain, cycle

from sm.core.dataclass import dataclass
from sm.errors import TerminalUnreachable
from sm.messaging.composer import instructions as to
from sm.messaging.composer import timing
from sm.messaging.composer.instructions import Disturbance, Steps, do
from sm.providers.base import Box, BoxReader
from sm.terminals.base import Busy

_KEYS_MAX = 300
_KEY_SHOWS_S = 0.3
_KEYS_UNSEEN_MAX = 4
_BEGINNING_MIN = 4
"""Shorter drafts may be a person's."""


_RESTS_S = {
    Disturbance.TOOL_STARTS: timing.TOOL_SETTLES_S,
    Disturbance.TURN_ENDS: timing.TOOL_SETTLES_S,
    Disturbance.INTERRUPTED: timing.RETURNS_WITHIN_S,
}


@dataclass
class TypedMessage:
    """One message on its way into the box, and what the box has shown of it."""

    text: str
    """The whole text, with its header. A command has none."""
    reader: BoxReader
    interrupt: str | None = None
    """The key that interrupts the agent as soon as it has the message, or None if the message is not urgent."""
    rest: Sequence[Sequence[str]] = ()
    """The groups that are not pasted yet (`BoxReader.paste_groups`)."""
    pasted: str = ""
    """The part before `rest`, while there is a rest."""
    left_groups: Sequence[Sequence[str]] = ()
    """All groups, if an earlier daemon typed the message, perhaps only the first ones."""
    shown: str = ""
    """The draft that the box showed for the message."""
    seen: bool = False
    """The box has shown the message or its beginning, perhaps with other text."""
    mixed: bool = False
    """The box has shown other text since the paste."""
    enters: int = 0
    """How often Enter was pressed."""
    covered: str | None = None
    """The draft that is put aside until the message is sent, empty if it is unknown, or None if there is none."""

    def is_alone(self, draft: str) -> bool:
        """True if the draft is the message, or all of it that was pasted so far, and nothing else.

        Remembers how the box shows the message.
        """
        if self.rest:
            shows = self.reader.shows_message(draft, self.pasted, None)
            self.seen |= shows
            return shows
        # A restored draft may look like the message: the box abbreviates two texts of as many lines in the same way.
        if draft == self.covered or not self.reader.shows_message(draft, self.text, self.shown or None):
            return False
        self.shown = self.shown or draft
        self.seen = True
        return True

    def take_up(self, draft: str) -> None:
        """Find the groups that an earlier daemon did not paste, if the draft is those before them and nothing else.

        Enter is pressed only after the last group, so it was not pressed. Nothing is found if the draft may be several
        beginnings of the message.
        """
        groups, shows = self.left_groups, self.reader.shows_message
        beginnings = ["".join(chain.from_iterable(groups[:count])) for count in range(1, len(groups))]
        found = [at for at, pasted in enumerate(beginnings, 1) if shows(draft, pasted, None)]
        if len(found) == 1 and not shows(draft, self.text, None):
            self.rest, self.pasted = groups[found[0] :], beginnings[found[0] - 1]


@dataclass
class InputBox:
    """The input box of one session. Most methods may raise NoTerminal and NoServer. Times are those of the events."""

    now_s: float = 0.0
    """The time of the last event."""
    overtaken: bool = False
    """A tool, a turn's end or an interrupt stopped waiting for the release of the box: nothing more is typed in it."""
    rests_s: float = float("-inf")
    """Nothing is pasted or entered until this time."""
    rests: str = ""
    """The reason for `rests_s`."""
    draft: str = ""
    draft_since_s: float = 0.0
    garbled_s: float | None = None
    """The time since which the screen has been unknown. A time in the future: the screen was redrawn."""
    left: str = ""
    """The text of a message that was given up but is in the box, or may still appear there."""
    left_shown: str | None = ""
    """The draft that the box showed for `left` (`BoxReader.shows_message`), or None if it was not shown yet."""
    left_until_s: float = 0.0
    """The time until which `left` may still appear in the box."""
    pastes_lost: int = 0
    """The number of pastes of the current message that the agent has read but not shown."""
    removing: str = ""
    """The text whose removal from the box has begun and may be unfinished."""
    removing_shown: str = ""
    """The draft that the box showed for `removing` before the first key."""
    put_aside: str = ""
    """The draft that was put aside last: it comes back unchanged, without another wait for the person."""

    def disturb(self, disturbance: Disturbance, at_s: float) -> None:
        """Let the box rest from `at_s` on."""
        self.rests, self.rests_s = disturbance, at_s + _RESTS_S[disturbance]

    def hold(self) -> Steps[None]:
        """Hold the box until `RELEASE_BOX`."""
        yield from do(to.HOLD_BOX)
        self.overtaken = False

    def look(self, message: TypedMessage) -> Steps[Box | None]:
        """The box as the terminal shows it, or None if the terminal did not answer."""
        lines = yield from self.capture()
        return None if lines is None else message.reader.box(lines)

    def capture(self) -> Steps[Sequence[str] | None]:
        """The lines of the terminal, or None if it did not answer."""
        try:
            return (yield from do(to.LOOK))
        except TerminalUnreachable:
            return None

    def paste_next(self, message: TypedMessage) -> Steps[Busy | None]:
        """Paste the message's next group. Returns Busy if it is not pasted yet. The box is held and was looked at."""
        group, *rest = message.rest
        try:
            if (busy := (yield from do(to.PASTE, group))) is not None:
                return busy
        except TerminalUnreachable as error:  # the box will show if the paste arrived
            yield from do(to.WARN, f"could not paste: {error.message}")
        message.rest, message.pasted = rest, message.pasted + "".join(group)
        return None

    def press(self, key: str) -> Steps[bool]:
        """Press a key. Returns False if it was not pressed, True if it probably was; look at the box to be sure."""
        try:
            return (yield from do(to.PRESS, key)) is None
        except TerminalUnreachable as error:
            yield from do(to.WARN, f"could not press the key {key}: {error.message}")
        return True

    def show_line(self, line: str) -> Steps[None]:
        """Show a line to the people at the terminal, if it answers."""
        try:
            yield from do(to.SHOW_LINE, line)
        except TerminalUnreachable as error:
            yield from do(to.WARN, f"could not show a line: {error.message}")

    def is_drawn(self) -> Steps[bool]:
        """True if the box shows all keys that a person has pressed; False also when the terminal did not answer."""
        try:
            pause_s = yield from do(to.KEY_PAUSE)
        except TerminalUnreachable:
            return False
        return pause_s >= timing.DRAWN_WITHIN_S and not (yield from self.has_unread_input())

    def has_unread_input(self) -> Steps[bool]:
        """True until the agent has read all keys and pastes, also when the terminal did not answer."""
        try:
            if (yield from do(to.PANE_HAS_UNREAD_INPUT)):
                return True
        except TerminalUnreachable:
            return True
        return (yield from do(to.AGENT_HAS_UNREAD_INPUT))

    def is_enterable(self, message: TypedMessage) -> Steps[bool]:
        """True if no dialog is open and the box holds only the message, or all of it that was pasted so far."""
        if (yield from do(to.IS_GONE)) or (yield from do(to.BLOCKED_REASON)) is not None:
            return False
        box = yield from self.look(message)  # last, right before the Enter
        return box is not None and box.closed is None and message.is_alone(box.draft)

    def redraw(self, message: TypedMessage, box: Box, after_s: float) -> Steps[None]:
        """Redraw a screen that was unknown for `after_s`: claude may have drawn one thing over another.

        A dialog is never redrawn: it is a known screen, or the agent publishes it.
        """
        key = message.reader.redraw_key
        if not box.unknown or key is None or (yield from do(to.IS_GONE)):
            return
        if self.garbled_s is None:
            self.garbled_s = self.now_s
        if self.now_s >= self.garbled_s + after_s:
            self.garbled_s = self.now_s + timing.DRAWN_AGAIN_AFTER_S
            yield from self.press(key)

    def clear(self, message: TypedMessage) -> Steps[None]:
        """Remove the copy of the delivered message that the box may hold."""
        yield from self.hold()
        box = yield from self.look(message)
        # A box that never showed the message holds no copy of it, even if the draft looks like one.
        is_copy = (
            box is not None
            and box.closed is None
            and message.reader.shows_message(box.draft, message.text, message.shown)
            and message.is_alone(box.draft)
        )
        if box is not None and is_copy:
            yield from self.remove(message, message.text, box.draft)
        yield from do(to.RELEASE_BOX)
        if box is not None and is_copy:
            yield from do(to.MESSAGE_IN_DRAFT, box.draft)

    def remove(self, message: TypedMessage, text: str, shown: str) -> Steps[None]:
        """Remove a message that the box shows as the draft `shown`. The box is held.

        The removal ends early when the screen is read half drawn, or when the agent is stopped. The next delivery
        continues it: otherwise the rest would look like a person's draft, and be put aside.
        """
        has_begun = self.removing == text
        self.removing, self.removing_shown = text, shown
        if (yield from self._press_clearing_keys(message, text, shown, has_begun)):
            self.removing = ""

    def _press_clearing_keys(
        self, message: TypedMessage, text: str, shown: str, has_begun: bool
    ) -> Steps[bool]:
        """Remove the message `text`, shown as `shown`, if the box holds nothing else.

        Each key waits for the effect of the one before: an agent takes several keys read at once for text.
        `has_begun`: an earlier call pressed keys, so the box may hold a beginning of the message. Returns False if a
        part of the message may be left: the screen was read half drawn, or the agent reads the keys late.
        """
        reader = message.reader
        keys = cycle(reader.clearing(shown))
        key, pressed = next(keys), 0
        before: str | None = None
        pressed_s, unseen = 0.0, 0
        while pressed < _KEYS_MAX:
            box = yield from self.look(message)
            if box is None or box.closed is not None or (yield from do(to.IS_GONE)):
                return False
            # A half cleared box holds a beginning of the message.
            is_ours = reader.shows_message(box.draft, text, None) or (
                (
                    before is not None
                    and (text.startswith(box.draft) or reader.contains_message(box.draft, text))
                )
                or (has_begun and is_beginning(box.draft, text))
            )
            if not box.draft or not is_ours:
                return not box.draft
            if box.draft != before:
                unseen = 0
            elif self.now_s < pressed_s + _KEY_SHOWS_S:
                yield from do(to.SLEEP, timing.LOOK_S)
                continue
            elif (unseen := unseen + 1) >= _KEYS_UNSEEN_MAX:
                return False
            else:
                key = next(keys)  # the last key has no effect at this position of the cursor
            before, pressed_s, pressed = box.draft, self.now_s, pressed + 1
            yield from self.press(key)
            yield from do(to.SLEEP, timing.LOOK_S)
        return False


def is_beginning(draft: str, text: str) -> bool:
    """True if the draft is a beginning of the message `text`. Ignores white space: the box wraps its rows."""
    beginning = "".join(draft.split())
    return len(beginning) >= _BEGINNING_MIN and "".join(text.split()).startswith(beginning)
