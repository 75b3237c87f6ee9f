"""Usage of agents in the store, on real SQLite files."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sm.core.statuses import Status
from sm.core.usage import UNREAD, FilePosition, ToolUse, Usage
from sm.errors import InternalError
from sm.store import Store, Transaction
from tests import golden
from tests.samples import AT, LAUNCH, commit, session

OPUS, HAIKU = "claude-opus-4-8", "claude-haiku-4-5"
SESSION, OTHER = session("aaaa1111"), session("aaaa2222")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await Store.open(str(tmp_path / "sm.db")) as opened:
        async with opened.transaction() as tx:
            for inserted in (SESSION, OTHER):
                await tx.insert(inserted, LAUNCH, None)
        yield opened


async def done(store: Store, change: Callable[[Transaction], object]) -> None:
    async with store.transaction() as tx:
        change(tx)


def used(id: str, output: int, *, model: str = OPUS, sidechain: bool = False) -> Usage:
    return Usage(id, model, AT, 1, output, 10, 100, 7, sidechain=sidechain)


def tool(id: str, name: str) -> ToolUse:
    return ToolUse(id, name, AT)


async def count(store: Store, *usages: Usage, session_id: str = SESSION.id) -> None:
    await done(store, lambda tx: tx.usage.add(session_id, usages))


async def summed(store: Store, session_id: str = SESSION.id) -> list[Usage]:
    return (await store.usage.of([session_id])).get(session_id, [])


async def outputs(store: Store, session_id: str = SESSION.id) -> dict[tuple[str, bool], int]:
    return {(u.model, u.sidechain): u.output for u in await summed(store, session_id)}


@pytest.mark.parametrize("order", [(2, 30, 30), (30, 2), (30, 30, 2), (2, 30)])
async def test_usage_of_a_message_counts_once_with_its_last_total(
    store: Store, order: tuple[int, ...]
) -> None:
    for output in order:
        await count(store, used("m1", output))
    await count(store, *(used("m2", output) for output in order))
    assert await summed(store) == [Usage("", OPUS, "", 2, 60, 20, 200, 14)]


async def test_usage_is_summed_by_model_and_separately_for_sub_agents(store: Store) -> None:
    await count(
        store, used("m1", 1), used("m2", 2, model=HAIKU), used("m3", 4, sidechain=True), used("m4", 8)
    )
    assert await outputs(store) == {(OPUS, False): 9, (OPUS, True): 4, (HAIKU, False): 2}


async def test_usage_is_counted_per_session_when_message_ids_are_equal(store: Store) -> None:
    await count(store, used("m1", 1))
    await count(store, used("m1", 2), session_id=OTHER.id)
    assert (await outputs(store), await outputs(store, OTHER.id)) == ({(OPUS, False): 1}, {(OPUS, False): 2})


async def test_usage_and_read_position_are_written_atomically(store: Store) -> None:
    def both(tx: Transaction) -> None:
        tx.measures.set_position(SESSION.id, "/t", FilePosition(1, 5))
        tx.usage.add("ffffffff", [used("m1", 1)])  # no such session

    with pytest.raises(InternalError):
        await done(store, both)
    assert (await store.measures.positions(SESSION.id), await summed(store)) == ({}, [])


async def test_removal_deletes_usage_of_the_session_only(store: Store) -> None:
    def fill(tx: Transaction) -> None:
        for session_id in (SESSION.id, OTHER.id):
            tx.measures.set_position(session_id, "/t", FilePosition(1, 5))
            tx.usage.add(session_id, [used("m1", 1)])
            tx.measures.tools(session_id, [tool("t1", "Bash")])
            tx.measures.facts(session_id, {"model": OPUS})

    await done(store, fill)
    await commit(store, lambda tx: tx.remove(tx.session(SESSION.id)))
    measures = store.measures
    assert [
        await measures.positions(SESSION.id),
        await measures.tools(SESSION.id),
        await measures.facts(SESSION.id),
    ] == [{}, {}, {}]
    assert await measures.positions(OTHER.id)
    assert await outputs(store, OTHER.id)
    assert await measures.tools(OTHER.id)
    assert await measures.facts(OTHER.id)


async def completed(store: Store, number: int, output: int, **changes: object) -> None:
    completed_session = replace(
        session(f"{number:08x}", status=Status.COMPLETED),
        completed_at=f"2026-01-27T15:{number // 60:02}:{number % 60:02}.000Z",
        **changes,  # type: ignore[arg-type]  # fields of a session
    )
    await commit(store, lambda tx: tx.insert(completed_session, LAUNCH, None))
    await count(store, used("m1", output), session_id=completed_session.id)


async def test_usual_tokens_is_the_median_of_the_newest_completed_sessions(store: Store) -> None:
    usual = store.usage.usual_tokens
    await count(store, used("m1", 5000))  # a running session
    assert await usual("Engineer") is None
    for number, output in enumerate((99, 9, 999)):
        await completed(store, number, output)
    await completed(store, 3, 7, agent_type="Other")
    assert (await usual("Engineer"), await usual("Other"), await usual("None")) == (100, None, None)
    await commit(store, lambda tx: tx.remove(tx.session(f"{1:08x}")))
    assert await usual("Engineer") is None
    for number in range(10, 60):
        await completed(store, number, 49)
    assert await usual("Engineer") == 50


async def test_token_rates_are_those_of_completed_sessions_that_worked(store: Store) -> None:
    rates = store.usage.token_rates
    await count(store, used("m1", 5000))  # a running session
    for number, output, worked_s in ((0, 99, 60.0), (1, 99, 30.0), (2, 99, 0.0)):
        await completed(store, number, output, worked_s=worked_s)
    await completed(store, 3, 7, agent_type="Other", worked_s=120.0)
    assert sorted(await rates("Engineer")) == [100, 200]
    assert await rates("Other") == [4]
    assert await rates("None") == []


async def test_sessions_whose_tokens_cannot_all_be_read_are_no_sample(store: Store) -> None:
    for number, output in enumerate((99, 99, 99)):
        await completed(store, number, output, worked_s=60.0)
    unread = replace(used("m2", 0), model=f"opus{UNREAD}", input=0)
    await count(store, unread, session_id=f"{0:08x}")
    assert await store.usage.usual_tokens("Engineer") is None
    assert await store.usage.token_rates("Engineer") == [100, 100]


async def test_tokens_since_a_time_leave_out_the_cache(store: Store) -> None:
    before, after = "2020-01-01T00:00:00.000Z", "2030-01-01T00:00:00.000Z"
    await count(store, used("m1", 5), used("m2", 7, sidechain=True))
    assert sorted(await store.usage.tokens_between(SESSION.id, before, after)) == [(AT, 6), (AT, 8)]
    assert await store.usage.tokens_between(SESSION.id, AT, after) == []
    assert await store.usage.tokens_between(SESSION.id, before, before) == []


# ------------------------------------------------------------------------------------------ older databases


async def test_database_of_version_10_has_its_usage(tmp_path: Path) -> None:
    path = tmp_path / "sm.db"
    path.write_bytes((golden.DATA / "v10.db").read_bytes())
    async with await Store.open(str(path)) as store:
        assert store.instance == golden.INSTANCE
        completed = replace(golden.COMPLETED, seen_at=AT)
        known = {s.id: s for s in (golden.RUNNING, completed, golden.PAIRED, golden.PAUSED)}
        assert {session_id: store.sessions[session_id] for session_id in known} == known
        measures = store.measures
        assert await measures.positions("aaaa1111") == golden.TRANSCRIPTS
        assert await summed(store, "aaaa1111") == [
            Usage("", HAIKU, "", 3, 30, sidechain=True),
            Usage("", OPUS, "", 13, 121, 1200, 7007, 7),
        ]
        assert await measures.tools("aaaa1111") == {"Bash": 2, "Agent": 1}
        assert await measures.facts("aaaa1111") == golden.FACTS
        assert await store.usage.usual_tokens("Engineer") is None  # of one session
        # Usage that is already stored is not counted again.
        await count(store, *golden.USAGE)
        await done(store, lambda tx: tx.measures.tools("aaaa1111", golden.TOOLS))
        assert await measures.tools("aaaa1111") == {"Bash": 2, "Agent": 1}
        assert await outputs(store) == {(HAIKU, True): 30, (OPUS, False): 121}
