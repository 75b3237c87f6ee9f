"""The watch over the processes of agents."""

import asyncio
import errno
import logging

import pytest

from sm.daemon import sandboxing
from sm.daemon.sandboxing import SandboxParts
from sm.sandboxes.session_processes import SessionProcesses
from tests.sandboxes.terminal import without_cgroups


async def test_watch_goes_on_when_looks_fail_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A daemon without a free file descriptor must not end for want of a look."""
    looks = 0
    goes_on = asyncio.Event()
    loop = asyncio.get_running_loop()

    def look(_: SessionProcesses) -> None:
        nonlocal looks
        looks += 1
        if looks > 2:
            loop.call_soon_threadsafe(goes_on.set)
        else:
            raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(sandboxing, "_LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(SessionProcesses, "look", look)
    parts = SandboxParts.__new__(SandboxParts)
    parts.session_processes = without_cgroups()
    with caplog.at_level(logging.WARNING):
        watch = asyncio.create_task(parts.watch_processes())
        waiting = asyncio.create_task(goes_on.wait())
        await asyncio.wait((watch, waiting), return_when=asyncio.FIRST_COMPLETED)
        assert not watch.done()
        watch.cancel()
        waiting.cancel()
    assert [record.message for record in caplog.records] == [
        "could not look at the processes of agents: [Errno 24] too many open files"
    ]
