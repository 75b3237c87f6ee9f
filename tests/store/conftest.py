"""Fixtures of the store."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sm.store import Store


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "sm.db")


@pytest.fixture
async def store(path: str) -> AsyncIterator[Store]:
    async with await Store.open(path) as opened:
        yield opened
