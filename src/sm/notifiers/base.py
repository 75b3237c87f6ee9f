"""The contract of notifiers, which send the notices of the operator's inbox to other programs."""

from collections.abc import Mapping
from typing import Any, Protocol

from sm.errors import ExternalError


class NotifyFailed(ExternalError):
    """A notice could not be delivered. `retryable`: a retry may succeed."""

    code = "not_told"

    def __init__(self, message: str, *, retryable: bool) -> None:
        super().__init__(message)
        self.retryable = retryable


class Notifier(Protocol):
    """A channel for notices. Every call is bounded in time."""

    once: bool
    """A delivery that a crash interrupted must not be repeated."""

    async def send(self, target: str | None, body: Mapping[str, Any]) -> None:
        """Deliver `body` (docs/protocol.md, Notifications) to `target`. Raises NotifyFailed."""
