"""Pull requests of sessions in the database."""

from sm.capabilities.pull_requests.model import PullRequest, PullRequestState
from sm.store import Schema, Store, Transaction
from sm.store.connection import Read
from sm.store.part import PartWrites, TablePart
from sm.store.rows import RowTable, insertion

_SCHEMA = Schema(
    "pull_requests",
    (
        """CREATE TABLE pull_requests (
            session_id TEXT NOT NULL,
            url TEXT NOT NULL,
            number INTEGER NOT NULL,
            branch TEXT NOT NULL,
            state TEXT NOT NULL,
            retries INTEGER NOT NULL,
            recorded_at TEXT NOT NULL,
            PRIMARY KEY (session_id, url)
        ) WITHOUT ROWID""",
        """CREATE TABLE pull_request_reports (
            session_id TEXT NOT NULL,
            url TEXT NOT NULL,
            key TEXT NOT NULL,
            PRIMARY KEY (session_id, url, key)
        ) WITHOUT ROWID""",
    ),
)
_PULL_REQUESTS = RowTable(
    "pull_requests",
    PullRequest,
    decode={
        "state": lambda state: (
            PullRequestState(state) if state in set(PullRequestState) else PullRequestState.OPEN
        )
    },
)


class PullRequestReads:
    """Reads the pull requests of a session."""

    def __init__(self, read: Read) -> None:
        self._read = read

    async def all(self, session_id: str) -> list[PullRequest]:
        """The oldest first."""
        rows = await self._read(
            f"{_PULL_REQUESTS.select} WHERE session_id = ? ORDER BY recorded_at, number", (session_id,)
        )
        return list(map(_PULL_REQUESTS.load, rows))

    async def reported(self, session_id: str, url: str) -> list[str]:
        """The keys of the reports about a pull request."""
        rows = await self._read(
            "SELECT key FROM pull_request_reports WHERE session_id = ? AND url = ? ORDER BY key",
            (session_id, url),
        )
        return [row[0] for row in rows]


class PullRequestWrites(PullRequestReads, PartWrites):
    """Changes pull requests in a transaction."""

    _tx: Transaction

    def __init__(self, part: "PullRequestTables", transaction: Transaction) -> None:
        PartWrites.__init__(self, part, transaction)
        PullRequestReads.__init__(self, transaction.read)

    def put(self, pull_request: PullRequest) -> None:
        row = _PULL_REQUESTS.row(pull_request)
        self._tx.write(*insertion(_PULL_REQUESTS.name, row, verb="INSERT OR REPLACE"))

    def add_report(self, pull_request: PullRequest, key: str) -> None:
        row = {"session_id": pull_request.session_id, "url": pull_request.url, "key": key}
        self._tx.insert_row("pull_request_reports", row)

    def forget(self, session_id: str) -> None:
        for table in ("pull_requests", "pull_request_reports"):
            self._tx.write(
                f"DELETE FROM {table} WHERE session_id = ?",  # noqa: S608 - constant names
                (session_id,),
            )


class PullRequestTables(TablePart[PullRequestReads, PullRequestWrites]):
    schema = _SCHEMA

    def reads(self, store: Store) -> PullRequestReads:
        return PullRequestReads(store.read)

    def writes(self, transaction: Transaction) -> PullRequestWrites:
        return PullRequestWrites(self, transaction)


PART = PullRequestTables()
