"""The contract of notifiers, which repeat the notices of the operator's inbox outside of `sm`."""

from collections.abc import Mapping
from typing import Any, Protocol

from sm.errors import ExternalError


class NotifyFailed(ExternalError):
    """It was not told. `again`: telling it later may do."""

    code = "not_told"

    def __init__(self, message: str, *, again: bool) -> None:
        super().__init__(message)
        self.again = again


class Notifier(Protocol):
    """One way to tell. Every call is bounded in time."""

    once: bool
    """Whether telling must not be repeated after a crash in the middle of it."""

    async def tell(self, target: str | None, body: Mapping[str, Any]) -> None:
        """Tell `body` (docs/protocol.md, Notifications) to `target`. Raises NotifyFailed."""
