"""Files of the database: writes, chooses and restores backups, and sets files aside. Blocking: call in a thread.

A backup is never replaced or pruned in favour of one with fewer sessions or events: a database that lost its content
must not remove the copy of the content. `sm rm` keeps an empty row and the events, so neither number falls in normal
use.

All backups but the newest are compressed, because they are needed only when the newest one is damaged too.
"""

import logging
import os
import sqlite3
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from typing import NamedTuple
from urllib.parse import quote

from sm.store.compression import SUFFIX, compress, copy_file, uncompressed
from sm.store.connection import backups, refusal

log = logging.getLogger(__name__)

_BUSY_S = 5.0
# As after a crash of the daemon, the outcome of these deliveries and effects is unknown: they were perhaps carried out
# after the backup. The daemon carries out neither again, and tells the senders. The bot marks its messages "(again)".
_UNKNOWN_OUTCOMES = (
    "UPDATE messages SET state = 'delivering', via = 'terminal' WHERE state = 'queued' AND session_id IS NOT NULL",
    "UPDATE outbox SET state = 'taken' WHERE state = 'pending'"
    " AND kind IN ('type', 'interrupt', 'notify_command', 'webhook', 'telegram')"
    # A call whose answer was lost has the mark already. If it were lost a second time, it would be dropped.
    " AND NOT (kind = 'telegram' AND json_extract(payload, '$.lost_answers') > 0)",
)


def _open(path: str, mode: str) -> sqlite3.Connection:
    """`mode`: ro or rw. Neither creates a file."""
    return sqlite3.connect(f"file:{quote(path)}?mode={mode}", uri=True, isolation_level=None, timeout=_BUSY_S)


def is_blank(path: str) -> bool:
    """True for a database that does not exist or has no table. False for one that cannot be read."""
    if not os.path.exists(path) or os.path.getsize(path) == 0:
        return True
    try:
        with closing(_open(path, "ro")) as db:
            return not db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    except sqlite3.Error:
        return False


class DatabaseContent(NamedTuple):
    """Two numbers of a database that never fall in normal use."""

    sessions: int = 0
    newest_event: int = 0

    def includes(self, other: "DatabaseContent") -> bool:
        return self.sessions >= other.sessions and self.newest_event >= other.newest_event


def count_sessions(path: str) -> int | None:
    """The number of sessions, removed ones included; None for a file that is damaged or no database of sm."""
    content = count_content(path)
    return None if content is None else content.sessions


def count_content(path: str) -> DatabaseContent | None:
    """As `count_sessions`, with the number of the newest event, which only grows."""
    try:
        with uncompressed(path) as plain, closing(_open(plain, "ro")) as db:
            if db.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                return None
            sessions = int(db.execute("SELECT count(*) FROM sessions").fetchone()[0])
            newest = 0
            with suppress(sqlite3.OperationalError):  # no such table
                newest = int(db.execute("SELECT max(seq) FROM events").fetchone()[0] or 0)
            return DatabaseContent(sessions, newest)
    except (sqlite3.Error, OSError):
        return None


def write_backup(path: str, name: str, keep: int) -> None:
    """Write a consistent copy of the database as PATH.NAME.backup, and keep the newest `keep` backups.

    Compresses the others, as PATH.NAME.backup.gz.
    Keeps an existing PATH.NAME.backup with more sessions or events instead. Raises the errors of `refusal`.
    """
    target = f"{path}.{name}.backup"
    new = target + ".new"
    with suppress(FileNotFoundError):
        os.unlink(new)
    try:
        with closing(_open(path, "rw")) as db:
            db.execute("VACUUM INTO ?", (new,))
        content = count_content(new)
        if content is None:
            raise sqlite3.OperationalError("the copy of the database is damaged")
        if not all(
            content.includes(count_content(file) or DatabaseContent()) for file in (target, target + SUFFIX)
        ):
            log.warning("kept the backup %s: the database has fewer sessions or events", target)
        else:
            os.rename(new, target)
            _prune(backups(path)[keep:], content)
            _compress(backups(path)[1:])
    except sqlite3.Error as error:
        raise refusal(path, error) from error
    finally:
        with suppress(FileNotFoundError):  # a partial backup would only keep the disk full
            os.unlink(new)


def _prune(old: Sequence[str], content: DatabaseContent) -> None:
    """Delete the backups that hold no more than `content`."""
    for backup in old:
        if content.includes(count_content(backup) or DatabaseContent()):
            os.unlink(backup)


def _compress(old: Sequence[str]) -> None:
    for backup in old:
        if not backup.endswith(SUFFIX):
            try:
                compress(backup)
            except OSError as error:  # the new backup is complete
                log.warning("could not compress the backup %s: %s", backup, error.strerror)


def best_backup(path: str) -> str | None:
    """The newest readable backup with sessions, else the newest readable one."""
    readable = [(backup, count) for backup in backups(path) if (count := count_sessions(backup)) is not None]
    return next((b for b, count in readable if count), readable[0][0] if readable else None)


def set_aside(path: str, *, with_backups: bool) -> str | None:
    """Move the database, its log and maybe its backups into a new directory, and return the directory.

    None if there was nothing to move. The log belongs to the file: SQLite would apply it to another database.
    """
    files = [file for file in (path, path + "-wal", path + "-shm") if os.path.exists(file)]
    files += backups(path) if with_backups else []
    if not files:
        return None
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    directory = tempfile.mkdtemp(".replaced", f"{os.path.basename(path)}.{stamp}.", os.path.dirname(path))
    for file in files:
        os.rename(file, f"{directory}/{os.path.basename(file)}")
    return directory


def restore(path: str, backup: str) -> str | None:
    """Replace the database by a copy of `backup`; return the directory of the replaced files, if any.

    After a crash in between, the database is missing, and the backup still exists. Raises OSError, and the errors of
    `refusal`.
    """
    new = path + ".new"
    with suppress(FileNotFoundError):
        os.unlink(new)
    try:
        copy_file(backup, new)
        with closing(_open(new, "rw")) as db:
            db.execute("PRAGMA synchronous = FULL")
            tables = {row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
            db.execute("BEGIN")
            for statement in _UNKNOWN_OUTCOMES:
                if statement.split()[1] in tables:  # the backup may be of an older version
                    db.execute(statement)
            db.execute("COMMIT")
        replaced = set_aside(path, with_backups=False)
        os.rename(new, path)
        directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except sqlite3.Error as error:
        raise refusal(path, error) from error
    finally:
        for rest in (new, new + "-wal", new + "-shm"):
            with suppress(FileNotFoundError):
                os.unlink(rest)
    return replaced
