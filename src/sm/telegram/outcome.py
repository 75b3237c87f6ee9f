"""Outcomes of a call of the Bot API, as the queue of calls sees them. Pure data."""

from sm.core.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Done:
    """Telegram carried out the call."""

    message_id: int | None = None
    """The id of the message that the call made."""
    thread_id: int | None = None
    at: float | None = None
    """The time of the message by the clock of Telegram, in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class NotSent:
    """The call was certainly not carried out, and may succeed later: no connection, or a failure of the server."""

    reason: str


@dataclass(frozen=True, slots=True)
class AnswerLost:
    """The call was sent, and no answer came: Telegram may have carried it out."""

    reason: str


@dataclass(frozen=True, slots=True)
class Flooded:
    """Telegram refuses calls to the chat for a time (429)."""

    retry_after_s: float


@dataclass(frozen=True, slots=True)
class Migrated:
    """The group became a supergroup with this id."""

    chat_id: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """Telegram refuses the call for good (400 or 403)."""

    reason: str

    @property
    def is_markup(self) -> bool:
        """The markup of the text is wrong; the text without markup may be accepted."""
        return "can't parse entities" in self.reason.lower()

    @property
    def is_harmless(self) -> bool:
        """The message has this content already, or the press of the button needs no answer any more."""
        reason = self.reason.lower()
        return any(
            words in reason for words in ("message is not modified", "query is too old", "topic_not_modified")
        )

    @property
    def is_missing_thread(self) -> bool:
        """A person deleted the topic."""
        reason = self.reason.lower()
        return any(
            words in reason for words in ("message thread not found", "topic_id_invalid", "topic_deleted")
        )

    @property
    def is_missing_message(self) -> bool:
        """A person deleted the message to edit."""
        reason = self.reason.lower()
        return "message to edit not found" in reason or "message_id_invalid" in reason

    @property
    def is_no_right_to_topics(self) -> bool:
        """The bot may not manage topics, or the group has none."""
        reason = self.reason.lower()
        return any(
            words in reason
            for words in ("not enough rights", "not a forum", "chat_admin_required", "forbidden")
        )


NO_SUCH_BOT = "telegram refuses the token of the bot (401)"


@dataclass(frozen=True, slots=True)
class Unauthorized:
    """Telegram does not know the token (401)."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Another process polls with the token (409)."""

    reason: str


Failure = NotSent | AnswerLost | Flooded | Migrated | Rejected | Unauthorized | Conflict
Outcome = Done | Failure


class CallFailed(Exception):
    """A call without a result."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(repr(failure))
        self.failure = failure
