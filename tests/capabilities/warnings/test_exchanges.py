"""Two sessions that only answer each other: warned, slowed, held, and let go, on a real SQLite file."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sm.capabilities.warnings.model import WarningTimer
from sm.capabilities.warnings.settings import PingPong
from sm.capabilities.warnings.state.exchanges import Exchanges
from sm.capabilities.warnings.tables import PART
from sm.config import Config
from sm.core.messages import Message
from sm.core.models import OPERATOR, Session
from sm.core.requests import Answer, Request
from sm.core.states import MessageMode, MessageState, RequestState
from sm.core.statuses import Status
from sm.core.timestamps import later
from sm.core.warnings import WarningKind
from sm.errors import IllegalState
from sm.state.notices import Notices
from sm.state.request_steps import finish_request
from sm.store import Store
from tests.samples import AT, LAUNCH, commit, session

LIMIT = 3
GRANDPARENT = session("00000001", status=Status.RUNNING)
LEAD = session("00000002", status=Status.RUNNING, parent="00000001")
ALICE = session("aaaa1111", status=Status.RUNNING, parent="00000002")
BOB = session("bbbb2222", status=Status.RUNNING, parent="00000002")
COUSIN = session("cccc3333", status=Status.RUNNING, parent="00000001")
LONER = session("dddd4444", status=Status.RUNNING)


class Talk:
    """A store at a time that a test sets, and the messages of sessions."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now = AT
        self.exchanges = Exchanges(PingPong(limit=LIMIT, within_s=300), Notices(Config()))

    async def open(self) -> None:
        self.store = await Store.open(str(self.path), lambda: self.now)
        await self.store.__aenter__()

    async def restart(self) -> None:
        await self.store.__aexit__(None, None, None)
        await self.open()

    async def send(self, sender: Session, to: Session) -> Message:
        """Send a message one second after the last one."""
        self.now = later(self.now, 1)
        async with self.store.transaction() as tx:
            message = Message(
                id=tx.mail.new_id("messages"),
                session_id=to.id,
                sender=sender.id,
                mode=MessageMode.AUTO,
                state=MessageState.QUEUED,
                created_at=self.now,
                state_at=self.now,
            )
            message = await self.exchanges.admit(tx, tx.find(sender.id), tx.session(to.id), message)
            tx.mail.add_message(message, "again")
            return message

    async def chat(self, number: int, one: Session = ALICE, other: Session = BOB) -> list[Message]:
        """Messages of two sessions in turn."""
        return [await self.send(*((one, other) if n % 2 == 0 else (other, one))) for n in range(number)]

    async def answer(self, request: Request, *, approved: bool) -> None:
        async with self.store.transaction() as tx:
            owner = tx.session(request.session_id)
            done = await finish_request(tx, owner, request, tx.now, state=RequestState.ANSWERED)
            await self.exchanges.answer(tx, OPERATOR, done, Answer(approved))

    async def work(self, session: Session) -> None:
        async with self.store.transaction() as tx:
            tx.measures.facts(session.id, {"calls": {"worked_at": self.now}})

    @property
    def request(self) -> Request:
        (request,) = self.store.mail.open.requests.values()
        return request

    def held(self) -> list[int]:
        return [m.id for m in self.store.mail.open.messages.values() if m.held_until is not None]

    def warned(self) -> dict[str, str]:
        return {
            id: w.evidence
            for id, warnings in PART.rows_of(self.store.mail.open).items()
            for w in warnings
            if w.kind is WarningKind.PING_PONG
        }

    def told(self) -> list[str | None]:
        return [n.recipient for n in self.store.mail.open.notices.values()]


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    talk = Talk(tmp_path / "sm.db")
    await talk.open()
    async with talk.store.transaction() as tx:
        for each in (GRANDPARENT, LEAD, ALICE, BOB, COUSIN, LONER):
            await tx.insert(each, LAUNCH, None)
    yield talk
    await talk.store.__aexit__(None, None, None)


async def test_pair_is_warned_of_at_the_limit_and_then_slowed_and_held(talk: Talk) -> None:
    messages = await talk.chat(2 * LIMIT + 1)
    assert [m.held_until is None for m in messages] == [True] * 3 + [False] * 4
    assert [m.held_until for m in messages[3:5]] == [
        later(m.created_at, s) for m, s in zip(messages[3:5], (10, 30), strict=True)
    ]
    assert [m.held_until for m in messages[5:]] == ["", ""]
    assert messages[3].reason == "waits 10s: 4 messages between the two without other work"
    assert (
        messages[5].reason
        == f"held: 6 messages between the two without other work; waits for {talk.request.name}"
    )
    assert talk.warned().keys() == {ALICE.id}
    # The warning and the request: once each, to the parent of both, and not to the operator.
    assert talk.told() == [LEAD.id, LEAD.id]


async def test_message_is_released_when_its_wait_is_over_also_after_a_restart(talk: Talk) -> None:
    message = (await talk.chat(LIMIT + 1))[-1]
    await talk.restart()
    assert talk.held() == [message.id]
    timer = talk.store.mail.open.timers[str(message.id), WarningTimer.HELD_MESSAGE]
    assert timer.due_at == message.held_until
    await commit(talk.store, lambda tx: talk.exchanges.release(tx, timer))
    assert talk.held() == []


async def test_approval_lets_the_pair_go_on_from_zero(talk: Talk) -> None:
    await talk.chat(2 * LIMIT + 1)
    await talk.restart()
    await talk.answer(talk.request, approved=True)
    assert (talk.held(), talk.warned()) == ([], {})
    assert [m.held_until for m in await talk.chat(LIMIT)] == [None] * LIMIT
    assert talk.warned().keys() == {ALICE.id}


async def test_denial_fails_the_held_messages_and_refuses_further_ones_until_one_has_worked(
    talk: Talk,
) -> None:
    held = (await talk.chat(2 * LIMIT))[-1]
    await talk.answer(talk.request, approved=False)
    message = await talk.store.mail.message(held.id)
    assert (message.state, "denied further messages" in (message.reason or "")) == (MessageState.FAILED, True)
    with pytest.raises(IllegalState, match="were denied"):
        await talk.send(BOB, ALICE)
    talk.now = later(talk.now, 1)
    await talk.work(BOB)
    assert (await talk.send(BOB, ALICE)).held_until is None
    assert talk.warned() == {}


async def test_denial_lasts_beyond_silence(talk: Talk) -> None:
    await talk.chat(2 * LIMIT)
    await talk.answer(talk.request, approved=False)
    timer = talk.store.mail.open.timers[f"{ALICE.id}/{BOB.id}", WarningTimer.EXCHANGE]
    async with talk.store.transaction() as tx:
        assert await talk.exchanges.look(tx, timer) is None
    with pytest.raises(IllegalState, match="were denied"):
        await talk.send(BOB, ALICE)


async def test_pair_is_not_warned_of_when_one_of_the_two_works_in_between(talk: Talk) -> None:
    for _ in range(4 * LIMIT):
        await talk.send(ALICE, BOB)
        await talk.work(BOB)
    assert talk.warned() == {}


async def test_messages_of_other_pairs_and_of_people_do_not_count(talk: Talk) -> None:
    await talk.chat(LIMIT - 1, ALICE, BOB)
    await talk.chat(LIMIT - 1, ALICE, COUSIN)
    await talk.chat(LIMIT - 1, LEAD, ALICE)
    assert talk.warned() == {}
    await talk.send(ALICE, BOB)
    assert "aaaa1111 and engineer-bbbb2222" in talk.warned()[ALICE.id]
    assert (await talk.send(LEAD, BOB)).held_until is None


async def test_messages_without_an_answer_are_no_exchange(talk: Talk) -> None:
    for _ in range(5 * LIMIT):
        assert (await talk.send(ALICE, LEAD)).held_until is None
    assert talk.warned() == {}


@pytest.mark.parametrize(
    ("one", "other", "owner", "told"),
    [
        (ALICE, BOB, ALICE, LEAD.id),
        (ALICE, LEAD, LEAD, GRANDPARENT.id),
        (LEAD, ALICE, LEAD, GRANDPARENT.id),
        (ALICE, COUSIN, LEAD, GRANDPARENT.id),
        (GRANDPARENT, COUSIN, GRANDPARENT, None),
        (LONER, ALICE, LONER, None),
        (ALICE, LONER, GRANDPARENT, None),
    ],
)
async def test_nearest_ancestor_of_both_that_is_neither_is_told(
    talk: Talk, one: Session, other: Session, owner: Session, told: str | None
) -> None:
    await talk.chat(LIMIT, one, other)
    assert (list(talk.warned()), talk.told()) == ([owner.id], [told])


async def test_warning_ends_after_silence_and_stays_while_a_decision_is_awaited(talk: Talk) -> None:
    await talk.chat(2 * LIMIT)
    timer = talk.store.mail.open.timers[f"{ALICE.id}/{BOB.id}", WarningTimer.EXCHANGE]
    async with talk.store.transaction() as tx:
        assert await talk.exchanges.look(tx, timer) == 300
    assert talk.warned().keys() == {ALICE.id}
    async with talk.store.transaction() as tx:
        for message in [m for m in tx.mail.open.messages.values() if m.held_until is not None]:
            tx.mail.move_message(message, MessageState.EXPIRED, tx.now)
    async with talk.store.transaction() as tx:
        assert await talk.exchanges.look(tx, timer) is None
    assert (talk.warned(), list(talk.store.mail.open.requests)) == ({}, [])


async def test_closed_request_is_opened_again_while_a_message_is_held(talk: Talk) -> None:
    await talk.chat(2 * LIMIT)
    first = talk.request
    timer = talk.store.mail.open.timers[f"{ALICE.id}/{BOB.id}", WarningTimer.EXCHANGE]
    async with talk.store.transaction() as tx:
        await finish_request(tx, tx.session(ALICE.id), first, tx.now, state=RequestState.CANCELLED)
    async with talk.store.transaction() as tx:
        assert await talk.exchanges.look(tx, timer) == 300
    assert talk.request.id != first.id


async def test_removal_of_one_of_the_two_ends_the_warning_and_the_request(talk: Talk) -> None:
    await talk.chat(2 * LIMIT)
    async with talk.store.transaction() as tx:
        await talk.exchanges.leave(tx, tx.session(BOB.id))
    assert (talk.warned(), list(talk.store.mail.open.requests), talk.held()) == ({}, [], [])


async def test_two_pairs_with_one_owner_have_a_warning_each(talk: Talk) -> None:
    await talk.chat(2 * LIMIT, LEAD, ALICE)
    await talk.chat(2 * LIMIT, LEAD, BOB)
    assert talk.warned().keys() == {LEAD.id}
    evidence = [w.evidence for w in talk.store.part(PART).all_of(LEAD.id)]
    assert [ALICE.id in one for one in evidence] == [True, False]
    assert [BOB.id in one for one in evidence] == [False, True]
    # A warning and a request about each pair, each told to the parent of both.
    assert talk.told() == [GRANDPARENT.id] * 4
    first, second = talk.store.mail.open.requests.values()
    await talk.answer(first, approved=True)
    assert [w.evidence for w in talk.store.part(PART).all_of(LEAD.id)] == evidence[1:]
    assert [r.id for r in talk.store.mail.open.requests.values() if r.open] == [second.id]
    assert {m.reason for m in talk.store.mail.open.messages.values() if m.held_until == ""} == {
        f"held: 6 messages between the two without other work; waits for {second.name}"
    }
    await talk.answer(second, approved=True)
    assert (talk.warned(), talk.held()) == ({}, [])


async def test_warnings_of_two_pairs_survive_a_restart(talk: Talk) -> None:
    await talk.chat(LIMIT, LEAD, ALICE)
    await talk.chat(LIMIT, LEAD, BOB)
    await talk.restart()
    async with talk.store.transaction() as tx:
        await talk.exchanges.leave(tx, tx.session(ALICE.id))
    assert BOB.id in talk.warned()[LEAD.id]
    ended = [e.message for e in await talk.store.events(sessions=[LEAD.id]) if e.metadata.get("ended")]
    assert [ALICE.id in message for message in ended] == [True], "the event names the pair"
    assert len(talk.store.part(PART).all_of(LEAD.id)) == 1


@pytest.mark.parametrize(("do", "is_held"), [("notice", False), ("off", False), ("slow", True)])
async def test_configuration_decides_what_follows(talk: Talk, do: str, is_held: bool) -> None:
    rule = PingPong.model_validate({"limit": LIMIT, "do": do})
    talk.exchanges = Exchanges(rule, Notices(Config()))
    await talk.chat(3 * LIMIT)
    assert bool(talk.held()) is is_held
    assert bool(talk.warned()) is (do != "off")


async def test_removal_of_the_owner_leaves_a_pair_held_with_a_new_request(talk: Talk) -> None:
    held = (await talk.chat(2 * LIMIT, ALICE, COUSIN))[-1]
    assert talk.warned().keys() == {LEAD.id}
    await commit(talk.store, lambda tx: talk.exchanges.leave(tx, tx.session(LEAD.id)))
    async with talk.store.transaction() as tx:
        for child in (ALICE, BOB):
            await tx.update(tx.session(child.id), parent_id=GRANDPARENT.id)
        # The end of a session cancels its requests.
        await finish_request(tx, tx.session(LEAD.id), talk.request, tx.now, state=RequestState.CANCELLED)
        await tx.remove(tx.session(LEAD.id))
    timer = talk.store.mail.open.timers[f"{ALICE.id}/{COUSIN.id}", WarningTimer.EXCHANGE]
    async with talk.store.transaction() as tx:
        assert await talk.exchanges.look(tx, timer) == 300
    assert (talk.request.session_id, held.id in talk.held()) == (ALICE.id, True)
    assert (await talk.send(ALICE, COUSIN)).held_until == ""


async def test_message_of_a_person_ends_a_denial(talk: Talk) -> None:
    """The work of an agent that runs a command is not seen."""
    await talk.chat(2 * LIMIT)
    await talk.answer(talk.request, approved=False)
    async with talk.store.transaction() as tx:
        message = Message(
            tx.mail.new_id("messages"),
            BOB.id,
            "operator",
            MessageMode.AUTO,
            MessageState.QUEUED,
            tx.now,
            tx.now,
        )
        await talk.exchanges.admit(tx, None, tx.session(BOB.id), message)
    assert (await talk.send(BOB, ALICE)).held_until is None
    assert talk.warned() == {}
