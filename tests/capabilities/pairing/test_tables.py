"""Paired users and their requests on a real SQLite file."""

import shutil
from pathlib import Path

import pytest

from sm.capabilities.pairing.model import Pairing, PairRequest, PairState
from sm.capabilities.pairing.tables import PART
from sm.core.states import BridgeLevel
from sm.store import Store
from tests import golden
from tests.golden import DATA
from tests.samples import AT, LAUNCH, session

ADA = Pairing("telegram:4711", "Ädä", BridgeLevel.DIRECT, "web", AT, "operator")
BOB = Pairing("telegram:4712", "Bob", BridgeLevel.SANDBOXED, None, AT, "telegram:1")
ASKED = PairRequest(1, "telegram:4713", "Cy", PairState.OPEN, AT, AT)


async def test_database_of_version_10_has_its_pairings_and_requests(tmp_path: Path) -> None:
    path = tmp_path / "sm.db"
    shutil.copy(DATA / "v10.db", path)
    async with await Store.open(str(path)) as store:
        assert store.part(PART).rows.pairings == {golden.PAIRING.user: golden.PAIRING}
        assert store.part(PART).rows.requests == {1: golden.PAIR_REQUEST}
        assert store.sessions["aaaa3333"] == golden.PAIRED
        assert store.sessions["aaaa1111"].paired_user is None


async def test_pairings_and_requests_survive_a_restart(tmp_path: Path) -> None:
    path = str(tmp_path / "sm.db")
    async with await Store.open(path) as store, store.transaction() as tx:
        tx.part(PART).put(ADA)
        tx.part(PART).put(BOB)
        tx.part(PART).put_request(ASKED)
        tx.part(PART).put_request(PairRequest(2, "telegram:4714", "Di", PairState.DENIED, AT, AT))
    async with await Store.open(path) as store:
        assert store.part(PART).rows.pairings == {ADA.user: ADA, BOB.user: BOB}
        assert store.part(PART).rows.requests[1] == ASKED
        async with store.transaction() as tx:
            assert tx.part(PART).new_id() == 3
            tx.part(PART).remove(BOB.user)
            tx.part(PART).remove_request(ASKED)
            assert BOB.user not in tx.part(PART).rows.pairings
    async with await Store.open(path) as store:
        assert store.part(PART).rows.pairings == {ADA.user: ADA}
        assert list(store.part(PART).rows.requests) == [2]


@pytest.mark.parametrize("level", ["owner", "operator", "full", "", "not yet invented"])
async def test_stored_level_that_is_not_direct_reads_as_sandboxed(tmp_path: Path, level: str) -> None:
    path = str(tmp_path / "sm.db")
    async with await Store.open(path) as store, store.transaction() as tx:
        tx.part(PART).put(ADA)
        tx.write("UPDATE pairings SET level = ?", (level,))
    async with await Store.open(path) as store:
        assert store.part(PART).rows.pairings[ADA.user].level is BridgeLevel.SANDBOXED


async def test_newest_session_of_a_creator_is_found_after_it_was_removed(tmp_path: Path) -> None:
    async with await Store.open(str(tmp_path / "sm.db")) as store:
        async with store.transaction() as tx:
            await tx.insert(session("aaaa1111"), LAUNCH, None)
            assert await tx.newest_created_at("telegram:4711") is None
            assert await tx.newest_created_at("operator") == AT
        async with store.transaction() as tx:
            await tx.remove(tx.session("aaaa1111"))
        async with store.transaction() as tx:
            assert await tx.newest_created_at("operator") == AT
