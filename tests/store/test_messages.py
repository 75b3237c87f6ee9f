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
from sm.errors import IllegalState, InternalError, NotFound
from sm.store import Effect, Open, Store, Transaction, backups
from sm.store.migrations import MIGRATIONS
from tests import golden
from tests.load import scaled
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


async def done(store: Store, what: Callable[[Transaction], T]) -> T:
    """Run what does not wait as a unit of its own."""
    async with store.transaction() as tx:
        return what(tx)


def message(number: int, recipient: str | None = CHILD.id, **changes: Any) -> Message:
    made = Message(number, recipient, "operator", MessageMode.AUTO, MessageState.QUEUED, AT, AT)
    return replace(made, **changes)


def request(number: int, who: str = CHILD.id, **changes: Any) -> Request:
    made = Request(
        number,
        who,
        RequestKind.QUESTION,
        RequestState.OPEN,
        AT,
        AT,
        questions=(Question("which?", ("this", "thät")), Question("why?")),
    )
    return replace(made, **changes)


def notice(number: int, occasion: str = "ending:1", who: str = CHILD.id, **changes: Any) -> Notice:
    return replace(
        Notice(number, who, PARENT.id, NoticeKind.ENDING, occasion, "child x cömpleted", AT), **changes
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


# ------------------------------------------------------------------------------------- written and read back


async def test_everything_about_mail_comes_back_after_a_restart(path: str) -> None:
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


async def test_what_is_final_is_read_from_the_database_and_open_no_more(store: Store) -> None:
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


async def test_what_is_not_there_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound, match="no such message: 57"):
        await store.mail.message(57)
    with pytest.raises(NotFound, match="no such request: r57"):
        await store.mail.request(57)
    with pytest.raises(NotFound, match="no such message: 57"):
        await commit(store, lambda tx: tx.mail.message(57))
    with pytest.raises(NotFound, match="no such request: r57"):
        await commit(store, lambda tx: tx.mail.request(57))
    assert await store.mail.texts([57]) == {}


async def test_messages_are_listed_newest_last_by_whom_they_concern(store: Store) -> None:
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


async def test_values_of_a_newer_version_lose_no_mail(path: str, store: Store) -> None:
    def add(tx: Transaction) -> None:
        tx.mail.add_message(message(1), "x")
        tx.mail.add_request(FULL_REQUEST)

    await done(store, add)
    await commit(store, lambda tx: tx.mail.add_notice(notice(1)))
    with sqlite3.connect(path) as other:
        other.execute("UPDATE messages SET mode = 'telepathy'")
        other.execute(
            "UPDATE requests SET kind = 'wish', questions = 'no json', answer = '[', arguments = '3'"
        )
        other.execute("UPDATE notices SET kind = 'omen'")
    async with await Store.open(path) as again:
        assert again.mail.open.messages[1].mode == "telepathy"
        found = again.mail.open.requests[9]
        assert (found.kind, found.questions, found.arguments) == ("wish", (), {})
        assert found.answer == Answer(False)  # never an approval
        assert again.mail.open.notices[1].kind == "omen"


# ------------------------------------------------------------------------------------------ one move at a time


async def test_a_second_move_of_the_same_message_fails_and_undoes_its_unit(store: Store) -> None:
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
    assert "number 1 of messages is not queued any more" in outcomes[1].message
    assert list(store.mail.open.requests) == [5]
    assert await store.mail.message(1) == replace(
        first, state=MessageState.DELIVERING, state_at=AT, via="inbox"
    )


async def test_a_message_moved_by_somebody_else_is_not_moved(store: Store, path: str) -> None:
    await done(store, lambda tx: tx.mail.add_message(message(1), "x"))
    with sqlite3.connect(path) as other:
        other.execute("UPDATE messages SET state = 'expired'")
    with pytest.raises(IllegalState):
        await done(store, lambda tx: tx.mail.move_message(message(1), MessageState.SUBMITTED, LATER))
    assert store.mail.open.messages == {1: message(1)}


async def test_the_second_answer_to_a_request_fails(store: Store) -> None:
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


async def test_a_move_that_changes_nothing_is_no_write(store: Store) -> None:
    gone = message(57)  # not in the database: an UPDATE would fail
    assert await done(store, lambda tx: tx.mail.move_message(gone, MessageState.QUEUED, AT)) == gone


# ------------------------------------------------------------------------------------------------------ notices


async def test_an_occasion_is_noted_once_whoever_finds_out_about_it(store: Store) -> None:
    outcomes = tuple(
        await asyncio.gather(
            commit(store, lambda tx: tx.mail.add_notice(notice(1))),
            commit(store, lambda tx: tx.mail.add_notice(notice(2, recipient=None, text="again"))),
            commit(store, lambda tx: tx.mail.add_notice(notice(3, "ending:2"))),
            commit(store, lambda tx: tx.mail.add_notice(notice(4, who=PARENT.id))),
        )
    )
    assert outcomes == (True, False, True, True)
    assert list(store.mail.open.notices) == [1, 3, 4]


@pytest.mark.parametrize("state", ["sent", "heard", "dropped"])
async def test_an_occasion_that_is_settled_is_not_noted_again(store: Store, state: str) -> None:
    await commit(store, lambda tx: tx.mail.add_notice(notice(1)))
    await done(store, lambda tx: tx.mail.finish_notices([notice(1)], state))
    assert store.mail.open.notices == {}
    assert not await commit(store, lambda tx: tx.mail.add_notice(notice(2)))
    assert store.mail.open.notices == {}


async def test_the_database_itself_refuses_a_second_notice_of_one_occasion(store: Store, path: str) -> None:
    await commit(store, lambda tx: tx.mail.add_notice(notice(1)))
    with sqlite3.connect(path) as other, pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        other.execute(
            "INSERT INTO notices (session_id, kind, occasion, text, created_at)"
            " SELECT session_id, kind, occasion, text, created_at FROM notices"
        )


async def test_what_a_message_would_have_told_is_told_to_the_heir(path: str, store: Store) -> None:
    told, other, free = notice(1), notice(2, "idle:1"), notice(3, "idle:2")
    async with store.transaction() as tx:
        for each in (told, other, free):
            assert await tx.mail.add_notice(each)
        for number, each in ((10, told), (11, other)):
            tx.mail.add_message(message(number, sender="sm", recipient=PARENT.id), each.text)
            tx.mail.finish_notices([each], "sent", number)
    assert store.mail.open.notices == {3: free}
    await commit(store, lambda tx: tx.mail.reopen_notices([10], None))
    assert store.mail.open.notices == {1: replace(told, recipient=None), 3: free}
    await commit(store, lambda tx: tx.mail.reopen_notices([10], PARENT.id))  # no message holds it any more
    await commit(store, lambda tx: tx.mail.reopen_notices([], None))
    assert store.mail.open.notices == {1: replace(told, recipient=None), 3: free}
    async with await Store.open(path) as again:
        assert again.mail.open == store.mail.open


async def test_a_notice_may_get_another_recipient(path: str, store: Store) -> None:
    await commit(store, lambda tx: tx.mail.add_notice(notice(1)))
    await done(store, lambda tx: tx.mail.readdress(notice(1), None))
    assert store.mail.open.notices == {1: notice(1, recipient=None)}
    async with await Store.open(path) as again:
        assert again.mail.open == store.mail.open


# ------------------------------------------------------------------------------------------------------ numbers


async def test_numbers_rise_and_what_a_failed_unit_took_is_not_given_twice(path: str, store: Store) -> None:
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


async def test_a_number_is_not_used_again_when_what_had_it_is_final(path: str, store: Store) -> None:
    await done(store, lambda tx: tx.mail.add_request(request(41)))
    await done(store, lambda tx: tx.mail.change_request(request(41), state=RequestState.CANCELLED))
    async with await Store.open(path) as again:
        assert await done(again, lambda tx: tx.mail.new_id("requests")) == 42


# ------------------------------------------------------------------------------------------------------ removal


async def removable(store: Store) -> Session:
    """A session that has ended, about which something is in every table."""
    async with store.transaction() as tx:
        at_work = tx.session(CHILD.id)
        await tx.event(EventType.SPAWNED, at_work, AT, "Child aaaa2222 started", {})
        await tx.checkpoint(CHILD.id, Checkpoint(AT, "secret step", {}))
        tx.mail.add_message(message(1, state=MessageState.SUBMITTED), "secret letter")
        tx.mail.add_message(message(2, recipient=None, sender=CHILD.id), "what it told others")
        asked = replace(FULL_REQUEST, id=1, arguments={"command": "secret"})
        tx.mail.add_request(asked)
        tx.mail.change_request(asked, taken_at=AT)
        await tx.mail.add_notice(notice(1, text="secret ending"))
        tx.mail.finish_notices([notice(1)], "sent", 2)
        decision = decide(at_work.status, Signal(SignalKind.EXITED, "t", "exit code 0", AT))
        assert decision is not None
        changes = {"exit": Exit(0), "title": "secret title", "note": "secret note", "token_hash": "secret"}
        return await tx.apply(at_work, decision, **changes)


async def test_a_removed_session_is_gone_but_its_events_and_their_numbers_stay(
    path: str, store: Store
) -> None:
    await removable(store)
    before = await store.events(sessions=None)
    await commit(store, lambda tx: tx.remove(tx.session(CHILD.id)))
    assert set(store.sessions) == {PARENT.id}
    with pytest.raises(NotFound):
        await done(store, lambda tx: tx.session(CHILD.id))
    assert await store.checkpoints(CHILD.id) == []
    async with await Store.open(path) as again:
        assert set(again.sessions) == {PARENT.id}
        assert await again.events(sessions=None) == before
        assert again.last_seq == store.last_seq == len(before)
        assert again.mail.open == store.mail.open
        await commit(again, lambda tx: tx.event(EventType.NOTE, PARENT, AT, "and on", {}))
        assert again.last_seq == len(before) + 1


async def test_nothing_that_a_removed_session_had_can_be_read_again(path: str, store: Store) -> None:
    ended = await removable(store)
    await commit(store, lambda tx: tx.remove(ended))
    with sqlite3.connect(path) as other:
        left = "\n".join(other.iterdump())
        row = other.execute("SELECT spawn_prompt, launch FROM sessions WHERE id = ?", (CHILD.id,)).fetchone()
    assert "what it told others" in left  # those still have it
    assert "secret" not in left
    assert row == (None, "{}")  # neither its prompt nor its environment


async def test_a_removal_that_fails_removes_nothing(store: Store) -> None:
    ended = await removable(store)

    async def unit(tx: Transaction) -> None:
        await tx.remove(ended)
        assert tx.find(CHILD.id) is None
        raise IllegalState("no")

    company = commit(store, lambda tx: tx.update(tx.session(PARENT.id), note="hello"))
    outcomes = await asyncio.gather(commit(store, unit), company, return_exceptions=True)
    assert [type(o) for o in outcomes] == [IllegalState, Session]
    assert set(store.sessions) == {PARENT.id, CHILD.id}
    assert await store.checkpoints(CHILD.id) != []


async def test_a_session_removed_in_a_commit_is_gone_for_the_units_after_it(store: Store) -> None:
    ended = await removable(store)
    outcomes = await asyncio.gather(
        commit(store, lambda tx: tx.update(tx.session(CHILD.id), note="before")),
        commit(store, lambda tx: tx.remove(replace(ended, note="before"))),
        done(store, lambda tx: tx.session(CHILD.id)),
        done(store, lambda tx: [s.id for s in tx.all_sessions()]),
        return_exceptions=True,
    )
    assert [type(o) for o in outcomes[:3]] == [Session, type(None), NotFound]
    assert outcomes[3] == [PARENT.id]
    assert set(store.sessions) == {PARENT.id}


# --------------------------------------------------------------------------------- what is in memory, and on disk


class Walk:
    """Random units of work over a few sessions: what they do is decided by `dice` alone."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._occasions = [f"idle:{n}" for n in range(12)]
        self.moves = [
            self._send, self._send, self._move, self._move, self._ask, self._change, self._note, self._note,
            self._tell, self._tell, self._untell, self._readdress, self._effect, self._finish, self._update,
        ]  # fmt: skip

    def _one(self, known: Mapping[int, T]) -> T | None:
        return self._dice.choice(list(known.values())) if known else None

    async def unit(self, tx: Transaction) -> None:
        for _ in range(self._dice.randint(1, 4)):
            await self._dice.choice(self.moves)(tx)
        if self._dice.random() < 0.2:
            raise IllegalState("no")

    async def _send(self, tx: Transaction) -> None:
        recipient = self._dice.choice([PARENT.id, CHILD.id, None])
        tx.mail.add_message(message(tx.mail.new_id("messages"), recipient), "x")

    async def _move(self, tx: Transaction) -> None:
        found = self._one(tx.mail.open.messages)
        if found is not None:
            state = self._dice.choice(list(MessageState))
            stale = replace(found, state=MessageState.DELIVERING) if self._dice.random() < 0.1 else found
            tx.mail.move_message(stale, state, LATER, reason=f"{state}", via="inbox")

    async def _ask(self, tx: Transaction) -> None:
        tx.mail.add_request(request(tx.mail.new_id("requests"), self._dice.choice([PARENT.id, CHILD.id])))

    async def _change(self, tx: Transaction) -> None:
        found = self._one(tx.mail.open.requests)
        if found is not None and found.open:
            state = self._dice.choice(list(RequestState))
            tx.mail.change_request(
                found, state=state, answer=Answer(True, ("x", "y")), answered_by="operator"
            )
        elif found is not None:
            tx.mail.change_request(found, taken_at=LATER)

    async def _note(self, tx: Transaction) -> None:
        who, recipient = self._dice.choice([PARENT.id, CHILD.id]), self._dice.choice([PARENT.id, None])
        number = tx.mail.new_id("notices")
        await tx.mail.add_notice(notice(number, self._dice.choice(self._occasions), who, recipient=recipient))

    async def _tell(self, tx: Transaction) -> None:
        found = self._one(tx.mail.open.notices)
        if found is not None:
            number = tx.mail.new_id("messages")
            tx.mail.add_message(message(number, found.recipient, sender="sm"), found.text)
            tx.mail.finish_notices([found], "sent", number)

    async def _untell(self, tx: Transaction) -> None:
        chosen = [number for number in tx.mail.open.messages if self._dice.random() < 0.5]
        await tx.mail.reopen_notices(chosen, self._dice.choice([PARENT.id, None]))

    async def _readdress(self, tx: Transaction) -> None:
        found = self._one(tx.mail.open.notices)
        if found is not None:
            tx.mail.readdress(found, self._dice.choice([PARENT.id, None]))

    async def _effect(self, tx: Transaction) -> None:
        await tx.effect(EffectKind.START, self._dice.choice([PARENT.id, CHILD.id]), {"n": 1}, AT)

    async def _finish(self, tx: Transaction) -> None:
        found = self._one(tx.mail.open.effects)
        if found is not None and self._dice.random() < 0.5:
            await tx.take(found)
        elif found is not None:
            await tx.finish(found, dead=self._dice.choice([None, "why"]))

    async def _update(self, tx: Transaction) -> None:
        stale = replace(tx.session(CHILD.id), status=Status.KILLED)
        fails = (
            self._dice.random() < 0.2
        )  # at the end of the unit, when the row is not as it was thought to be
        await tx.update(stale if fails else tx.session(CHILD.id), note=f"{self._dice.random()}")


async def reopened(path: str, copy: str) -> Open:
    """What a start after a kill would find."""
    for end in ("", "-wal"):
        shutil.copyfile(path + end, copy + end)
    async with await Store.open(copy) as again:
        found = again.mail.open
    for end in ("", "-wal", "-shm"):
        Path(copy + end).unlink(missing_ok=True)
    return found


@pytest.mark.parametrize("seed", range(8))
async def test_what_is_open_in_memory_is_what_a_restart_would_load(
    path: str, store: Store, seed: int
) -> None:
    dice = random.Random(seed)
    walk = Walk(dice)
    failed, seen = 0, set[str]()
    for step in range(25):
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


async def test_a_notice_that_is_to_be_told_again_stands_where_a_restart_would_put_it(
    path: str, store: Store
) -> None:
    await commit(store, lambda tx: tx.mail.add_notice(notice(1)))
    async with store.transaction() as tx:
        tx.mail.add_message(message(1, sender="sm", recipient=PARENT.id), "x")
        tx.mail.finish_notices([notice(1)], "sent", 1)
        await tx.mail.add_notice(notice(2, "idle:1"))
        await tx.mail.reopen_notices([1], None)
    assert list(store.mail.open.notices) == list((await reopened(path, f"{path}.copy")).notices)


async def test_what_is_still_to_be_told_of_a_removed_session_is_told_after_a_restart_too(
    path: str, store: Store
) -> None:
    ended = await removable(store)
    await commit(store, lambda tx: tx.mail.add_notice(notice(2, "ending:2")))
    await commit(store, lambda tx: tx.remove(ended))
    assert (await reopened(path, f"{path}.copy")).notices == store.mail.open.notices


@pytest.mark.parametrize("table", ["requests", "outbox"])
async def test_no_words_of_a_removed_session_stay(path: str, store: Store, table: str) -> None:
    ended = await removable(store)
    async with store.transaction() as tx:
        proposed = request(2, kind=RequestKind.COMPLETION, questions=(), reason="secret words")
        tx.mail.add_request(proposed)
        tx.mail.change_request(proposed, state=RequestState.CANCELLED)
        await tx.effect(EffectKind.WEBHOOK, CHILD.id, {"body": {"text": "secret words"}}, AT)
    await commit(store, lambda tx: tx.finish(store.effects.get_nowait()))
    await commit(store, lambda tx: tx.remove(ended))
    with sqlite3.connect(path) as other:
        rows = other.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608 - names of ours
    assert "secret" not in str(rows)


async def test_a_removed_session_has_no_launch(store: Store) -> None:
    ended = await removable(store)
    await commit(store, lambda tx: tx.remove(ended))
    with pytest.raises(NotFound):
        await store.launch(CHILD.id)


async def test_a_reader_waits_for_what_changes_in_the_mail_only(store: Store) -> None:
    waiting = asyncio.create_task(store.changed(lambda: 1 in store.mail.open.messages))
    await done(store, lambda tx: tx.mail.add_message(message(2), "x"))
    assert not waiting.done()
    await done(store, lambda tx: tx.mail.add_message(message(1), "x"))
    async with asyncio.timeout(scaled()):
        await waiting


async def test_effects_are_open_until_they_are_finished(store: Store) -> None:
    await commit(store, lambda tx: tx.effect(EffectKind.START, CHILD.id, {}, AT))
    effect = store.effects.get_nowait()
    assert await done(store, lambda tx: tx.has_open(EffectKind.START, CHILD.id))
    assert not await done(store, lambda tx: tx.has_open(EffectKind.KILL, CHILD.id))
    assert not await done(store, lambda tx: tx.has_open(EffectKind.START, PARENT.id))
    await commit(store, lambda tx: tx.take(effect))
    assert await done(store, lambda tx: tx.has_open(EffectKind.START, CHILD.id))
    await commit(store, lambda tx: tx.finish(effect))
    assert not await done(store, lambda tx: tx.has_open(EffectKind.START, CHILD.id))


# -------------------------------------------------------------------------------------- databases of other days


def version(path: str) -> int:
    with sqlite3.connect(path) as other:
        found = other.execute("PRAGMA user_version").fetchone()
    return int(found[0])


async def test_the_first_database_ever_shipped_gets_mail_after_a_backup(path: str) -> None:
    Path(path).write_bytes((GOLDEN / "v1.db").read_bytes())
    async with await Store.open(path) as store:
        assert store.mail.open.messages == {}
        assert [(e.id, e.kind) for e in store.mail.open.effects.values()] == [(1, "start")]
        await done(
            store, lambda tx: tx.mail.add_message(message(tx.mail.new_id("messages"), "aaaa1111"), "x")
        )
        await commit(store, lambda tx: tx.mail.add_notice(notice(1, who="aaaa2222")))
        assert store.mail.open.messages == {1: message(1, "aaaa1111")}
    assert version(path) == len(MIGRATIONS)
    assert sorted(backups(path)) == [f"{path}.v{n}.backup" for n in range(1, len(MIGRATIONS))]
    assert version(f"{path}.v1.backup") == 1
    with sqlite3.connect(f"{path}.v1.backup") as other:
        assert other.execute("SELECT id, status FROM sessions ORDER BY id").fetchall() == [
            ("aaaa1111", "running"),
            ("aaaa2222", "completed"),
        ]


async def test_a_backup_of_an_attempt_that_failed_is_written_anew(path: str) -> None:
    Path(path).write_bytes((GOLDEN / "v1.db").read_bytes())
    Path(f"{path}.v1.backup").write_bytes(b"half of it")
    async with await Store.open(path):
        pass
    assert version(f"{path}.v1.backup") == 1


async def test_the_database_of_version_2_still_opens(path: str) -> None:
    Path(path).write_bytes((GOLDEN / "v2.db").read_bytes())
    async with await Store.open(path) as store:
        assert store.instance == "5d0f2c57-0c5b-4b57-8a55-2a2b1f0e9c22"
        assert {s.id: s.status for s in store.sessions.values()} == {
            "aaaa1111": Status.RUNNING,
            "aaaa2222": Status.COMPLETED,
        }
        assert store.mail.open.messages == {
            2: message(2, expires_at=LATER, reason="it has not taken it yet"),
            3: message(3, "aaaa1111", sender="sm"),
        }
        assert store.mail.open.requests == {1: request(1, expires_at=LATER), 2: replace(FULL_REQUEST, id=2)}
        assert store.mail.open.notices == {2: notice(2, "request:1", kind=NoticeKind.REQUEST)}
        assert await store.mail.message(1) == replace(FULL_MESSAGE, id=1, state=MessageState.SUBMITTED)
        assert await store.mail.texts([1, 2, 3, 4]) == {
            1: "done with it",
            2: "päth\n\tand more",
            3: "child x cömpleted",
            4: "",
        }
        assert [(e.id, e.kind) for e in store.mail.open.effects.values()] == [(1, "close")]
        assert [e.message for e in await store.events(sessions=["aaaa3333"])] == ["Child aaaa3333 started"]
        assert store.last_seq == 3
        assert await store.mail.lost() == 0
        # What is numbered next has no number of before.
        assert [store.mail.numbers[t] for t in ("messages", "requests", "notices", "outbox")] == [4, 2, 2, 1]
    assert sorted(backups(path)) == [f"{path}.v{n}.backup" for n in range(2, len(MIGRATIONS))]


async def test_a_unit_that_the_database_refuses_takes_no_other_with_it(store: Store) -> None:
    async def refused(tx: Transaction) -> None:
        tx.mail.add_message(message(5, recipient="ffffffff"), "to nobody that is known")

    both = await asyncio.gather(
        commit(store, refused),
        done(store, lambda tx: tx.mail.add_message(message(6), "x")),
        return_exceptions=True,
    )
    assert isinstance(both[0], InternalError)
    assert both[1] is None
    assert set(store.mail.open.messages) == {6}


async def test_the_database_of_version_5_still_opens(path: str) -> None:
    shutil.copy(GOLDEN / "v5.db", path)
    async with await Store.open(path) as store:
        assert store.mail.open.requests == {1: golden.OFFERED}
        assert await store.mail.request(2) == golden.RULED
    assert sorted(backups(path)) == [f"{path}.v{n}.backup" for n in range(5, len(MIGRATIONS))]


async def test_a_request_is_found_by_the_key_of_its_hook(store: Store) -> None:
    made = replace(golden.OFFERED, session_id=PARENT.id)
    await done(store, lambda tx: tx.mail.add_request(made))
    assert await store.mail.request_of_hook("6b1f0c2d") == made
    assert await store.mail.request_of_hook("none") is None

    async def settle(tx: Transaction) -> Request | None:
        found = await tx.mail.request_of_hook("6b1f0c2d")
        assert found == made
        tx.mail.change_request(made, state=RequestState.ANSWERED, taken_at=LATER)
        return await tx.mail.request_of_hook("6b1f0c2d")

    settled = await commit(store, settle)
    assert settled == replace(made, state=RequestState.ANSWERED, taken_at=LATER)
    assert store.mail.open.requests == {}
    assert await store.mail.request_of_hook("6b1f0c2d") == settled
    assert await commit(store, lambda tx: tx.mail.request_of_hook("6b1f0c2d")) == settled


async def test_a_hook_is_found_by_its_index(path: str, store: Store) -> None:
    with closing(sqlite3.connect(path)) as db:
        plan = db.execute("EXPLAIN QUERY PLAN SELECT id FROM requests WHERE hook = ?", ("x",)).fetchall()
    assert "requests_of_hooks" in str(plan)
