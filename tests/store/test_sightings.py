"""An instance remembers for ever which parts of a sandbox it has met."""

from dataclasses import replace
from pathlib import Path

from sm.core.sightings import Sighting
from sm.core.states import TrustLevel
from sm.store import Store
from tests.samples import LAUNCH, session


async def test_sighting_survives_the_daemon(tmp_path: Path) -> None:
    async with await Store.open(str(tmp_path / "sm.db")) as store:
        assert store.met == frozenset()
        await store.remember_met(Sighting.ENGINE)
        await store.remember_met(Sighting.ENGINE)
        assert store.met == {Sighting.ENGINE}
    async with await Store.open(str(tmp_path / "sm.db")) as store:
        assert store.met == {Sighting.ENGINE}


async def test_sandboxed_session_of_an_earlier_version_proves_an_engine_and_an_image(tmp_path: Path) -> None:
    async with await Store.open(str(tmp_path / "sm.db")) as store, store.transaction() as tx:
        await tx.insert(session("0a0a0a0a"), LAUNCH, None)
    async with await Store.open(str(tmp_path / "sm.db")) as store:
        assert store.met == frozenset(), "a session that fell back proves nothing"
        async with store.transaction() as tx:
            made = replace(session("0b0b0b0b"), effective_mode=TrustLevel.SANDBOXED)
            await tx.insert(made, LAUNCH, None)
    async with await Store.open(str(tmp_path / "sm.db")) as store:
        assert store.met == frozenset(Sighting)
