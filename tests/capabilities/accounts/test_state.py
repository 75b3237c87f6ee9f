"""Parking accounts and letting their sessions go on, on a real SQLite file."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from sm.capabilities.accounts.listeners import FaultParks
from sm.capabilities.accounts.model import Account, AccountTimer, Park, ParkKind
from sm.capabilities.accounts.state import GO_ON, record_success, release, try_again
from sm.capabilities.accounts.tables import PART
from sm.config import Config
from sm.config.model import RetrySettings
from sm.core.faults import Fault, FaultKind
from sm.core.messages import Message
from sm.core.models import Signal
from sm.core.observation import Source
from sm.core.states import MessageMode, MessageState, NoticeKind, SignalKind
from sm.core.statuses import Status
from sm.core.timestamps import iso
from sm.state.faults import Faults
from sm.state.notices import Notices
from sm.state.part_holds import postponed
from sm.state.session_steps import move
from sm.store import Store
from tests.samples import LAUNCH, commit, session

START_S = 1_795_608_000.0
ACCOUNT = Account("claude-1a2b3c4d", "claude", "/c", "d" * 32)
SESSIONS = [
    replace(session(f"{name}aaa1111", status=Status.IDLE), account=ACCOUNT.name, model="claude-opus-4-8")
    for name in "abcd"
]
A, B, C, D = (s.id for s in SESSIONS)


BUSY = Signal(SignalKind.BUSY, "hook", "a turn began", iso(START_S + 2))

CONFIG = Config(retry=RetrySettings(max=0))
FAULTS = Faults(CONFIG, Notices(CONFIG), {})
FAULTS.followers.append(FaultParks())


class Clock:
    now_s = START_S

    def __call__(self) -> str:
        return iso(self.now_s)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def store(tmp_path: Path, clock: Clock) -> AsyncIterator[Store]:
    async with await Store.open(str(tmp_path / "sm.db"), clock) as opened:
        async with opened.transaction() as tx:
            tx.part(PART).put(ACCOUNT)
            for each in SESSIONS:
                await tx.insert(each, LAUNCH, None)
        yield opened


def quota(resets_in_s: float | None, model: str = "", name: str = "session limit") -> Fault:
    resets_at = None if resets_in_s is None else START_S + resets_in_s
    return Fault(FaultKind.QUOTA, f"You've hit your {name}", name, resets_at, model)


async def fail(store: Store, session_id: str, fault: Fault, *, at: float = START_S, turn: str = "t1") -> None:
    await commit(store, lambda tx: FAULTS.record(tx, session_id, fault, at, turn, Source.HOOK))


def held(store: Store) -> dict[str, str | None]:
    return {s.id[0]: postponed(store.sessions[s.id], store.mail.open, START_S) for s in SESSIONS}


async def texts(store: Store) -> list[tuple[str | None, str]]:
    """The recipient and text of each message of sm to a session."""
    messages = [m for m in store.mail.open.messages.values() if m.session_id is not None]
    found = await store.mail.texts([m.id for m in messages])
    return [(m.session_id, found[m.id]) for m in messages]


def due(store: Store) -> dict[tuple[str, str], float]:
    return {
        key: datetime.fromisoformat(t.due_at).timestamp() - START_S
        for key, t in store.mail.open.timers.items()
    }


def told(store: Store) -> list[Any]:
    return [n.recipient for n in store.mail.open.notices.values() if n.kind is NoticeKind.FAULT]


async def test_limit_of_one_session_holds_all_sessions_of_the_account_and_is_told_once(store: Store) -> None:
    await fail(store, A, quota(3600))
    await fail(store, B, quota(3600))
    assert set(held(store).values()) == {"parked until " + clock_text(3600) + ": session limit"}
    assert told(store) == [None]
    assert due(store) == {(ACCOUNT.name, AccountTimer.PARK): 3600}
    assert [s.cut_off_at is not None for s in map(store.sessions.__getitem__, (A, B, C))] == [
        True,
        True,
        False,
    ]


def clock_text(after_s: float) -> str:
    return datetime.fromtimestamp(START_S + after_s).astimezone().strftime("%H:%M")


async def test_limit_of_a_model_holds_only_sessions_with_that_model(store: Store) -> None:
    await commit(store, lambda tx: tx.update(tx.session(B), model="claude-sonnet-5"))
    await fail(store, A, quota(3600, "opus", "Opus limit"))
    assert [name for name, why in held(store).items() if why is not None] == ["a", "c", "d"]


async def test_quota_of_an_unknown_account_is_only_told(store: Store) -> None:
    await commit(store, lambda tx: tx.update(tx.session(A), account=None))
    await fail(store, A, quota(3600))
    assert set(held(store).values()) == {None}
    assert told(store) == [None]


async def test_one_session_goes_first_and_the_others_follow_with_pauses(store: Store, clock: Clock) -> None:
    await fail(store, B, quota(3600))
    await fail(store, A, quota(3600), at=START_S + 5)
    clock.now_s = START_S + 3600
    await commit(store, lambda tx: try_again(tx, ACCOUNT.name, 5))
    assert await texts(store) == [(B, GO_ON)]
    assert [name for name, why in held(store).items() if why is None] == ["b"]
    clock.now_s += 10
    await commit(store, lambda tx: record_success(tx, tx.session(B), clock.now_s, 5))
    assert store.part(PART).rows.parks == {}
    assert due(store) == {(A, AccountTimer.FOLLOW): 3615}
    assert await texts(store) == [(B, GO_ON)], "the others follow with their timers"
    assert [name for name, why in held(store).items() if why is not None] == ["a"]


async def test_session_whose_only_message_is_held_does_not_go_first(store: Store, clock: Clock) -> None:
    async def add(session_id: str, held_until: str | None) -> None:
        async with store.transaction() as tx:
            number = tx.mail.new_id("messages")
            queued = (MessageMode.AUTO, MessageState.QUEUED, tx.now, tx.now)
            tx.mail.add_message(Message(number, session_id, B, *queued, held_until=held_until), "again")

    await commit(store, lambda tx: FAULTS.record(tx, A, quota(3600), START_S, "t1", Source.HOOK))
    await commit(store, lambda tx: tx.update(tx.session(A), cut_off_at=None))
    await add(C, "")
    await add(D, None)
    clock.now_s = START_S + 3600
    await commit(store, lambda tx: try_again(tx, ACCOUNT.name, 5))
    assert [park.first for park in store.part(PART).rows.parks.values()] == [D]


async def test_limit_that_is_not_over_is_tried_again_after_five_minutes_by_the_next_attempt(
    store: Store, clock: Clock
) -> None:
    await fail(store, A, quota(60))
    pauses = []
    for number in range(3):
        (at,) = due(store).values()
        clock.now_s = START_S + at
        await commit(store, lambda tx: try_again(tx, ACCOUNT.name, 5))
        await fail(store, A, quota(None), at=clock.now_s + 1, turn=f"again-{number}")
        (after,) = due(store).values()
        pauses.append(after - at)
    assert pauses == [601, 1201, 2401]
    assert await texts(store) == [(A, GO_ON)] * 3
    assert told(store) == [None], "once, not for every attempt"


async def test_park_ends_at_its_time_when_no_session_waits(store: Store, clock: Clock) -> None:
    await commit(store, lambda tx: set_park(tx, Park(ParkKind.QUOTA, "session limit", START_S, START_S + 60)))
    clock.now_s = START_S + 60
    await commit(store, lambda tx: try_again(tx, ACCOUNT.name, 5))
    assert store.part(PART).rows.parks == {}
    assert store.mail.open.timers == {}


async def set_park(tx: Any, park: Park) -> None:
    tx.part(PART).park(replace(park, account=ACCOUNT.name))


async def test_another_session_tries_when_the_first_one_never_ends_its_turn(
    store: Store, clock: Clock
) -> None:
    await fail(store, A, quota(60))
    await fail(store, B, quota(60), at=START_S + 1)
    for expected in (A, B):
        clock.now_s = START_S + max(due(store).values())
        await commit(store, lambda tx: try_again(tx, ACCOUNT.name, 5))
        assert (await texts(store))[-1] == (expected, GO_ON)


async def test_limit_is_over_when_the_first_session_still_works_on_its_turn(
    store: Store, clock: Clock
) -> None:
    await fail(store, A, quota(60))
    clock.now_s = START_S + 60
    await commit(store, lambda tx: try_again(tx, ACCOUNT.name, 5))
    await commit(store, lambda tx: move(tx, Notices(Config()), A, BUSY))
    clock.now_s += 600
    await commit(store, lambda tx: try_again(tx, ACCOUNT.name, 5))
    assert store.part(PART).rows.parks == {}


async def test_agent_that_continued_by_itself_gets_no_message(store: Store, clock: Clock) -> None:
    await fail(store, A, quota(60))
    await fail(store, B, quota(60), at=START_S + 1)
    await commit(store, lambda tx: move(tx, Notices(Config()), A, BUSY))
    clock.now_s = START_S + 60
    await commit(store, lambda tx: try_again(tx, ACCOUNT.name, 5))
    assert await texts(store) == [(B, GO_ON)]


@pytest.mark.parametrize("kind", [FaultKind.LOGIN, FaultKind.BILLING])
async def test_login_and_billing_wait_for_a_turn_that_succeeds(store: Store, kind: FaultKind) -> None:
    await fail(store, A, Fault(kind, "Please run /login", "not logged in"))
    assert set(held(store).values()) == {"parked: not logged in"}
    assert due(store) == {}
    await commit(store, lambda tx: record_success(tx, tx.session(B), START_S - 1, 5))
    assert store.part(PART).rows.parks, "that turn ended before"
    await commit(store, lambda tx: record_success(tx, tx.session(B), START_S + 1, 5))
    assert store.part(PART).rows.parks == {}
    assert due(store) == {(A, AccountTimer.FOLLOW): 5}


async def test_success_of_a_turn_that_the_limit_left_alone_does_not_end_the_limit(store: Store) -> None:
    await fail(store, A, quota(3600))
    await commit(store, lambda tx: record_success(tx, tx.session(B), START_S + 1, 5))
    assert len(store.part(PART).rows.parks) == 1
    assert store.part(PART).rows.accounts[ACCOUNT.name].last_success_at == iso(START_S + 1)


async def test_release_by_hand_lets_all_waiting_sessions_follow(store: Store) -> None:
    await fail(store, A, quota(3600))
    await fail(store, B, quota(3600), at=START_S + 1)
    (park,) = store.part(PART).rows.parks.values()
    await commit(store, lambda tx: release(tx, park, 5))
    assert due(store) == {(A, AccountTimer.FOLLOW): 5, (B, AccountTimer.FOLLOW): 10}


@pytest.mark.parametrize("kind", [FaultKind.SERVER, FaultKind.CONTEXT_FULL, FaultKind.MODEL])
async def test_fault_of_the_service_or_of_one_session_parks_nothing(store: Store, kind: FaultKind) -> None:
    await fail(store, A, Fault(kind, "x", "x"))
    assert store.part(PART).rows.parks == {}
    assert store.sessions[A].cut_off_at is None
    assert told(store) == [None]
