"""Workspaces in the database."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from sm.core.models import Capabilities, Workspace
from sm.core.states import TrustLevel
from sm.errors import IllegalState
from sm.store import Store, Transaction
from tests import golden
from tests.samples import AT, commit

GOLDEN = Path(__file__).parents[1] / "data"
SHOP = Workspace("shop", "/srv/shop", AT)


async def put(store: Store, *workspaces: Workspace) -> None:
    async with store.transaction() as tx:
        for workspace in workspaces:
            tx.put_workspace(workspace)


async def test_store_restores_every_workspace_field_after_reopening(tmp_path: Path) -> None:
    path = str(tmp_path / "sm.db")
    full = replace(
        SHOP,
        trust_level=TrustLevel.SANDBOXED,
        capabilities=Capabilities(mcps=("a", "b"), skills=(), agents=None),
        strict_mcps=True,
        sandbox={"memory": "2g", "mounts": ["/srv/däta"]},
        deleted_at=AT,
    )
    async with await Store.open(path) as store:
        await put(store, SHOP)
        before = store.workspaces
        await put(store, full, Workspace("bank", "/srv/bank", AT))
        assert dict(before) == {"shop": SHOP}
        assert store.workspaces["shop"] == full
    async with await Store.open(path) as store:
        assert dict(store.workspaces) == {"shop": full, "bank": Workspace("bank", "/srv/bank", AT)}


async def test_failed_transaction_changes_no_workspace(tmp_path: Path) -> None:
    async with await Store.open(str(tmp_path / "sm.db")) as store:
        await put(store, SHOP)

        async def unit(tx: Transaction) -> None:
            tx.put_workspace(replace(SHOP, directory="/srv/other"))
            assert tx.workspace("shop") == replace(SHOP, directory="/srv/other")
            assert tx.all_workspaces() == [replace(SHOP, directory="/srv/other")]
            raise IllegalState("no")

        with pytest.raises(IllegalState):
            await commit(store, unit)
        assert dict(store.workspaces) == {"shop": SHOP}


async def test_unreadable_workspace_values_load_as_the_most_restrictive(tmp_path: Path) -> None:
    path = tmp_path / "sm.db"
    async with await Store.open(str(path)) as store:
        await put(store, SHOP, Workspace("bank", "/srv/bank", AT))
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE workspaces SET capabilities = '{' WHERE slug = 'shop'")
        db.execute("UPDATE workspaces SET trust_level = 'root' WHERE slug = 'bank'")
    db.close()
    async with await Store.open(str(path)) as store:
        assert store.workspaces["shop"].capabilities == Capabilities((), (), ())
        assert store.workspaces["bank"].trust_level is TrustLevel.SANDBOXED


# ------------------------------------------------------------------------------------------ older databases


async def test_database_of_version_10_has_its_workspaces(tmp_path: Path) -> None:
    path = tmp_path / "sm.db"
    path.write_bytes((GOLDEN / "v10.db").read_bytes())
    async with await Store.open(str(path)) as store:
        assert dict(store.workspaces) == {w.slug: w for w in (*golden.WORKSPACES, golden.SUPERVISED)}
