"""Notifications about writes to files."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sm.monitor.files import FileEvents


@pytest.fixture
async def events() -> AsyncIterator[FileEvents]:
    events = FileEvents()
    yield events
    events.close()


class Listener:
    def __init__(self) -> None:
        self._notified = asyncio.Event()

    def notify(self) -> None:
        self._notified.set()

    async def wait(self) -> None:
        await self._notified.wait()
        self._notified.clear()

    @property
    def is_notified(self) -> bool:
        return self._notified.is_set()


async def test_write_to_a_shared_file_notifies_both_sessions(events: FileEvents, tmp_path: Path) -> None:
    transcript, (first, second) = tmp_path / "conversation.jsonl", (Listener(), Listener())
    events.listen(str(transcript), "one", first.notify)
    events.listen(str(transcript), "other", second.notify)
    transcript.write_text("first\n")
    await first.wait()
    await second.wait()

    events.forget("other")
    transcript.write_text("second\n")
    await first.wait()
    assert not second.is_notified


async def test_second_listen_replaces_the_callback_of_a_session(events: FileEvents, tmp_path: Path) -> None:
    replaced, current = Listener(), Listener()
    events.listen(str(tmp_path / "file"), "one", replaced.notify)
    events.listen(str(tmp_path / "file"), "one", current.notify)
    (tmp_path / "file").touch()
    await current.wait()
    assert not replaced.is_notified


async def test_file_in_a_directory_that_does_not_exist_yet_is_reported(tmp_path: Path) -> None:
    events, told = FileEvents(), asyncio.Event()
    path = tmp_path / "projects/work/conversation.jsonl"
    try:
        events.listen(str(path), "1a2b3c4d", told.set)
        path.parent.mkdir(parents=True)
        await told.wait()
        told.clear()
        path.write_text("line")
        await told.wait()
    finally:
        events.close()
