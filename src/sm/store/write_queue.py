"""The queue of the writer: which caller's transaction runs, and what a commit does to those that wait for it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from sm.errors import InternalError
from sm.store.transaction import Transaction

_MOST_IN_A_COMMIT = 64


class WriteTurn:
    """The place of one caller in the queue of the writer.

    The writer grants the turn, the caller's task runs the body and hands the transaction back, and the writer
    commits it.
    """

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.granted: asyncio.Future[Transaction] = loop.create_future()
        self.handed_back: asyncio.Future[bool] = loop.create_future()
        """Set when the body ends, to True to commit the transaction."""
        self._woken: asyncio.Future[None] = loop.create_future()
        self._over = False
        self._error: Exception | None = None

    @property
    def cancelled(self) -> bool:
        """The caller was cancelled while it waited for its turn."""
        return self.granted.cancelled()

    def hand_back(self, *, keep: bool) -> None:
        if self.granted.done() and not self.cancelled:
            self.handed_back.set_result(keep)
        else:
            self.granted.cancel()

    def succeed(self) -> None:
        self._finish(None)

    def fail(self, error: Exception) -> None:
        """Raise `error` in the caller, which waits for its turn or for the commit."""
        if not self.granted.done():
            self.granted.set_exception(error)
        elif not self._over:
            self._finish(error)

    def _finish(self, error: Exception | None) -> None:
        self._over, self._error = True, error
        if not self._woken.done():
            self._woken.set_result(None)

    async def outcome(self) -> None:
        """Wait for the commit and raise its error. A cancelled caller also waits, then raises CancelledError."""
        cancelled: asyncio.CancelledError | None = None
        while not self._over:
            try:
                await self._woken
            except asyncio.CancelledError as error:
                cancelled = error
                self._woken = asyncio.get_running_loop().create_future()
        if cancelled is not None:
            raise cancelled
        if self._error is not None:
            raise self._error


class WriteQueue:
    """Gives callers their turns, one after the other, and commits those that wait together in one batch."""

    def __init__(self, commit: Callable[[list[WriteTurn]], Awaitable[None]]) -> None:
        """`commit` grants each turn and finishes it. It fails them all before it raises."""
        self._commit = commit
        self._turns: asyncio.Queue[WriteTurn | None] = asyncio.Queue()
        self._inside: asyncio.Task[Any] | None = None
        """The task that runs the body of a transaction."""
        self._ended = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="store-writer")

    async def end(self) -> None:
        """Finish the turns that wait, then end. Raises the exception of the writer."""
        assert self._task is not None
        self._turns.put_nowait(None)
        await self._task

    async def wait_ended(self) -> None:
        """Wait for the writer to end, and raise its exception. No write succeeds after its end."""
        assert self._task is not None
        await asyncio.shield(self._task)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Transaction]:
        """Run the body in a transaction; return once it is committed. Raises what prevented the commit.

        An exception or the cancellation of the body rolls back this transaction and no other.
        """
        if self._inside is not None and self._inside is asyncio.current_task():
            raise InternalError("a transaction cannot begin within another one of the same task")
        if self._ended:
            raise InternalError("the database is closed")
        turn = WriteTurn()
        self._turns.put_nowait(turn)
        try:
            tx = await turn.granted
            self._inside = asyncio.current_task()
            yield tx
        except BaseException:
            turn.hand_back(keep=False)
            raise
        finally:
            if self._inside is asyncio.current_task():
                self._inside = None
        turn.hand_back(keep=True)
        await turn.outcome()

    async def _run(self) -> None:
        try:
            running = True
            while running:
                waiting = [await self._turns.get()]
                while len(waiting) < _MOST_IN_A_COMMIT and not self._turns.empty():
                    waiting.append(self._turns.get_nowait())
                batch = [turn for turn in waiting if turn is not None]
                running = len(batch) == len(waiting)
                if batch:
                    await self._commit(batch)
        finally:
            self._ended = True
            while not self._turns.empty():
                left = self._turns.get_nowait()
                if left is not None:
                    left.fail(InternalError("the database is closed"))
