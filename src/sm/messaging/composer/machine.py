"""Decides how a message is typed into an input box: submits it at most once, and never into a dialog. Pure.

The machine has Enter pressed only if an open box holds the message and nothing else, and only while no tool is about
to begin: a key in a dialog would answer it. If the agent has accepted a message and the box still shows it, the box
holds a copy: claude leaves one when the Enter comes at the end of a turn. The machine removes the copy.
"""

from contextlib import suppress

from sm.core.dataclass import dataclass
from sm.errors import NoServer, NoTerminal, TerminalError
from sm.messaging.composer import instructions as to
from sm.messaging.composer import timing
from sm.messaging.composer.box import InputBox, TypedMessage, is_beginning
from sm.messaging.composer.instructions import (
    ARRIVED,
    CarriedOut,
    DeliveryEnd,
    DeliveryOutcome,
    Instruction,
    Proof,
    Steps,
    TerminalFailed,
    do,
    held,
    unconfirmed,
)
from sm.providers.base import Box

_MAY_APPEAR = (DeliveryEnd.UNCONFIRMED, DeliveryEnd.HELD)
"""Ends of deliveries after a paste whose text the box may still show later."""
_LEFT = "the daemon ended while it typed the message"
_NOT_CONFIRMED = "the message left the input box, but no report confirms that the agent got it"
_CLEARING = held("sm is clearing a message that came back into the input box", timing.DRAFT_LOOK_S)
_TYPING = held("somebody is typing in the input box", timing.DRAFT_LOOK_S)


@dataclass
class _Wait:
    """A wait for evidence of the message. Times are those of the events."""

    not_confirmed: str
    """The reason to give up when no evidence comes."""
    arrives_within_s: float
    """How long evidence may take after the message has left the box."""
    since_s: float
    """The time since which the open box has not held the message."""
    enter_s: float
    """The time of the next Enter."""
    unread_s: float
    """The last time at which the agent had unread input."""
    pause_s: float = timing.LOOK_S
    """The longest pause before the next look."""
    alone_s: float | None = None
    """The time since which the box has held the message alone."""
    mixed_s: float | None = None
    """The time since which the box has held the message with other text."""


class ComposerMachine:
    """One delivery to an input box: `step` takes an event and returns the next instruction, or the outcome."""

    def __init__(self, box: InputBox, message: TypedMessage, *, is_left: bool = False) -> None:
        """`is_left`: an earlier daemon began to type the message.

        Then the message is entered if the box holds it. If the box holds its first groups, the others are pasted
        before. Otherwise nothing is typed.
        """
        self._box = box
        self._message = message
        self._steps = self._resume() if is_left else self._deliver()

    def step(self, event: CarriedOut | TerminalFailed) -> Instruction | DeliveryOutcome:
        """The next instruction, or the outcome at the end. The value of the first event is None."""
        self._box.now_s = event.at_s
        try:
            if isinstance(event, TerminalFailed):
                return self._steps.throw(event.error)
            return self._steps.send(event.value)
        except StopIteration as end:
            outcome: DeliveryOutcome = end.value
            return outcome

    def _deliver(self) -> Steps[DeliveryOutcome]:
        box, message = self._box, self._message
        try:
            yield from box.hold()
            if (outcome := (yield from self._prepare())) is not None:
                return outcome
            message.rest = message.reader.paste_groups(message.text)
            if (busy := (yield from box.paste_next(message))) is not None:
                return held(busy.why)
            yield from self._enter_when_it_shows()
            yield from do(to.RELEASE_BOX)
            outcome = yield from self._follow(_NOT_CONFIRMED, timing.ARRIVES_WITHIN_S)
            if outcome.end is not DeliveryEnd.HELD:
                box.pastes_lost = 0
            pasted = message.pasted.rstrip() if message.rest else message.text
            box.left = pasted if outcome.end in _MAY_APPEAR else ""
            # Among other text the message looks like a person's paste, so it is left to that person.
            box.left_shown = message.shown or ("" if message.mixed else None)
            box.left_until_s = box.now_s + timing.LEFT_COMES_WITHIN_S
            return outcome
        except (NoTerminal, NoServer) as error:
            return self._lost(error.message)

    def _resume(self) -> Steps[DeliveryOutcome]:
        message = self._message
        message.left_groups, message.enters = message.reader.paste_groups(message.text), 1
        try:
            yield from self._box.hold()
            yield from do(to.RELEASE_BOX)
            proof = yield from do(to.AWAIT_PROOF, timing.LEFT_S)
            if proof is not Proof.NONE:
                yield from self._finish_arrival(proof)
                return ARRIVED
            return (yield from self._follow(_LEFT, 0.0))
        except TerminalError as error:
            return unconfirmed(f"{_LEFT}; {error.message}")

    def _lost(self, why: str) -> DeliveryOutcome:
        """The outcome when the agent or its terminal is gone."""
        return DeliveryOutcome(DeliveryEnd.UNCONFIRMED if self._message.enters else DeliveryEnd.FAILED, why)

    # Before the first key of the message. The box is held.

    def _prepare(self) -> Steps[DeliveryOutcome | None]:
        """Empty the box and record the start. Returns the outcome if the message is not typed now."""
        if (outcome := (yield from self._find_obstacle())) is not None:
            return outcome
        yield from do(to.AWAIT_TURN)
        if (outcome := (yield from self._put_aside())) is not None:
            return outcome
        if not (yield from do(to.BEGIN)):
            return ARRIVED
        # The wait and the write may have taken long.
        return (yield from self._find_obstacle())

    def _find_obstacle(self) -> Steps[DeliveryOutcome | None]:
        """The reason to type nothing now, or None if the box is empty or holds a draft that may be put aside."""
        box, message = self._box, self._message
        rest_s = box.rests_s - box.now_s
        if rest_s > 0:
            return (yield from _busy(box.rests, rest_s))
        if (why := (yield from do(to.BLOCKED_REASON))) is not None:
            return (yield from _busy(why))
        if (yield from do(to.AWAITS_FIRST_TURN)):
            # The agent draws its box anew after it has accepted the prompt: an earlier paste would be lost.
            why = "the agent has not accepted its first prompt"
            return (yield from _busy(why, timing.FIRST_TURN_LOOK_S))
        if (yield from do(to.IS_BEHIND_QUEUE)):
            why = "the agent takes the messages in its own queue first"
            return (yield from _busy(why, timing.DRAFT_LOOK_S))
        seen = yield from box.look(message)
        if seen is None or (yield from do(to.IS_GONE)):
            return held("the terminal does not respond")
        if seen.closed is not None:
            yield from box.redraw(message, seen, timing.GARBLED_S)
            return (yield from _busy(seen.closed))
        return (yield from self._find_text(seen))

    def _find_text(self, seen: Box) -> Steps[DeliveryOutcome | None]:
        """As `_find_obstacle`, for the text in an open box. Removes messages of `sm` from it."""
        box, message = self._box, self._message
        box.garbled_s = None
        if seen.stashed:  # by an earlier delivery or by a person
            message.covered = box.put_aside
        if box.left_shown is None and box.now_s >= box.left_until_s:
            box.left_shown = ""
        if box.left and message.reader.shows_message(seen.draft, box.left, box.left_shown):
            box.left_shown = box.left_shown or seen.draft
            yield from box.remove(message, box.left, seen.draft)
            return held("sm is clearing an undelivered message from the input box", timing.DRAFT_LOOK_S)
        if not seen.draft:
            box.draft = box.removing = ""
            return None if (yield from box.is_drawn()) else _TYPING
        if box.removing and (
            seen.draft == box.removing_shown or is_beginning(seen.draft, box.removing)
        ):  # the removal ended early
            yield from box.remove(message, box.removing, box.removing_shown)
            return _CLEARING
        if seen.draft != box.draft:
            box.draft, box.draft_since_s = seen.draft, box.now_s
            if (text := (yield from do(to.MESSAGE_IN_DRAFT, seen.draft))) is not None:
                yield from box.remove(message, text, seen.draft)
                return _CLEARING
        if seen.draft != box.put_aside and box.now_s - box.draft_since_s < timing.QUIET_S:
            return _TYPING
        # A second draft that is put aside would replace the first.
        if message.reader.stash_key is None or seen.stashed:
            return held("the input box holds a draft that cannot be set aside")
        return None

    def _put_aside(self) -> Steps[DeliveryOutcome | None]:
        """Put a person's draft aside. The agent restores it when the message is sent."""
        box, message = self._box, self._message
        if not box.draft:
            return None
        assert message.reader.stash_key is not None
        yield from box.press(message.reader.stash_key)
        until_s = box.now_s + timing.PUT_ASIDE_WITHIN_S
        while box.now_s < until_s:
            yield from do(to.SLEEP, timing.LOOK_S)
            seen = yield from box.look(message)
            if seen is not None and seen.closed is None and not seen.draft:
                message.covered = box.put_aside = box.draft
                box.draft = ""
                return None
        return _TYPING

    # The text and Enter. The box is held.

    def _enter_when_it_shows(self) -> Steps[None]:
        """Paste the rest of the message, and press Enter when the box shows the whole.

        Stops when the box shows other text, and when a dialog or a tool comes between.
        """
        box, message = self._box, self._message
        until_s, pause_s = box.now_s + timing.SHOWS_WITHIN_S, timing.FIRST_LOOK_S
        while box.now_s < until_s and not box.overtaken:
            if (yield from do(to.AWAIT_PROOF, pause_s)) is not Proof.NONE:
                return
            pause_s = timing.LOOK_S
            seen = yield from box.look(message)
            if seen is not None and seen.closed is not None:
                return
            if seen is None or not message.is_alone(seen.draft):
                continue
            if not message.rest:
                yield from self._enter(is_drawn=False)
                return
            if (yield from do(to.BLOCKED_REASON)) is not None or box.overtaken:
                return
            if (yield from box.paste_next(message)) is not None:
                continue
            until_s, pause_s = box.now_s + timing.SHOWS_WITHIN_S, timing.FIRST_LOOK_S

    def _enter(self, *, is_drawn: bool) -> Steps[bool]:
        """Press Enter if the box holds only the message. Returns False if Enter was not pressed.

        `is_drawn`: the box shows all keys that a person has pressed.
        """
        box, message = self._box, self._message
        pressed = (
            box.now_s >= box.rests_s
            and (yield from do(to.AWAIT_PROOF, 0)) is Proof.NONE
            and not (yield from do(to.IS_BEHIND_QUEUE))
            and (yield from box.is_enterable(message))
            and (is_drawn or (yield from box.is_drawn()))
            and not box.overtaken
            and (yield from box.press("Enter"))
        )
        message.enters += pressed
        return pressed

    # Evidence

    def _follow(self, not_confirmed: str, arrives_within_s: float) -> Steps[DeliveryOutcome]:
        """Wait for a proof, or until none can come."""
        message, now_s = self._message, self._box.now_s
        may_arrive = message.enters and arrives_within_s
        enter_s = now_s + self._again_after_s() if may_arrive else now_s
        wait = _Wait(not_confirmed, arrives_within_s, now_s, enter_s, now_s)
        while True:
            proof = yield from do(to.AWAIT_PROOF, wait.pause_s)
            if proof is not Proof.NONE:
                if proof is Proof.OVER and message.enters:
                    yield from self._report_typed_words()
                yield from self._finish_arrival(proof)
                return ARRIVED
            if (yield from do(to.IS_GONE)):
                return self._lost("the process has ended")
            if (outcome := (yield from self._look_again(wait))) is not None:
                return outcome

    def _again_after_s(self) -> float:
        return timing.AGAIN_AFTER_S if self._message.covered is None else timing.AGAIN_OVER_A_DRAFT_S

    def _look_again(self, wait: _Wait) -> Steps[DeliveryOutcome | None]:
        """Look at the box and act on it. Returns the outcome, or None to wait on."""
        box, message = self._box, self._message
        seen = yield from box.look(message)
        now_s = box.now_s
        why = yield from do(to.BLOCKED_REASON)
        wait.pause_s = timing.SLOW_LOOK_S
        if seen is None:
            wait.since_s = now_s
            return None
        if why is not None or seen.closed is not None:
            # A dialog hides the box and its text.
            yield from do(to.EXPLAIN, (yield from do(to.BUSY_REASON, why or seen.closed or "")))
            if why is None:
                yield from box.redraw(message, seen, timing.GARBLED_S)
            wait.since_s = now_s
            return None
        if message.left_groups and seen.draft and not message.rest:
            message.take_up(seen.draft)
        is_alone = message.is_alone(seen.draft)
        message.mixed |= bool(seen.draft) and not is_alone
        if is_alone:
            return (yield from self._type_on(wait, now_s))
        wait.alone_s = None
        if message.reader.contains_message(seen.draft, message.text):
            message.seen = True
            wait.since_s, wait.mixed_s = now_s, wait.mixed_s or now_s
            yield from do(to.EXPLAIN, _TYPING.why)
            return self._give_up_mixed() if now_s - wait.mixed_s >= timing.MIXED_S else None
        wait.pause_s = timing.LOOK_S
        if message.enters:
            waited = now_s - wait.since_s >= wait.arrives_within_s
            return unconfirmed(wait.not_confirmed) if waited else None
        return (yield from self._give_up_unseen(wait, seen.draft, now_s))

    def _type_on(self, wait: _Wait, now_s: float) -> Steps[DeliveryOutcome | None]:
        """Paste the next group, or press Enter, when the box shows the message alone."""
        box, message = self._box, self._message
        wait.since_s, wait.mixed_s, wait.pause_s = now_s, None, timing.LOOK_S
        alone_s = wait.alone_s = wait.alone_s or now_s
        if not message.rest and now_s < wait.enter_s:
            return None
        if not message.rest and message.enters >= timing.ENTERS_MAX:
            yield from box.clear(message)
            pressed = f"{message.enters} presses of Enter"
            return unconfirmed(f"the message was still in the input box after {pressed}, and sm removed it")
        yield from box.hold()
        if message.rest:
            if now_s >= box.rests_s and (yield from box.is_enterable(message)):
                if (busy := (yield from box.paste_next(message))) is not None:
                    yield from do(to.EXPLAIN, busy.why)
                message.left_groups = ()
        elif (yield from self._enter(is_drawn=now_s - alone_s >= timing.MIXED_S)):
            wait.enter_s = box.now_s + self._again_after_s()
            wait.arrives_within_s = max(wait.arrives_within_s, timing.ARRIVES_WITHIN_S)
        yield from do(to.RELEASE_BOX)
        return None

    def _give_up_mixed(self) -> DeliveryOutcome:
        if self._message.left_groups:
            return unconfirmed(
                f"{_LEFT}; the input box holds the message or a part of it, and perhaps other text"
            )
        what = "a part of the message" if self._message.rest else "the message"
        return unconfirmed(f"{what} is in the input box, together with text that somebody typed")

    def _give_up_unseen(self, wait: _Wait, draft: str, now_s: float) -> Steps[DeliveryOutcome | None]:
        """The outcome when Enter was not pressed and the open box has not shown the message for long."""
        box, was_there = self._box, self._message.seen
        waited_s = now_s - wait.since_s
        if not (draft or was_there) and waited_s >= timing.LOST_AFTER_S:
            if (yield from box.has_unread_input()):
                wait.unread_s, wait.pause_s = now_s, timing.SLOW_LOOK_S
            elif now_s - wait.unread_s >= timing.LOST_AFTER_S and box.pastes_lost < timing.PASTES_MAX:
                box.pastes_lost += 1
                return held("the input box lost the text; sm pastes it again", timing.LOOK_S)
        if waited_s < (timing.SHOWS_WITHIN_S if draft or was_there else timing.SHOWS_AT_ALL_S):
            return None
        shows = "no longer shows" if was_there else "shows other text than" if draft else "does not show"
        return unconfirmed(f"the input box {shows} the pasted message; sm did not press Enter")

    # After the arrival

    def _finish_arrival(self, proof: Proof) -> Steps[None]:
        """Interrupt for an urgent message, and remove copies from the box. An error cannot undo the arrival."""
        box, message = self._box, self._message
        try:
            key = message.interrupt
            if (
                key is not None
                and proof is not Proof.OVER
                and (yield from do(to.IS_IN_QUEUE))
                and (yield from self._interrupt(key))
            ):
                return
            if key is None and proof is Proof.QUEUED:
                # Until then, a hook of the user may return the message to the box.
                yield from do(to.IS_IN_QUEUE)
            yield from do(to.SLEEP, message.reader.settle_s)
            yield from box.clear(message)
            if proof is Proof.QUEUED:
                yield from self._find_refusal()
        except TerminalError as error:
            yield from do(to.WARN, f"could not clear the input box: {error.message}")

    def _find_refusal(self) -> Steps[None]:
        """Wait until the agent's queue has the message, or a hook of the user has refused it."""
        box, message = self._box, self._message
        until_s = box.now_s + timing.REFUSED_WITHIN_S
        while (yield from do(to.LACKS_QUEUE_ENTRY)):
            lines = yield from box.capture()
            refusal = None if lines is None else message.reader.refusal(lines, message.text)
            if refusal is not None or box.now_s >= until_s:
                yield from do(to.REFUSE, refusal)
                return

    def _report_typed_words(self) -> Steps[None]:
        """Tell the person at the terminal which words the Enter submitted: they were typed right before it."""
        line = yield from do(to.TYPED_WORDS)
        if not line:
            return
        with suppress(TerminalError):
            yield from self._box.show_line(line)
            yield from do(to.SLEEP, timing.QUIET_S)  # the next key of the person removes the line
            yield from self._box.show_line(line)

    # An urgent message

    def _interrupt(self, key: str) -> Steps[bool]:
        """End the turn that keeps an urgent message waiting.

        The message must be in the agent's own queue: then claude continues with the queue, and the interrupted work
        stays in the conversation. An Escape with an empty queue would take a prompt without an answer out of the
        conversation and put it back into the box.

        If the turn has just ended, Escape interrupts the turn of the message itself. Then the message comes back into
        the box without having reached the model, and is entered again. Returns True if the box shows the message only
        because a person recalled it.
        """
        box, message = self._box, self._message
        for _ in range(timing.TOOLS_WAITED_FOR):
            yield from do(to.SLEEP, max(0.0, box.rests_s - box.now_s))
        yield from box.hold()
        seen = yield from box.look(message)
        may_press = (
            seen is not None
            and seen.closed is None  # Escape would answer an open dialog: the message stays in the queue
            and not (yield from do(to.IS_GONE))
            and (yield from do(to.BLOCKED_REASON)) is None
            and (yield from do(to.IS_IN_QUEUE))
        )
        was_empty = seen is not None and not seen.draft
        if may_press:
            yield from box.press(key)
        yield from do(to.RELEASE_BOX)
        return may_press and (yield from self._enter_again(was_empty))

    def _enter_again(self, was_empty: bool) -> Steps[bool]:
        """Enter a message that the interrupt puts back into the box. Returns True if a person recalled it.

        `was_empty`: the box was empty before the interrupt.
        """
        box, message = self._box, self._message
        until_s, enter_s, entered = box.now_s + timing.RETURNS_WITHIN_S, 0.0, 0
        shown_s: float | None = None
        is_recalled = False
        effect_until_s = box.now_s + timing.INTERRUPTED_WITHIN_S
        while box.now_s < until_s and entered < timing.ENTERS_MAX:
            yield from do(to.SLEEP, timing.LOOK_S)
            proof = yield from do(to.AWAIT_PROOF, 0)
            if proof is Proof.OVER:
                return was_empty and not entered
            seen = yield from box.look(message)
            is_stopped = proof is Proof.QUEUED or seen is None or seen.unknown
            if is_stopped and box.now_s < effect_until_s:
                until_s = max(until_s, box.now_s + timing.RETURNS_WITHIN_S)
            if seen is None or (yield from do(to.IS_GONE)) or (yield from do(to.BLOCKED_REASON)) is not None:
                continue
            yield from box.redraw(message, seen, 0.0)
            if not was_empty or seen.closed is not None or not message.is_alone(seen.draft):
                shown_s, is_recalled = None, False
                continue
            shown_s = box.now_s if shown_s is None else shown_s
            until_s = max(until_s, shown_s + timing.QUIET_S)
            if box.now_s < max(enter_s, shown_s + timing.PUT_BACK_SETTLES_S):
                continue
            is_recalled = yield from do(to.IS_WORKING)
            if is_recalled:  # or the agent has not published yet that the interrupt ended its turn
                continue
            if (yield from do(to.AWAIT_PROOF, 0)) is Proof.OVER:
                continue  # the turn has ended, before the agent published it
            yield from box.hold()
            if (yield from box.is_enterable(message)) and (yield from box.press("Enter")):
                entered, enter_s = entered + 1, box.now_s + timing.AGAIN_AFTER_S
                until_s = enter_s + timing.RETURNS_WITHIN_S
            yield from do(to.RELEASE_BOX)
        return is_recalled and not entered


def _busy(why: str, retry_s: float | None = None) -> Steps[DeliveryOutcome]:
    return held((yield from do(to.BUSY_REASON, why)), retry_s)
