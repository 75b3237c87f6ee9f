"""Transactions of the store: commits, rollbacks and shared commits."""

import ast
import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import sm
from sm.core.lifecycle import Decision
from sm.core.models import OPERATOR, Exit, RequestKey, Signal
from sm.core.session_index import is_unfinished, oldest_first
from sm.core.states import EventType, SignalKind
from sm.core.statuses import Status
from sm.errors import IllegalState, InternalError, StorageFull
from sm.store import Store, Transaction, durable
from sm.store.write_queue import WriteTurn
from tests.samples import AT, LAUNCH, session

SESSION = session("aaaa1111")
KEY = RequestKey("k", "print")
DIED = Decision(Status.SPAWNED, Status.ERROR, None, Signal(SignalKind.CRASHED, "test", "it died", AT))


@pytest.fixture
async def store(store: Store) -> Store:
    async with store.transaction() as tx:
        await tx.insert(SESSION, LAUNCH, None)
    return store


async def note(tx: Transaction, text: str) -> None:
    """Change a session and append an event."""
    after = await tx.update(tx.session(SESSION.id), note=text)
    await tx.event(EventType.NOTE, after, AT, text, {})


async def notes(store: Store) -> list[str]:
    """The notes on disk. The session in memory must have the last of them."""
    messages = [event.message for event in await store.events(sessions=None)]
    assert store.sessions[SESSION.id].note == (messages[-1] if messages else None)
    return messages


async def written(store: Store, text: str) -> None:
    async with store.transaction() as tx:
        await note(tx, text)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - nothing announces these states of the store
        await asyncio.sleep(0)


@pytest.fixture(params=[0, 2], ids=["alone", "with others"])
def others(request: pytest.FixtureRequest) -> int:
    """How many other transactions share the commit."""
    return int(request.param)


async def run_with(store: Store, others: int, task: "asyncio.Task[None]") -> BaseException | None:
    """Run the task with `others` other transactions in its commit, and return its exception."""
    tasks = [asyncio.create_task(written(store, f"other {n}")) for n in range(others)]
    await asyncio.wait([task, *tasks])
    for other in tasks:
        other.result()
    if task.cancelled():
        return asyncio.CancelledError()
    return task.exception()


# --------------------------------------------------------------------------------------------- cancelled callers


async def test_caller_cancelled_while_waiting_for_its_turn_changes_nothing(store: Store) -> None:
    leave = asyncio.Event()

    async def first() -> None:
        async with store.transaction() as tx:
            await note(tx, "first")
            await leave.wait()

    holder = asyncio.create_task(first())
    await until(lambda: store.commits.queue._inside is not None)
    waiting = [asyncio.create_task(written(store, text)) for text in ("second", "third")]
    await until(lambda: store.commits.queue._turns.qsize() == 2)
    waiting[0].cancel()
    leave.set()
    await asyncio.wait([holder, *waiting])
    assert waiting[0].cancelled()
    assert await notes(store) == ["first", "third"]


async def test_caller_cancelled_between_grant_and_start_of_its_turn_changes_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[WriteTurn] = []

    class Recorded(WriteTurn):
        def __init__(self) -> None:
            super().__init__()
            turns.append(self)

    monkeypatch.setattr("sm.store.write_queue.WriteTurn", Recorded)
    task = asyncio.create_task(written(store, "never"))
    await until(lambda: bool(turns))
    await until(lambda: turns[0].granted.done())
    assert store.commits.queue._inside is None
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    await written(store, "next")
    assert await notes(store) == ["next"]


@pytest.mark.parametrize("reads", [False, True], ids=["no read", "with a read"])
@pytest.mark.parametrize("writes", [False, True], ids=["before any write", "after a write"])
async def test_caller_cancelled_inside_its_transaction_is_rolled_back_alone(
    store: Store, others: int, writes: bool, reads: bool
) -> None:
    async def body() -> None:
        async with store.transaction(OPERATOR, KEY) as tx:
            if writes:
                await note(tx, "never")
                tx.remember("never")
            if reads:
                await tx.newest_child_at(SESSION.id)
            task.cancel()
            await asyncio.sleep(0)
            raise AssertionError("the cancellation was lost")

    task = asyncio.create_task(body())
    assert isinstance(await run_with(store, others, task), asyncio.CancelledError)
    assert await notes(store) == [f"other {n}" for n in range(others)]
    async with store.transaction(OPERATOR, KEY) as tx:
        assert tx.replayed is None


async def test_caller_cancelled_while_its_writes_are_flushed_for_a_read_is_rolled_back(
    store: Store, others: int
) -> None:
    async def body() -> None:
        async with store.transaction() as tx:
            await note(tx, "never")
            asyncio.get_running_loop().call_soon(task.cancel)
            await tx.newest_child_at(SESSION.id)
            await tx.newest_child_at(SESSION.id)
            raise AssertionError("the cancellation was lost")

    task = asyncio.create_task(body())
    assert isinstance(await run_with(store, others, task), asyncio.CancelledError)
    assert await notes(store) == [f"other {n}" for n in range(others)]


async def test_caller_cancelled_during_commit_is_cancelled_after_the_commit(
    store: Store, others: int
) -> None:
    seen: list[str | None] = []

    async def body() -> None:
        try:
            async with store.transaction(OPERATOR, KEY) as tx:
                await note(tx, "kept")
                tx.remember("kept")
                asyncio.get_running_loop().call_soon(task.cancel)
        finally:
            seen.append(store.sessions[SESSION.id].note)

    task = asyncio.create_task(body())
    assert isinstance(await run_with(store, others, task), asyncio.CancelledError)
    assert await notes(store) == ["kept", *(f"other {n}" for n in range(others))]
    assert seen[0] is not None  # a cancelled caller can see that its transaction is committed
    async with store.transaction(OPERATOR, KEY) as tx:
        assert tx.replayed == "kept"


async def test_caller_cancelled_after_its_transaction_stays_committed(store: Store, others: int) -> None:
    async def body() -> None:
        await written(store, "kept")
        task.cancel()
        await asyncio.sleep(0)

    task = asyncio.create_task(body())
    assert isinstance(await run_with(store, others, task), asyncio.CancelledError)
    assert "kept" in await notes(store)


async def test_timeout_inside_a_transaction_rolls_back_and_frees_the_writer(store: Store) -> None:
    async def stuck() -> None:
        async with asyncio.timeout(0.01), store.transaction() as tx:
            await note(tx, "never")
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await stuck()
    await written(store, "next")
    assert await notes(store) == ["next"]


# --------------------------------------------------------------------------------------------- bodies that raise


@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("error", [IllegalState, InternalError], ids=["body", "database"])
async def test_failed_transaction_is_rolled_back_alone(
    store: Store, others: int, reads: bool, error: type[Exception]
) -> None:
    async def body() -> None:
        async with store.transaction() as tx:
            await note(tx, "never")
            if error is InternalError:
                await tx.insert(SESSION, LAUNCH, None)
            if reads:
                await tx.newest_child_at(SESSION.id)
            if error is IllegalState:
                raise IllegalState("no")

    task = asyncio.create_task(body())
    assert isinstance(await run_with(store, others, task), error)
    assert await notes(store) == [f"other {n}" for n in range(others)]


async def test_nested_transaction_is_refused_without_a_deadlock(store: Store) -> None:
    async def outer() -> None:
        async with store.transaction() as tx:
            await note(tx, "never")
            await written(store, "inner")

    with pytest.raises(InternalError, match="within"):
        await outer()
    assert await notes(store) == []


async def test_transaction_is_refused_when_store_is_closed(path: str) -> None:
    async with await Store.open(path) as store:
        pass
    with pytest.raises(InternalError, match="closed"):
        await written(store, "never")


# ------------------------------------------------------------------------------------------------------- batches


async def commits(store: Store, count: int) -> int:
    """The number of commits for `count` concurrent callers."""
    statements: list[str] = []
    await store._writer.set_trace_callback(statements.append)
    await asyncio.gather(*(written(store, f"{n}") for n in range(count)))
    return sum(sql.startswith("COMMIT") for sql in statements)


@pytest.mark.parametrize(("callers", "expected"), [(1, 1), (2, 1), (64, 1), (65, 2), (200, 4)])
async def test_concurrent_callers_share_a_commit(store: Store, callers: int, expected: int) -> None:
    assert await commits(store, callers) == expected
    assert [event.seq for event in await store.events(sessions=None, limit=500)] == list(
        range(1, callers + 1)
    )


async def test_callers_that_arrive_during_a_commit_share_the_next_commit(store: Store) -> None:
    statements: list[str] = []
    await store._writer.set_trace_callback(statements.append)
    first = asyncio.create_task(written(store, "first"))
    await until(lambda: store.log.writing.locked())
    await asyncio.gather(first, *(written(store, f"{n}") for n in range(10)))
    assert sum(sql.startswith("COMMIT") for sql in statements) == 2


async def test_read_only_transaction_does_not_commit(store: Store) -> None:
    statements: list[str] = []
    await store._writer.set_trace_callback(statements.append)
    async with store.transaction(OPERATOR, KEY) as tx:
        assert tx.session(SESSION.id) == SESSION
    assert not any(sql.startswith(("BEGIN", "COMMIT")) for sql in statements)


# ----------------------------------------------------------------------------------------------------- full disks


async def test_full_disk_fails_all_transactions_of_the_commit(store: Store, others: int) -> None:
    # SQLite's page limit simulates a full disk: the same error code comes from the same place.
    await store._writer.execute("PRAGMA max_page_count = 1")
    callers = (written(store, "x" * 200_000) for _ in range(others + 1))
    outcomes = await asyncio.gather(*callers, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {StorageFull}
    await store._writer.execute("PRAGMA max_page_count = 1000000")
    await written(store, "next")
    assert await notes(store) == ["next"]


async def test_durable_function_retries_until_the_disk_has_room(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sm.store.commit._FIRST_PAUSE_S", 0.01)
    await store._writer.execute("PRAGMA max_page_count = 1")
    tries = 0

    @durable
    async def record(text: str) -> int:
        nonlocal tries
        tries += 1
        await written(store, text)
        return tries

    task = asyncio.create_task(record("x" * 200_000))
    await until(lambda: tries > 1)
    with pytest.raises(StorageFull):
        await written(store, "y" * 200_000)
    await store._writer.execute("PRAGMA max_page_count = 1000000")
    assert await task == tries
    assert await notes(store) == ["x" * 200_000]


# ---------------------------------------------------------------------------------- awaits inside a transaction


def scopes(tree: ast.Module) -> Iterator[ast.AST]:
    """The bodies of transactions, and of functions that take a transaction."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AsyncWith):
            for item in node.items:
                opened = item.context_expr
                if (
                    isinstance(opened, ast.Call)
                    and isinstance(opened.func, ast.Attribute)
                    and opened.func.attr == "transaction"
                ):
                    yield ast.Module(body=node.body, type_ignores=[])
        elif isinstance(node, ast.AsyncFunctionDef):
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            if any(argument.arg == "tx" for argument in arguments):
                yield ast.Module(body=node.body, type_ignores=[])


def touches_only_the_transaction(node: ast.AST) -> bool:
    """Return true when the awaited call is a method of `tx` or receives `tx`."""
    if not isinstance(node, ast.Call):
        return False
    receiver = node.func
    while isinstance(receiver, ast.Attribute | ast.Call):
        receiver = receiver.value if isinstance(receiver, ast.Attribute) else receiver.func
    arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
    return any(isinstance(node, ast.Name) and node.id == "tx" for node in (receiver, *arguments))


def outside_waits(source: str) -> list[int]:
    """The lines in which a transaction awaits something outside of the database."""
    lines = set()
    for scope in scopes(ast.parse(source)):
        for node in ast.walk(scope):
            if isinstance(node, ast.Await):
                if not touches_only_the_transaction(node.value):
                    lines.add(node.lineno)
            elif isinstance(node, ast.AsyncWith | ast.AsyncFor):
                lines.add(node.lineno)
    return sorted(lines)


SOURCES = sorted(
    path
    for path in Path(sm.__file__).parent.rglob("*.py")
    if path.parent.name != "store" and "tx" in path.read_text()
)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_transactions_await_only_the_database_in(path: Path) -> None:
    assert outside_waits(path.read_text()) == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("await tx.update(session)", False),
        ("await tx.mail.message(1)", False),
        ("await tx.part(PART).find(1)", False),
        ("await self.part(PART).find(1)", True),
        ("await finish(tx, message)", False),
        ("await self._notices.of_move(tx, after)", False),
        ("await self.store.launch('x')", True),
        ("await sandbox.prepare(session.id)", True),
        ("await asyncio.sleep(0)", True),
        ("await future", True),
        ("async with lock: pass", True),
    ],
)
def test_outside_waits_finds_await_that_is_not_on_the_transaction(line: str, found: bool) -> None:
    body = (
        f"async def use(self):\n    async with self.store.transaction(caller, key) as tx:\n        {line}\n"
    )
    function = f"async def change(tx, session):\n    {line}\n"
    assert bool(outside_waits(body)) is found
    assert bool(outside_waits(function)) is found


async def test_unfinished_sessions_are_those_of_a_scan_in_every_transaction_of_a_commit(store: Store) -> None:
    """Each transaction changes a session, and sees the changes of those before it in the same commit."""
    async with store.transaction() as tx:
        for number in range(4):
            await tx.insert(session(f"bbbb000{number}"), LAUNCH, None)

    async def change(number: int) -> None:
        async with store.transaction() as tx:
            await check(tx)
            current = tx.session(f"bbbb000{number}")
            if number == 0:
                await tx.remove(current)
            else:
                await tx.apply(current, DIED, exit=Exit(1))
            if number == 3:
                await tx.insert(session("cccc0000"), LAUNCH, None)
            await check(tx)

    async def check(tx: Transaction) -> None:
        scanned = [s for s in await tx.select() if is_unfinished(s)]
        assert sorted(tx.unfinished_sessions(), key=oldest_first) == sorted(scanned, key=oldest_first)

    await asyncio.gather(*map(change, range(4)))
    assert sorted(store.index.unfinished) == [SESSION.id, "cccc0000"]
