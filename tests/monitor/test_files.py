"""Who hears that a file is written to."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sm.monitor.files import FileEvents
from tests.load import scaled


@pytest.fixture
async def listening() -> AsyncIterator[FileEvents]:
    listening = FileEvents()
    yield listening
    listening.close()


class Ear:
    """Somebody who listens."""

    def __init__(self) -> None:
        self._heard = asyncio.Event()

    def told(self) -> None:
        self._heard.set()

    async def hears(self) -> None:
        async with asyncio.timeout(scaled()):
            await self._heard.wait()
        self._heard.clear()

    @property
    def silent(self) -> bool:
        return not self._heard.is_set()


async def test_both_of_two_sessions_hear_of_the_file_that_they_share(
    listening: FileEvents, tmp_path: Path
) -> None:
    transcript, (one, other) = tmp_path / "conversation.jsonl", (Ear(), Ear())
    listening.listen(str(transcript), "one", one.told)
    listening.listen(str(transcript), "other", other.told)
    transcript.write_text("first\n")
    await one.hears()
    await other.hears()

    listening.forget("other")
    transcript.write_text("second\n")
    await one.hears()
    assert other.silent


async def test_who_listens_twice_is_told_once(listening: FileEvents, tmp_path: Path) -> None:
    before, now = Ear(), Ear()
    listening.listen(str(tmp_path / "file"), "one", before.told)
    listening.listen(str(tmp_path / "file"), "one", now.told)
    (tmp_path / "file").touch()
    await now.hears()
    assert before.silent
