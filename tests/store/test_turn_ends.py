"""Reported ends of turns in the database."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sm.core.faults import Fault, FaultKind
from sm.core.observation import Activity, Observation, Source
from sm.core.timestamps import iso
from sm.core.turns import ReportedEnd, TurnWork
from sm.store import Store
from tests import golden
from tests.samples import LAUNCH, session

DATA = Path(__file__).parent.parent / "data"
END = ReportedEnd(
    "aaaa1111",
    2,
    Observation(Source.HOOK, Activity.IDLE, 2.5, "it ended", final=True, answer="Done.", finished=True),
    TurnWork("Fix the parser", "", 4, 1, last_tool_failed=True, whole=True),
)
FAILED = replace(
    END,
    observation=replace(
        END.observation, finished=False, fault=Fault(FaultKind.QUOTA, "limit", "session limit")
    ),
)


async def test_database_of_version_11_still_opens(tmp_path: Path) -> None:
    path = tmp_path / "sm.db"
    shutil.copy(DATA / "v11.db", path)
    async with await Store.open(str(path)) as store:
        assert await store.turn_ends.find("aaaa1111") == golden.REPORTED_END
        assert store.sessions["aaaa5555"].lost_parent == "aaaa1111"


@pytest.mark.parametrize("end", [END, FAILED])
async def test_end_is_found_until_a_later_one_is_followed(tmp_path: Path, end: ReportedEnd) -> None:
    async with await Store.open(str(tmp_path / "sm.db")) as store:
        async with store.transaction() as tx:
            await tx.insert(session("aaaa1111"), LAUNCH, None)
            tx.turn_ends.keep(golden.REPORTED_END)
            tx.turn_ends.keep(end)
        assert await store.turn_ends.find("aaaa1111") == end
        async with store.transaction() as tx:
            tx.turn_ends.remove("aaaa1111", iso(1.5))
        assert await store.turn_ends.find("aaaa1111") == end
        async with store.transaction() as tx:
            tx.turn_ends.remove("aaaa1111", iso(2.5))
        assert await store.turn_ends.find("aaaa1111") is None


async def test_removed_session_leaves_no_final_message(tmp_path: Path) -> None:
    async with await Store.open(str(tmp_path / "sm.db")) as store:
        async with store.transaction() as tx:
            await tx.insert(session("aaaa1111"), LAUNCH, None)
            tx.turn_ends.keep(END)
        async with store.transaction() as tx:
            await tx.remove(tx.session("aaaa1111"))
        assert await store.turn_ends.find("aaaa1111") is None
