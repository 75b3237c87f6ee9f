"""Comments and rounds of reviews in the database."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from sm.capabilities.reviews.model import ROUNDS_MAX, Comment, CommentPlace, Round, Side
from sm.capabilities.reviews.rules import in_order
from sm.store import Schema, Store, Transaction
from sm.store.connection import Read
from sm.store.part import PartWrites, TablePart
from sm.store.rows import RowTable, insertion

_SCHEMA = Schema(
    "reviews",
    (
        """CREATE TABLE review_comments (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            session_id TEXT NOT NULL,
            person TEXT NOT NULL,
            round INTEGER NOT NULL,
            number INTEGER NOT NULL,
            path TEXT,
            side TEXT,
            first INTEGER,
            last INTEGER,
            quote TEXT NOT NULL,
            text TEXT NOT NULL
        )""",
        "CREATE INDEX review_comments_of ON review_comments (session_id, person, round)",
        """CREATE TABLE review_rounds (
            session_id TEXT NOT NULL,
            person TEXT NOT NULL,
            number INTEGER NOT NULL,
            message_id INTEGER NOT NULL,
            sent_at TEXT NOT NULL,
            tree TEXT NOT NULL,
            head TEXT NOT NULL,
            base TEXT NOT NULL,
            count INTEGER NOT NULL,
            PRIMARY KEY (session_id, person, number)
        ) WITHOUT ROWID""",
    ),
)
_COMMENTS = RowTable(
    "review_comments",
    Comment,
    split={"place": ("path", "side", "first", "last")},
    encode={"place": lambda place: (place.path, place.side, place.first, place.last)},
    decode={
        "place": lambda path, side, first, last: CommentPlace(
            path, None if side is None else Side(side) if side in set(Side) else Side.NEW, first, last
        )
    },
)
_ROUNDS = RowTable("review_rounds", Round)
_OF = "WHERE session_id = ? AND person = ?"


class ReviewReads:
    """Reads the comments and rounds of a person."""

    def __init__(self, read: Read) -> None:
        self._read = read

    async def comments(self, session_id: str, person: str, round: int = 0) -> list[Comment]:
        """The comments of a round in order, or the drafts."""
        rows = await self._read(
            f"{_COMMENTS.select} {_OF} AND round = ? ORDER BY id", (session_id, person, round)
        )
        return in_order(map(_COMMENTS.load, rows))

    async def rounds(self, session_id: str, person: str) -> list[Round]:
        """The newest first."""
        rows = await self._read(f"{_ROUNDS.select} {_OF} ORDER BY number DESC", (session_id, person))
        return list(map(_ROUNDS.load, rows))


class ReviewWrites(ReviewReads, PartWrites):
    """Changes comments and rounds in a transaction."""

    _tx: Transaction

    def __init__(self, part: "ReviewTables", transaction: Transaction) -> None:
        PartWrites.__init__(self, part, transaction)
        ReviewReads.__init__(self, transaction.read)

    def put(self, draft: Comment) -> Comment:
        """Store the comment with that id, or with a new one for a draft without. Return it with its id."""
        if not draft.id:
            draft = replace(draft, id=self._tx.mail.new_id(_COMMENTS.name))
        self._tx.write(*insertion(_COMMENTS.name, _COMMENTS.row(draft), verb="INSERT OR REPLACE"))
        return draft

    def remove(self, drafts: Collection[Comment]) -> None:
        self._tx.write_rows("DELETE FROM review_comments WHERE id = ?", ((draft.id,) for draft in drafts))

    def keep_round(self, round: Round, comments: Sequence[Comment]) -> list[Comment]:
        """Make drafts, which are in order, the comments of a round. Return them. The oldest rounds are erased."""
        self._tx.insert_row(_ROUNDS.name, _ROUNDS.row(round))
        numbered = [
            self.put(replace(comment, round=round.number, number=number))
            for number, comment in enumerate(comments, 1)
        ]
        oldest = (round.session_id, round.person, round.number - ROUNDS_MAX)
        self._tx.write(f"DELETE FROM review_rounds {_OF} AND number <= ?", oldest)  # noqa: S608 - constant text
        self._tx.write(f"DELETE FROM review_comments {_OF} AND round BETWEEN 1 AND ?", oldest)  # noqa: S608 - constant text
        return numbered

    def forget(self, session_id: str) -> None:
        """Erase the review of the session, and the comments that its agent has written about others."""
        for table in ("review_comments", "review_rounds"):
            self._tx.write(
                f"DELETE FROM {table} WHERE session_id = ? OR person = ?",  # noqa: S608 - constant names
                (session_id, session_id),
            )


class ReviewTables(TablePart[ReviewReads, ReviewWrites]):
    schema = _SCHEMA

    def reads(self, store: Store) -> ReviewReads:
        return ReviewReads(store.read)

    def writes(self, transaction: Transaction) -> ReviewWrites:
        return ReviewWrites(self, transaction)


PART = ReviewTables()
