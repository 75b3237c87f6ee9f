"""Transactions of the store: whose changes are committed, whose are rolled back, and in how many commits."""

import ast
import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import sm
from sm.core.models import OPERATOR, RequestKey
from sm.core.states import EventType
from sm.errors import IllegalState, InternalError, StorageFull
from sm.store import Store, Transaction, durable
from sm.store.batch import Turn
from tests.samples import AT, LAUNCH, session

ONE = session("aaaa1111")
KEY = RequestKey("k", "print")


@pytest.fixture
async def store(store: Store) -> Store:
    async with store.transaction() as tx:
        await tx.insert(ONE, LAUNCH, None)
    return store


async def note(tx: Transaction, text: str) -> None:
    """A change of each sort: of a session, of a table that is only appended to, and of the outbox."""
    after = await tx.update(tx.session(ONE.id), note=text)
    await tx.event(EventType.NOTE, after, AT, text, {})


async def notes(store: Store) -> list[str]:
    """The notes on disk; memory must agree with the last one."""
    found = [event.message for event in await store.events(sessions=None)]
    assert store.sessions[ONE.id].note == (found[-1] if found else None)
    return found


async def written(store: Store, text: str) -> None:
    async with store.transaction() as tx:
        await note(tx, text)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - nothing announces these states of the store
        await asyncio.sleep(0)


@pytest.fixture(params=[0, 2], ids=["alone", "in company"])
def company(request: pytest.FixtureRequest) -> int:
    """How many other transactions share the commit."""
    return int(request.param)


async def run_with(store: Store, company: int, task: "asyncio.Task[None]") -> BaseException | None:
    """How the task ended; it shared its commit with `company` others, which are all committed."""
    others = [asyncio.create_task(written(store, f"other {n}")) for n in range(company)]
    await asyncio.wait([task, *others])
    for other in others:
        other.result()
    if task.cancelled():
        return asyncio.CancelledError()
    return task.exception()


# --------------------------------------------------------------------------------------------- cancelled callers


async def test_caller_cancelled_while_it_waits_for_its_turn_changes_nothing(store: Store) -> None:
    leave = asyncio.Event()

    async def first() -> None:
        async with store.transaction() as tx:
            await note(tx, "first")
            await leave.wait()

    holder = asyncio.create_task(first())
    await until(lambda: store._inside is not None)
    waiting = [asyncio.create_task(written(store, text)) for text in ("second", "third")]
    await until(lambda: store._turns.qsize() == 2)
    waiting[0].cancel()
    leave.set()
    await asyncio.wait([holder, *waiting])
    assert waiting[0].cancelled()
    assert await notes(store) == ["first", "third"]


async def test_caller_cancelled_when_its_turn_was_granted_and_it_had_not_resumed_changes_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[Turn] = []

    class Recorded(Turn):
        def __init__(self) -> None:
            super().__init__()
            turns.append(self)

    monkeypatch.setattr("sm.store.database.Turn", Recorded)
    task = asyncio.create_task(written(store, "never"))
    await until(lambda: bool(turns))
    await until(lambda: turns[0].granted.done())
    assert store._inside is None
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    await written(store, "next")
    assert await notes(store) == ["next"]


@pytest.mark.parametrize("reads", [False, True], ids=["", "and a read"])
@pytest.mark.parametrize("writes", [False, True], ids=["before any write", "after a write"])
async def test_caller_cancelled_in_its_body_is_rolled_back_alone(
    store: Store, company: int, writes: bool, reads: bool
) -> None:
    async def body() -> None:
        async with store.transaction(OPERATOR, KEY) as tx:
            if writes:
                await note(tx, "never")
                tx.remember("never")
            if reads:
                await tx.newest_child_at(ONE.id)
            task.cancel()
            await asyncio.sleep(0)
            raise AssertionError("it was cancelled")

    task = asyncio.create_task(body())
    assert isinstance(await run_with(store, company, task), asyncio.CancelledError)
    assert await notes(store) == [f"other {n}" for n in range(company)]
    async with store.transaction(OPERATOR, KEY) as tx:
        assert tx.replayed is None


async def test_caller_cancelled_while_its_writes_are_executed_for_a_read_is_rolled_back(
    store: Store, company: int
) -> None:
    async def body() -> None:
        async with store.transaction() as tx:
            await note(tx, "never")
            asyncio.get_running_loop().call_soon(task.cancel)
            await tx.newest_child_at(ONE.id)
            await tx.newest_child_at(ONE.id)
            raise AssertionError("it was cancelled")

    task = asyncio.create_task(body())
    assert isinstance(await run_with(store, company, task), asyncio.CancelledError)
    assert await notes(store) == [f"other {n}" for n in range(company)]


async def test_caller_cancelled_while_it_commits_leaves_with_the_commit_done(
    store: Store, company: int
) -> None:
    seen: list[str | None] = []

    async def body() -> None:
        try:
            async with store.transaction(OPERATOR, KEY) as tx:
                await note(tx, "kept")
                tx.remember("kept")
                asyncio.get_running_loop().call_soon(task.cancel)
        finally:
            seen.append(store.sessions[ONE.id].note)

    task = asyncio.create_task(body())
    assert isinstance(await run_with(store, company, task), asyncio.CancelledError)
    assert await notes(store) == ["kept", *(f"other {n}" for n in range(company))]
    assert seen[0] is not None  # the caller that is cancelled can tell that its commit stands
    async with store.transaction(OPERATOR, KEY) as tx:
        assert tx.replayed == "kept"


async def test_caller_cancelled_after_its_transaction_stays_committed(store: Store, company: int) -> None:
    async def body() -> None:
        await written(store, "kept")
        task.cancel()
        await asyncio.sleep(0)

    task = asyncio.create_task(body())
    assert isinstance(await run_with(store, company, task), asyncio.CancelledError)
    assert "kept" in await notes(store)


async def test_timeout_in_a_body_rolls_back_and_frees_the_writer(store: Store) -> None:
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
@pytest.mark.parametrize("error", [IllegalState, InternalError], ids=["its body", "the database"])
async def test_transaction_that_fails_is_rolled_back_alone(
    store: Store, company: int, reads: bool, error: type[Exception]
) -> None:
    async def body() -> None:
        async with store.transaction() as tx:
            await note(tx, "never")
            if error is InternalError:
                await tx.insert(ONE, LAUNCH, None)
            if reads:
                await tx.newest_child_at(ONE.id)
            if error is IllegalState:
                raise IllegalState("no")

    task = asyncio.create_task(body())
    assert isinstance(await run_with(store, company, task), error)
    assert await notes(store) == [f"other {n}" for n in range(company)]


async def test_transaction_within_a_transaction_is_refused_and_does_not_wait_for_itself(store: Store) -> None:
    async def outer() -> None:
        async with store.transaction() as tx:
            await note(tx, "never")
            await written(store, "inner")

    with pytest.raises(InternalError, match="within"):
        await outer()
    assert await notes(store) == []


async def test_transaction_of_a_closed_store_is_refused(path: str) -> None:
    async with await Store.open(path) as store:
        pass
    with pytest.raises(InternalError, match="closed"):
        await written(store, "never")


# ------------------------------------------------------------------------------------------------------- batches


async def commits(store: Store, count: int) -> int:
    """How many commits it takes when `count` callers come at the same time."""
    statements: list[str] = []
    await store._writer.set_trace_callback(statements.append)
    await asyncio.gather(*(written(store, f"{n}") for n in range(count)))
    return sum(sql.startswith("COMMIT") for sql in statements)


@pytest.mark.parametrize(("callers", "expected"), [(1, 1), (2, 1), (64, 1), (65, 2), (200, 4)])
async def test_callers_that_wait_at_the_same_time_share_a_commit(
    store: Store, callers: int, expected: int
) -> None:
    assert await commits(store, callers) == expected
    assert [event.seq for event in await store.events(sessions=None, limit=500)] == list(
        range(1, callers + 1)
    )


async def test_callers_that_come_during_a_commit_share_the_next_one(store: Store) -> None:
    statements: list[str] = []
    await store._writer.set_trace_callback(statements.append)
    first = asyncio.create_task(written(store, "first"))
    await until(lambda: store._writing.locked())
    await asyncio.gather(first, *(written(store, f"{n}") for n in range(10)))
    assert sum(sql.startswith("COMMIT") for sql in statements) == 2


async def test_transaction_that_writes_nothing_commits_nothing(store: Store) -> None:
    statements: list[str] = []
    await store._writer.set_trace_callback(statements.append)
    async with store.transaction(OPERATOR, KEY) as tx:
        assert tx.session(ONE.id) == ONE
    assert not any(sql.startswith(("BEGIN", "COMMIT")) for sql in statements)


# ----------------------------------------------------------------------------------------------------- full disks


async def test_full_disk_refuses_all_transactions_of_the_commit(store: Store, company: int) -> None:
    # SQLite's own limit stands for the disk's: the same error code comes from the same place.
    await store._writer.execute("PRAGMA max_page_count = 1")
    callers = (written(store, "x" * 200_000) for _ in range(company + 1))
    outcomes = await asyncio.gather(*callers, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {StorageFull}
    await store._writer.execute("PRAGMA max_page_count = 1000000")
    await written(store, "next")
    assert await notes(store) == ["next"]


async def test_durable_function_waits_until_the_disk_has_room(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sm.store.database._FIRST_PAUSE_S", 0.01)
    await store._writer.execute("PRAGMA max_page_count = 1")
    tries = 0

    @durable
    async def record(text: str) -> int:
        nonlocal tries
        tries += 1
        await written(store, text)
        return tries

    fact = asyncio.create_task(record("x" * 200_000))
    await until(lambda: tries > 1)
    with pytest.raises(StorageFull):
        await written(store, "y" * 200_000)
    await store._writer.execute("PRAGMA max_page_count = 1000000")
    assert await fact == tries
    assert await notes(store) == ["x" * 200_000]


# ----------------------------------------------------------------------------------- what a body may wait for


def scopes(tree: ast.Module) -> Iterator[ast.AST]:
    """The bodies of transactions, and the functions that take one."""
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
    """Whether what is awaited is a method of `tx`, or is given `tx`."""
    if not isinstance(node, ast.Call):
        return False
    receiver = node.func
    while isinstance(receiver, ast.Attribute):
        receiver = receiver.value
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    return any(isinstance(each, ast.Name) and each.id == "tx" for each in (receiver, *given))


def outside_waits(source: str) -> list[int]:
    """The lines in which a transaction waits for something else."""
    found = set()
    for scope in scopes(ast.parse(source)):
        for node in ast.walk(scope):
            if isinstance(node, ast.Await):
                if not touches_only_the_transaction(node.value):
                    found.add(node.lineno)
            elif isinstance(node, ast.AsyncWith | ast.AsyncFor):
                found.add(node.lineno)
    return sorted(found)


SOURCES = sorted(
    path
    for path in Path(sm.__file__).parent.rglob("*.py")
    if path.parent.name != "store" and "tx" in path.read_text()
)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_transaction_waits_for_nothing_outside_the_database(path: Path) -> None:
    assert outside_waits(path.read_text()) == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("await tx.update(session)", False),
        ("await tx.mail.message(1)", False),
        ("await finish(tx, message)", False),
        ("await self._notices.of_move(tx, after)", False),
        ("await self.store.launch('x')", True),
        ("await sandbox.prepare(session.id)", True),
        ("await asyncio.sleep(0)", True),
        ("await future", True),
        ("async with lock: pass", True),
    ],
)
def test_wait_for_the_outside_is_found(line: str, found: bool) -> None:
    body = (
        f"async def use(self):\n    async with self.store.transaction(caller, key) as tx:\n        {line}\n"
    )
    function = f"async def change(tx, session):\n    {line}\n"
    assert bool(outside_waits(body)) is found
    assert bool(outside_waits(function)) is found
