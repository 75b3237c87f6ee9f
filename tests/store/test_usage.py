"""What agents consumed, in the store, on real SQLite files."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sm.core.statuses import Status
from sm.core.usage import FilePosition, ToolUse, Usage
from sm.errors import InternalError
from sm.store import Store, Transaction, backups
from sm.store.migrations import MIGRATIONS
from tests import golden
from tests.samples import AT, LAUNCH, commit, session

GOLDEN = Path(__file__).parents[1] / "data"
OPUS, HAIKU = "claude-opus-4-8", "claude-haiku-4-5"
ONE, OTHER = session("aaaa1111"), session("aaaa2222")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await Store.open(str(tmp_path / "sm.db")) as opened:
        for each in (ONE, OTHER):
            await commit(opened, lambda tx, each=each: tx.insert(each, LAUNCH, None))  # type: ignore[misc]  # a default is no argument
        yield opened


async def done(store: Store, what: Callable[[Transaction], object]) -> None:
    async with store.transaction() as tx:
        what(tx)


def used(id: str, output: int, *, model: str = OPUS, sidechain: bool = False) -> Usage:
    return Usage(id, model, AT, 1, output, 10, 100, 7, sidechain=sidechain)


def tool(id: str, name: str) -> ToolUse:
    return ToolUse(id, name, AT)


async def count(store: Store, *usages: Usage, who: str = ONE.id) -> None:
    await done(store, lambda tx: tx.measures.used(who, usages))


async def outputs(store: Store, who: str = ONE.id) -> dict[tuple[str, bool], int]:
    return {(u.model, u.sidechain): u.output for u in await store.measures.usage(who)}


@pytest.mark.parametrize("order", [(2, 30, 30), (30, 2), (30, 30, 2), (2, 30)])
async def test_a_message_counts_once_and_as_a_whole(store: Store, order: tuple[int, ...]) -> None:
    for output in order:
        await count(store, used("m1", output))
    await count(store, *(used("m2", output) for output in order))
    assert await store.measures.usage(ONE.id) == [Usage("", OPUS, "", 2, 60, 20, 200, 14)]


async def test_sums_are_by_model_and_apart_for_sub_agents(store: Store) -> None:
    await count(
        store, used("m1", 1), used("m2", 2, model=HAIKU), used("m3", 4, sidechain=True), used("m4", 8)
    )
    assert await outputs(store) == {(OPUS, False): 9, (OPUS, True): 4, (HAIKU, False): 2}


async def test_two_sessions_may_have_the_same_messages(store: Store) -> None:
    await count(store, used("m1", 1))
    await count(store, used("m1", 2), who=OTHER.id)
    assert (await outputs(store), await outputs(store, OTHER.id)) == ({(OPUS, False): 1}, {(OPUS, False): 2})


async def test_tools_are_counted_once_and_the_most_used_come_first(store: Store) -> None:
    tools = [tool("t1", "Bash"), tool("t2", "Write"), tool("t3", "Write"), tool("t4", "Agent")]
    for _ in range(2):
        await done(store, lambda tx: tx.measures.tools(ONE.id, tools))
    assert list((await store.measures.tools(ONE.id)).items()) == [("Write", 2), ("Agent", 1), ("Bash", 1)]
    assert await store.measures.tools(OTHER.id) == {}


async def test_what_is_not_known_is_empty_and_what_is_written_replaces(store: Store) -> None:
    assert (await store.measures.facts(ONE.id), await store.measures.positions(ONE.id)) == ({}, {})
    for offset, text in ((5, "ä"), (9, "ö")):
        await done(store, lambda tx, o=offset: tx.measures.read_to(ONE.id, "/t", FilePosition(1, o)))  # type: ignore[misc]  # as above
        await done(store, lambda tx, t=text: tx.measures.facts(ONE.id, {"todo": [t]}))  # type: ignore[misc]  # as above
    assert await store.measures.facts(ONE.id) == {"todo": ["ö"]}
    assert await store.measures.positions(ONE.id) == {"/t": FilePosition(1, 9)}


async def test_what_was_counted_and_how_far_it_was_read_are_written_together_or_not(store: Store) -> None:
    def both(tx: Transaction) -> None:
        tx.measures.read_to(ONE.id, "/t", FilePosition(1, 5))
        tx.measures.used("ffffffff", [used("m1", 1)])  # no such session

    with pytest.raises(InternalError):
        await done(store, both)
    assert (await store.measures.positions(ONE.id), await store.measures.usage(ONE.id)) == ({}, [])


async def test_a_removed_session_leaves_nothing_behind(store: Store) -> None:
    def all_of_it(tx: Transaction) -> None:
        for who in (ONE.id, OTHER.id):
            tx.measures.read_to(who, "/t", FilePosition(1, 5))
            tx.measures.used(who, [used("m1", 1)])
            tx.measures.tools(who, [tool("t1", "Bash")])
            tx.measures.facts(who, {"model": OPUS})

    await done(store, all_of_it)
    await commit(store, lambda tx: tx.remove(tx.session(ONE.id)))
    of = store.measures
    assert [
        await of.positions(ONE.id),
        await of.usage(ONE.id),
        await of.tools(ONE.id),
        await of.facts(ONE.id),
    ] == [{}, [], {}, {}]
    assert await of.positions(OTHER.id)
    assert await outputs(store, OTHER.id)
    assert await of.tools(OTHER.id)
    assert await of.facts(OTHER.id)


async def completed(store: Store, number: int, output: int, **changes: str) -> None:
    made = replace(
        session(f"{number:08x}", status=Status.COMPLETED),
        completed_at=f"2026-01-27T15:{number // 60:02}:{number % 60:02}.000Z",
        **changes,  # type: ignore[arg-type]  # texts of a session
    )
    await commit(store, lambda tx: tx.insert(made, LAUNCH, None))
    await count(store, used("m1", output), who=made.id)


async def test_what_is_usual_is_the_median_of_the_newest_that_completed(store: Store) -> None:
    usual = store.measures.usual_tokens
    await count(store, used("m1", 5000))  # it still runs
    assert await usual("Engineer") is None
    for number, output in enumerate((99, 9, 999)):
        await completed(store, number, output)
    await completed(store, 3, 7, agent_type="Other")
    assert (await usual("Engineer"), await usual("Other"), await usual("None")) == (100, 8, None)
    await commit(store, lambda tx: tx.remove(tx.session(f"{1:08x}")))
    assert await usual("Engineer") == 1000
    for number in range(10, 60):
        await completed(store, number, 49)
    assert await usual("Engineer") == 50


# -------------------------------------------------------------------------------------- databases of other days


async def test_the_database_of_version_3_still_opens(tmp_path: Path) -> None:
    path = tmp_path / "sm.db"
    path.write_bytes((GOLDEN / "v3.db").read_bytes())
    async with await Store.open(str(path)) as store:
        assert store.instance == golden.INSTANCE
        running = replace(golden.RUNNING, workspace=None, worktree=None, branch=None)
        assert dict(store.sessions) == {s.id: s for s in (running, golden.COMPLETED)}
        assert store.mail.open.messages == {1: golden.MESSAGE}
        of = store.measures
        assert await of.positions("aaaa1111") == golden.TRANSCRIPTS
        assert await of.usage("aaaa1111") == [
            Usage("", HAIKU, "", 3, 30, sidechain=True),
            Usage("", OPUS, "", 13, 121, 1200, 7007, 7),
        ]
        assert await of.tools("aaaa1111") == {"Bash": 2, "Agent": 1}
        assert await of.facts("aaaa1111") == golden.FACTS
        assert await of.usual_tokens("Engineer") == 112
        # What it has counted is not counted again.
        await count(store, *golden.USAGE)
        await done(store, lambda tx: tx.measures.tools("aaaa1111", golden.TOOLS))
        assert await of.tools("aaaa1111") == {"Bash": 2, "Agent": 1}
        assert await outputs(store) == {(HAIKU, True): 30, (OPUS, False): 121}
    assert sorted(backups(str(path))) == [f"{path}.v{n}.backup" for n in range(3, len(MIGRATIONS))]


@pytest.mark.parametrize("version", [1, 2])
async def test_older_databases_know_of_no_consumption_and_take_it(tmp_path: Path, version: int) -> None:
    path = tmp_path / "sm.db"
    path.write_bytes((GOLDEN / f"v{version}.db").read_bytes())
    async with await Store.open(str(path)) as store:
        old = store.sessions["aaaa1111"]
        assert (old.conversation, old.transcript) == (None, None)
        of = store.measures
        assert [await of.positions(old.id), await of.usage(old.id), await of.tools(old.id)] == [{}, [], {}]
        assert await of.facts(old.id) == {}
        await count(store, used("m1", 5))
        assert await outputs(store) == {(OPUS, False): 5}
