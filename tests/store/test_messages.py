"""Messages, requests and notices in the store, on real SQLite files."""

import asyncio
import random
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from sm.capabilities.accounts import tables as accounts
from sm.capabilities.accounts.model import Account, Park, ParkKind
from sm.capabilities.budgets.model import DAILY, Amounts, Budget, Spent
from sm.capabilities.budgets.tables import PART
from sm.capabilities.completion.model import CompletionTimer
from sm.capabilities.pairing import tables as pairing
from sm.capabilities.pairing.model import PairState
from sm.capabilities.warnings.model import SessionWarning
from sm.capabilities.warnings.tables import PART as PART_OF_WARNINGS
from sm.core.effects import EffectKind
from sm.core.lifecycle import decide
from sm.core.messages import Message, Notice
from sm.core.models import Checkpoint, Exit, Session, Signal
from sm.core.requests import Answer, Question, Request
from sm.core.states import (
    EventType,
    MessageMode,
    MessageState,
    NoticeKind,
    RequestKind,
    RequestState,
    SignalKind,
)
from sm.core.statuses import Status
from sm.core.telegram_model import BotMethod, NewCall
from sm.core.timers import Timer
from sm.core.warnings import WarningKind
from sm.errors import IllegalState, InternalError, NotFound
from sm.store import Effect, Open, Store, Transaction, backups
from sm.store.migrations import MIGRATIONS
from tests import golden
from tests.samples import AT, LAUNCH, commit, session

GOLDEN = Path(__file__).parents[1] / "data"
LATER = "2026-01-27T16:00:00.000Z"
PARENT, CHILD = session("aaaa1111"), session("aaaa2222", parent="aaaa1111")
T = TypeVar("T")


@pytest.fixture
async def store(store: Store) -> Store:
    await commit(store, lambda tx: tx.insert(PARENT, LAUNCH, None))
    await commit(store, lambda tx: tx.insert(CHILD, LAUNCH, "a prompt"))
    return store


async def done(store: Store, change: Callable[[Transaction], T]) -> T:
    """Run `change` in its own transaction."""
    async with store.transaction() as tx:
        return change(tx)


async def all_ids(tx: Transaction) -> list[str]:
    return [session.id for session in await tx.select()]


def message(number: int, recipient: str | None = CHILD.id, **changes: Any) -> Message:
    created = Message(number, recipient, "operator", MessageMode.AUTO, MessageState.QUEUED, AT, AT)
    return replace(created, **changes)


def request(number: int, session_id: str = CHILD.id, **changes: Any) -> Request:
    created = Request(
        number,
        session_id,
        RequestKind.QUESTION,
        RequestState.OPEN,
        AT,
        AT,
        questions=(Question("which?", ("this", "thät")), Question("why?")),
    )
    return replace(created, **changes)


def notice(number: int, occasion: str = "ending:1", session_id: str = CHILD.id, **changes: Any) -> Notice:
    return replace(
        Notice(number, session_id, PARENT.id, NoticeKind.ENDING, occasion, "child x cömpleted", AT), **changes
    )


FULL_MESSAGE = message(
    7,
    sender=PARENT.id,
    mode=MessageMode.URGENT,
    state=MessageState.DELIVERING,
    state_at=LATER,
    via="inbox",
    evidence="taken",
    reason="why",
    submitted_at=AT,
    acknowledged_at=AT,
    expires_at=LATER,
)
FULL_REQUEST = request(
    9,
    kind=RequestKind.PERMISSION,
    state=RequestState.ANSWERED,
    state_at=LATER,
    expires_at=LATER,
    tool="Bash",
    arguments={"command": "rm -rf bäuild", "n": [1, {"deep": None}]},
    answer=Answer(True, ("this", "because"), "once\nonly"),
    answered_by="operator",
    reason="it said so",
)


# ----------------------------------------------------------------------------------------------- persistence


async def test_store_restores_every_message_request_and_notice_after_reopening(path: str) -> None:
    inbox, full_notice = message(8, recipient=None), notice(3, recipient=None, kind=NoticeKind.UNDELIVERED)

    async def unit(tx: Transaction) -> None:
        await tx.insert(PARENT, LAUNCH, None)
        await tx.insert(CHILD, LAUNCH, None)
        tx.mail.add_message(FULL_MESSAGE, "héllo\n\tworld")
        tx.mail.add_message(inbox, "")
        tx.mail.add_request(FULL_REQUEST)
        tx.mail.add_request(request(10))
        assert await tx.mail.add_notice(full_notice)
        await tx.effect(EffectKind.START, CHILD.id, {"a": [1]}, AT)

    async with await Store.open(path) as store:
        await commit(store, unit)
    async with await Store.open(path) as store:
        assert store.mail.open == Open(
            {7: FULL_MESSAGE, 8: inbox},
            {9: FULL_REQUEST, 10: request(10)},
            {3: full_notice},
            {1: Effect(1, "start", CHILD.id, {"a": [1]})},
        )
        assert await store.mail.texts([7, 8, 99]) == {7: "héllo\n\tworld", 8: ""}
        assert store.mail.queued() == {None: [inbox]}


async def test_final_message_and_request_are_read_from_the_database_only(store: Store) -> None:
    final = replace(FULL_MESSAGE, state=MessageState.ACKNOWLEDGED)
    taken = replace(FULL_REQUEST, taken_at=LATER)

    async def add(tx: Transaction) -> tuple[Message, Request]:
        tx.mail.add_message(FULL_MESSAGE, "x")
        tx.mail.add_request(FULL_REQUEST)
        tx.mail.move_message(FULL_MESSAGE, MessageState.ACKNOWLEDGED, LATER)
        tx.mail.change_request(FULL_REQUEST, taken_at=LATER)
        return await tx.mail.message(7), await tx.mail.request(9)

    assert await commit(store, add) == (final, taken)
    assert store.mail.open == Open()
    assert await store.mail.message(7) == final
    assert await store.mail.request(9) == taken
    assert await store.mail.messages(None, 10) == [final]
    assert await store.mail.requests(10) == [taken]


async def test_missing_message_and_request_raise_not_found(store: Store) -> None:
    with pytest.raises(NotFound, match="no such message: 57"):
        await store.mail.message(57)
    with pytest.raises(NotFound, match="no such request: r57"):
        await store.mail.request(57)
    with pytest.raises(NotFound, match="no such message: 57"):
        await commit(store, lambda tx: tx.mail.message(57))
    with pytest.raises(NotFound, match="no such request: r57"):
        await commit(store, lambda tx: tx.mail.request(57))
    assert await store.mail.texts([57]) == {}


async def test_messages_are_listed_newest_last_by_recipient_and_sender(store: Store) -> None:
    def add(tx: Transaction) -> None:
        tx.mail.add_message(message(1), "to the child")
        tx.mail.add_message(message(2, recipient=None, sender=CHILD.id), "from the child")
        tx.mail.add_message(message(3, recipient=PARENT.id), "to the parent")
        tx.mail.add_message(message(4, state=MessageState.EXPIRED), "lost")
        tx.mail.add_message(message(5, state=MessageState.FAILED), "lost")
        tx.mail.add_message(message(6, state=MessageState.UNCONFIRMED), "who knows")

    await done(store, add)

    async def listed(sessions: list[str] | None, limit: int = 50) -> list[int]:
        return [m.id for m in await store.mail.messages(sessions, limit)]

    assert await listed(None) == [1, 2, 3, 4, 5, 6]
    assert await listed(None, 2) == [5, 6]
    assert await listed([CHILD.id]) == [1, 2, 4, 5, 6]
    assert await listed([PARENT.id]) == [3]
    assert await listed([]) == []
    assert await store.mail.lost() == 2
    assert await store.dead_letters() == 2


async def test_unknown_values_of_a_newer_version_are_loaded_for_messages(path: str, store: Store) -> None:
    def add(tx: Transaction) -> None:
        tx.mail.add_message(message(1), "x")
        tx.mail.add_request(FULL_REQUEST)

    await done(store, add)
    await commit(store, lambda tx: tx.mail.add_notice(notice(1)))
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("UPDATE messages SET mode = 'telepathy'")
        other.execute(
            "UPDATE requests SET kind = 'wish', questions = 'no json', answer = '[', arguments = '3'"
        )
        other.execute("UPDATE notices SET kind = 'omen'")
    async with await Store.open(path) as again:
        assert again.mail.open.messages[1].mode == "telepathy"
        loaded = again.mail.open.requests[9]
        assert (loaded.kind, loaded.questions, loaded.arguments) == ("wish", (), {})
        assert loaded.answer == Answer(False)  # never an approval
        assert again.mail.open.notices[1].kind == "omen"


# ---------------------------------------------------------------------------------------------- state changes


async def test_second_move_of_a_message_fails_and_rolls_its_transaction_back(store: Store) -> None:
    first = message(1)
    await done(store, lambda tx: tx.mail.add_message(first, "x"))

    def take(at: str) -> Callable[[Transaction], Message]:
        def unit(tx: Transaction) -> Message:
            tx.mail.add_request(request(int(at[12:13])))
            return tx.mail.move_message(first, MessageState.DELIVERING, at, via="inbox")

        return unit

    outcomes = await asyncio.gather(done(store, take(AT)), done(store, take(LATER)), return_exceptions=True)
    assert isinstance(outcomes[0], Message)
    assert isinstance(outcomes[1], IllegalState)
    assert "number 1 of messages is no longer queued" in outcomes[1].message
    assert list(store.mail.open.requests) == [5]
    assert await store.mail.message(1) == replace(
        first, state=MessageState.DELIVERING, state_at=AT, via="inbox"
    )


async def test_move_fails_when_row_was_changed_by_another_process(store: Store, path: str) -> None:
    await done(store, lambda tx: tx.mail.add_message(message(1), "x"))
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("UPDATE messages SET state = 'expired'")
    with pytest.raises(IllegalState):
        await done(store, lambda tx: tx.mail.move_message(message(1), MessageState.SUBMITTED, LATER))
    assert store.mail.open.messages == {1: message(1)}


async def test_second_answer_to_a_request_fails(store: Store) -> None:
    await done(store, lambda tx: tx.mail.add_request(request(1)))

    def answer(words: str) -> Callable[[Transaction], Request]:
        return lambda tx: tx.mail.change_request(
            request(1), state=RequestState.ANSWERED, answer=Answer(True, (words,)), state_at=LATER
        )

    outcomes = await asyncio.gather(
        done(store, answer("yes")), done(store, answer("no")), return_exceptions=True
    )
    assert [type(o) for o in outcomes] == [Request, IllegalState]
    assert (await store.mail.request(1)).answer == Answer(True, ("yes",))


async def test_move_to_the_same_state_writes_nothing(store: Store) -> None:
    missing = message(57)  # not in the database: an UPDATE would fail
    assert await done(store, lambda tx: tx.mail.move_message(missing, MessageState.QUEUED, AT)) == missing


# ------------------------------------------------------------------------------------------------------ notices


async def test_notice_is_added_once_per_session_and_occasion(store: Store) -> None:
    outcomes = tuple(
        await asyncio.gather(
            commit(store, lambda tx: tx.mail.add_notice(notice(1))),
            commit(store, lambda tx: tx.mail.add_notice(notice(2, recipient=None, text="again"))),
            commit(store, lambda tx: tx.mail.add_notice(notice(3, "ending:2"))),
            commit(store, lambda tx: tx.mail.add_notice(notice(4, session_id=PARENT.id))),
        )
    )
    assert outcomes == (True, False, True, True)
    assert list(store.mail.open.notices) == [1, 3, 4]


@pytest.mark.parametrize("state", ["sent", "heard", "dropped"])
async def test_notice_is_not_added_again_when_its_occasion_is_finished(store: Store, state: str) -> None:
    await commit(store, lambda tx: tx.mail.add_notice(notice(1)))
    await done(store, lambda tx: tx.mail.finish_notices([notice(1)], state))
    assert store.mail.open.notices == {}
    assert not await commit(store, lambda tx: tx.mail.add_notice(notice(2)))
    assert store.mail.open.notices == {}


async def test_database_rejects_second_notice_of_the_same_occasion(store: Store, path: str) -> None:
    await commit(store, lambda tx: tx.mail.add_notice(notice(1)))
    with (
        closing(sqlite3.connect(path)) as other,
        other,
        pytest.raises(sqlite3.IntegrityError, match="UNIQUE"),
    ):
        other.execute(
            "INSERT INTO notices (session_id, kind, occasion, text, created_at)"
            " SELECT session_id, kind, occasion, text, created_at FROM notices"
        )


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (MessageState.QUEUED, False),
        (MessageState.EXPIRED, False),
        (MessageState.FAILED, False),
        (MessageState.SUBMITTED, True),
        (MessageState.ACKNOWLEDGED, True),
    ],
)
async def test_session_is_told_of_an_occasion_when_it_has_received_the_message(
    store: Store, state: MessageState, told: bool
) -> None:
    sent = notice(1, recipient=PARENT.id)
    async with store.transaction() as tx:
        assert await tx.mail.add_notice(sent)
        tx.mail.add_message(message(7, PARENT.id, state=state), "a child has a question")
        tx.mail.finish_notices([sent], "sent", 7)
    occasions = await store.mail.told_occasions(PARENT.id, [CHILD.id], [sent.occasion])
    assert occasions == ({sent.occasion} if told else set())


@pytest.mark.parametrize("recipient", [PARENT.id, None])
async def test_occasion_is_told_by_the_answer_to_a_wait(store: Store, recipient: str | None) -> None:
    heard = notice(1, recipient=recipient)
    await commit(store, lambda tx: tx.mail.add_notice(heard))
    await done(store, lambda tx: tx.mail.finish_notices([heard], "heard"))
    assert await store.mail.told_occasions(recipient, [CHILD.id], [heard.occasion]) == {heard.occasion}


async def test_notice_is_reopened_for_new_recipient_when_its_message_is_lost(path: str, store: Store) -> None:
    sent, other, unsent = notice(1), notice(2, "idle:1"), notice(3, "idle:2")
    async with store.transaction() as tx:
        for added in (sent, other, unsent):
            assert await tx.mail.add_notice(added)
        for number, told in ((10, sent), (11, other)):
            tx.mail.add_message(message(number, sender="sm", recipient=PARENT.id), told.text)
            tx.mail.finish_notices([told], "sent", number)
    assert store.mail.open.notices == {3: unsent}
    await commit(store, lambda tx: tx.mail.reopen_notices([10], None))
    assert store.mail.open.notices == {1: replace(sent, recipient=None), 3: unsent}
    await commit(store, lambda tx: tx.mail.reopen_notices([10], PARENT.id))  # the notice is already reopened
    await commit(store, lambda tx: tx.mail.reopen_notices([], None))
    assert store.mail.open.notices == {1: replace(sent, recipient=None), 3: unsent}
    async with await Store.open(path) as again:
        assert again.mail.open == store.mail.open


async def test_reopened_notice_is_marked_once_when_it_is_reopened_twice(path: str, store: Store) -> None:
    pending = notice(1)
    await commit(store, lambda tx: tx.mail.add_notice(pending))
    for number in (10, 11):
        async with store.transaction() as tx:
            tx.mail.add_message(message(number, sender="sm", recipient=PARENT.id), pending.text)
            tx.mail.finish_notices(tx.mail.open.notices.values(), "sent", number)
            await tx.mail.reopen_notices([number], PARENT.id, "again: ")
    assert store.mail.open.notices == {
        1: replace(pending, recipient=PARENT.id, text=f"again: {pending.text}")
    }
    async with await Store.open(path) as again:
        assert again.mail.open == store.mail.open


async def test_readdress_changes_the_recipient_of_a_notice(path: str, store: Store) -> None:
    await commit(store, lambda tx: tx.mail.add_notice(notice(1)))
    await done(store, lambda tx: tx.mail.readdress(notice(1), None))
    assert store.mail.open.notices == {1: notice(1, recipient=None)}
    async with await Store.open(path) as again:
        assert again.mail.open == store.mail.open


# ------------------------------------------------------------------------------------------------------ numbers


async def test_numbers_increase_and_are_unique_when_a_transaction_fails(path: str, store: Store) -> None:
    def broken(tx: Transaction) -> None:
        tx.mail.add_message(message(tx.mail.new_id("messages")), "never")
        raise IllegalState("no")

    def add(tx: Transaction) -> int:
        number = tx.mail.new_id("messages")
        tx.mail.add_message(message(number), "x")
        return number

    numbers = [await done(store, add)]
    outcomes = await asyncio.gather(
        done(store, add), done(store, broken), done(store, add), return_exceptions=True
    )
    numbers += [o for o in outcomes if isinstance(o, int)]
    with pytest.raises(IllegalState):
        await done(store, broken)
    assert numbers == sorted(set(numbers))
    assert len(numbers) == 3
    assert list(store.mail.open.messages) == numbers
    async with await Store.open(path) as again:
        assert again.mail.numbers["messages"] >= max(numbers)
        assert again.mail.numbers["requests"] == 0


async def test_number_is_not_used_again_when_its_request_is_final(path: str, store: Store) -> None:
    await done(store, lambda tx: tx.mail.add_request(request(41)))
    await done(store, lambda tx: tx.mail.change_request(request(41), state=RequestState.CANCELLED))
    async with await Store.open(path) as again:
        assert await done(again, lambda tx: tx.mail.new_id("requests")) == 42


# ------------------------------------------------------------------------------------------------------ removal


async def removable(store: Store) -> Session:
    """An ended session with rows in every table."""
    async with store.transaction() as tx:
        child = tx.session(CHILD.id)
        await tx.event(EventType.SPAWNED, child, AT, "Child aaaa2222 started", {})
        await tx.checkpoint(CHILD, Checkpoint(AT, "secret step", {}), "Child aaaa2222 - a step")
        tx.mail.add_message(message(1, state=MessageState.SUBMITTED), "secret letter")
        tx.mail.add_message(message(2, recipient=None, sender=CHILD.id), "what it told others")
        asked = replace(FULL_REQUEST, id=1, arguments={"command": "secret"})
        tx.mail.add_request(asked)
        tx.mail.change_request(asked, taken_at=AT)
        await tx.mail.add_notice(notice(1, text="secret ending"))
        tx.mail.finish_notices([notice(1)], "sent", 2)
        decision = decide(child.status, Signal(SignalKind.EXITED, "t", "exit code 0", AT))
        assert decision is not None
        changes = {"exit": Exit(0), "title": "secret title", "note": "secret note", "token_hash": "secret"}
        return await tx.apply(child, decision, **changes)


async def test_removed_session_is_gone_but_its_events_stay(path: str, store: Store) -> None:
    await removable(store)
    before = await store.events(sessions=None)
    await commit(store, lambda tx: tx.remove(tx.session(CHILD.id)))
    assert set(store.sessions) == {PARENT.id}
    with pytest.raises(NotFound):
        await done(store, lambda tx: tx.session(CHILD.id))
    assert await store.checkpoints(CHILD.id, 50) == []
    async with await Store.open(path) as again:
        assert set(again.sessions) == {PARENT.id}
        assert await again.events(sessions=None) == before
        assert again.last_seq == store.last_seq == len(before)
        assert again.mail.open == store.mail.open
        await commit(again, lambda tx: tx.event(EventType.NOTE, PARENT, AT, "and on", {}))
        assert again.last_seq == len(before) + 1


async def test_removal_erases_all_data_of_the_session(path: str, store: Store) -> None:
    ended = await removable(store)
    await commit(store, lambda tx: tx.remove(ended))
    with closing(sqlite3.connect(path)) as other, other:
        left = "\n".join(other.iterdump())
        row = other.execute("SELECT spawn_prompt, launch FROM sessions WHERE id = ?", (CHILD.id,)).fetchone()
    assert "what it told others" in left  # the recipient keeps the message
    assert "secret" not in left
    assert row == (None, "{}")  # no prompt and no environment


async def test_failed_removal_removes_nothing(store: Store) -> None:
    ended = await removable(store)

    async def unit(tx: Transaction) -> None:
        await tx.remove(ended)
        assert tx.find(CHILD.id) is None
        raise IllegalState("no")

    other = commit(store, lambda tx: tx.update(tx.session(PARENT.id), note="hello"))
    outcomes = await asyncio.gather(commit(store, unit), other, return_exceptions=True)
    assert [type(o) for o in outcomes] == [IllegalState, Session]
    assert set(store.sessions) == {PARENT.id, CHILD.id}
    assert await store.checkpoints(CHILD.id, 50) != []


async def test_removed_session_is_gone_for_later_transactions_of_the_same_commit(store: Store) -> None:
    ended = await removable(store)
    outcomes = await asyncio.gather(
        commit(store, lambda tx: tx.update(tx.session(CHILD.id), note="before")),
        commit(store, lambda tx: tx.remove(replace(ended, note="before"))),
        done(store, lambda tx: tx.session(CHILD.id)),
        done(store, lambda tx: [s.id for s in tx.unfinished_sessions()]),
        commit(store, all_ids),
        return_exceptions=True,
    )
    assert [type(o) for o in outcomes[:3]] == [Session, type(None), NotFound]
    assert outcomes[3] == outcomes[4] == [PARENT.id]
    assert set(store.sessions) == {PARENT.id}


# -------------------------------------------------------------------------------------------- memory and disk


class Walk:
    """Random transactions over a few sessions, chosen by `dice` alone."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._occasions = [f"idle:{n}" for n in range(12)]
        self.moves = [
            self._send, self._send, self._move, self._move, self._ask, self._change, self._note, self._note,
            self._send_notice, self._send_notice, self._reopen, self._readdress, self._effect, self._finish,
            self._update, self._timer, self._timer, self._budget, self._budget, self._warn,
        ]  # fmt: skip

    def _any(self, known: Mapping[int, T]) -> T | None:
        return self._dice.choice(list(known.values())) if known else None

    async def unit(self, tx: Transaction) -> None:
        for _ in range(self._dice.randint(1, 4)):
            await self._dice.choice(self.moves)(tx)
        if self._dice.random() < 0.2:
            raise IllegalState("no")

    async def _send(self, tx: Transaction) -> None:
        recipient = self._dice.choice([PARENT.id, CHILD.id, None])
        tx.mail.add_message(message(tx.mail.new_id("messages"), recipient), "x")

    async def _budget(self, tx: Transaction) -> None:
        subject = self._dice.choice([PARENT.id, CHILD.id, DAILY])
        match self._dice.randrange(6):
            case 0 | 1 | 2:
                tx.part(PART).put(Budget(subject, Amounts(self._dice.random(), 7), reports={CHILD.id: 3}))
            case 3:
                tx.part(PART).charge(tx.part(PART).binding(tx.session(CHILD.id)), Spent(0.5, 3, 1.5, 2))
            case _:
                tx.part(PART).remove(subject)

    async def _move(self, tx: Transaction) -> None:
        message_ = self._any(tx.mail.open.messages)
        if message_ is not None:
            state = self._dice.choice(list(MessageState))
            stale = (
                replace(message_, state=MessageState.DELIVERING) if self._dice.random() < 0.1 else message_
            )
            tx.mail.move_message(stale, state, LATER, reason=f"{state}", via="inbox")

    async def _ask(self, tx: Transaction) -> None:
        tx.mail.add_request(request(tx.mail.new_id("requests"), self._dice.choice([PARENT.id, CHILD.id])))

    async def _change(self, tx: Transaction) -> None:
        request_ = self._any(tx.mail.open.requests)
        if request_ is not None and request_.open:
            state = self._dice.choice(list(RequestState))
            tx.mail.change_request(
                request_, state=state, answer=Answer(True, ("x", "y")), answered_by="operator"
            )
        elif request_ is not None:
            tx.mail.change_request(request_, taken_at=LATER)

    async def _note(self, tx: Transaction) -> None:
        session_id, recipient = self._dice.choice([PARENT.id, CHILD.id]), self._dice.choice([PARENT.id, None])
        number = tx.mail.new_id("notices")
        await tx.mail.add_notice(
            notice(number, self._dice.choice(self._occasions), session_id, recipient=recipient)
        )

    async def _send_notice(self, tx: Transaction) -> None:
        notice_ = self._any(tx.mail.open.notices)
        if notice_ is not None:
            number = tx.mail.new_id("messages")
            tx.mail.add_message(message(number, notice_.recipient, sender="sm"), notice_.text)
            tx.mail.finish_notices([notice_], "sent", number)

    async def _reopen(self, tx: Transaction) -> None:
        chosen = [number for number in tx.mail.open.messages if self._dice.random() < 0.5]
        await tx.mail.reopen_notices(chosen, self._dice.choice([PARENT.id, None]))

    async def _readdress(self, tx: Transaction) -> None:
        notice_ = self._any(tx.mail.open.notices)
        if notice_ is not None:
            tx.mail.readdress(notice_, self._dice.choice([PARENT.id, None]))

    async def _effect(self, tx: Transaction) -> None:
        await tx.effect(EffectKind.START, self._dice.choice([PARENT.id, CHILD.id]), {"n": 1}, AT)

    async def _finish(self, tx: Transaction) -> None:
        effect = self._any(tx.mail.open.effects)
        if effect is not None and self._dice.random() < 0.5:
            await tx.take(effect)
        elif effect is not None:
            await tx.finish(effect, dead=self._dice.choice([None, "why"]))

    async def _timer(self, tx: Transaction) -> None:
        self._account(tx)
        self._pairing(tx)
        await self._telegram(tx)
        session_id = self._dice.choice([PARENT.id, CHILD.id])
        kind = self._dice.choice([CompletionTimer.COMPLETION, CompletionTimer.UNCLEAR])
        known = tx.timers.find(session_id, kind)
        if known is None or self._dice.random() < 0.3:
            tx.timers.set(Timer(session_id, kind, AT, data={"n": self._dice.random()}))
        elif self._dice.random() < 0.5:
            assert tx.timers.take(known)
        else:
            tx.timers.remove(session_id)

    async def _warn(self, tx: Transaction) -> None:
        session_id = self._dice.choice([PARENT.id, CHILD.id])
        kind = self._dice.choice([WarningKind.LOOP, WarningKind.BURN])
        known = tx.part(PART_OF_WARNINGS).find(session_id, kind)
        if known is None:
            number = tx.mail.new_id("warnings")
            tx.part(PART_OF_WARNINGS).add(
                SessionWarning(number, session_id, kind, AT, 3, 2.5, "why", told=False, nudge=7)
            )
        elif self._dice.random() < 0.5:
            tx.part(PART_OF_WARNINGS).change(known, told=True, value=self._dice.random())
        else:
            tx.part(PART_OF_WARNINGS).change(known, closed_at=LATER)

    def _account(self, tx: Transaction) -> None:
        part = tx.part(accounts.PART)
        part.put(Account("a", "claude", "/c", "d", f"{self._dice.random()}"))
        part.park(Park(ParkKind.QUOTA, "x", self._dice.random(), model="opus", account="a"))
        if self._dice.random() < 0.5:
            part.park(Park(ParkKind.LOGIN, "y", self._dice.random(), account="a"))
            part.unpark(part.parks("a")[""])

    def _pairing(self, tx: Transaction) -> None:
        part = tx.part(pairing.PART)
        part.put(replace(golden.PAIRING, user="telegram:1", label=f"{self._dice.random()}"))
        request = replace(golden.PAIR_REQUEST, id=part.new_id())
        part.put_request(request)
        match self._dice.choice(["remove", "decide", "none"]):
            case "remove":
                part.put(golden.PAIRING)
                part.remove(golden.PAIRING.user)
                part.remove_request(request)
            case "decide":
                part.put_request(replace(request, state=PairState.APPROVED))
            case _:
                pass

    async def _telegram(self, tx: Transaction) -> None:
        subject = self._dice.choice([None, "progress"])
        new = NewCall(7, BotMethod.SEND_MESSAGE, {"text": f"{self._dice.random()}"}, subject=subject)
        await tx.telegram.queue(new)
        call = self._any(tx.mail.open.outgoing)
        number = self._dice.randrange(5)
        tx.telegram_texts.put(replace(golden.TEXT, id=number, is_told=self._dice.random() < 0.5))
        tx.telegram_texts.remove(self._dice.randrange(5))
        match self._dice.choice(["begin", "again", "finish", "drop", "none"]) if call else "none":
            case "begin" if call:
                tx.telegram.begin(call)
            case "again" if call:
                tx.telegram.again(call, lost_answers=1)
            case "finish" if call:
                tx.telegram.finish(call, 1, None)
            case "drop" if call:
                tx.telegram.drop(call, "why")

    async def _update(self, tx: Transaction) -> None:
        stale = replace(tx.session(CHILD.id), status=Status.KILLED)
        fails = self._dice.random() < 0.2  # on commit, because the row differs from the expected row
        await tx.update(stale if fails else tx.session(CHILD.id), note=f"{self._dice.random()}")


async def reopened(path: str, copy: str) -> Open:
    """The open items that a start after a kill would load."""
    for end in ("", "-wal"):
        shutil.copyfile(path + end, copy + end)
    async with await Store.open(copy) as again:
        loaded = again.mail.open
    for end in ("", "-wal", "-shm"):
        Path(copy + end).unlink(missing_ok=True)
    return loaded


@pytest.mark.parametrize("seed", range(8))
async def test_open_items_in_memory_equal_the_items_loaded_after_a_restart(
    path: str, store: Store, seed: int
) -> None:
    dice = random.Random(seed)
    walk = Walk(dice)
    failed, seen = 0, set[str]()
    for step in range(40):
        units = (commit(store, walk.unit) for _ in range(dice.choice([1, 1, 2, 3, 7])))
        outcomes = await asyncio.gather(*units, return_exceptions=True)
        assert all(o is None or isinstance(o, IllegalState) for o in outcomes), outcomes
        failed += sum(o is not None for o in outcomes)
        if step % 5 == 4:
            assert store.mail.open == await reopened(path, f"{path}.{step}")
        seen |= {f.name for f in fields(Open) if getattr(store.mail.open, f.name)}
        for known in (store.mail.open.messages, store.mail.open.requests, store.mail.open.effects):
            assert list(known) == sorted(known)
        open = list(store.mail.open.messages.values())
        for recipient in (PARENT.id, CHILD.id, None):
            waiting = [m for m in open if m.session_id == recipient and m.state is MessageState.QUEUED]
            assert list(store.mail.queued().get(recipient, ())) == waiting
    assert failed > 5
    assert seen == {f.name for f in fields(Open)}


async def test_reopened_notice_has_the_same_order_as_after_a_restart(path: str, store: Store) -> None:
    await commit(store, lambda tx: tx.mail.add_notice(notice(1)))
    async with store.transaction() as tx:
        tx.mail.add_message(message(1, sender="sm", recipient=PARENT.id), "x")
        tx.mail.finish_notices([notice(1)], "sent", 1)
        await tx.mail.add_notice(notice(2, "idle:1"))
        await tx.mail.reopen_notices([1], None)
    assert list(store.mail.open.notices) == list((await reopened(path, f"{path}.copy")).notices)


async def test_open_notice_about_a_removed_session_is_kept_after_a_restart(path: str, store: Store) -> None:
    ended = await removable(store)
    await commit(store, lambda tx: tx.mail.add_notice(notice(2, "ending:2")))
    await commit(store, lambda tx: tx.remove(ended))
    assert (await reopened(path, f"{path}.copy")).notices == store.mail.open.notices


@pytest.mark.parametrize("table", ["requests", "outbox"])
async def test_removal_erases_text_of_the_session_in_table(path: str, store: Store, table: str) -> None:
    ended = await removable(store)
    async with store.transaction() as tx:
        proposed = request(2, kind=RequestKind.COMPLETION, questions=(), reason="secret words")
        tx.mail.add_request(proposed)
        tx.mail.change_request(proposed, state=RequestState.CANCELLED)
        await tx.effect(EffectKind.WEBHOOK, CHILD.id, {"body": {"text": "secret words"}}, AT)
    await commit(store, lambda tx: tx.finish(store.effects.get_nowait()))
    await commit(store, lambda tx: tx.remove(ended))
    with closing(sqlite3.connect(path)) as other, other:
        rows = other.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608 - constant names
    assert "secret" not in str(rows)


async def test_launch_raises_not_found_when_session_is_removed(store: Store) -> None:
    ended = await removable(store)
    await commit(store, lambda tx: tx.remove(ended))
    with pytest.raises(NotFound):
        await store.launch(CHILD.id)


async def test_changed_returns_when_the_message_is_added(store: Store) -> None:
    waiting = asyncio.create_task(store.wait_until(lambda: 1 in store.mail.open.messages))
    await done(store, lambda tx: tx.mail.add_message(message(2), "x"))
    assert not waiting.done()
    await done(store, lambda tx: tx.mail.add_message(message(1), "x"))
    await waiting


async def test_effect_is_open_until_finished(store: Store) -> None:
    await commit(store, lambda tx: tx.effect(EffectKind.START, CHILD.id, {}, AT))
    effect = store.effects.get_nowait()
    assert await done(store, lambda tx: tx.has_open(EffectKind.START, CHILD.id))
    assert not await done(store, lambda tx: tx.has_open(EffectKind.KILL, CHILD.id))
    assert not await done(store, lambda tx: tx.has_open(EffectKind.START, PARENT.id))
    await commit(store, lambda tx: tx.take(effect))
    assert await done(store, lambda tx: tx.has_open(EffectKind.START, CHILD.id))
    await commit(store, lambda tx: tx.finish(effect))
    assert not await done(store, lambda tx: tx.has_open(EffectKind.START, CHILD.id))


# ------------------------------------------------------------------------------------------ older databases


def version(path: str) -> int:
    with closing(sqlite3.connect(path)) as other, other:
        return int(other.execute("PRAGMA user_version").fetchone()[0])


async def test_database_of_version_10_is_migrated_after_a_backup(path: str) -> None:
    shutil.copy(GOLDEN / "v10.db", path)
    async with await Store.open(path) as store:
        assert store.sessions["aaaa1111"] == golden.RUNNING
        assert store.workspaces["night"] == golden.SUPERVISED
        assert store.mail.open.messages == {1: golden.MESSAGE}
        assert store.mail.open.requests == {1: golden.OFFERED, 3: golden.FOUND}
        assert await store.mail.request(2) == golden.RULED
        assert store.mail.open.timers == {timer.key: timer for timer in golden.TIMERS}
    assert version(path) == max(MIGRATIONS)
    assert backups(path) == [f"{path}.v10.backup"]
    assert version(f"{path}.v10.backup") == 10
    with closing(sqlite3.connect(f"{path}.v10.backup")) as other, other:
        assert other.execute("SELECT id, status FROM sessions ORDER BY id").fetchall() == [
            ("aaaa1111", "running"),
            ("aaaa2222", "completed"),
            ("aaaa3333", "spawned"),
            ("aaaa4444", "idle"),
        ]


async def test_migration_replaces_backup_of_a_failed_attempt(path: str) -> None:
    shutil.copy(GOLDEN / "v10.db", path)
    Path(f"{path}.v10.backup").write_bytes(b"half of it")
    async with await Store.open(path):
        pass
    assert version(f"{path}.v10.backup") == 10


async def test_transaction_rejected_by_the_database_does_not_affect_others(store: Store) -> None:
    async def refused(tx: Transaction) -> None:
        tx.mail.add_message(message(5, recipient="ffffffff"), "to nobody that is known")

    outcomes = await asyncio.gather(
        commit(store, refused),
        done(store, lambda tx: tx.mail.add_message(message(6), "x")),
        return_exceptions=True,
    )
    assert isinstance(outcomes[0], InternalError)
    assert outcomes[1] is None
    assert set(store.mail.open.messages) == {6}


async def test_request_is_found_by_the_key_of_its_hook(store: Store) -> None:
    offered = replace(golden.OFFERED, session_id=PARENT.id)
    await done(store, lambda tx: tx.mail.add_request(offered))
    assert await store.mail.request_of_hook("6b1f0c2d") == offered
    assert await store.mail.request_of_hook("none") is None

    async def settle(tx: Transaction) -> Request | None:
        assert await tx.mail.request_of_hook("6b1f0c2d") == offered
        tx.mail.change_request(offered, state=RequestState.ANSWERED, taken_at=LATER)
        return await tx.mail.request_of_hook("6b1f0c2d")

    settled = await commit(store, settle)
    assert settled == replace(offered, state=RequestState.ANSWERED, taken_at=LATER)
    assert store.mail.open.requests == {}
    assert await store.mail.request_of_hook("6b1f0c2d") == settled
    assert await commit(store, lambda tx: tx.mail.request_of_hook("6b1f0c2d")) == settled


async def test_request_of_hook_query_uses_an_index(path: str, store: Store) -> None:
    with closing(sqlite3.connect(path)) as db:
        plan = db.execute("EXPLAIN QUERY PLAN SELECT id FROM requests WHERE hook = ?", ("x",)).fetchall()
    assert "requests_of_hooks" in str(plan)
