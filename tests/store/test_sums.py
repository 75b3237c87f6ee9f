"""Sums that outlive their sessions, on real SQLite files."""

import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from sm.core.models import Exit
from sm.core.pauses import Pause
from sm.core.statuses import Status
from sm.core.usage import FollowUpKind, Usage
from sm.store import Store
from tests.golden import DATA
from tests.samples import AT, LAUNCH, commit, session

OPUS, HAIKU = "claude-opus-4-8", "claude-haiku-4-5"
TOP = session("aaaa0001")
CHILD = replace(session("aaaa0002"), parent_id=TOP.id, status=Status.COMPLETED, exit=Exit(0), worked_s=60.0)
GRANDCHILD = replace(session("aaaa0003"), parent_id=CHILD.id, exit=Exit(0), worked_s=5.0)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await Store.open(str(tmp_path / "sm.db")) as opened:
        async with opened.transaction() as tx:
            for inserted in (TOP, CHILD, GRANDCHILD):
                await tx.insert(inserted, LAUNCH, None)
        yield opened


def used(id: str, output: int, *, at: str = "2026-01-31T10:20:00.000Z", model: str = OPUS) -> Usage:
    return Usage(id, model, at, 1, output, 10, 100, 7)


async def remove(store: Store, session_id: str) -> None:
    await commit(store, lambda tx: tx.remove(tx.session(session_id)))


async def remove_and_fail(store: Store, session_id: str) -> None:
    async with store.transaction() as tx:
        await tx.remove(tx.session(session_id))
        raise ValueError("no")


async def test_usage_of_a_removed_session_is_kept_by_slot_and_model(store: Store) -> None:
    async with store.transaction() as tx:
        tx.usage.add(
            CHILD.id,
            [
                used("m1", 2),
                used("m1", 30),  # the same message, complete
                used("m2", 5, at="2026-01-31T10:29:59.999Z"),
                used("m3", 7, at="2026-01-31T10:30:00.000Z"),
                used("m4", 1, model=HAIKU),
                used("m5", 9, at=""),
            ],
        )
    before = await store.usage.of([CHILD.id])
    by_slot = await store.usage.since("", slots=True)
    await remove(store, CHILD.id)
    assert await store.usage.of_messages(CHILD.id, ["m1"]) == {}
    assert await store.usage.of([CHILD.id]) == before
    assert sorted(await store.usage.since("", slots=True), key=str) == sorted(by_slot, key=str)
    assert {(u.model, u.at): u.output for _, u in by_slot} == {
        (OPUS, "2026-01-31T10:15"): 35,
        (OPUS, "2026-01-31T10:30"): 7,
        (HAIKU, "2026-01-31T10:15"): 1,
        (OPUS, ""): 9,
    }


async def test_sums_of_a_removed_session_go_to_its_parent_and_move_on_with_it(store: Store) -> None:
    await remove(store, GRANDCHILD.id)
    (removed,) = await store.sums.removed()
    assert (removed.id, removed.heir, removed.worked_s) == (GRANDCHILD.id, CHILD.id, 5.0)
    assert removed.effective_mode is GRANDCHILD.effective_mode
    await remove(store, CHILD.id)
    assert {r.id: r.heir for r in await store.sums.removed()} == {GRANDCHILD.id: TOP.id, CHILD.id: TOP.id}
    assert {r.id: r.status for r in await store.sums.removed([CHILD.id])} == {CHILD.id: Status.COMPLETED}
    await remove(store, TOP.id)
    assert {r.heir for r in await store.sums.removed()} == {None}


async def test_removal_that_fails_keeps_the_usage(store: Store) -> None:
    async with store.transaction() as tx:
        tx.usage.add(CHILD.id, [used("m1", 3)])
    with pytest.raises(ValueError, match="no"):
        await remove_and_fail(store, CHILD.id)
    assert await store.sums.removed() == []
    assert await store.usage.since("") == [(CHILD.id, Usage("", OPUS, "", 1, 3, 10, 100, 7))]


async def test_work_is_stored_by_slot_when_it_ends(tmp_path: Path) -> None:
    times = iter(["2026-01-31T10:10:00.000Z", "2026-01-31T10:40:00.000Z"])
    path = tmp_path / "sm.db"
    async with await Store.open(str(path)) as store:
        working = replace(session("aaaa0009"), working_since="2026-01-31T10:10:00.000Z")
        async with store.transaction() as tx:
            await tx.insert(working, LAUNCH, None)
        async with store.transaction() as tx:
            tx.sums.add_work(working.id, next(times), 1800.0)
            tx.sums.add_work(working.id, next(times), 30.0)
        assert await store.sums.work_since("", slots=True) == [
            (working.id, "2026-01-31T10:00", 300.0),
            (working.id, "2026-01-31T10:15", 900.0),
            (working.id, "2026-01-31T10:30", 630.0),
        ]
        assert await store.sums.work_since("", slots=False) == [(working.id, "", 1830.0)]
        assert await store.sums.work_since("2026-01-31T10:15:00.000Z", slots=False) == [
            (working.id, "", 1530.0)
        ]


async def test_end_of_work_adds_what_the_session_has_worked(store: Store) -> None:
    async with store.transaction() as tx:
        begun = await tx.update(tx.session(TOP.id), working_since=AT)
    async with store.transaction() as tx:
        paused = await tx.update(tx.session(TOP.id), paused=Pause(tx.now, "operator", "dear"))
    assert begun.working_since is not None
    assert paused.working_since is None
    found = await store.sums.work_since("", slots=False)
    ((subject, slot, seconds),) = found
    assert (subject, slot) == (TOP.id, "")
    assert seconds == pytest.approx(paused.worked_s - begun.worked_s)
    assert paused.worked_s > begun.worked_s


async def test_follow_ups_stay_after_the_removal(store: Store) -> None:
    async with store.transaction() as tx:
        tx.sums.add_follow_up(CHILD.id, FollowUpKind.REMINDER, AT)
        tx.sums.add_follow_up(CHILD.id, FollowUpKind.RETRY, AT)
    await remove(store, CHILD.id)
    assert await store.sums.follow_ups_since("") == [
        (CHILD.id, AT, FollowUpKind.REMINDER),
        (CHILD.id, AT, FollowUpKind.RETRY),
    ]
    assert await store.sums.follow_ups_since("2999") == []


async def test_older_database_has_no_sums_of_removed_sessions(tmp_path: Path) -> None:
    path = tmp_path / "sm.db"
    shutil.copy(DATA / "v10.db", path)
    async with await Store.open(str(path)) as store:
        assert await store.sums.removed() == []
        assert await store.sums.work_since("", slots=True) == []
        assert await store.usage.since("", slots=True)


async def test_sums_since_a_time_have_nothing_from_before_it(store: Store) -> None:
    at, since = "2026-01-31T10:{}:00.000Z", "2026-01-31T10:26:00.000Z"
    async with store.transaction() as tx:
        for number, minute in enumerate((20, 25, 26, 29, 31)):
            for each in CHILD.id, TOP.id:
                tx.usage.add(each, [used(f"m{number}", 10**number, at=at.format(minute))])
        tx.sums.add_work(TOP.id, at.format("15"), 1800.0)
    await remove(store, CHILD.id)
    output = {i: used.output for i, used in await store.usage.since(since)}
    assert output == {TOP.id: 11100, CHILD.id: 10000}  # of removed sessions only whole quarters
    assert await store.sums.work_since(since, slots=False) == [(TOP.id, "", 4 * 60 + 900.0)]
    on_the_slot = {i: used.output for i, used in await store.usage.since(at.format(15))}
    assert on_the_slot == {TOP.id: 11111, CHILD.id: 11111}
    in_the_slot = await store.usage.since("2026-01-31T10:15:30.000Z")
    assert {i: used.output for i, used in in_the_slot} == {TOP.id: 11111, CHILD.id: 10000}
