"""Typing into an input box: a fake agent in virtual time reproduces every interleaving of keys, pastes and events."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sm.errors import NoTerminal, TerminalUnreachable
from sm.messaging.composer import ComposerDriver
from sm.messaging.composer.instructions import DeliveryEnd, DeliveryOutcome, Proof
from sm.messaging.composer.timing import (
    AGAIN_AFTER_S,
    ARRIVES_WITHIN_S,
    GARBLED_S,
    LEFT_COMES_WITHIN_S,
    LEFT_S,
    MIXED_S,
    PASTES_MAX,
    QUIET_S,
    READS_WITHIN_S,
    REFUSED_WITHIN_S,
    RETURNS_WITHIN_S,
    SHOWS_AT_ALL_S,
    SHOWS_WITHIN_S,
    TOOL_SETTLES_S,
    TOOL_WAITS_S,
)
from sm.providers.base import BoxReader, PromptRefusal
from sm.providers.claude.box_reader import ClaudeBoxReader
from tests.messaging.plain_box import GARBLED, LETTER, AgentComposer

pytestmark = pytest.mark.virtual_time

ID = "1a2b3c4d"


class Agent:
    """A fake agent in a terminal: an input box, perhaps a dialog over the box, and the prompts it accepted."""

    def __init__(self) -> None:
        self.text = ""
        self.stash: str | None = None
        self.dialog: str | None = None
        self.accepted: list[str] = []
        self.queue: list[str] = []
        self.answers: list[str] = []
        """Keys and texts that the dialog received."""
        self.keys: list[str] = []
        self.quiet_s = float("inf")
        """Time since a person pressed a key."""
        self.undrawn = ""
        """Text that a person typed and the box does not show yet."""
        self.shown: list[str] = []
        """Lines shown to the people at the terminal."""
        self.pastes = 0
        self.busy = False
        self.swallows = 0
        """Number of Enters that the agent will lose."""
        self.copies = False
        """The agent leaves a copy of an accepted prompt in its box."""
        self.enters_after_s = 0.0
        """Delay before an Enter takes effect."""
        self.starts_queued_after_s = 0.0
        """Delay between an interrupt and the turn that reads the queue."""
        self.rows = 1
        """Number of rows in the box. Each clearing key clears one."""
        self.ignores: set[str] = set()
        """Keys without effect."""
        self.deaf = False
        """The agent reads no input, as a stopped process."""
        self.loses = 0
        """Number of pastes that the agent will read and not show."""
        self.unread = 0
        """Number of pastes that the agent has not read yet."""
        self.reads_nothing = False
        """The agent's own terminal, which is not the pane's, holds keys."""
        self.awaits_first_turn = False
        self.shows_after_s = 0.0
        self.gone = False
        """The process of the agent has ended, and its terminal answers."""
        self.dead = False
        self.garbled = False
        """The screen shows nothing recognizable until it is redrawn."""
        self.hung = False
        self.hangs: set[str] = set()
        """Names of terminals that never answer."""
        self.report_of = LETTER
        """The message whose arrival the agent reports."""
        self.report: Callable[[Proof], None] = lambda proof: None
        self.reports_after_s: float | None = 0.02
        """Delay before the agent reports an accepted prompt, or None for no report."""
        self.before: dict[str, Callable[[], None]] = {}
        """Actions to run just before a paste or key."""
        self.after: dict[str, Callable[[], None]] = {}

    # The terminal interface

    async def capture_styled(self, name: str) -> list[str]:
        await asyncio.sleep(1_000_000 if name in self.hangs else 0.001)
        self._raise_if_down()
        return [self.dialog or (GARBLED if self.garbled else ""), self.text, self.stash or ""]

    async def paste(self, name: str, *texts: str) -> None:
        text = "".join(texts)
        self._run(self.before, "paste")
        await asyncio.sleep(0.001)
        self._raise_if_down()
        self.pastes += 1
        if self.dialog is not None:
            self.answers.append(text)
        elif self.loses:
            self.loses -= 1
        elif not self.deaf:
            self.unread += 1
            asyncio.get_running_loop().call_later(self.shows_after_s, self._shows, text)
        self._run(self.after, "paste")

    async def key_pause_s(self, name: str) -> float:
        await asyncio.sleep(0.001)
        self._raise_if_down()
        return self.quiet_s

    async def show_line(self, name: str, text: str) -> None:
        self._raise_if_down()
        self.shown.append(text)

    async def has_unread_input(self, name: str) -> bool:
        await asyncio.sleep(0.001)
        self._raise_if_down()
        return self.unread > 0 or (self.deaf and self.pastes > 0)

    def _shows(self, text: str) -> None:
        self.unread -= 1
        self.text += text

    async def press(self, name: str, key: str) -> None:
        self._run(self.before, key)
        await asyncio.sleep(0.001)
        self._raise_if_down()
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
            # The box keeps a prefix of the text until its last row is cleared.
            self.text = self.text.rstrip()[:-1] if self.rows > 0 else ""
        elif key == "C-l":
            self.garbled = False
        elif key == "Escape":
            self.busy = False
            asyncio.get_running_loop().call_later(self.starts_queued_after_s, self._next_turn)
        self._run(self.after, key)

    def _run(self, actions: dict[str, Callable[[], None]], event: str) -> None:
        if event in actions:
            actions.pop(event)()

    def _raise_if_down(self) -> None:
        if self.hung:
            raise TerminalUnreachable("tmux does not answer")
        if self.dead:
            raise NoTerminal("the process in terminal t has ended")

    def _enter(self) -> None:
        if self.swallows:
            self.swallows -= 1
            return
        text, self.text = self.text + self.undrawn, self.stash or (self.text if self.copies else "")
        self.undrawn = ""
        self.stash = None
        (self.queue if self.busy else self.accepted).append(text)
        proof = Proof.QUEUED if self.busy else Proof.TAKEN
        if text.strip() != self.report_of:
            proof = Proof.OVER if self.report_of in text else Proof.NONE
        if self.reports_after_s is not None:
            asyncio.get_running_loop().call_later(self.reports_after_s, self.report, proof)

    def _next_turn(self) -> None:
        self.accepted += self.queue
        if self.queue:
            self.report(Proof.TAKEN)
        self.queue.clear()


class AmbiguousComposer(AgentComposer):
    """A composer that shows two beginnings of a message in the same way."""

    def shows_message(self, draft: str, text: str, shown: str | None = "") -> bool:
        return text.strip() != PARTS and draft.strip() in text


class PendingMessage:
    """A message being delivered, and a record of the driver's calls."""

    session_id = ID
    terminal = "t"
    text = LETTER

    def __init__(self, agent: Agent) -> None:
        self.box_reader: BoxReader = AgentComposer()
        self.interrupt: str | None = None
        self.behind_queue = False
        self.lacks_entry = False
        self.refusals: list[PromptRefusal | None] = []
        self.begin_count = 0
        self.explained: list[str] = []
        self.earlier: list[str] = []
        self.evidence = Proof.NONE
        self._reported = asyncio.Event()
        self._agent = agent
        agent.report = self.tell
        self.begins_after_s = 0.0
        self.is_pending = True

    def tell(self, proof: Proof) -> None:
        if proof is not Proof.NONE:
            self.evidence = proof
            self._reported.set()

    async def begin(self) -> bool:
        self.begin_count += 1
        await asyncio.sleep(self.begins_after_s)
        return self.is_pending

    async def explain(self, why: str) -> None:
        if why not in self.explained:
            self.explained.append(why)

    async def message_in_draft(self, draft: str) -> str | None:
        return draft.strip() if draft.strip() in self.earlier else None

    async def is_in_queue(self) -> bool:
        return self.evidence is Proof.QUEUED

    async def lacks_queue_entry(self) -> bool:
        await asyncio.sleep(READS_WITHIN_S)
        return self.lacks_entry

    async def refuse(self, refusal: PromptRefusal | None) -> None:
        self.refusals.append(refusal)

    async def is_behind_queue(self) -> bool:
        return self.behind_queue

    def busy_reason(self, why: str) -> str:
        return f"busy: {why}"

    def is_gone(self) -> bool:
        return self._agent.dead or self._agent.gone

    async def agent_has_unread_input(self) -> bool:
        return self._agent.reads_nothing

    def typed_words(self) -> str:
        """The line for the person whose words arrived with the message."""
        arrived = self._agent.accepted[-1].strip() if self._agent.accepted else ""
        return f"sent: {arrived.removeprefix(LETTER).strip()}" if arrived != LETTER else ""

    async def proof(self, within_s: float) -> Proof:
        if self.evidence is Proof.NONE and within_s:
            try:
                async with asyncio.timeout(within_s):
                    await self._reported.wait()
            except TimeoutError:
                pass
        return self.evidence


class World:
    def __init__(self) -> None:
        self.agent = Agent()
        self.message = PendingMessage(self.agent)
        self.driver = ComposerDriver(self.agent, self)

    async def blocked_reason(self, session_id: str) -> str | None:
        return self.agent.dialog

    def awaits_first_turn(self, session_id: str) -> bool:
        return self.agent.awaits_first_turn

    async def hold_message(self, session_id: str) -> None:
        pass

    async def is_working(self, session_id: str) -> bool:
        return self.agent.busy

    async def deliver(self) -> DeliveryOutcome:
        return await self.driver.deliver(self.message)

    async def resume(self) -> DeliveryOutcome:
        return await self.driver.resume(self.message)

    @property
    def enters(self) -> int:
        return self.agent.keys.count("Enter")

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(seconds, action)

    def becomes(self, **changes: Any) -> Callable[[], None]:
        """An action that sets attributes of the agent."""

        def change() -> None:
            for name, value in changes.items():
                setattr(self.agent, name, value)

        return change

    def types(self, text: str) -> Callable[[], None]:
        """An action that types text as a person."""

        def type_text() -> None:
            self.agent.text += text

        return type_text


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    assert not world.agent.answers, "the driver typed into a dialog"


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_deliver_submits_the_message_once_without_delay_when_the_box_is_empty(world: World) -> None:
    assert await world.deliver() == DeliveryOutcome(DeliveryEnd.ARRIVED)
    assert [text.strip() for text in world.agent.accepted] == [LETTER]
    assert (world.agent.pastes, world.enters, world.agent.text) == (1, 1, "")
    assert now() < 0.1 + AgentComposer.settle_s


@pytest.mark.parametrize(
    ("fact", "why"),
    [
        ("awaits_first_turn", "busy: the agent has not accepted its first prompt"),
        ("reads_nothing", "somebody is typing in the input box"),
        ("hung", "the terminal does not respond"),
        ("gone", "the terminal does not respond"),
    ],
)
async def test_deliver_types_nothing_before_the_agent_can_take_it(world: World, fact: str, why: str) -> None:
    setattr(world.agent, fact, True)
    outcome = await world.deliver()
    assert (outcome.end, outcome.why) == (DeliveryEnd.HELD, why)
    assert (world.message.begin_count, world.agent.pastes, world.agent.keys) == (0, 0, [])


async def test_deliver_pastes_nothing_when_the_message_is_already_finished(world: World) -> None:
    world.message.is_pending = False
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert world.agent.pastes == 0


async def test_deliver_queues_the_message_when_the_agent_is_busy(world: World) -> None:
    world.agent.busy = True
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert len(world.agent.queue) == 1
    assert world.agent.keys == ["Enter"]


async def test_deliver_presses_enter_after_the_dialog_over_the_pasted_text_closes(world: World) -> None:
    world.agent.after["paste"] = world.becomes(dialog="it asks")
    world.later(60, world.becomes(dialog=None))
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert world.message.explained == ["busy: it asks"]
    assert (world.agent.pastes, world.enters, len(world.agent.accepted)) == (1, 1, 1)
    assert now() > 60


async def test_deliver_repeats_a_lost_enter_only_after_the_dialog_that_opened_closes(world: World) -> None:
    world.agent.swallows = 1
    world.agent.after["Enter"] = world.becomes(dialog="it asks")
    world.later(30, world.becomes(dialog=None))
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert (world.enters, len(world.agent.accepted)) == (2, 1)


async def test_deliver_presses_enter_again_when_the_agent_loses_it(world: World) -> None:
    world.agent.swallows = 2
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert (world.enters, len(world.agent.accepted), world.agent.text) == (3, 1, "")
    assert now() >= 2 * AGAIN_AFTER_S


async def test_deliver_presses_enter_when_the_person_removes_the_added_text(world: World) -> None:
    world.agent.after["paste"] = world.types(" and mine")
    world.later(8, world.becomes(text=LETTER))
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert world.enters == 1


async def test_deliver_presses_no_enter_when_a_person_sends_the_message_with_added_text(world: World) -> None:
    world.agent.after["paste"] = world.types(" and mine")
    world.later(5, world.agent._enter)
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert world.message.evidence is Proof.OVER
    assert world.enters == 0


async def test_deliver_shows_a_person_the_words_that_went_with_the_message(world: World) -> None:
    world.agent.before["Enter"] = world.types("hel")
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert (world.message.evidence, world.enters) == (Proof.OVER, 1)
    # Twice, because the next key of the person removes the line.
    assert world.agent.shown == ["sent: hel"] * 2
    assert now() > QUIET_S


async def test_deliver_presses_no_enter_while_keys_of_a_person_may_not_be_drawn_yet(world: World) -> None:
    def drawn() -> None:
        world.agent.text, world.agent.undrawn = world.agent.text + world.agent.undrawn, ""

    world.agent.after["paste"] = world.becomes(quiet_s=0.0, undrawn=" hel")
    world.later(0.2, drawn)
    world.later(2, world.becomes(quiet_s=2.0))
    world.later(8, world.becomes(text=LETTER))
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert [text.strip() for text in world.agent.accepted] == [LETTER]
    assert world.enters == 1


async def test_deliver_presses_enter_when_the_keys_of_a_person_leave_the_box_unchanged(world: World) -> None:
    world.agent.after["paste"] = world.becomes(quiet_s=0.0)
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert world.enters == 1
    assert now() >= MIXED_S


async def test_deliver_shows_nothing_when_the_person_sent_the_message_with_added_text(world: World) -> None:
    world.agent.after["paste"] = world.types(" and mine")
    world.later(5, world.agent._enter)
    await world.deliver()
    assert world.agent.shown == []


async def test_deliver_presses_no_enter_before_the_agent_reads_its_own_queue(world: World) -> None:
    def turn_ends() -> None:
        world.message.behind_queue = True

    world.agent.after["paste"] = turn_ends
    world.later(5, lambda: setattr(world.message, "behind_queue", False))
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert (now() > 5, world.enters) == (True, 1)


async def test_deliver_pastes_again_and_submits_once_when_the_agent_read_and_lost_the_paste(
    world: World,
) -> None:
    world.agent.loses = 2
    for _ in range(2):
        outcome = await world.deliver()
        assert (outcome.end, world.agent.text) == (DeliveryEnd.HELD, "")
        assert "the input box lost the text" in outcome.why
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert (world.agent.pastes, world.agent.accepted) == (3, [f"{LETTER} "])


async def test_deliver_gives_up_when_the_agent_loses_every_paste(world: World) -> None:
    world.agent.loses = 100
    ends = [(await world.deliver()).end for _ in range(PASTES_MAX + 1)]
    assert ends == [DeliveryEnd.HELD] * PASTES_MAX + [DeliveryEnd.UNCONFIRMED]
    assert world.enters == 0


async def test_deliver_submits_once_when_a_lost_paste_appears_before_the_next(world: World) -> None:
    world.agent.loses = 1
    assert (await world.deliver()).end is DeliveryEnd.HELD
    world.agent.text = f"{LETTER} "
    assert (await world.deliver()).end is DeliveryEnd.HELD
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert world.agent.accepted == [f"{LETTER} "]


@pytest.mark.parametrize(
    "late", [{"shows_after_s": 2.0}, {"shows_after_s": 14.0}, {"reports_after_s": ARRIVES_WITHIN_S - 1}]
)
async def test_deliver_submits_the_message_once_to_a_slow_agent(world: World, late: dict[str, float]) -> None:
    world.becomes(**late)()
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert (world.agent.pastes, world.enters, len(world.agent.accepted)) == (1, 1, 1)


async def test_deliver_removes_an_abandoned_message_that_appears_late(world: World) -> None:
    world.agent.shows_after_s = SHOWS_AT_ALL_S + 20
    assert (await world.deliver()).end is DeliveryEnd.UNCONFIRMED
    await asyncio.sleep(30)
    assert world.agent.text == f"{LETTER} "
    world.agent.shows_after_s = 0.0
    world.message.text = "[sm] from operator, message 58\nand the docs"
    assert (await world.deliver()).end is DeliveryEnd.HELD
    await asyncio.sleep(1)
    await world.deliver()
    assert (world.agent.accepted, world.agent.text) == ([f"{world.message.text} "], "")


class FoldingComposer(AgentComposer):
    """Recognizes folded pastes: claude shows only the number of lines of a paste with three newlines or more."""

    def shows_message(self, draft: str, text: str, shown: str | None = "") -> bool:
        return CLAUDE.shows_message(draft, text, shown)

    def contains_message(self, draft: str, text: str) -> bool:
        return CLAUDE.contains_message(draft, text)


CLAUDE = ClaudeBoxReader()
FIVE_LINES = "[sm] from operator, message 57\na\nb\nc\nd"


def folded(number: int) -> str:
    return f"[Pasted text #{number} +4 lines]"


def enable_folding(world: World) -> None:
    """Make the agent's box fold pasted text."""
    agent, world.message.box_reader, world.message.text = world.agent, FoldingComposer(), FIVE_LINES

    def show(text: str) -> None:
        agent.text += folded(agent.pastes) if text.count("\n") >= 3 else text

    agent._shows = show  # type: ignore[method-assign]


def person_pastes(world: World, number: int) -> None:
    world.agent.text = folded(number)
    world.message.text = "[sm] from operator, message 58\nand the docs"


async def assert_draft_survives_delivery(world: World, text: str) -> None:
    """Deliver the next message: the person's draft is stashed or kept, and not removed."""
    for _ in range(20):
        if (await world.deliver()).end is not DeliveryEnd.HELD:
            break
        await asyncio.sleep(1)
    assert "C-u" not in world.agent.keys
    assert text in (world.agent.text, world.agent.stash)


async def test_deliver_keeps_a_persons_paste_that_looks_like_an_unsent_message(world: World) -> None:
    enable_folding(world)
    world.agent.after["paste"] = world.types("abc")
    assert (await world.deliver()).end is DeliveryEnd.UNCONFIRMED
    person_pastes(world, 9)
    await assert_draft_survives_delivery(world, folded(9))


async def test_deliver_keeps_a_persons_paste_that_looks_like_a_message_lost_long_ago(world: World) -> None:
    enable_folding(world)
    world.agent.deaf = True
    assert (await world.deliver()).end is DeliveryEnd.UNCONFIRMED
    await asyncio.sleep(LEFT_COMES_WITHIN_S)
    world.agent.deaf = False
    person_pastes(world, 9)
    await assert_draft_survives_delivery(world, folded(9))


async def test_deliver_removes_a_late_folded_message_but_keeps_a_persons_later_paste(world: World) -> None:
    enable_folding(world)
    world.agent.shows_after_s = SHOWS_AT_ALL_S + 20
    assert (await world.deliver()).end is DeliveryEnd.UNCONFIRMED
    await asyncio.sleep(30)
    assert world.agent.text == folded(1)
    assert (await world.deliver()).end is DeliveryEnd.HELD
    assert (world.agent.text, world.agent.keys) == ("", ["C-u"])
    world.agent.keys.clear()
    world.agent.shows_after_s = 0.0
    person_pastes(world, 2)
    await assert_draft_survives_delivery(world, folded(2))


async def test_deliver_removes_a_copy_of_the_message_that_stays_in_the_box(world: World) -> None:
    world.agent.copies = True
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert (world.enters, len(world.agent.accepted), world.agent.text) == (1, 1, "")


async def test_deliver_keeps_a_copy_of_the_message_when_a_person_added_text(world: World) -> None:
    world.agent.copies = True
    world.agent.after["Enter"] = world.types(" mine")
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert world.agent.text.endswith("mine")


async def test_deliver_tries_each_clearing_key_twice_when_the_box_does_not_change(world: World) -> None:
    world.agent.copies = True
    world.agent.ignores = {"C-u", "C-k"}
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert world.agent.keys[1:] == ["C-u", "C-k", "C-u", "C-k"]
    assert now() > 4 * 0.3


async def test_deliver_clears_the_box_with_the_second_key_when_the_first_has_no_effect(world: World) -> None:
    world.agent.copies = True
    world.agent.ignores = {"C-u"}
    world.agent.after["C-k"] = world.becomes(text="")
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert world.agent.keys[1:] == ["C-u", "C-k"]
    assert world.agent.text == ""


async def test_deliver_clears_a_text_of_many_rows_row_by_row(world: World) -> None:
    world.agent.rows = 30
    world.agent.copies = True
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert (world.agent.text, world.agent.keys[1:]) == ("", ["C-u"] * 30)


async def test_deliver_does_not_send_a_draft_that_a_person_stashed_when_enter_is_slow(world: World) -> None:
    world.agent.stash = "my draft"
    world.agent.enters_after_s = 3.0
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    await asyncio.sleep(10)
    assert (world.agent.accepted, world.agent.text) == ([f"{LETTER} "], "my draft")


async def test_deliver_redraws_a_garbled_screen_after_a_delay(world: World) -> None:
    world.agent.garbled = True
    assert (await world.deliver()).end is DeliveryEnd.HELD
    assert world.agent.keys == []
    await asyncio.sleep(GARBLED_S)
    assert (await world.deliver()).end is DeliveryEnd.HELD
    assert world.agent.keys == ["C-l"]
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED


# ------------------------------------------------------------------------------------------ a person's draft


async def until_delivered(world: World) -> DeliveryOutcome:
    """Repeat the delivery as the worker does, while the message is held."""
    while (outcome := await world.deliver()).end is DeliveryEnd.HELD:
        assert outcome.why == "somebody is typing in the input box"
        await asyncio.sleep(outcome.retry_s or 1.0)
    return outcome


async def deliver_with_retries(world: World) -> DeliveryOutcome:
    """Repeat the delivery up to twenty times while the message is held."""
    for _ in range(20):
        outcome = await world.deliver()
        if outcome.end is not DeliveryEnd.HELD:
            break
        await asyncio.sleep(outcome.retry_s or 1.0)
    return outcome


async def test_deliver_stashes_and_restores_a_draft_when_the_person_stops_typing(world: World) -> None:
    world.agent.text = "my draft"
    assert (await until_delivered(world)).end is DeliveryEnd.ARRIVED
    assert now() >= QUIET_S
    assert world.agent.text == "my draft"
    assert [text.strip() for text in world.agent.accepted] == [LETTER]


async def test_deliver_stashes_a_restored_draft_without_delay(world: World) -> None:
    world.agent.text = "my draft"
    await until_delivered(world)
    before = now()
    world.message = PendingMessage(world.agent)
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert now() - before < 1.0
    assert world.agent.text == "my draft"


async def test_deliver_holds_the_message_while_a_person_is_typing(world: World) -> None:
    world.agent.text = "my"
    for second in range(1, 20):
        world.later(second, world.types("x"))
    outcome = await until_delivered(world)
    assert outcome.end is DeliveryEnd.ARRIVED
    assert now() >= 19 + QUIET_S


async def test_deliver_removes_an_earlier_message_that_was_put_back_without_stashing_it(world: World) -> None:
    world.agent.text = "[sm] from operator, message 56\nbefore"
    world.message.earlier = [world.agent.text]
    assert (await world.deliver()).end is DeliveryEnd.HELD
    assert world.agent.text == ""
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert (world.agent.accepted, world.agent.keys.count("C-s")) == ([f"{LETTER} "], 0)


@pytest.mark.parametrize("left", ["[sm] from operator, message 56\nbefore", "[sm] from operator,"])
@pytest.mark.parametrize("stash", [None, "my draft"])
async def test_deliver_finishes_a_removal_when_the_agent_reads_keys_late(
    world: World, left: str, stash: str | None
) -> None:
    world.agent.text, world.agent.stash = "[sm] from operator, message 56\nbefore", stash
    world.message.earlier = [world.agent.text]
    world.agent.ignores = {"C-u", "C-k"}  # the agent is frozen, and reads pressed keys when it continues
    world.later(2.5, world.becomes(ignores=set(), text=left))
    assert (await deliver_with_retries(world)).end is DeliveryEnd.ARRIVED
    assert (world.agent.accepted, world.agent.text) == ([f"{LETTER} "], stash or "")
    assert "C-s" not in world.agent.keys


async def test_deliver_finishes_a_removal_when_the_screen_was_read_half_drawn(world: World) -> None:
    world.agent.text = "[sm] from operator, message 56\nbefore"
    world.message.earlier = [world.agent.text]
    world.agent.rows = 2
    world.agent.after["C-u"] = world.becomes(garbled=True)
    world.later(0.2, world.becomes(garbled=False))
    assert (await deliver_with_retries(world)).end is DeliveryEnd.ARRIVED
    assert (world.agent.accepted, world.agent.text) == ([f"{LETTER} "], "")
    assert "C-s" not in world.agent.keys


async def test_deliver_keeps_text_that_a_person_types_after_an_unfinished_removal(world: World) -> None:
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


async def test_deliver_neither_enters_nor_removes_a_draft_that_looks_like_the_message(world: World) -> None:
    world.agent.text = "[Pasted text #1 +4 lines]"
    world.message.box_reader.shows_message = lambda draft, text, shown="": bool(draft)  # type: ignore[method-assign]
    assert (await world.deliver()).end is DeliveryEnd.HELD
    await asyncio.sleep(QUIET_S)
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert (world.enters, world.agent.text) == (1, "[Pasted text #1 +4 lines]")
    assert "C-u" not in world.agent.keys


async def test_deliver_does_not_send_the_restored_draft_when_enter_is_slow(world: World) -> None:
    world.agent.text = "my draft"
    assert (await world.deliver()).end is DeliveryEnd.HELD
    await asyncio.sleep(QUIET_S)
    world.agent.enters_after_s = 3.0
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    await asyncio.sleep(10)
    assert (world.agent.accepted, world.agent.text) == ([f"{LETTER} "], "my draft")


# ------------------------------------------------------------------------------------------------------- tools


async def test_deliver_holds_the_message_when_a_tool_has_just_started(world: World) -> None:
    await world.driver.tool_started(ID)
    outcome = await world.deliver()
    assert outcome.end is DeliveryEnd.HELD
    assert outcome.retry_s is not None
    await asyncio.sleep(outcome.retry_s)
    assert now() >= TOOL_SETTLES_S
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED


async def test_deliver_holds_the_message_when_a_turn_has_just_ended(world: World) -> None:
    await world.driver.turn_ending(ID)
    outcome = await world.deliver()
    assert (outcome.end, outcome.why) == (DeliveryEnd.HELD, "busy: a turn is ending")
    assert outcome.retry_s is not None
    await asyncio.sleep(outcome.retry_s)
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED


async def test_deliver_rests_only_until_the_dialog_of_a_tool_could_be_open(world: World) -> None:
    world.message.begins_after_s = TOOL_WAITS_S + 0.3
    delivering = asyncio.create_task(world.deliver())
    await asyncio.sleep(0.1)
    await world.driver.tool_started(ID)
    outcome = await delivering
    assert (outcome.end, world.agent.pastes) == (DeliveryEnd.HELD, 0)
    assert now() + (outcome.retry_s or 0) == pytest.approx(0.1 + TOOL_WAITS_S + TOOL_SETTLES_S)


async def test_deliver_pastes_nothing_while_an_interrupt_may_return_a_message(world: World) -> None:
    async with world.driver.hold_for_interrupt(ID):
        pass
    world.later(0.15, world.types("[sm] from operator, message 56\nbefore"))
    world.message.earlier = ["[sm] from operator, message 56\nbefore"]
    while (outcome := await world.deliver()).end is DeliveryEnd.HELD:  # noqa: ASYNC110 - in virtual time
        await asyncio.sleep(outcome.retry_s or 1)
    assert world.agent.accepted == [f"{LETTER} "]


async def test_interrupt_waits_a_limited_time_for_the_pending_enter(world: World) -> None:
    world.agent.shows_after_s = 0.2
    typing = asyncio.create_task(world.deliver())
    await asyncio.sleep(0.05)
    async with world.driver.hold_for_interrupt(ID):
        assert world.enters == 1
    world.agent.shows_after_s = 50
    assert (await typing).end is DeliveryEnd.ARRIVED
    world.message.evidence = Proof.NONE
    await asyncio.sleep(RETURNS_WITHIN_S)
    typing = asyncio.create_task(world.deliver())
    await asyncio.sleep(0.05)
    began = now()
    async with world.driver.hold_for_interrupt(ID):
        assert now() == pytest.approx(began + TOOL_WAITS_S)
    typing.cancel()


async def test_tool_started_waits_for_the_pending_enter(world: World) -> None:
    world.agent.shows_after_s = 0.2
    entered_at: list[float] = []
    world.agent.after["Enter"] = lambda: entered_at.append(now())
    typing = asyncio.create_task(world.deliver())
    await asyncio.sleep(0.05)
    await world.driver.tool_started(ID)
    assert entered_at
    assert now() - entered_at[0] < 0.05
    assert (await typing).end is DeliveryEnd.ARRIVED


async def test_deliver_postpones_the_enter_when_a_tool_stopped_waiting_for_it(world: World) -> None:
    world.agent.shows_after_s = 1.0
    typing = asyncio.create_task(world.deliver())
    await asyncio.sleep(0.05)
    await world.driver.tool_started(ID)
    assert now() == pytest.approx(0.05 + TOOL_WAITS_S)
    world.later(0.1, world.becomes(dialog="it asks"))
    world.later(20, world.becomes(dialog=None))
    assert (await typing).end is DeliveryEnd.ARRIVED
    assert now() > 20
    assert (world.enters, len(world.agent.accepted)) == (1, 1)


async def test_tool_started_does_not_wait_for_the_enter_of_another_session(world: World) -> None:
    world.agent.shows_after_s = 1.0
    typing = asyncio.create_task(world.deliver())
    await asyncio.sleep(0.05)
    await world.driver.tool_started("99999999")
    assert now() == pytest.approx(0.05)
    await typing


# ---------------------------------------------------------------------------------------------- failures


async def test_deliver_is_unconfirmed_when_the_terminal_closes_after_a_late_enter(world: World) -> None:
    world.agent.reports_after_s = None
    world.agent.shows_after_s = SHOWS_WITHIN_S + 1
    world.message.is_gone = lambda: False  # type: ignore[method-assign]  # the daemon sees the end later
    world.agent.after["Enter"] = world.becomes(dead=True)
    assert (await world.deliver()).end is DeliveryEnd.UNCONFIRMED
    assert world.enters == 1


async def test_deliver_presses_no_enter_when_a_shell_has_replaced_the_agent(world: World) -> None:
    """The agent ran in a person's own shell and ended after the last look at the screen."""
    world.agent.after["paste"] = world.becomes(dialog="no input box is on its screen")
    typing = asyncio.create_task(world.deliver())
    await asyncio.sleep(5)
    assert world.enters == 0
    world.message.tell(Proof.OVER)  # the session has ended
    assert (await typing).end is DeliveryEnd.ARRIVED


async def test_deliver_holds_the_message_when_stashing_the_draft_fails(world: World) -> None:
    world.agent.text = "my draft"
    assert (await world.deliver()).end is DeliveryEnd.HELD
    await asyncio.sleep(QUIET_S)
    world.agent.before["C-s"] = world.becomes(hung=True)
    assert (await world.deliver()).end is DeliveryEnd.HELD
    assert (world.agent.pastes, world.message.begin_count) == (0, 0)


async def test_deliver_does_not_repeat_a_paste_when_its_outcome_is_unknown(world: World) -> None:
    world.agent.before["paste"] = world.becomes(hung=True)
    world.later(10, world.becomes(hung=False, text=LETTER))
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert world.enters == 1


async def test_deliver_is_not_delayed_by_a_hung_terminal_of_another_session(world: World) -> None:
    stuck = PendingMessage(Agent())
    stuck.session_id, stuck.terminal = "99999999", "hung"
    world.agent.hangs = {"hung"}
    waiting = asyncio.create_task(world.driver.deliver(stuck))
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


# ----------------------------------------------------------------------------------------------- after a restart


async def test_resume_enters_the_message_that_the_previous_daemon_left_in_the_box(world: World) -> None:
    world.agent.text = LETTER
    assert (await world.resume()).end is DeliveryEnd.ARRIVED
    assert (world.agent.pastes, world.enters) == (0, 1)
    assert now() >= LEFT_S


async def test_resume_enters_the_left_message_after_the_dialog_over_it_closes(world: World) -> None:
    world.agent.text, world.agent.dialog = LETTER, "it asks"
    world.later(60, world.becomes(dialog=None))
    assert (await world.resume()).end is DeliveryEnd.ARRIVED
    assert world.enters == 1
    assert now() > 60


async def test_resume_accepts_late_evidence_and_removes_the_copy_from_the_box(world: World) -> None:
    world.agent.text = LETTER
    world.later(1, lambda: world.message.tell(Proof.TAKEN))
    assert (await world.resume()).end is DeliveryEnd.ARRIVED
    assert (world.enters, world.agent.text) == (0, "")


async def test_message_is_refused_when_a_hook_of_the_user_refuses_it_while_the_agent_works(
    world: World,
) -> None:
    world.agent.busy = world.message.lacks_entry = True
    world.agent.after["Enter"] = lambda: world.later(8, world.becomes(dialog="refused: no such words"))
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert world.message.refusals == [PromptRefusal("no such words", is_named=True)]


async def test_message_is_given_up_when_neither_the_queue_nor_the_screen_shows_it(world: World) -> None:
    world.agent.busy = world.message.lacks_entry = True
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert world.message.refusals == [None]
    assert now() >= REFUSED_WITHIN_S


async def test_message_is_not_refused_when_the_queue_of_the_agent_has_it(world: World) -> None:
    world.agent.busy = True
    world.agent.after["Enter"] = lambda: world.later(8, world.becomes(dialog="refused: no such words"))
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert (world.message.refusals, now() < 8) == ([], True)


PARTS = f"{LETTER}\n\nsecond part\n\nthird part"


@pytest.mark.parametrize("count", [1, 2])
async def test_resume_goes_on_with_the_groups_that_the_previous_daemon_did_not_paste(
    world: World, count: int
) -> None:
    world.message.text = world.agent.report_of = PARTS
    world.agent.text = "\n\n".join([*PARTS.split("\n\n")[:count], ""])
    assert (await world.resume()).end is DeliveryEnd.ARRIVED
    assert [text.strip() for text in world.agent.accepted] == [PARTS]
    assert (world.agent.pastes, world.enters) == (3 - count, 1)


async def test_resume_pastes_the_rest_after_the_dialog_over_the_part_closes(world: World) -> None:
    world.message.text = world.agent.report_of = PARTS
    world.agent.text, world.agent.dialog = f"{LETTER}\n\n", "it asks"
    world.later(60, world.becomes(dialog=None))
    assert (await world.resume()).end is DeliveryEnd.ARRIVED
    assert (world.agent.answers, [text.strip() for text in world.agent.accepted]) == ([], [PARTS])


async def test_resume_pastes_nothing_when_the_box_may_hold_more_groups_than_one(world: World) -> None:
    world.message.text = PARTS
    world.agent.text = f"{LETTER}\n\n"
    world.message.box_reader = AmbiguousComposer()
    assert (await world.resume()).end is DeliveryEnd.UNCONFIRMED
    assert (world.agent.pastes, world.enters) == (0, 0)


# ------------------------------------------------------------------------------------------------------- pieces


async def test_deliver_pastes_the_groups_of_a_long_message_one_after_the_other(world: World) -> None:
    world.message.text = f"{LETTER}\n\nthen this\n\nand that"
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert (world.agent.pastes, world.enters) == (3, 1)
    assert [text.strip() for text in world.agent.accepted] == [world.message.text]


async def test_deliver_pastes_nothing_into_a_dialog_between_two_groups_and_goes_on_behind_it(
    world: World,
) -> None:
    world.message.text = f"{LETTER}\n\nthen this"
    world.agent.after["paste"] = world.becomes(dialog="permission dialog")
    world.later(20, world.becomes(dialog=None))
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert world.message.explained == ["busy: permission dialog"]
    assert (world.agent.answers, world.agent.pastes, world.enters) == ([], 2, 1)
    assert [text.strip() for text in world.agent.accepted] == [world.message.text]


async def test_deliver_stops_between_two_groups_when_a_person_types(world: World) -> None:
    world.message.text = f"{LETTER}\n\nthen this"
    world.agent.after["paste"] = world.types("mine")
    outcome = await world.deliver()
    assert outcome.end is DeliveryEnd.UNCONFIRMED
    assert outcome.why == "a part of the message is in the input box, together with text that somebody typed"
    assert (world.agent.pastes, world.enters) == (1, 0)


async def test_deliver_goes_on_when_the_person_removes_the_text_between_two_groups(world: World) -> None:
    world.message.text = f"{LETTER}\n\nthen this"
    world.agent.after["paste"] = world.types("mine")
    world.later(8, world.becomes(text=f"{LETTER}\n\n"))
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert [text.strip() for text in world.agent.accepted] == [world.message.text]


async def test_deliver_waits_between_two_groups_when_a_tool_starts(world: World) -> None:
    world.message.text = f"{LETTER}\n\nthen this"
    world.agent.shows_after_s = TOOL_WAITS_S + 0.5
    pasted_s: list[float] = []
    world.agent.after["paste"] = lambda: world.agent.before.update(paste=lambda: pasted_s.append(now()))
    delivering = asyncio.create_task(world.deliver())
    await asyncio.sleep(0.1)
    await world.driver.tool_started(ID)
    assert world.agent.pastes == 1
    assert (await delivering).end is DeliveryEnd.ARRIVED
    assert (world.agent.pastes, world.enters) == (2, 1)
    assert pasted_s[0] >= 0.1 + TOOL_WAITS_S + TOOL_SETTLES_S


# ------------------------------------------------------------------------------------------------------- urgent


async def test_urgent_message_interrupts_the_agent_when_it_is_busy(world: World) -> None:
    world.message.interrupt = "Escape"
    world.agent.busy = True
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert world.agent.keys == ["Enter", "Escape"]
    assert len(world.agent.accepted) == 1


async def test_urgent_message_does_not_interrupt_an_idle_agent(world: World) -> None:
    world.message.interrupt = "Escape"
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert world.agent.keys == ["Enter"]


@pytest.mark.parametrize("garbled", [False, True])
@pytest.mark.parametrize(
    ("starts_queued_after_s", "returns_after_s"),
    [(0.0, 0.2), (1.5 * RETURNS_WITHIN_S, 2 * RETURNS_WITHIN_S)],
    ids=["fast agent", "frozen agent"],
)
async def test_urgent_message_is_entered_again_when_the_interrupt_puts_it_back(
    world: World, starts_queued_after_s: float, returns_after_s: float, garbled: bool
) -> None:
    world.message.interrupt = "Escape"
    world.agent.busy = True
    put_back = world.becomes(accepted=[], text=LETTER, garbled=garbled)
    world.agent.starts_queued_after_s = starts_queued_after_s
    world.agent.after["Escape"] = lambda: world.later(returns_after_s, put_back)
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert world.agent.keys == ["Enter", "Escape", *["C-l"] * garbled, "Enter"]
    assert [text.strip() for text in world.agent.accepted] == [LETTER]
    assert world.agent.text == ""


@pytest.mark.parametrize("pressed_after_s", [0.02, 0.3, 1.2])
@pytest.mark.parametrize("evidence", ["works", "turn over"])
async def test_urgent_message_is_not_entered_again_when_a_person_recalls_it(
    world: World, evidence: str, pressed_after_s: float
) -> None:
    """The agent shows its history in the box when a person presses Up."""
    world.message.interrupt = "Escape"
    world.agent.busy = True

    def interrupted() -> None:
        world.later(pressed_after_s, world.types(LETTER))
        if evidence == "works":
            world.later(0.01, world.becomes(busy=True))
        else:
            world.later(0.25, lambda: world.message.tell(Proof.OVER))

    world.agent.after["Escape"] = interrupted
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert world.enters == 1
    assert [text.strip() for text in world.agent.accepted] == [LETTER]


async def test_urgent_message_that_a_person_recalls_stays_in_the_box_while_the_agent_works(
    world: World,
) -> None:
    world.message.interrupt = "Escape"
    world.agent.busy = True

    def interrupted() -> None:
        world.later(0.01, world.becomes(busy=True))
        world.later(0.3, world.types(LETTER))

    world.agent.after["Escape"] = interrupted
    await world.deliver()
    assert (world.agent.keys, world.agent.text) == (["Enter", "Escape"], LETTER)


async def test_urgent_message_is_entered_again_when_the_end_of_its_turn_is_published_late(
    world: World,
) -> None:
    world.message.interrupt = "Escape"
    world.agent.busy = True

    def interrupted() -> None:
        world.agent.busy = True
        world.later(0.2, world.becomes(accepted=[], text=LETTER))
        world.later(1.5, world.becomes(busy=False))

    world.agent.after["Escape"] = interrupted
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert (world.enters, world.agent.text) == (2, "")
    assert [text.strip() for text in world.agent.accepted] == [LETTER]


async def test_urgent_message_is_not_entered_again_when_the_box_was_not_empty_before_the_interrupt(
    world: World,
) -> None:
    world.message.interrupt = "Escape"
    world.agent.busy = True
    world.agent.before["Escape"] = world.becomes(text="")
    world.later(0.1, world.types("hello"))
    world.agent.after["Escape"] = lambda: world.later(0.3, world.types(LETTER))
    world.agent.reports_after_s = 0.2
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert world.enters == 1


async def test_urgent_message_does_not_answer_a_dialog_that_has_opened(world: World) -> None:
    world.message.interrupt = "Escape"
    world.agent.busy = True
    world.agent.after["Enter"] = world.becomes(dialog="it asks")
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert world.agent.keys == ["Enter"]


async def test_urgent_message_does_not_interrupt_when_the_agent_has_already_read_it(world: World) -> None:
    world.message.interrupt = "Escape"
    world.agent.busy = True
    tasks: list[asyncio.Future[None]] = []
    world.agent.after["Enter"] = lambda: tasks.append(asyncio.ensure_future(world.driver.tool_started(ID)))
    world.later(0.3, lambda: world.message.tell(Proof.TAKEN))
    assert (await world.deliver()).end is DeliveryEnd.ARRIVED
    assert world.agent.keys == ["Enter"]
