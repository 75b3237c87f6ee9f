"""The fields that capabilities add to what every door shows of a session, and to the overview."""

from collections.abc import Collection
from typing import Any

from sm.core.models import Session


class SessionField:
    """A field of the JSON of a session, for callers who may read it. Without a value it is null."""

    name: str
    is_public: bool = False
    """Every caller who sees the session sees the field, not only those who may read the session."""

    def ids(self) -> Collection[str]:
        """The ids of the sessions that have a value. It may change without the session: its JSON is not cached."""
        return ()

    def value(self, session_id: str) -> Any:
        """The value in the API, or None if the session has none."""
        return None

    def brief(self, session_id: str) -> Any:
        """The value for agents, who pay for each word, or None if the session has none."""
        return None

    def signs(self, session_id: str) -> int:
        """The number of signs that the session goes wrong."""
        return 0

    def spending(self, session: Session) -> str | None:
        """Words for the spending of the session in the digest, or None with nothing to tell."""
        return None


class SessionFields(list[SessionField]):
    """The fields that capabilities have registered."""


class StatusField:
    """A field of the overview of `sm status`, for the operator. For others it is an empty list."""

    name: str

    async def value(self) -> list[Any]:
        return []


class StatusFields(list[StatusField]):
    """As SessionFields, of the overview."""
