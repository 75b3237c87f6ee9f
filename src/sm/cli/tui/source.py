"""Reads from the daemon for `sm top`: the blocking client in threads, for the event loop of the view."""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from sm.client.http import Client, decode_answer

T = TypeVar("T")


class ThreadedSource:
    """A `FeedSource`. A thread that waits for a daemon that hangs outlives its cancelled call, but not the process."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        return await in_thread(lambda: self._client.get(path, query))

    async def events(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[Any]:
        # The stream ends when the other end of this pipe is closed: it may be silent for a long time.
        end, reader_fd = os.pipe()
        events = _decoded(self._client, path, query, reader_fd)
        try:
            while (event := await in_thread(lambda: next(events, None))) is not None:
                yield event
        finally:
            os.close(end)
            with suppress(ValueError):  # it runs, and ends by itself
                events.close()


def _decoded(
    client: Client, path: str, query: Mapping[str, str], reader_fd: int
) -> Generator[Any, None, None]:
    try:
        for _, data in client.events(path, query, reader_fd=reader_fd):
            yield decode_answer(data)
    finally:
        os.close(reader_fd)


async def in_thread(function: Callable[[], T]) -> T:
    """Call the function in a separate thread. If the caller is cancelled, nobody waits for the thread."""
    answer = Future[T]()
    answer.set_running_or_notify_cancel()  # so that the thread may also answer after the caller was cancelled

    def call() -> None:
        try:
            answer.set_result(function())
        except Exception as error:  # noqa: BLE001 - the caller raises it
            answer.set_exception(error)

    threading.Thread(target=call, name="sm top", daemon=True).start()
    return await asyncio.wrap_future(answer)
