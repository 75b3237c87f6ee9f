"""Counts the usage of agents for the kernel. A capability does this; without it, nothing is counted."""

from collections.abc import Collection, Iterable
from typing import ClassVar

from sm.core.usage import Usage


class UsageReads:
    """Reads counted usage, as committed or as of a transaction. This base counts nothing."""

    counts: ClassVar[bool] = False
    """The usage in transcripts is counted."""

    async def of(self, session_ids: Iterable[str]) -> dict[str, list[Usage]]:
        """Sums by model of sessions, also of removed ones, with sub-agents separate; `message_id` and `at` are empty.

        Omits sessions without usage.
        """
        return {}

    async def since(
        self, since: str, *, slots: bool = False, sessions: Collection[str] | None = None
    ) -> list[tuple[str, Usage]]:
        """(session, sums by model) of these sessions (None for all, also removed ones). `slots`: by slot, in `at`.

        `since`: only later usage, of removed sessions only that of later slots, or empty for all, also without a time.
        """
        return []

    async def of_messages(self, session_id: str, message_ids: Iterable[str]) -> dict[str, Usage]:
        """The counted usage of these messages, by id. Omits messages without usage."""
        return {}

    async def tokens_between(self, session_id: str, since: str, until: str) -> list[tuple[str, int]]:
        """(time, input and output) of the messages of a session after `since`, until `until`."""
        return []

    async def token_rates(self, agent_type: str) -> list[float]:
        """Input and output tokens for each minute of work of the newest completed sessions of this type."""
        return []

    async def usual_tokens(self, agent_type: str) -> int | None:
        """Median of input and output tokens of the newest completed sessions of this type; None below three."""
        return None


class UsageWrites(UsageReads):
    """Counts usage in a transaction."""

    def add(self, session_id: str, usages: Iterable[Usage]) -> None:
        """Count each message once. Transcripts repeat a message while it grows: the last one is complete."""
