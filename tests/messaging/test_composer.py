"""Typing into an input box, interleaving by interleaving: an agent's box that does what it is told, in virtual time."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from sm.errors import NoTerminal, TerminalUnreachable
from sm.messaging.composer import ComposerDriver
from sm.messaging.composer_state import DeliveryEnd, DeliveryOutcome, Proof
from sm.messaging.composer_timing import (
    AGAIN_AFTER_S,
    ARRIVES_WITHIN_S,
    ENTERS_MAX,
    GARBLED_S,
    LEFT_COMES_WITHIN_S,
    LEFT_S,
    QUIET_S,
    RETURNS_WITHIN_S,
    SHOWS_AT_ALL_S,
    TOOL_SETTLES_S,
    TOOL_WAITS_S,
)
from sm.providers.base import Box, Composer
from sm.providers.claude.composer import ClaudeComposer

pytestmark = pytest.mark.virtual_time

ID = "1a2b3c4d"
GARBLED = "its screen shows nothing that is known"
LETTER = "[sm] from operator, message 57\nrun the tests"


class Agent:
    """An agent at its terminal: a box, perhaps a dialog over it, and what it was given. It redraws as it likes."""

    def __init__(self) -> None:
        self.text = ""
        self.stash: str | None = None
        self.dialog: str | None = None
        self.given: list[str] = []
        self.queue: list[str] = []
        self.answers: list[str] = []
        """Keys and texts that its dialog got."""
        self.keys: list[str] = []
        self.pastes = 0
        self.busy = False
        self.swallows = 0
        """How many Enters it is going to lose."""
        self.copies = False
        """It leaves a copy of what it was given in its box."""
        self.enters_after_s = 0.0
        """How late it is with an Enter."""
        self.starts_queued_after_s = 0.0
        """How late it starts the turn with its queue after an interrupt."""
        self.rows = 1
        """How many of them its box has: each key clears one."""
        self.ignores: set[str] = set()
        """Keys that it does not read."""
        self.deaf = False
        """It shows nothing of what is pasted."""
        self.shows_after_s = 0.0
        self.dead = False
        self.garbled = False
        """Its screen shows nothing that is known, until it is drawn anew."""
        self.hung = False
        self.hangs: set[str] = set()
        """Terminals that never answer."""
        self.tells: Callable[[Proof], None] = lambda proof: None
        self.tells_after_s: float | None = 0.02
        """When it says what it was given; None: never."""
        self.before: dict[str, Callable[[], None]] = {}
        """What happens just before a paste, or before a key."""
        self.after: dict[str, Callable[[], None]] = {}

    # As a terminal

    async def styled(self, name: str) -> list[str]:
        await asyncio.sleep(1_000_000 if name in self.hangs else 0.001)
        self._alive()
        return [self.dialog or (GARBLED if self.garbled else ""), self.text, self.stash or ""]

    async def paste(self, name: str, text: str) -> None:
        self._happens(self.before, "paste")
        await asyncio.sleep(0.001)
        self._alive()
        self.pastes += 1
        if self.dialog is not None:
            self.answers.append(text)
        elif not self.deaf:
            asyncio.get_running_loop().call_later(self.shows_after_s, self._shows, text)
        self._happens(self.after, "paste")

    def _shows(self, text: str) -> None:
        self.text += text

    async def press(self, name: str, key: str) -> None:
        self._happens(self.before, key)
        await asyncio.sleep(0.001)
        self._alive()
        self.keys.append(key)
        if self.dialog is not None:
            self.answers.append(key)
        elif key in self.ignores:
            pass
        elif key == "Enter":
            asyncio.get_running_loop().call_later(self.enters_after_s, self._enter)
        elif key == "C-s":
            self.text, self.stash = self.stash or "", self.text or None
        elif key == "C-u":
            self.rows -= 1
            # What is left of it is a beginning of it.
            self.text = self.text.rstrip()[:-1] if self.rows > 0 else ""
        elif key == "C-l":
            self.garbled = False
        elif key == "Escape":
            self.busy = False
            asyncio.get_running_loop().call_later(self.starts_queued_after_s, self._next_turn)
        self._happens(self.after, key)

    def _happens(self, when: dict[str, Callable[[], None]], what: str) -> None:
        if what in when:
            when.pop(what)()

    def _alive(self) -> None:
        if self.hung:
            raise TerminalUnreachable("tmux does not answer")
        if self.dead:
            raise NoTerminal("the process in terminal t has ended")

    def _enter(self) -> None:
        if self.swallows:
            self.swallows -= 1
            return
        text, self.text = self.text, self.stash or (self.text if self.copies else "")
        self.stash = None
        (self.queue if self.busy else self.given).append(text)
        proof = Proof.QUEUED if self.busy else Proof.TAKEN
        if text.strip() != LETTER:
            proof = Proof.OVER if LETTER in text else Proof.NONE
        if self.tells_after_s is not None:
            asyncio.get_running_loop().call_later(self.tells_after_s, self.tells, proof)

    def _next_turn(self) -> None:
        self.given += self.queue
        if self.queue:
            self.tells(Proof.TAKEN)
        self.queue.clear()


class Boxes:
    """Reads the screens of `Agent`."""

    settle_s = 0.3
    stash_key: str | None = "C-s"
    redraw_key: str | None = "C-l"
    clearing: Sequence[str] = ("C-u", "C-k")

    def box(self, lines: Sequence[str]) -> Box:
        if lines[0]:
            return Box(lines[0], unknown=lines[0] == GARBLED)
        return Box(None, lines[1].strip(), bool(lines[2]))

    def pasted(self, letter: str) -> str:
        return f"{letter} "

    def is_ours(self, draft: str, letter: str, shown: str | None = "") -> bool:
        return draft.strip() == letter

    def holds_ours(self, draft: str, letter: str) -> bool:
        return letter in draft

    def accepted_form(self, text: str) -> str:
        return text.strip()


class Sent:
    """A message on its way, and what is noted of it."""

    session_id = ID
    terminal = "t"
    letter = LETTER

    def __init__(self, agent: Agent) -> None:
        self.composer: Composer = Boxes()
        self.interrupt: str | None = None
        self.begun = 0
        self.explained: list[str] = []
        self.earlier: list[str] = []
        self.said = Proof.NONE
        self.wanted = True
        self._heard = asyncio.Event()
        self._agent = agent
        agent.tells = self.tell
        self.on_begin: Callable[[], None] = lambda: None

    def tell(self, proof: Proof) -> None:
        if proof is not Proof.NONE:
            self.said = proof
            self._heard.set()

    async def begins(self) -> bool:
        self.begun += 1
        self.on_begin()
        return self.wanted

    async def explain(self, why: str) -> None:
        if why not in self.explained:
            self.explained.append(why)

    async def returned(self, draft: str) -> str | None:
        return draft.strip() if draft.strip() in self.earlier else None

    def busy(self, why: str) -> str:
        return f"busy: {why}"

    def gone(self) -> bool:
        return self._agent.dead

    async def proof(self, within_s: float) -> Proof:
        if self.said is Proof.NONE and within_s:
            try:
                async with asyncio.timeout(within_s):
                    await self._heard.wait()
            except TimeoutError:
                pass
        return self.said


class World:
    def __init__(self) -> None:
        self.agent = Agent()
        self.message = Sent(self.agent)
        self.driver = ComposerDriver(self.agent, self)

    async def blocked(self, session_id: str) -> str | None:
        return self.agent.dialog

    async def deliver(self) -> DeliveryOutcome:
        return await self.driver.deliver(self.message)

    async def resume(self) -> DeliveryOutcome:
        return await self.driver.resume(self.message)

    @property
    def enters(self) -> int:
        return self.agent.keys.count("Enter")

    def later(self, seconds: float, does: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(seconds, does)

    def becomes(self, **changes: Any) -> Callable[[], None]:
        """Sets attributes of the agent."""

        def does() -> None:
            for name, value in changes.items():
                setattr(self.agent, name, value)

        return does

    def types(self, text: str) -> Callable[[], None]:
        def does() -> None:
            self.agent.text += text

        return does


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    assert not made.agent.answers, "something was typed into a dialog"


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_an_empty_box_gets_it_once_and_at_once(world: World) -> None:
    assert await world.deliver() == DeliveryOutcome(DeliveryEnd.ARRIVED)
    assert [text.strip() for text in world.agent.given] == [LETTER]
    assert (world.agent.pastes, world.enters, world.agent.text) == (1, 1, "")
    assert now() < 0.1 + Boxes.settle_s


async def test_a_busy_agent_keeps_it_in_its_queue(world: World) -> None:
    world.agent.busy = True
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert len(world.agent.queue) == 1
    assert world.agent.keys == ["Enter"]


async def test_nothing_is_typed_into_a_dialog(world: World) -> None:
    world.agent.dialog = "it asks"
    assert await world.deliver() == DeliveryOutcome(DeliveryEnd.HELD, "busy: it asks")
    assert (world.agent.pastes, world.agent.keys, world.message.begun) == (0, [], 0)


async def test_a_dialog_that_opens_while_it_is_noted_is_seen(world: World) -> None:
    world.message.on_begin = world.becomes(dialog="it asks")
    assert (await world.deliver()).end is DeliveryEnd.HELD
    assert world.agent.pastes == 0


async def test_a_dialog_over_the_pasted_text_gets_no_enter_and_it_is_entered_behind_it(world: World) -> None:
    world.agent.after["paste"] = world.becomes(dialog="it asks")
    world.later(60, world.becomes(dialog=None))
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert world.message.explained == ["busy: it asks"]
    assert (world.agent.pastes, world.enters, len(world.agent.given)) == (1, 1, 1)
    assert now() > 60


async def test_a_dialog_that_opens_before_a_lost_enter_is_repeated_gets_none(world: World) -> None:
    world.agent.swallows = 1
    world.agent.after["Enter"] = world.becomes(dialog="it asks")
    world.later(30, world.becomes(dialog=None))
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert (world.enters, len(world.agent.given)) == (2, 1)


async def test_a_lost_enter_is_pressed_again(world: World) -> None:
    world.agent.swallows = 2
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert (world.enters, len(world.agent.given), world.agent.text) == (3, 1, "")
    assert now() >= 2 * AGAIN_AFTER_S


async def test_a_box_that_takes_no_enter_is_left_without_our_text(world: World) -> None:
    world.agent.swallows = 100
    outcome = await world.deliver()
    assert outcome.end is DeliveryEnd.UNCONFIRMED
    assert f"after {ENTERS_MAX} Enters" in outcome.why
    assert (world.enters, world.agent.text) == (ENTERS_MAX, "")


async def test_text_of_a_person_in_between_is_never_entered(world: World) -> None:
    world.agent.after["paste"] = world.types(" and mine")
    outcome = await world.deliver()
    assert outcome.end is DeliveryEnd.UNCONFIRMED
    assert "together with what somebody has typed" in outcome.why
    assert world.message.explained == ["somebody is typing in its input box"]
    assert world.enters == 0
    assert "and mine" in world.agent.text


async def test_text_of_a_person_that_goes_again_lets_it_be_entered(world: World) -> None:
    world.agent.after["paste"] = world.types(" and mine")
    world.later(8, world.becomes(text=LETTER))
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert world.enters == 1


async def test_a_person_who_sends_it_with_their_own_words_has_sent_it(world: World) -> None:
    world.agent.after["paste"] = world.types(" and mine")
    world.later(5, world.agent._enter)
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert world.message.said is Proof.OVER
    assert world.enters == 0


async def test_what_a_box_never_shows_is_pasted_once(world: World) -> None:
    world.agent.deaf = True
    outcome = await world.deliver()
    assert outcome.end is DeliveryEnd.UNCONFIRMED
    assert "shows nothing of what was pasted" in outcome.why
    assert (world.agent.pastes, world.enters) == (1, 0)
    assert now() >= SHOWS_AT_ALL_S


@pytest.mark.parametrize(
    "late", [{"shows_after_s": 2.0}, {"shows_after_s": 14.0}, {"tells_after_s": ARRIVES_WITHIN_S - 1}]
)
async def test_an_agent_that_is_late_gets_it_once(world: World, late: dict[str, float]) -> None:
    world.becomes(**late)()
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert (world.agent.pastes, world.enters, len(world.agent.given)) == (1, 1, 1)


async def test_what_was_given_up_and_shows_at_last_is_removed_before_the_next(world: World) -> None:
    world.agent.shows_after_s = SHOWS_AT_ALL_S + 20
    assert (await world.deliver()).end is DeliveryEnd.UNCONFIRMED
    await asyncio.sleep(30)
    assert world.agent.text == f"{LETTER} "
    world.agent.shows_after_s = 0.0
    world.message.letter = "[sm] from operator, message 58\nand the docs"
    assert (await world.deliver()).end is DeliveryEnd.HELD
    await asyncio.sleep(1)
    await world.deliver()
    assert (world.agent.given, world.agent.text) == ([f"{world.message.letter} "], "")


class Folding(Boxes):
    """Shows a paste of three newlines or more by its lines only, as claude does."""

    def is_ours(self, draft: str, letter: str, shown: str | None = "") -> bool:
        return CLAUDE.is_ours(draft, letter, shown)

    def holds_ours(self, draft: str, letter: str) -> bool:
        return CLAUDE.holds_ours(draft, letter)


CLAUDE = ClaudeComposer()
FIVE_LINES = "[sm] from operator, message 57\na\nb\nc\nd"


def folded(number: int) -> str:
    return f"[Pasted text #{number} +4 lines]"


def fold(world: World) -> None:
    """Its box folds what is pasted."""
    agent, world.message.composer, world.message.letter = world.agent, Folding(), FIVE_LINES

    def shows(text: str) -> None:
        agent.text += folded(agent.pastes) if text.count("\n") >= 3 else text

    agent._shows = shows  # type: ignore[method-assign]


def person_pastes(world: World, number: int) -> None:
    world.agent.text = folded(number)
    world.message.letter = "[sm] from operator, message 58\nand the docs"


async def left_in_peace(world: World, text: str) -> None:
    """A person's draft is put aside for the next message, and not thrown away."""
    for _ in range(20):
        if (await world.deliver()).end is not DeliveryEnd.HELD:
            break
        await asyncio.sleep(1)
    assert "C-u" not in world.agent.keys
    assert text in (world.agent.text, world.agent.stash)


async def test_a_persons_paste_that_looks_like_what_was_given_up_beside_their_words_stays(
    world: World,
) -> None:
    fold(world)
    world.agent.after["paste"] = world.types("abc")
    assert (await world.deliver()).end is DeliveryEnd.UNCONFIRMED
    person_pastes(world, 9)
    await left_in_peace(world, folded(9))


async def test_a_persons_paste_that_looks_like_what_never_showed_stays_when_that_was_long_ago(
    world: World,
) -> None:
    fold(world)
    world.agent.deaf = True
    assert (await world.deliver()).end is DeliveryEnd.UNCONFIRMED
    await asyncio.sleep(LEFT_COMES_WITHIN_S)
    world.agent.deaf = False
    person_pastes(world, 9)
    await left_in_peace(world, folded(9))


async def test_a_folded_paste_that_shows_at_last_is_removed_and_a_persons_after_it_is_not(
    world: World,
) -> None:
    fold(world)
    world.agent.shows_after_s = SHOWS_AT_ALL_S + 20
    assert (await world.deliver()).end is DeliveryEnd.UNCONFIRMED
    await asyncio.sleep(30)
    assert world.agent.text == folded(1)
    assert (await world.deliver()).end is DeliveryEnd.HELD
    assert (world.agent.text, world.agent.keys) == ("", ["C-u"])
    world.agent.keys.clear()
    world.agent.shows_after_s = 0.0
    person_pastes(world, 2)
    await left_in_peace(world, folded(2))


async def test_a_box_that_shows_something_else_is_left_alone(world: World) -> None:
    world.agent.deaf = True
    world.agent.after["paste"] = world.types("[who knows what]")
    outcome = await world.deliver()
    assert outcome.end is DeliveryEnd.UNCONFIRMED
    assert "Enter was not pressed" in outcome.why
    assert world.enters == 0


async def test_without_evidence_it_is_unconfirmed_and_never_typed_again(world: World) -> None:
    world.agent.tells_after_s = None
    outcome = await world.deliver()
    assert outcome.end is DeliveryEnd.UNCONFIRMED
    assert (world.agent.pastes, world.enters) == (1, 1)


async def test_a_copy_that_stays_in_the_box_is_removed_and_not_entered(world: World) -> None:
    world.agent.copies = True
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert (world.enters, len(world.agent.given), world.agent.text) == (1, 1, "")


async def test_a_copy_with_a_persons_words_is_left(world: World) -> None:
    world.agent.copies = True
    world.agent.after["Enter"] = world.types(" mine")
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert world.agent.text.endswith("mine")


async def test_a_box_that_does_not_change_is_not_flooded_with_keys(world: World) -> None:
    world.agent.copies = True
    world.agent.ignores = {"C-u", "C-k"}
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert world.agent.keys[1:] == ["C-u", "C-k", "C-u", "C-k"]
    assert now() > 4 * 0.3


async def test_a_box_is_cleared_by_whichever_key_does_it(world: World) -> None:
    world.agent.copies = True
    world.agent.ignores = {"C-u"}
    world.agent.after["C-k"] = world.becomes(text="")
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert world.agent.keys[1:] == ["C-u", "C-k"]
    assert world.agent.text == ""


async def test_a_text_of_many_rows_is_cleared_row_by_row(world: World) -> None:
    world.agent.rows = 30
    world.agent.copies = True
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert (world.agent.text, world.agent.keys[1:]) == ("", ["C-u"] * 30)


async def test_a_draft_that_is_still_put_aside_is_not_sent_by_a_second_enter(world: World) -> None:
    world.agent.stash = "my draft"
    world.agent.enters_after_s = 3.0
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    await asyncio.sleep(10)
    assert (world.agent.given, world.agent.text) == ([f"{LETTER} "], "my draft")


async def test_a_garbled_screen_is_drawn_anew_after_a_while(world: World) -> None:
    world.agent.garbled = True
    assert (await world.deliver()).end is DeliveryEnd.HELD
    assert world.agent.keys == []
    await asyncio.sleep(GARBLED_S)
    assert (await world.deliver()).end is DeliveryEnd.HELD
    assert world.agent.keys == ["C-l"]
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED


# ------------------------------------------------------------------------------------------ a person's draft


async def until_delivered(world: World) -> DeliveryOutcome:
    """Deliver as the worker does: again while the message is held."""
    while (outcome := await world.deliver()).end is DeliveryEnd.HELD:
        assert outcome.why == "somebody is typing in its input box"
        await asyncio.sleep(outcome.again_s or 1.0)
    return outcome


async def test_a_draft_that_stands_still_is_put_aside_and_comes_back(world: World) -> None:
    world.agent.text = "my draft"
    assert (await until_delivered(world)).end is DeliveryEnd.ARRIVED
    assert now() >= QUIET_S
    assert world.agent.text == "my draft"
    assert [text.strip() for text in world.agent.given] == [LETTER]


async def test_a_draft_that_came_back_is_put_aside_at_once(world: World) -> None:
    world.agent.text = "my draft"
    await until_delivered(world)
    before = now()
    world.message = Sent(world.agent)
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert now() - before < 1.0
    assert world.agent.text == "my draft"


async def test_a_person_who_goes_on_typing_holds_it(world: World) -> None:
    world.agent.text = "my"
    for second in range(1, 20):
        world.later(second, world.types("x"))
    outcome = await until_delivered(world)
    assert outcome.end is DeliveryEnd.ARRIVED
    assert now() >= 19 + QUIET_S


async def test_a_second_draft_is_not_put_aside_over_the_first(world: World) -> None:
    world.agent.text, world.agent.stash = "second", "first"
    for _ in range(10):
        outcome = await world.deliver()
        assert outcome.end is DeliveryEnd.HELD
        await asyncio.sleep(1)
    assert (world.agent.text, world.agent.stash, world.agent.keys) == ("second", "first", [])


async def test_where_nothing_puts_a_draft_aside_it_holds(world: World) -> None:
    world.message.composer.stash_key = None
    world.agent.text = "my draft"
    for _ in range(10):
        assert (await world.deliver()).end is DeliveryEnd.HELD
        await asyncio.sleep(1)
    assert world.agent.keys == []


async def test_an_earlier_message_that_was_put_back_is_removed_and_not_put_aside(world: World) -> None:
    world.agent.text = "[sm] from operator, message 56\nbefore"
    world.message.earlier = [world.agent.text]
    assert (await world.deliver()).end is DeliveryEnd.HELD
    assert world.agent.text == ""
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert (world.agent.given, world.agent.keys.count("C-s")) == ([f"{LETTER} "], 0)


@pytest.mark.parametrize("left", ["[sm] from operator, message 56\nbefore", "[sm] from operator,"])
@pytest.mark.parametrize("stash", [None, "my draft"])
async def test_removal_is_finished_when_the_agent_reads_its_keys_late(
    world: World, left: str, stash: str | None
) -> None:
    world.agent.text, world.agent.stash = "[sm] from operator, message 56\nbefore", stash
    world.message.earlier = [world.agent.text]
    world.agent.ignores = {"C-u", "C-k"}  # it stands still, and reads what was pressed when it goes on
    world.later(2.5, world.becomes(ignores=set(), text=left))
    for _ in range(20):
        outcome = await world.deliver()
        if outcome.end is not DeliveryEnd.HELD:
            break
        await asyncio.sleep(outcome.again_s or 1.0)
    assert outcome.end is DeliveryEnd.ARRIVED
    assert (world.agent.given, world.agent.text) == ([f"{LETTER} "], stash or "")
    assert "C-s" not in world.agent.keys


async def test_removal_goes_on_after_a_screen_that_was_read_half_drawn(world: World) -> None:
    world.agent.text = "[sm] from operator, message 56\nbefore"
    world.message.earlier = [world.agent.text]
    world.agent.rows = 2
    world.agent.after["C-u"] = world.becomes(garbled=True)
    world.later(0.2, world.becomes(garbled=False))
    for _ in range(20):
        outcome = await world.deliver()
        if outcome.end is not DeliveryEnd.HELD:
            break
        await asyncio.sleep(outcome.again_s or 1.0)
    assert outcome.end is DeliveryEnd.ARRIVED
    assert (world.agent.given, world.agent.text) == ([f"{LETTER} "], "")
    assert "C-s" not in world.agent.keys


async def test_removal_that_could_not_be_finished_leaves_what_a_person_types_after_it(world: World) -> None:
    world.agent.text = "[sm] from operator, message 56\nbefore"
    world.message.earlier = [world.agent.text]
    world.agent.ignores = {"C-u", "C-k"}
    assert (await world.deliver()).end is DeliveryEnd.HELD
    world.agent.ignores = set()
    world.agent.text += " and mine"
    pressed = len(world.agent.keys)
    assert (await world.deliver()).end is DeliveryEnd.HELD
    assert (world.agent.text, len(world.agent.keys)) == (
        "[sm] from operator, message 56\nbefore and mine",
        pressed,
    )


async def test_a_draft_that_looks_like_ours_is_neither_entered_nor_removed(world: World) -> None:
    world.agent.text = "[Pasted text #1 +4 lines]"
    world.message.composer.is_ours = lambda draft, letter, shown="": bool(draft)  # type: ignore[method-assign]
    assert (await world.deliver()).end is DeliveryEnd.HELD
    await asyncio.sleep(QUIET_S)
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert (world.enters, world.agent.text) == (1, "[Pasted text #1 +4 lines]")
    assert "C-u" not in world.agent.keys


async def test_an_enter_that_is_only_late_does_not_send_the_draft_that_comes_back(world: World) -> None:
    world.agent.text = "my draft"
    assert (await world.deliver()).end is DeliveryEnd.HELD
    await asyncio.sleep(QUIET_S)
    world.agent.enters_after_s = 3.0
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    await asyncio.sleep(10)
    assert (world.agent.given, world.agent.text) == ([f"{LETTER} "], "my draft")


# ------------------------------------------------------------------------------------------------------- tools


async def test_a_tool_that_has_just_begun_holds_it(world: World) -> None:
    await world.driver.tool_started(ID)
    outcome = await world.deliver()
    assert outcome.end is DeliveryEnd.HELD
    assert outcome.again_s is not None
    await asyncio.sleep(outcome.again_s)
    assert now() >= TOOL_SETTLES_S
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED


async def test_a_turn_that_has_just_ended_holds_it(world: World) -> None:
    await world.driver.turn_ending(ID)
    outcome = await world.deliver()
    assert (outcome.end, outcome.why) == (DeliveryEnd.HELD, "busy: a turn ends")
    assert outcome.again_s is not None
    await asyncio.sleep(outcome.again_s)
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED


async def test_nothing_is_pasted_while_an_interrupt_may_put_something_back(world: World) -> None:
    async with world.driver.interrupting(ID):
        pass
    world.later(0.15, world.types("[sm] from operator, message 56\nbefore"))
    world.message.earlier = ["[sm] from operator, message 56\nbefore"]
    while (outcome := await world.deliver()).end is DeliveryEnd.HELD:  # noqa: ASYNC110 - in virtual time
        await asyncio.sleep(outcome.again_s or 1)
    assert world.agent.given == [f"{LETTER} "]


async def test_an_interrupt_waits_for_the_enter_but_not_for_long(world: World) -> None:
    world.agent.shows_after_s = 0.2
    typing = asyncio.create_task(world.deliver())
    await asyncio.sleep(0.05)
    async with world.driver.interrupting(ID):
        assert world.enters == 1
    world.agent.shows_after_s = 50
    assert (await typing).end is DeliveryEnd.ARRIVED
    world.message.said = Proof.NONE
    await asyncio.sleep(RETURNS_WITHIN_S)
    typing = asyncio.create_task(world.deliver())
    await asyncio.sleep(0.05)
    began = now()
    async with world.driver.interrupting(ID):
        assert now() == pytest.approx(began + TOOL_WAITS_S)
    typing.cancel()


async def test_a_text_that_somebody_takes_out_of_the_box_is_not_waited_for(world: World) -> None:
    world.agent.after["paste"] = world.types(" and mine")
    world.later(5, world.becomes(text=""))
    outcome = await world.deliver()
    assert (outcome.end, "does not show any more" in outcome.why) == (DeliveryEnd.UNCONFIRMED, True)
    assert now() < 12


async def test_a_tool_waits_for_the_enter(world: World) -> None:
    world.agent.shows_after_s = 0.2
    entered_at: list[float] = []
    world.agent.after["Enter"] = lambda: entered_at.append(now())
    typing = asyncio.create_task(world.deliver())
    await asyncio.sleep(0.05)
    await world.driver.tool_started(ID)
    assert entered_at
    assert now() - entered_at[0] < 0.05
    assert (await typing).end is DeliveryEnd.ARRIVED


async def test_a_tool_that_could_not_wait_any_longer_takes_the_enter_away(world: World) -> None:
    world.agent.shows_after_s = 1.0
    typing = asyncio.create_task(world.deliver())
    await asyncio.sleep(0.05)
    await world.driver.tool_started(ID)
    assert now() == pytest.approx(0.05 + TOOL_WAITS_S)
    world.later(0.1, world.becomes(dialog="it asks"))
    world.later(20, world.becomes(dialog=None))
    assert (await typing).end is DeliveryEnd.ARRIVED
    assert now() > 20
    assert (world.enters, len(world.agent.given)) == (1, 1)


async def test_a_tool_of_another_session_waits_for_nothing(world: World) -> None:
    world.agent.shows_after_s = 1.0
    typing = asyncio.create_task(world.deliver())
    await asyncio.sleep(0.05)
    await world.driver.tool_started("99999999")
    assert now() == pytest.approx(0.05)
    await typing


# ---------------------------------------------------------------------------------------------- what goes wrong


async def test_a_process_that_is_gone_gets_nothing(world: World) -> None:
    world.agent.dead = True
    assert (await world.deliver()).end is DeliveryEnd.FAILED
    assert world.agent.keys == []


@pytest.mark.parametrize(("when", "end"), [("paste", DeliveryEnd.FAILED), ("Enter", DeliveryEnd.UNCONFIRMED)])
async def test_a_process_that_ends_over_it_is_told_of_as_it_is(
    world: World, when: str, end: DeliveryEnd
) -> None:
    world.agent.tells_after_s = None
    world.agent.after[when] = world.becomes(dead=True)
    assert (await world.deliver()).end is end
    assert world.enters == (when == "Enter")


async def test_a_shell_that_is_there_instead_gets_nothing(world: World) -> None:
    """The agent runs in a person's own shell, and has ended between the last look and the next key."""

    world.agent.after["paste"] = world.becomes(dialog="no input box is on its screen")
    typing = asyncio.create_task(world.deliver())
    await asyncio.sleep(5)
    assert world.enters == 0
    world.message.tell(Proof.OVER)  # its session has ended
    assert (await typing).end is DeliveryEnd.ARRIVED


async def test_a_terminal_that_does_not_answer_holds_it(world: World) -> None:
    world.agent.hung = True
    assert (await world.deliver()).end is DeliveryEnd.HELD
    assert world.message.begun == 0


async def test_a_draft_that_could_not_be_put_aside_holds_it(world: World) -> None:
    world.agent.text = "my draft"
    assert (await world.deliver()).end is DeliveryEnd.HELD
    await asyncio.sleep(QUIET_S)
    world.agent.before["C-s"] = world.becomes(hung=True)
    assert (await world.deliver()).end is DeliveryEnd.HELD
    assert (world.agent.pastes, world.message.begun) == (0, 0)


async def test_a_paste_that_nobody_knows_of_is_not_repeated(world: World) -> None:
    world.agent.before["paste"] = world.becomes(hung=True)
    world.later(10, world.becomes(hung=False, text=LETTER))
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert world.enters == 1


async def test_what_was_settled_meanwhile_is_not_typed(world: World) -> None:
    world.message.wanted = False
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert world.agent.pastes == 0


async def test_a_hung_terminal_of_one_session_holds_up_no_other(world: World) -> None:
    stuck = Sent(Agent())
    stuck.session_id, stuck.terminal = "99999999", "hung"
    world.agent.hangs = {"hung"}
    waiting = asyncio.create_task(world.driver.deliver(stuck))
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


# ----------------------------------------------------------------------------------------------- after a restart


async def test_what_a_daemon_left_in_the_box_is_entered_once(world: World) -> None:
    world.agent.text = LETTER
    assert (await world.resume()).end is DeliveryEnd.ARRIVED
    assert (world.agent.pastes, world.enters) == (0, 1)
    assert now() >= LEFT_S


async def test_what_a_daemon_left_in_the_box_under_a_dialog_waits(world: World) -> None:
    world.agent.text, world.agent.dialog = LETTER, "it asks"
    world.later(60, world.becomes(dialog=None))
    assert (await world.resume()).end is DeliveryEnd.ARRIVED
    assert world.enters == 1
    assert now() > 60


async def test_what_a_daemon_had_entered_is_not_entered_again(world: World) -> None:
    outcome = await world.resume()
    assert outcome == DeliveryOutcome(DeliveryEnd.UNCONFIRMED, "the daemon ended while it was typed")
    assert (world.agent.pastes, world.enters) == (0, 0)
    assert now() < LEFT_S + 1


async def test_evidence_that_was_missed_while_no_daemon_ran_is_taken_and_its_copy_removed(
    world: World,
) -> None:
    world.agent.text = LETTER
    world.later(1, lambda: world.message.tell(Proof.TAKEN))
    assert (await world.resume()).end is DeliveryEnd.ARRIVED
    assert (world.enters, world.agent.text) == (0, "")


# ------------------------------------------------------------------------------------------------------- urgent


async def test_urgent_interrupts_what_keeps_it_waiting(world: World) -> None:
    world.message.interrupt = "Escape"
    world.agent.busy = True
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert world.agent.keys == ["Enter", "Escape"]
    assert len(world.agent.given) == 1


async def test_urgent_interrupts_nobody_who_is_idle(world: World) -> None:
    world.message.interrupt = "Escape"
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert world.agent.keys == ["Enter"]


@pytest.mark.parametrize("garbled", [False, True])
async def test_urgent_is_entered_again_when_the_interrupt_hits_its_own_turn(
    world: World, garbled: bool
) -> None:
    world.message.interrupt = "Escape"
    world.agent.busy = True
    comes_back = world.becomes(given=[], text=LETTER, garbled=garbled)
    world.agent.after["Escape"] = lambda: world.later(0.2, comes_back)
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert world.agent.keys == ["Enter", "Escape", *["C-l"] * garbled, "Enter"]
    assert [text.strip() for text in world.agent.given] == [LETTER]
    assert world.agent.text == ""


@pytest.mark.parametrize("garbled", [False, True])
async def test_urgent_is_entered_again_when_it_comes_back_from_an_agent_that_stood_still(
    world: World, garbled: bool
) -> None:
    world.message.interrupt = "Escape"
    world.agent.busy = True
    comes_back = world.becomes(given=[], text=LETTER, garbled=garbled)
    world.agent.starts_queued_after_s = 1.5 * RETURNS_WITHIN_S
    world.agent.after["Escape"] = lambda: world.later(2 * RETURNS_WITHIN_S, comes_back)
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert world.agent.keys == ["Enter", "Escape", *["C-l"] * garbled, "Enter"]
    assert [text.strip() for text in world.agent.given] == [LETTER]
    assert world.agent.text == ""


async def test_urgent_does_not_answer_a_dialog_that_has_opened_meanwhile(world: World) -> None:
    world.message.interrupt = "Escape"
    world.agent.busy = True
    world.agent.after["Enter"] = world.becomes(dialog="it asks")
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert world.agent.keys == ["Enter"]


async def test_urgent_that_was_read_before_the_interrupt_interrupts_nothing(world: World) -> None:
    world.message.interrupt = "Escape"
    world.agent.busy = True
    tasks: list[asyncio.Future[None]] = []
    world.agent.after["Enter"] = lambda: tasks.append(asyncio.ensure_future(world.driver.tool_started(ID)))
    world.later(0.3, lambda: world.message.tell(Proof.TAKEN))
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert world.agent.keys == ["Enter"]
