"""Facts, tool uses and read positions of agents, on real SQLite files."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sm.core.usage import FilePosition, ToolUse
from sm.store import Store
from tests.samples import AT, LAUNCH, session

SESSION, OTHER = session("aaaa1111"), session("aaaa2222")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await Store.open(str(tmp_path / "sm.db")) as opened:
        async with opened.transaction() as tx:
            for inserted in (SESSION, OTHER):
                await tx.insert(inserted, LAUNCH, None)
        yield opened


def tool(id: str, name: str) -> ToolUse:
    return ToolUse(id, name, AT)


async def test_tool_uses_are_counted_once_and_sorted_by_count(store: Store) -> None:
    tools = [tool("t1", "Bash"), tool("t2", "Write"), tool("t3", "Write"), tool("t4", "Agent")]
    for _ in range(2):
        async with store.transaction() as tx:
            tx.measures.tools(SESSION.id, tools)
    assert list((await store.measures.tools(SESSION.id)).items()) == [("Write", 2), ("Agent", 1), ("Bash", 1)]
    assert await store.measures.tools(OTHER.id) == {}


async def test_facts_and_positions_are_empty_at_first_and_replaced_on_write(store: Store) -> None:
    assert (await store.measures.facts(SESSION.id), await store.measures.positions(SESSION.id)) == ({}, {})
    for offset, text in ((5, "ä"), (9, "ö")):
        async with store.transaction() as tx:
            tx.measures.set_position(SESSION.id, "/t", FilePosition(1, offset))
            tx.measures.facts(SESSION.id, {"todo": [text]})
    assert await store.measures.facts(SESSION.id) == {"todo": ["ö"]}
    assert await store.measures.positions(SESSION.id) == {"/t": FilePosition(1, 9)}
