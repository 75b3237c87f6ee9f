"""The composer's machine without I/O: events in, instructions out."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm.errors import NoServer, NoTerminal, TerminalError, TerminalUnreachable
from sm.messaging.composer import instructions as to
from sm.messaging.composer import timing
from sm.messaging.composer.box import InputBox, TypedMessage
from sm.messaging.composer.instructions import (
    ARRIVED,
    CarriedOut,
    DeliveryEnd,
    DeliveryOutcome,
    Disturbance,
    Instruction,
    Order,
    Proof,
    TerminalFailed,
    held,
    unconfirmed,
)
from sm.messaging.composer.machine import ComposerMachine
from sm.terminals.base import Busy
from tests.messaging.plain_box import GARBLED, LETTER, AgentComposer

Answers = Mapping[Order[Any, Any], Any]
"""The value of an order's events. A list: the values one after the other, then the last one. A function of the play."""
EMPTY, SHOWN = ["", "", ""], ["", LETTER, ""]
IDLE: Answers = {
    to.LOOK: lambda play: ["", "" if "Enter" in play.keys else "".join(play.keys), ""],
    to.AWAIT_PROOF: lambda play: Proof.TAKEN if "Enter" in play.keys else Proof.NONE,
    to.BUSY_REASON: lambda play: f"busy: {play.instructions[-1].arguments[0]}",
    to.KEY_PAUSE: float("inf"),
    to.PANE_HAS_UNREAD_INPUT: False,
    to.AGENT_HAS_UNREAD_INPUT: False,
    to.IS_GONE: False,
    to.BLOCKED_REASON: None,
    to.AWAITS_FIRST_TURN: False,
    to.IS_WORKING: False,
    to.IS_BEHIND_QUEUE: False,
    to.IS_IN_QUEUE: False,
    to.LACKS_QUEUE_ENTRY: False,
    to.MESSAGE_IN_DRAFT: None,
    to.TYPED_WORDS: "",
    to.BEGIN: True,
}
"""An idle agent with an empty box."""
KEYS = (to.PASTE, to.PRESS)


class Play:
    """One delivery: answers each instruction, and keeps the instructions. Waits take their time."""

    def __init__(self, box: InputBox | None = None, text: str = LETTER, **options: Any) -> None:
        self.box = box or InputBox()
        self.message = TypedMessage(text, AgentComposer(), options.pop("interrupt", None))
        self.machine = ComposerMachine(self.box, self.message, **options)
        self.instructions: list[Instruction] = []
        self.at_s = self.box.now_s

    def run(self, answers: Answers | None = None) -> DeliveryOutcome:
        """The outcome, if the events are those of an idle agent with these changes."""
        values = {**IDLE, **(answers or {})}
        lists = {order: list(value) for order, value in values.items() if isinstance(value, list)}

        def answer(order: Order[Any, Any]) -> Any:
            if order in lists:
                return lists[order].pop(0) if len(lists[order]) > 1 else lists[order][0]
            value = values.get(order)
            return value(self) if callable(value) else value

        return self.play(answer)

    def play(self, answer: Callable[[Order[Any, Any]], Any]) -> DeliveryOutcome:
        event: CarriedOut | TerminalFailed = CarriedOut(self.at_s)
        while isinstance(found := self.machine.step(event), Instruction):
            self.instructions.append(found)
            value = answer(found.order)
            waits = found.order is to.SLEEP or (found.order is to.AWAIT_PROOF and value is Proof.NONE)
            self.at_s += found.arguments[0] if waits else 0.001
            is_failure = isinstance(value, TerminalError)
            event = TerminalFailed(self.at_s, value) if is_failure else CarriedOut(self.at_s, value)
        return found

    @property
    def orders(self) -> list[str]:
        return [instruction.order.name for instruction in self.instructions]

    @property
    def keys(self) -> list[str]:
        """The keys and pastes."""
        return ["".join(i.arguments[0]) for i in self.instructions if i.order in KEYS]


# The order of the instructions

CHECKS = ["blocked reason", "awaits first turn", "is behind queue", "look", "is gone"]
DRAWN = ["key pause", "pane has unread input", "agent has unread input"]
ENTER = ["await proof", "is behind queue", "is gone", "blocked reason", "look", *DRAWN, "press"]


def test_message_is_recorded_before_its_first_key_and_checked_again_before_enter() -> None:
    play = Play()
    assert play.run() == ARRIVED
    assert play.orders == [
        *["hold box", *CHECKS, *DRAWN, "await turn", "begin", *CHECKS, *DRAWN, "paste"],
        *["await proof", "look", *ENTER, "release box"],
        *["await proof", "sleep", "hold box", "look", "release box"],
    ]
    assert play.keys == [f"{LETTER} ", "Enter"]


def test_message_of_an_earlier_daemon_is_entered_and_never_pasted() -> None:
    play = Play(is_left=True)
    assert play.run({to.LOOK: lambda play: EMPTY if play.keys else SHOWN}) == ARRIVED
    assert play.orders == [
        *["hold box", "release box", "await proof", "await proof", "is gone", "look", "blocked reason"],
        *["hold box", *ENTER, "release box", "await proof", "sleep", "hold box", "look", "release box"],
    ]
    assert play.keys == ["Enter"]


def test_urgent_message_interrupts_only_after_it_is_in_the_queue() -> None:
    play = Play(interrupt="Escape")
    proofs = [Proof.NONE, Proof.NONE, Proof.QUEUED, Proof.TAKEN]
    assert play.run({to.AWAIT_PROOF: proofs, to.IS_IN_QUEUE: True}) == ARRIVED
    assert play.keys == [f"{LETTER} ", "Enter", "Escape"]
    at = play.orders.index("is in queue")
    checks = ["look", "is gone", "blocked reason", "is in queue"]
    expected = [
        "is in queue",
        *["sleep"] * timing.TOOLS_WAITED_FOR,
        "hold box",
        *checks,
        "press",
        "release box",
    ]
    assert play.orders[at : at + len(expected)] == expected


# What holds a message

DRAFT = ["", "my draft", ""]


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({to.BLOCKED_REASON: "it asks"}, held("busy: it asks")),
        ({to.LOOK: [["it asks", "", ""]]}, held("busy: it asks")),
        ({to.LOOK: [[GARBLED, "", ""]]}, held(f"busy: {GARBLED}")),
        ({to.AWAITS_FIRST_TURN: True}, held("busy: the agent has not accepted its first prompt", 0.25)),
        ({to.IS_BEHIND_QUEUE: True}, held("busy: the agent takes the messages in its own queue first", 0.5)),
        ({to.LOOK: TerminalUnreachable("hung")}, held("the terminal does not respond")),
        ({to.IS_GONE: True}, held("the terminal does not respond")),
        ({to.LOOK: [DRAFT]}, held("somebody is typing in the input box", 0.5)),
        ({to.KEY_PAUSE: 0.0}, held("somebody is typing in the input box", 0.5)),
        ({to.KEY_PAUSE: TerminalUnreachable("hung")}, held("somebody is typing in the input box", 0.5)),
        ({to.PANE_HAS_UNREAD_INPUT: True}, held("somebody is typing in the input box", 0.5)),
        ({to.AGENT_HAS_UNREAD_INPUT: True}, held("somebody is typing in the input box", 0.5)),
        ({to.PANE_HAS_UNREAD_INPUT: TerminalUnreachable("hung")}, held("somebody is typing in the input box", 0.5)),
        ({to.LOOK: NoTerminal("it ended")}, DeliveryOutcome(DeliveryEnd.FAILED, "it ended")),
        ({to.LOOK: NoServer("no tmux")}, DeliveryOutcome(DeliveryEnd.FAILED, "no tmux")),
    ],
)  # fmt: skip
def test_message_is_neither_recorded_nor_typed(answers: Answers, expected: DeliveryOutcome) -> None:
    play = Play()
    assert play.run(answers) == expected
    assert ("begin" in play.orders, play.keys) == (False, [])
    assert Play(play.box).run() == ARRIVED


@pytest.mark.parametrize("order", [to.BLOCKED_REASON, to.IS_BEHIND_QUEUE, to.AWAITS_FIRST_TURN, to.LOOK])
def test_message_is_not_typed_when_an_obstacle_comes_while_its_start_is_recorded(
    order: Order[Any, Any],
) -> None:
    changed = {to.BLOCKED_REASON: [None, "it asks"], to.LOOK: [EMPTY, ["it asks", "", ""]]}
    play = Play()
    assert play.run({order: changed.get(order, [False, True])}).end is DeliveryEnd.HELD
    assert ("begin" in play.orders, play.keys) == (True, [])


def test_message_that_is_finished_already_is_not_typed() -> None:
    play = Play()
    assert play.run({to.BEGIN: False}) == ARRIVED
    assert play.keys == []


@pytest.mark.parametrize(
    ("disturbance", "rests_s"),
    [
        (Disturbance.TOOL_STARTS, timing.TOOL_SETTLES_S),
        (Disturbance.TURN_ENDS, timing.TOOL_SETTLES_S),
        (Disturbance.INTERRUPTED, timing.RETURNS_WITHIN_S),
    ],
)
def test_box_rests_after_a_disturbance(disturbance: Disturbance, rests_s: float) -> None:
    play = Play()
    play.box.disturb(disturbance, 0.0)
    assert play.run() == held(f"busy: {disturbance}", rests_s - 0.001)
    assert play.keys == []
    play.box.now_s = rests_s
    assert Play(play.box).run() == ARRIVED


@pytest.mark.parametrize(
    ("stash_key", "screen"), [(None, DRAFT), ("C-s", ["", "my draft", "another"])], ids=["no key", "stashed"]
)
def test_draft_stays_in_the_box_when_it_cannot_be_put_aside(stash_key: str | None, screen: list[str]) -> None:
    box = InputBox()
    for at_s in (0.0, timing.QUIET_S + 1):
        box.now_s = at_s
        play = Play(box)
        play.message.reader.stash_key = stash_key
        outcome = play.run({to.LOOK: [screen]})
        assert play.keys == []
    assert outcome == held("the input box holds a draft that cannot be set aside")


def test_draft_is_put_aside_before_the_start_is_recorded() -> None:
    play = Play(InputBox(draft="my draft"))
    play.at_s = timing.QUIET_S
    assert play.run({to.LOOK: [DRAFT, EMPTY, EMPTY, SHOWN, SHOWN, EMPTY]}) == ARRIVED
    assert play.keys == ["C-s", f"{LETTER} ", "Enter"]
    assert play.orders.index("press") < play.orders.index("begin")
    assert play.message.covered == "my draft"


# Between two looks


@pytest.mark.parametrize("check", range(1, len(ENTER)))
def test_enter_waits_for_the_next_look_when_a_tool_stopped_waiting_during_the_last_checks(check: int) -> None:
    def overtake(play: Play) -> None:
        if play.orders[-check - 1 :] == ["look", *ENTER[:check]] and not play.box.overtaken:
            play.box.overtaken = True
            play.box.disturb(Disturbance.TOOL_STARTS, play.at_s)
            overtaken_s.append(play.at_s)

    overtaken_s: list[float] = []
    play = Play()

    def answer(order: Order[Any, Any]) -> Any:
        if not overtaken_s:
            overtake(play)
        elif order is to.PRESS:
            entered_s.append(play.at_s)
        value = IDLE.get(order)
        return value(play) if callable(value) else value

    entered_s: list[float] = []
    assert play.play(answer) == ARRIVED
    assert entered_s[0] >= overtaken_s[0] + timing.TOOL_SETTLES_S
    assert play.keys == [f"{LETTER} ", "Enter"]


@pytest.mark.parametrize("screen", [["it asks", LETTER, ""], ["", f"{LETTER} and mine", ""], EMPTY])
def test_enter_is_not_pressed_when_the_screen_changes_after_the_box_showed_the_message(
    screen: list[str],
) -> None:
    play = Play()
    proofs = [*[Proof.NONE] * 9, Proof.OVER]
    assert play.run({to.LOOK: [EMPTY, EMPTY, SHOWN, screen], to.AWAIT_PROOF: proofs}) == ARRIVED
    assert play.keys == [f"{LETTER} "]


def test_rest_of_a_left_message_is_pasted_once_when_the_box_shows_it_late() -> None:
    text = f"{LETTER}\n\nsecond part"
    play = Play(text=text, is_left=True)
    screens = [*[["", f"{LETTER}\n\n", ""]] * 9, ["", text, ""]]
    proofs = [Proof.NONE] * 20 + [Proof.TAKEN]
    assert play.run({to.LOOK: screens, to.AWAIT_PROOF: proofs}) == ARRIVED
    assert play.keys[:2] == ["second part ", "Enter"]


@pytest.mark.parametrize(("times", "explained"), [(1, set()), (400, {"another program"})])
def test_group_is_pasted_again_when_the_terminal_was_busy_after_the_first_one(
    times: int, explained: set[str]
) -> None:
    answers = [None, *[Busy("another program")] * times, None, None]

    def shows_what_was_pasted(play: Play) -> list[str]:
        pastes = [key for key in play.keys if key != "Enter"]
        taken = [text for text, busy in zip(pastes, answers, strict=False) if busy is None]
        return ["", "" if "Enter" in play.keys else "".join(taken), ""]

    play = Play(text=PARTS)
    assert play.run({to.PASTE: list(answers), to.LOOK: shows_what_was_pasted}) == ARRIVED
    first, second, third = GROUPS
    assert play.keys == [first, *[second] * (times + 1), third, "Enter"]
    assert {i.arguments[0] for i in play.instructions if i.order is to.EXPLAIN} == explained


# What a delivery gives up

PASTE = f"{LETTER} "
PARTS = f"{LETTER}\n\nsecond part\n\nthird part"
LEFT = "the daemon ended while it typed the message"
NO_ENTER = "the pasted message; sm did not press Enter"


def has_typed(play: Play) -> bool:
    return bool(play.keys)


def after_paste(draft: str) -> Callable[[Play], list[str]]:
    return lambda play: ["", draft, ""] if play.keys else EMPTY


def deleted_later(play: Play) -> list[str]:
    return EMPTY if play.at_s > 5 else after_paste(f"{LETTER} and mine")(play)


def stays_until_cleared(play: Play) -> list[str]:
    return EMPTY if "C-u" in play.keys else after_paste(LETTER)(play)


@pytest.mark.parametrize(
    ("answers", "why", "keys", "at_s"),
    [
        ({to.LOOK: [EMPTY], to.PANE_HAS_UNREAD_INPUT: has_typed}, f"the input box does not show {NO_ENTER}",
         [PASTE], timing.SHOWS_AT_ALL_S),
        ({to.LOOK: [EMPTY], to.AGENT_HAS_UNREAD_INPUT: has_typed}, f"the input box does not show {NO_ENTER}",
         [PASTE], timing.SHOWS_AT_ALL_S),
        ({to.LOOK: after_paste("who knows")}, f"the input box shows other text than {NO_ENTER}",
         [PASTE], timing.SHOWS_WITHIN_S),
        ({to.LOOK: after_paste(f"{LETTER} and mine")},
         "the message is in the input box, together with text that somebody typed", [PASTE], timing.MIXED_S),
        ({to.LOOK: deleted_later}, f"the input box no longer shows {NO_ENTER}", [PASTE], 4.75 + timing.SHOWS_WITHIN_S),
        ({to.AWAIT_PROOF: Proof.NONE},
         "the message left the input box, but no report confirms that the agent got it",
         [PASTE, "Enter"], timing.ARRIVES_WITHIN_S),
        ({to.LOOK: stays_until_cleared, to.AWAIT_PROOF: Proof.NONE},
         f"the message was still in the input box after {timing.ENTERS_MAX} presses of Enter, and sm removed it",
         [PASTE, *["Enter"] * timing.ENTERS_MAX, "C-u"], timing.ENTERS_MAX * timing.AGAIN_AFTER_S),
    ],
    ids=["never shown", "not read in a container", "other text", "mixed", "deleted", "no evidence", "Enter lost"],
)  # fmt: skip
def test_message_is_given_up_with_a_reason(answers: Answers, why: str, keys: list[str], at_s: float) -> None:
    play = Play()
    assert play.run(answers) == unconfirmed(why)
    assert play.keys == keys
    assert at_s <= play.at_s < at_s + 5


def test_delivery_says_that_somebody_is_typing_while_the_box_shows_other_text_with_the_message() -> None:
    play = Play()
    play.run({to.LOOK: after_paste(f"{LETTER} and mine")})
    explained = {i.arguments[0] for i in play.instructions if i.order is to.EXPLAIN}
    assert explained == {"somebody is typing in the input box"}


@pytest.mark.parametrize(
    ("screen", "why", "at_s"),
    [
        (EMPTY, LEFT, timing.LEFT_S),
        (
            ["", f"{LETTER}\n\nand a word of a person", ""],
            f"{LEFT}; the input box holds the message or a part of it, and perhaps other text",
            timing.LEFT_S + timing.MIXED_S,
        ),
    ],
)
def test_left_message_is_given_up_without_a_key(screen: list[str], why: str, at_s: float) -> None:
    play = Play(text=PARTS, is_left=True)
    assert play.run({to.LOOK: [screen]}) == unconfirmed(why)
    assert play.keys == []
    assert at_s <= play.at_s < at_s + 1


# A terminal that fails

GONE, BUSY, HUNG = NoTerminal("it ended"), Busy("another program"), TerminalUnreachable("hung")


@pytest.mark.parametrize(
    ("answers", "end", "why", "keys"),
    [
        ({to.PASTE: GONE}, DeliveryEnd.FAILED, "it ended", 1),
        ({to.PASTE: BUSY}, DeliveryEnd.HELD, "another program", 1),
        ({to.PASTE: HUNG, to.AWAIT_PROOF: IDLE[to.AWAIT_PROOF]}, DeliveryEnd.ARRIVED, "", 2),
        ({to.PRESS: GONE}, DeliveryEnd.FAILED, "it ended", 2),
        ({to.LOOK: [EMPTY, EMPTY, SHOWN, SHOWN, GONE]}, DeliveryEnd.UNCONFIRMED, "it ended", 2),
        ({to.LOOK: [EMPTY, EMPTY, SHOWN, GONE]}, DeliveryEnd.FAILED, "it ended", 1),
        ({to.IS_GONE: [False, False, True]}, DeliveryEnd.FAILED, "the process has ended", 1),
        ({to.IS_GONE: [False, False, False, True]}, DeliveryEnd.UNCONFIRMED, "the process has ended", 2),
    ],
)
def test_outcome_says_whether_the_message_can_have_arrived(
    answers: Answers, end: DeliveryEnd, why: str, keys: int
) -> None:
    play = Play()
    assert play.run({to.AWAIT_PROOF: Proof.NONE, **answers}) == DeliveryOutcome(end, why)
    assert len(play.keys) == keys


@pytest.mark.parametrize("error", [GONE, HUNG, NoServer("no tmux")])
def test_terminal_that_fails_after_the_arrival_cannot_undo_it(error: TerminalError) -> None:
    play = Play()
    assert play.run({to.LOOK: [EMPTY, EMPTY, SHOWN, SHOWN, error]}) == ARRIVED
    assert ("warn" in play.orders) is (error is not HUNG)


@pytest.mark.parametrize("error", [GONE, NoServer("no tmux")])
def test_message_of_an_earlier_daemon_is_unconfirmed_when_the_terminal_fails(error: TerminalError) -> None:
    left = "the daemon ended while it typed the message"
    assert Play(is_left=True).run({to.LOOK: error}) == unconfirmed(f"{left}; {error.message}")


# Every sequence of events

GROUPS = ["".join(group) for group in AgentComposer().paste_groups(PARTS)]


class RandomAgent:
    """Answers with any value that an order can have, unlikely ones seldom. Checks each key against the rules."""

    def __init__(self, random: Random, play: Play, *, is_left: bool) -> None:
        self.random = random
        self.play = play
        self.shown = "".join(GROUPS[: random.randint(0, 3)]) if is_left else ""
        self.pasted: list[str] = []
        self.has_begun = is_left
        self.is_held = False
        self.screen: Any = None
        self.arrived = False

    def rarely(self, probability: float = 0.05) -> bool:
        return self.random.random() < probability

    def answer(self, order: Order[Any, Any]) -> Any:
        value = self.choose(order)
        if order in (to.HOLD_BOX, to.RELEASE_BOX):
            assert self.is_held is (order is to.RELEASE_BOX)
            self.is_held = order is to.HOLD_BOX
        elif order is to.BEGIN:
            assert not self.play.keys or self.play.keys[-1] in ("C-s", "C-l")
            self.has_begun = value
        elif order is to.LOOK:
            self.screen = value
        elif order is to.PASTE:
            self.check_paste("".join(self.play.instructions[-1].arguments[0]), is_taken=value is not BUSY)
        elif order is to.PRESS:
            self.check_key(self.play.instructions[-1].arguments[0])
        elif order is to.AWAIT_PROOF:
            self.arrived |= value is not Proof.NONE
        if self.is_held and order is not to.HOLD_BOX and self.rarely(0.02):  # a tool has waited too long
            self.play.box.overtaken = True
            self.play.box.disturb(Disturbance.TOOL_STARTS, self.play.at_s)
        return value

    def choose(self, order: Order[Any, Any]) -> Any:
        if order in (to.LOOK, *KEYS, to.KEY_PAUSE, to.PANE_HAS_UNREAD_INPUT, to.SHOW_LINE) and self.rarely(
            0.01
        ):
            return self.random.choice([GONE, HUNG, BUSY if order in KEYS else HUNG])
        if order is to.LOOK:
            other = self.random.choice(["", PARTS, GROUPS[0], PARTS[:9], f"{PARTS} mine", "my draft"])
            closed = self.random.choice(["it asks", GARBLED, "refused: no"]) if self.rarely() else ""
            return [closed, other if self.rarely(0.1) else self.shown, "stashed" if self.rarely() else ""]
        if order is to.AWAIT_PROOF:
            return (
                self.random.choice([Proof.TAKEN, Proof.QUEUED, Proof.OVER]) if self.rarely() else Proof.NONE
            )
        if order is to.KEY_PAUSE:
            return 0.0 if self.rarely() else 9.0
        if order is to.BLOCKED_REASON:
            return "it asks" if self.rarely() else None
        if order is to.MESSAGE_IN_DRAFT:
            return self.play.instructions[-1].arguments[0] if self.rarely(0.5) else None
        if order in (to.BUSY_REASON, to.TYPED_WORDS):
            return "why"
        if order in (to.BEGIN, to.IS_IN_QUEUE):
            return not self.rarely()
        if order in KEYS:
            return None
        return self.rarely()

    def check_paste(self, text: str, *, is_taken: bool) -> None:
        assert self.is_held
        assert self.has_begun
        assert not self.screen[0], "a paste would answer the dialog"
        pasted = [*self.pasted, text]
        first = GROUPS.index(pasted[0])
        assert pasted == GROUPS[first : first + len(pasted)], "each group at most once, and in order"
        if is_taken:
            self.pasted = pasted
            self.shown += text

    def check_key(self, key: str) -> None:
        if key == "C-l":
            return
        assert self.is_held
        assert not self.screen[0], "a key would answer the dialog"
        if key == "Enter":
            assert self.has_begun
            assert self.screen[1].strip() == PARTS, "the box holds the whole message alone"
            assert self.arrived or not self.play.box.overtaken
            assert self.arrived or self.play.at_s >= self.play.box.rests_s
        self.shown = self.shown if key == "Enter" and self.rarely(0.5) else ""


@given(st.integers(0, 2**32), st.booleans(), st.booleans())
def test_keys_follow_the_rules_after_every_sequence_of_events(
    seed: int, is_left: bool, is_urgent: bool
) -> None:
    """The message is never typed twice, and no key comes before the look that makes it safe."""
    play = Play(text=PARTS, is_left=is_left, interrupt="Escape" if is_urgent else None)
    outcome = play.play(RandomAgent(Random(seed), play, is_left=is_left).answer)
    enters = play.keys.count("Enter")
    assert enters <= timing.ENTERS_MAX * (2 if is_urgent else 1)
    assert outcome.end is not DeliveryEnd.FAILED or enters == 0 or play.orders[-1] == "press"
    assert outcome.end is not DeliveryEnd.HELD or enters == 0
