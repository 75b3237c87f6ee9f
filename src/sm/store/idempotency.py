"""Carries out a repeated request of a caller only once (docs/protocol.md, Retries)."""

from collections.abc import Callable
from typing import Any

from sm.core.models import Caller, RequestKey
from sm.errors import UsageError
from sm.store.connection import Read

_Write = Callable[[str, tuple[Any, ...]], None]


class IdempotencyKey:
    """The key of a transaction's request. Without a key every request is new."""

    def __init__(self, caller: Caller | None, key: RequestKey | None) -> None:
        self._caller = str(caller)
        self._key = key

    async def result(self, read: Read) -> str | None:
        """The stored result of an earlier try, or None. Raises UsageError if the key belongs to another request."""
        if self._key is None:
            return None
        rows = await read(
            "SELECT fingerprint, result FROM idempotency WHERE caller = ? AND key = ?",
            (self._caller, self._key.text),
        )
        if not rows:
            return None
        if rows[0][0] != self._key.fingerprint:
            raise UsageError("the Idempotency-Key was already used for another request")
        return str(rows[0][1])

    def store(self, write: _Write, result: str, at: str) -> None:
        if self._key is not None:
            write(
                "INSERT INTO idempotency (caller, key, fingerprint, result, created_at) VALUES (?, ?, ?, ?, ?)",
                (self._caller, self._key.text, self._key.fingerprint, result, at),
            )
