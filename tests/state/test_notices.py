"""Notices of idle sessions, on a real SQLite file."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sm.config import Config
from sm.config.model import Notify, RetrySettings
from sm.core.effects import EffectKind
from sm.core.faults import Fault, FaultKind
from sm.core.models import Checkpoint, Exit, Signal
from sm.core.observation import Source
from sm.core.states import NoticeKind, SignalKind
from sm.core.statuses import Status
from sm.core.timestamps import later
from sm.state.faults import Faults
from sm.state.notices import Notices
from sm.state.session_steps import move
from sm.store import Store
from tests.samples import AT, LAUNCH, commit, session

ROOT = session("aaaa1111", status=Status.RUNNING)
CHILD = session("bbbb1111", parent=ROOT.id, status=Status.RUNNING)
NOTIFIED = Config(notify=Notify(command=("true",)), retry=RetrySettings(max=0))


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await Store.open(str(tmp_path / "sm.db")) as opened:
        await commit(opened, lambda tx: tx.insert(ROOT, LAUNCH, None))
        yield opened


async def end_turn(
    store: Store, config: Config = NOTIFIED, *, session_id: str = ROOT.id, after_s: float = 1, **facts: Any
) -> list[tuple[str | None, str]]:
    """End a turn of the session; return (recipient, text) of each pending notice."""
    fields: dict[str, Any] = {"reason": "the turn ended (Stop)", "answer": "All 26 tests pass."} | facts
    signal = Signal(SignalKind.WENT_IDLE, "hook", emitted_at=later(AT, after_s), **fields)
    await commit(store, lambda tx: move(tx, Notices(config), session_id, signal))
    return [(notice.recipient, notice.text) for notice in store.mail.open.notices.values()]


async def test_operator_is_told_the_last_words_when_a_turn_ends(store: Store) -> None:
    told = await end_turn(store)
    assert told == [
        (None, 'session engineer-aaaa1111 (aaaa1111) is idle after its turn: "All 26 tests pass."')
    ]
    (effect,) = [e for e in store.mail.open.effects.values() if e.kind == EffectKind.COMMAND]
    assert effect.payload["body"]["type"] == "idle"


async def test_operator_is_told_of_each_turn_once(store: Store) -> None:
    await end_turn(store)
    assert len(await end_turn(store, after_s=1)) == 1, "the session is idle already"
    busy = Signal(SignalKind.BUSY, "hook", "a turn began", later(AT, 2))
    await commit(store, lambda tx: move(tx, Notices(NOTIFIED), ROOT.id, busy))
    assert len(await end_turn(store, after_s=3)) == 2


async def test_notice_gives_the_reason_when_a_turn_ends_without_words(store: Store) -> None:
    ((_, text),) = await end_turn(store, answer="", reason="the turn failed: rate_limit")
    assert text.endswith("is idle after its turn: the turn failed: rate_limit")


@pytest.mark.parametrize("answer", ["done", None])
async def test_operator_is_not_told_when_it_is_off_or_no_turn_ended(store: Store, answer: str | None) -> None:
    config = NOTIFIED if answer is None else Config(notify=Notify(turn_ended=False))
    assert await end_turn(store, config, answer=answer) == []


async def test_operator_is_not_told_while_children_of_the_session_live(store: Store) -> None:
    await commit(store, lambda tx: tx.insert(CHILD, LAUNCH, None))
    assert await end_turn(store) == []


async def test_parent_and_not_the_operator_is_told_when_a_child_ends_its_turn(store: Store) -> None:
    await commit(store, lambda tx: tx.insert(replace(CHILD, friendly_name="engineer-x"), LAUNCH, None))
    assert await end_turn(store, session_id=CHILD.id) == [
        (ROOT.id, 'child engineer-x (bbbb1111) is idle after its turn: "All 26 tests pass."')
    ]


COMPLETED = Signal(SignalKind.REPORTED_COMPLETED, "report", "reported", later(AT, 1), message="all is done")
FAILED = Signal(SignalKind.REPORTED_ERROR, "report", "reported", later(AT, 1), message="no API key")
KILLED = Signal(SignalKind.KILLED, "process", "killed by operator", later(AT, 1), exit=Exit(None, 9))
WENT_IDLE = Signal(SignalKind.WENT_IDLE, "hook", "the turn ended", later(AT, 1), answer="All 26 tests pass.")
SETTINGS = ("notify_parent_on_complete", "notify_parent_on_error", "notify_parent_on_idle")


@pytest.mark.parametrize("off", [*SETTINGS, None])
@pytest.mark.parametrize(
    ("signal", "setting", "words"),
    [
        (COMPLETED, "notify_parent_on_complete", "completed"),
        (FAILED, "notify_parent_on_error", "failed"),
        (WENT_IDLE, "notify_parent_on_idle", "is idle after its turn"),
        (KILLED, None, "killed"),
    ],
    ids=["completed", "failed", "idle", "killed"],
)
async def test_parent_is_told_of_a_change_unless_its_setting_is_off(
    store: Store, signal: Signal, setting: str | None, words: str, off: str | None
) -> None:
    config = Config.model_validate(
        {"child_agents": {"notifications": {} if off is None else {off: False}}},
    )
    await commit(store, lambda tx: tx.insert(CHILD, LAUNCH, None))
    await commit(store, lambda tx: move(tx, Notices(config), CHILD.id, signal))
    told = [(n.recipient, words in n.text) for n in store.mail.open.notices.values()]
    assert told == ([] if off is not None and off == setting else [(ROOT.id, True)])


@pytest.mark.parametrize(
    ("settings", "expected"), [({}, []), ({"notify_parent_on_checkpoint": True}, [ROOT.id])]
)
async def test_parent_is_told_of_checkpoints_only_if_the_setting_is_on(
    store: Store, settings: dict[str, bool], expected: list[str]
) -> None:
    config = Config.model_validate({"child_agents": {"notifications": settings}})
    await commit(store, lambda tx: tx.insert(CHILD, LAUNCH, None))
    checkpoint = Checkpoint(later(AT, 1), "phase 1 is done", {})
    async with store.transaction() as tx:
        for reporter in (CHILD, ROOT):  # the operator gets no checkpoints
            await Notices(config).add_for_checkpoint(tx, reporter, checkpoint)
    told = [(n.recipient, n.text) for n in store.mail.open.notices.values()]
    assert told == [
        (i, f'child engineer-{CHILD.id} ({CHILD.id}) reports: "phase 1 is done"') for i in expected
    ]


def faults(config: Config) -> Faults:
    """Faults that are never retried."""
    return Faults(config, Notices(config), {})


FAULT = Fault(FaultKind.LOGIN, "Please run /login", "not logged in", hint="type /login")


async def test_parent_and_operator_are_told_of_a_failed_turn_once_each(store: Store) -> None:
    await commit(store, lambda tx: tx.insert(CHILD, LAUNCH, None))
    for _ in range(2):
        await commit(
            store,
            lambda tx: faults(NOTIFIED).record(tx, CHILD.id, FAULT, 1.8e9, "turn-1", Source.HOOK),
        )
        assert await end_turn(store, session_id=CHILD.id, fault=FAULT, answer="") == [
            (recipient, notice)
            for recipient in (None, ROOT.id)
            for notice in [
                "child engineer-bbbb1111 (bbbb1111) does not go on: the turn failed: not logged in: "
                "Please run /login; hint: type /login"
            ]
        ]
    effects = [e for e in store.mail.open.effects.values() if e.kind == EffectKind.COMMAND]
    assert [effect.payload["body"]["type"] for effect in effects] == ["idle"]


async def test_operator_is_told_of_a_failed_turn_although_children_live(store: Store) -> None:
    await commit(store, lambda tx: tx.insert(CHILD, LAUNCH, None))
    await commit(store, lambda tx: faults(NOTIFIED).record(tx, ROOT.id, FAULT, 1.8e9, None, Source.HOOK))
    assert [(n.recipient, n.kind) for n in store.mail.open.notices.values()] == [(None, NoticeKind.FAULT)]


async def test_fault_of_an_ended_session_is_not_told(store: Store) -> None:
    ended = replace(CHILD, status=Status.COMPLETED, exit=Exit(0))
    await commit(store, lambda tx: tx.insert(ended, LAUNCH, None))
    await commit(store, lambda tx: faults(NOTIFIED).record(tx, ended.id, FAULT, 1.8e9, None, Source.HOOK))
    assert not store.mail.open.notices


async def record(store: Store, source: Source, turn: str | None, fault: Fault = FAULT) -> bool:
    """Record a fault of the child at a fixed time. Returns True if it was not known."""
    return await commit(store, lambda tx: faults(NOTIFIED).record(tx, CHILD.id, fault, 1.8e9, turn, source))


@pytest.mark.parametrize("turns", [("turn-1", None), (None, "turn-1"), ("turn-1", "its own command")])
@pytest.mark.parametrize("sources", [(Source.HOOK, Source.TRANSCRIPT), (Source.TRANSCRIPT, Source.HOOK)])
async def test_fault_is_recorded_once_when_two_sources_differ_about_the_turn(
    store: Store, turns: tuple[str | None, str | None], sources: tuple[Source, Source]
) -> None:
    await commit(store, lambda tx: tx.insert(CHILD, LAUNCH, None))
    assert [await record(store, *each) for each in zip(sources, turns, strict=True)] == [True, False]


async def test_each_of_two_failed_turns_is_recorded_once_when_both_sources_report_them(store: Store) -> None:
    await commit(store, lambda tx: tx.insert(CHILD, LAUNCH, None))
    assert [
        await record(store, source, turn)
        for source, turn in (
            (Source.HOOK, "turn-1"),
            (Source.TRANSCRIPT, "its own command"),
            (Source.HOOK, "turn-2"),
            (Source.TRANSCRIPT, "its second command"),
        )
    ] == [True, False, True, False]


async def test_other_failure_from_the_other_source_is_recorded_too(store: Store) -> None:
    await commit(store, lambda tx: tx.insert(CHILD, LAUNCH, None))
    assert await record(store, Source.HOOK, "turn-1")
    assert await record(store, Source.TRANSCRIPT, "turn-2", replace(FAULT, name="no credit"))
