"""Accounts and parks on a real SQLite file."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sm.capabilities.accounts.model import Account, Park, ParkKind
from sm.capabilities.accounts.tables import PART
from sm.store import Store
from tests import golden
from tests.golden import DATA

ACCOUNT = Account("claude-1a2b3c4d", "claude", "/c", "d" * 32)
PARK = Park(ParkKind.QUOTA, "session limit", 1.0, 2.0, account=ACCOUNT.name)
OPUS = replace(PARK, model="opus", until=None)


async def test_database_of_version_10_has_its_accounts_and_parks(tmp_path: Path) -> None:
    path = tmp_path / "sm.db"
    shutil.copy(DATA / "v10.db", path)
    async with await Store.open(str(path)) as store:
        assert store.part(PART).rows.accounts == {golden.ACCOUNT.name: golden.ACCOUNT}
        assert list(store.part(PART).rows.parks.values()) == sorted(golden.PARKS, key=lambda park: park.model)
        assert store.sessions["aaaa1111"] == golden.RUNNING


async def test_accounts_parks_and_the_key_survive_a_restart(tmp_path: Path) -> None:
    path = str(tmp_path / "sm.db")
    async with await Store.open(path) as store:
        key = store.account_key
        async with store.transaction() as tx:
            tx.part(PART).put(ACCOUNT)
            tx.part(PART).park(PARK)
            tx.part(PART).park(OPUS)
            tx.part(PART).park(replace(OPUS, tries=3))
            tx.part(PART).unpark(PARK)
        assert len(key) == 32
    async with await Store.open(path) as store:
        assert store.account_key == key
        assert store.part(PART).rows.accounts == {ACCOUNT.name: ACCOUNT}
        assert store.part(PART).rows.parks == {(ACCOUNT.name, "opus"): replace(OPUS, tries=3)}


@pytest.mark.usefixtures("migrated_databases")
async def test_each_database_has_its_own_key(tmp_path: Path) -> None:
    keys = set()
    for name in ("a.db", "b.db"):
        async with await Store.open(str(tmp_path / name)) as store:
            keys.add(store.account_key)
    assert len(keys) == 2


async def test_park_of_a_newer_version_can_be_ended_by_the_operator(tmp_path: Path) -> None:
    path = str(tmp_path / "sm.db")
    async with await Store.open(path) as store, store.transaction() as tx:
        tx.part(PART).park(PARK)
        tx.write("UPDATE parks SET kind = 'not yet invented'", ())
    async with await Store.open(path) as store:
        (park,) = store.part(PART).rows.parks.values()
        assert park.kind is ParkKind.OPERATOR
