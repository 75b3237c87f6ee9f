"""Sessions that ended long ago leave memory, and are found and listed as before."""

import asyncio
import random
import sqlite3
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from sm.core.attention import UNSEEN as UNSEEN_GROUPS
from sm.core.attention import attention
from sm.core.models import BridgeUser, Exit, Session, digest
from sm.core.states import BridgeLevel, TrustLevel
from sm.core.statuses import Status
from sm.core.timers import Timer, TimerKind
from sm.core.timestamps import later
from sm.errors import NotFound, UsageError
from sm.policy.relations import Principal, visible
from sm.store import Store, Transaction
from sm.store.history import EVERY, UNSEEN, Chosen, below, children_of, descendants_of, roots_for, seen_by
from tests.samples import AT, LAUNCH, commit, session

DAY = 86_400.0
NOW = later(AT, 30 * DAY)
OLD = ("old00001", "old00002", "old00003", "old00004", "old00005")


def ended(session_id: str, days: float, parent: str | None = None, **changes: Any) -> Session:
    """A session that ended so many days ago, and that the operator has seen."""
    at = later(NOW, -days * DAY)
    made = replace(session(session_id, parent=parent, status=Status.COMPLETED), exit=Exit(0), created_at=at)
    return replace(made, status_at=at, completed_at=at, seen_at=at, **changes)


async def insert(store: Store, *sessions: Session) -> None:
    async with store.transaction() as tx:
        for made in sessions:
            await tx.insert(made, LAUNCH, None)


@pytest.fixture
async def store(path: str) -> AsyncIterator[Store]:
    async with await Store.open(path, lambda: NOW) as opened:
        await insert(
            opened,
            *(
                ended(session_id, 9 - n, friendly_name=f"engineer-task{n}")
                for n, session_id in enumerate(OLD)
            ),
            replace(session("live0001"), created_at=NOW),
        )
        opened.memory.forget_old()
        yield opened


def kept(store: Store) -> list[str]:
    return list(store.sessions)


async def test_only_live_recent_unseen_and_needed_sessions_stay_in_memory(path: str) -> None:
    recent, old = ended("recent01", 0.9), ended("old00009", 1.1)
    unseen, older = replace(ended("unseen01", 6), seen_at=None), replace(ended("older001", 8), seen_at=None)
    killed = replace(unseen, id="killed01", status=Status.KILLED)
    told = replace(unseen, id="told0001", parent_id="old00009", created_by="session:old00009")
    running = replace(ended("running1", 9), exit=None)
    top, middle = ended("top00001", 11), ended("middle01", 10, "top00001")
    live = replace(session("live0001", parent="middle01"), created_at=NOW)
    made = (recent, old, unseen, older, killed, told, running, top, middle, live)
    async with await Store.open(path, lambda: NOW) as store:
        await insert(store, *made)
        assert set(store.memory.forget_old()) == {"old00009", "older001", "killed01", "told0001"}
        left = kept(store)
        assert left == [s.id for s in sorted(made, key=lambda s: s.created_at) if s.id in left]
        assert store.memory.forget_old() == []
    async with await Store.open(path, lambda: NOW) as again:
        assert kept(again) == left
        assert {s.id: again.sessions[s.id] for s in made} == {s.id: s for s in made}


async def test_unseen_sessions_enter_memory_when_they_are_kept_for_longer(path: str) -> None:
    parent = ended("parent01", 20)
    unseen = [ended(f"unseen{n:02}", n, "parent01", told_operator=True) for n in (40, 29, 8, 6)]
    unseen = [replace(made, seen_at=None) for made in unseen]
    async with await Store.open(path, lambda: NOW) as store:
        await insert(store, parent, *unseen, ended("seen0001", 8))
        store.memory.forget_old()
        assert {*kept(store)} == {"parent01", "unseen06"}
        changes = store.changes
        await store.memory.keep_unseen(30 * DAY)
        assert kept(store) == ["unseen29", "parent01", "unseen08", "unseen06"]
        assert store.changes > changes
        assert store.memory.forget_old() == []
        assert [s.id for s in (await store.history.page(EVERY, None, 9)).sessions] == ["seen0001", "unseen40"]
        await store.memory.keep_unseen(7 * DAY)
        assert {*store.memory.forget_old()} == {"unseen29", "unseen08"}


async def test_session_that_unfinished_work_names_is_in_memory(store: Store, path: str) -> None:
    async with store.transaction() as tx:
        tx.timers.set(Timer(OLD[0], TimerKind.CUT_OFF, NOW))
    async with await Store.open(path, lambda: NOW) as again:
        assert kept(again) == [OLD[0], "live0001"]
        async with again.transaction() as tx:
            tx.timers.remove(OLD[0])
        assert again.memory.forget_old() == [OLD[0]]


async def test_newest_session_is_the_one_that_was_made_last(store: Store) -> None:
    async with store.transaction() as tx:
        await tx.insert(replace(ended("new00001", 1.5), status_at=later(NOW, -2 * DAY)), LAUNCH, None)
        await tx.insert(replace(ended("newest01", 1.1), status_at=later(NOW, -3 * DAY)), LAUNCH, None)
        await tx.remove(tx.session("live0001"))
    store.memory.forget_old()
    async with store.transaction() as tx:
        newest = await tx.newest_session()
    assert newest is not None
    assert newest.id == "newest01"


async def test_index_of_old_sessions_alone_is_not_empty(path: str) -> None:
    async with await Store.open(path, lambda: NOW) as store:
        assert store.index.is_empty()
        await insert(store, ended(OLD[0], 2))
        assert not store.index.is_empty()
        store.memory.forget_old()
        assert not store.sessions
        assert not store.index.is_empty()
        async with store.transaction() as tx:
            await tx.remove(tx.session(OLD[0]))
        assert store.index.is_empty()


async def test_token_of_an_old_session_is_unknown(path: str) -> None:
    async with await Store.open(path, lambda: NOW) as store:
        await insert(store, ended(OLD[0], 2, token_hash=digest("token")))
        found = store.memory.session_of_token(digest("token"))
        assert found is not None
        assert found.id == OLD[0]
        store.memory.forget_old()
        assert store.memory.session_of_token(digest("token")) is None


async def test_old_session_is_found_by_id_prefix_and_name(store: Store) -> None:
    found = store.sessions[OLD[1]]
    assert found.friendly_name == "engineer-task1"
    assert OLD[1] in store.sessions
    assert not store.sessions.is_kept(OLD[1])
    assert "old00099" not in store.sessions
    assert [s.id for s in store.index.with_prefix("old0000")] == [*OLD]
    for word in ("engineer-task1", "task1", "engineer-old00002"):
        assert [s.id for s in store.index.named(word)] == [OLD[1]]


async def test_newest_of_many_old_sessions_with_one_name_is_found(path: str) -> None:
    """Also the newest that somebody sees who does not see the newest ones."""
    nightly = [ended(f"{n:08x}", 300 - n, friendly_name="engineer-nightly") for n in range(250)]
    async with await Store.open(path, lambda: NOW) as store:
        await insert(
            store, *(replace(s, workspace="w" if s.id in ("00000003", "00000005") else None) for s in nightly)
        )
        store.memory.forget_old()
        for word in ("nightly", "engineer-nightly"):
            found = store.index.named(word)
            assert found == sorted(found, key=lambda s: s.created_at)
            assert found[-1].id == nightly[-1].id
            assert [s.id for s in found if s.workspace is not None] == ["00000005"]


async def test_old_session_is_found_by_name_without_a_scan(store: Store, path: str) -> None:
    asked, db = list[str](), store.history._db
    db.set_trace_callback(asked.append)
    store.index.named("task1")
    db.set_trace_callback(None)
    steps = [row[3] for query in asked for row in db.execute(f"EXPLAIN QUERY PLAN {query}")]
    assert steps
    assert [step for step in steps if step.startswith("SCAN")] == []


async def test_removed_sessions_that_ended_since_a_time_are_counted_without_a_scan(store: Store) -> None:
    for session_id in OLD[:3]:
        async with store.transaction() as tx:
            await tx.remove(tx.session(session_id))
    asked = list[str]()
    await store._reader.set_trace_callback(asked.append)
    counts = [await store.removed_endings(later(NOW, -days * DAY)) for days in (99, 9, 8, 7, 6)]
    assert counts == [3, 3, 2, 1, 0]
    steps = [row[3] for query in [*asked] for row in await store.read(f"EXPLAIN QUERY PLAN {query}", ())]
    assert {step.partition(" USING ")[2] for step in steps} == {"INDEX sessions_removed (completed_at>?)"}


async def test_changed_old_session_is_in_memory_again_in_its_place(store: Store) -> None:
    async with store.transaction() as tx:
        changed = await tx.update(tx.session(OLD[2]), note="changed")
    assert kept(store) == [OLD[2], "live0001"]
    assert store.sessions[OLD[2]] == changed
    assert store.memory.forget_old() == [OLD[2]]
    assert store.sessions[OLD[2]] == changed


async def test_name_of_an_old_session_is_shared_with_a_new_one(store: Store) -> None:
    await insert(store, replace(session("new00001"), friendly_name="engineer-task3"))
    assert [store.sessions[s].shares_name for s in ("new00001", OLD[3], OLD[2])] == [True, True, False]
    async with store.transaction() as tx:
        await tx.remove(tx.session(OLD[3]))
    assert [store.sessions[s].shares_name for s in ("new00001", OLD[2])] == [False, False]
    assert OLD[3] not in store.sessions


@pytest.mark.parametrize("name", ["engineer-other", None])
async def test_old_session_that_is_renamed_shares_its_former_name_no_longer(
    store: Store, name: str | None
) -> None:
    await insert(store, replace(session("new00001"), created_at=NOW, friendly_name="engineer-task3"))
    assert store.sessions["new00001"].shares_name
    async with store.transaction() as tx:
        await tx.update(tx.session(OLD[3]), friendly_name=name)
    assert not store.sessions["new00001"].shares_name


async def test_transactions_of_one_commit_see_old_sessions_as_changed_or_removed(store: Store) -> None:
    async def remove(tx: Transaction) -> None:
        await tx.remove(tx.session(OLD[0]))

    async def adopt(tx: Transaction) -> None:
        await tx.update(tx.session(OLD[1]), parent_id="live0001")

    async def look(tx: Transaction) -> list[str]:
        with pytest.raises(NotFound):
            tx.session(OLD[0])
        assert tx.session(OLD[1]).parent_id == "live0001"
        assert tx.session(OLD[2]).parent_id is None
        return [s.id for s in await tx.descendants("live0001")]

    *_, seen = await asyncio.gather(*(commit(store, change) for change in (remove, adopt, look)))
    assert seen == [OLD[1]]


# ------------------------------------------------------------------------------------------------------ pages


async def test_pages_have_each_old_session_once_those_that_ended_last_first(store: Store) -> None:
    first = await store.history.page(EVERY, None, 2)
    second = await store.history.page(EVERY, first.next, 2)
    third = await store.history.page(EVERY, second.next, 2)
    assert [[s.id for s in page.sessions] for page in (first, second, third)] == [
        [OLD[4], OLD[3]],
        [OLD[2], OLD[1]],
        [OLD[0]],
    ]
    assert [page.left for page in (first, second, third)] == [3, 1, 0]
    assert third.next is None
    none = await store.history.page(EVERY, None, 0)
    assert (none.sessions, none.left) == ([], 5)
    assert (await store.history.page(EVERY, none.next, 5)).next is None


async def test_trees_of_old_sessions_are_searched_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sm.store.history.CHUNK", 2)
    await insert(
        store, *(ended(f"below{n:03}", 9 - n, OLD[n % 2] if n < 2 else f"below{n - 2:03}") for n in range(5))
    )
    store.memory.forget_old()
    searched: list[str] = []
    await store._reader.set_trace_callback(searched.append)
    below_first = [s.id for s in await store.history.all(below([OLD[0]]))]
    assert below_first == ["below004", "below002", "below000"]
    assert len([text for text in searched if "RECURSIVE" in text]) == 1


async def test_pages_of_a_search_count_what_it_finds(store: Store) -> None:
    odd = Chosen(keep=lambda s: s.id in (OLD[0], OLD[2], OLD[4]), key="odd")
    first = await store.history.page(odd, None, 1)
    assert ([s.id for s in first.sessions], first.left) == ([OLD[4]], 2)
    rest = await store.history.page(odd, first.next, 5)
    assert ([s.id for s in rest.sessions], rest.left, rest.next) == ([OLD[2], OLD[0]], 0, None)
    assert await store.history.counts(odd) == {(Status.COMPLETED, False): 3}


async def test_page_follows_what_enters_and_leaves_memory(store: Store) -> None:
    assert (await store.history.page(EVERY, None, 9)).left == 0
    async with store.transaction() as tx:
        await tx.update(tx.session(OLD[4]), note="changed")
    assert [s.id for s in (await store.history.page(EVERY, None, 9)).sessions] == [*OLD[3::-1]]
    store.memory.forget_old()
    assert len((await store.history.page(EVERY, None, 9)).sessions) == 5


async def test_pages_and_counts_of_a_tree_follow_a_move_of_a_session_in_memory(store: Store) -> None:
    async with store.transaction() as tx:
        await tx.update(tx.session(OLD[0]), parent_id=OLD[1])
        await tx.insert(replace(session("live0002"), created_at=NOW), LAUNCH, None)
        await tx.insert(replace(session("live0003", parent="live0001"), created_at=NOW), LAUNCH, None)
        await tx.update(tx.session(OLD[1]), parent_id="live0003")
    store.memory.forget_old()

    async def found(parent: str) -> list[str]:
        chosen = descendants_of(parent, None)
        page = await store.history.page(chosen, None, 9)
        assert await store.history.count(chosen) == len(page.sessions)
        return [s.id for s in page.sessions]

    assert [await found(s) for s in ("live0001", "live0002")] == [[OLD[1], OLD[0]], []]
    async with store.transaction() as tx:
        await tx.update(tx.session("live0003"), parent_id="live0002")
    assert [await found(s) for s in ("live0001", "live0002")] == [[], [OLD[1], OLD[0]]]


async def test_roots_follow_who_sees_their_parents(store: Store) -> None:
    guest = replace(session("guest001"), workspace="w")
    async with store.transaction() as tx:
        await tx.update(tx.session(OLD[0]), parent_id="live0001", workspace="w")
    store.memory.forget_old()
    assert [s.id for s in (await store.history.page(roots_for(guest), None, 9)).sessions] == [OLD[0]]
    async with store.transaction() as tx:
        await tx.update(tx.session("live0001"), workspace="w")
    assert (await store.history.page(roots_for(guest), None, 9)).sessions == []


async def test_new_session_leaves_what_was_read_of_the_history(store: Store) -> None:
    """Unless old ones share its name from now on."""
    await store.history.page(EVERY, None, 9)
    reads, read = list[str](), store.history._read

    async def counted(query: str, values: tuple[Any, ...]) -> list[sqlite3.Row]:
        reads.append(query)
        return await read(query, values)

    store.history._read = counted
    await insert(store, replace(session("new00001"), created_at=NOW, friendly_name="engineer-new"))
    resets = store.history.resets
    page = await store.history.page(EVERY, None, 9)
    assert [s.shares_name for s in page.sessions] == [False] * len(OLD)
    assert reads == []
    await insert(store, replace(session("new00002"), created_at=NOW, friendly_name="engineer-task3"))
    page = await store.history.page(EVERY, None, 9)
    assert [s.id for s in page.sessions if s.shares_name] == [OLD[3]]
    assert store.history.resets == resets


async def test_session_without_an_id_is_not_looked_for(store: Store) -> None:
    asked = list[str]()
    store.history._db.set_trace_callback(asked.append)
    assert store.sessions.get("") is None
    store.history._db.set_trace_callback(None)
    assert asked == []


async def test_page_with_an_unknown_name_is_refused(store: Store) -> None:
    with pytest.raises(UsageError, match="is no page of a list"):
        await store.history.page(EVERY, "yesterday", 5)


async def test_list_of_more_sessions_than_are_read_at_once_is_complete(path: str) -> None:
    async with await Store.open(path, lambda: NOW) as store:
        made = [ended(f"{n:08x}", 2 + n % 7) for n in range(450)]
        await insert(store, *made)
        store.memory.forget_old()
        found = await store.history.all()
        assert sorted(s.id for s in found) == [s.id for s in made]
        assert [s.status_at for s in found] == sorted((s.status_at for s in made), reverse=True)


async def test_descendants_of_a_session_are_found_below_old_ones(store: Store) -> None:
    await insert(store, ended("child001", 5, "live0001"), ended("child002", 4, "child001"))
    store.memory.forget_old()
    assert {s.id for s in await store.history.all(below(["live0001"]))} == {"child001", "child002"}
    assert await store.history.ended_children(children_of("live0001", None)) == [
        ("live0001", Status.COMPLETED, 1)
    ]
    async with store.transaction() as tx:
        assert [s.id for s in await tx.descendants("live0001")] == ["child001", "child002"]
        assert [s.id for s in await tx.children("live0001")] == ["child001"]


# --------------------------------------------------------------------------------------- as decided elsewhere


def _random_session(dice: random.Random, number: int) -> Session:
    made = ended(f"{number:08x}", dice.randint(2, 12))
    parent = f"{dice.randrange(number):08x}" if number and dice.random() < 0.5 else None
    return replace(
        made,
        status=dice.choice([Status.COMPLETED, Status.ERROR, Status.ABANDONED, Status.KILLED]),
        parent_id=parent,
        created_by="operator" if parent is None else f"session:{parent}",
        told_operator=dice.random() < 0.3,
        archived=dice.random() < 0.3,
        seen_at=dice.choice([None, later(made.status_at, -1), made.status_at]),
        workspace=dice.choice([None, "shop", "bank"]),
        effective_mode=dice.choice([TrustLevel.DIRECT, TrustLevel.SANDBOXED]),
        paired_user=dice.choice([None, "telegram:1"]),
    )


PRINCIPALS: list[Principal] = [
    None,
    *(
        replace(session("live0002"), workspace=workspace, effective_mode=mode)
        for workspace in (None, "shop")
        for mode in TrustLevel
    ),
    *(BridgeUser("telegram:1", level, workspace) for level in BridgeLevel for workspace in (None, "shop")),
]


@pytest.fixture
async def many(path: str) -> AsyncIterator[Store]:
    dice = random.Random(1)
    made = [_random_session(dice, number) for number in range(120)]
    async with await Store.open(path, lambda: NOW) as opened:
        await insert(opened, *made)
        opened.memory.unseen_s = 0.0
        opened.memory.forget_old()
        assert not kept(opened)
        yield opened


@pytest.mark.parametrize("principal", PRINCIPALS)
async def test_sessions_in_lists_are_those_that_the_policy_shows(many: Store, principal: Principal) -> None:
    every = {s.id: s for s in await many.history.all()}
    seen = {s.id for s in every.values() if visible(principal, s)}
    assert {*await many.history.ids(seen_by(principal))} == seen
    roots = {i for i in seen if every[i].parent_id not in seen}
    assert {*await many.history.ids(roots_for(principal))} == roots


async def test_unseen_sessions_are_those_of_the_groups_of_attention(many: Store) -> None:
    every = await many.history.all()
    unseen = {s.id for s in every if attention(s, (), NOW) in UNSEEN_GROUPS}
    assert {*await many.history.ids(Chosen(UNSEEN))} == unseen
    assert sum(n for (_, is_unseen), n in (await many.history.counts()).items() if is_unseen) == len(unseen)
