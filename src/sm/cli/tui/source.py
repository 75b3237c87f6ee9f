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
        self._ahead: _Stream | None = None

    def read_ahead(self, path: str, query: Mapping[str, str]) -> None:
        """Begin to read the first of some events, before the event loop runs. The next call of `events` yields it."""
        self._ahead = _Stream(self._client, path, query)
        self._ahead.begin()

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        return await in_thread(lambda: self._client.get(path, query))

    async def events(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[Any]:
        ahead, self._ahead = self._ahead, None
        stream = (
            ahead if ahead is not None and ahead.is_of(path, query) else _Stream(self._client, path, query)
        )
        try:
            while (event := await stream.next()) is not None:
                yield event
        finally:
            stream.close()


class _Stream:
    """Events of the daemon, which threads read one after the other."""

    def __init__(self, client: Client, path: str, query: Mapping[str, str]) -> None:
        # The stream ends when the other end of this pipe is closed: it may be silent for a long time.
        self._end, reader_fd = os.pipe()
        self._request = (path, query)
        self._events = _decoded(client, path, query, reader_fd)
        self._begun: Future[Any] | None = None

    def is_of(self, path: str, query: Mapping[str, str]) -> bool:
        return self._request == (path, query)

    def begin(self) -> None:
        """Read the next event before a call of `next` asks for it."""
        self._begun = answer_of(lambda: next(self._events, None))

    async def next(self) -> Any:
        """The next event, or None at the end."""
        if self._begun is None:
            self.begin()
        assert self._begun is not None
        begun, self._begun = self._begun, None
        return await asyncio.wrap_future(begun)

    def close(self) -> None:
        os.close(self._end)
        with suppress(ValueError):  # it runs, and ends by itself
            self._events.close()


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
    return await asyncio.wrap_future(answer_of(function))


def answer_of(function: Callable[[], T]) -> Future[T]:
    """Begin to call the function in a thread that does not outlive the process."""
    answer = Future[T]()
    answer.set_running_or_notify_cancel()  # so that the thread may also answer after the caller was cancelled

    def call() -> None:
        try:
            answer.set_result(function())
        except Exception as error:  # noqa: BLE001 - the caller raises it
            answer.set_exception(error)

    threading.Thread(target=call, name="sm top", daemon=True).start()
    return answer
