"""The carrier of one MCP message, as the HTTP front door offers it."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from sm.core.models import Caller, RequestKey


class Exchange(Protocol):
    """One HTTP request with one JSON-RPC message in its body."""

    @property
    def caller(self) -> Caller:
        """The caller, as the socket identified it."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the request, with names in lower case."""

    def is_connected(self) -> bool:
        """True while the caller waits for the answer."""

    def key(self, action: str, fields: Mapping[str, Any]) -> RequestKey | None:
        """The Idempotency-Key of the request, for `action` with `fields`. Raises UsageError."""

    async def hold(self, condition: Callable[[], bool], wait_s: float) -> bool:
        """Wait until `condition` holds; return False after `wait_s`. A `LongPoll` without an upper limit.

        Raises ConnectionResetError when the caller has gone, Unauthenticated, LimitReached.
        """

    def report_read(self) -> None:
        """Let `sm mcp` report when its client has read the answer (ANSWER_READ)."""

    async def send(self, message: bytes) -> None:
        """Send a message before the answer, which makes the answer an event stream."""
