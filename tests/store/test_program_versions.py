"""The stored version of the program that a session runs."""

import shutil
from pathlib import Path

import pytest

from sm.store import Store
from tests import golden

DATA = Path(__file__).parents[1] / "data"


async def test_database_of_version_13_still_opens(tmp_path: Path) -> None:
    path = tmp_path / "sm.db"
    shutil.copy(DATA / "v13.db", path)
    async with await Store.open(str(path)) as store:
        assert store.sessions[golden.VERSIONED.id] == golden.VERSIONED


@pytest.mark.parametrize("name", ["v10.db", "v12.db"])
async def test_sessions_of_an_older_database_have_no_version(tmp_path: Path, name: str) -> None:
    path = tmp_path / "sm.db"
    shutil.copy(DATA / name, path)
    async with await Store.open(str(path)) as store:
        assert {session.program_version for session in store.sessions.values()} == {None}
