"""One command of one person, or one press of a button, with what a handler needs to carry it out."""

from collections.abc import Awaitable, Callable

from sm.core.dataclass import dataclass
from sm.core.models import Caller, RequestKey, Session
from sm.core.telegram_model import TelegramButton
from sm.errors import UsageError
from sm.operations.access_rules import SEE, Audience
from sm.services import Authorizer
from sm.telegram.replies import BotReply, Place, Redrawn

_NUMBER_MAX_DIGITS = 4


@dataclass(frozen=True, slots=True)
class CommandCall:
    """One command of one person. `rest` follows the command; `shown`: the session of the message replied to."""

    authorizer: Authorizer
    caller: Caller
    key: RequestKey
    place: Place
    user_id: int
    name: str
    rest: str
    suffix: str = ""
    """The word after `@`: a workspace, in `/new@SLUG`."""
    shown: str | None = None
    form: str = ""
    """The arguments that the command takes, for its usage."""
    button: TelegramButton | None = None
    """The button that was pressed."""

    @property
    def words(self) -> list[str]:
        return self.rest.split()

    def usage(self) -> UsageError:
        return UsageError(f"usage: /{self.name} {self.form}")

    def session(self, audience: Audience = SEE) -> Session:
        """The session that the first word names, else the one of the message replied to."""
        words = [word for word in self.words if not is_count(word)]
        reference = words[0] if words else self.shown
        if reference is None:
            raise self.usage()
        return self.authorizer.find(self.caller, reference, audience)

    def count(self, default: int, most: int) -> int:
        """The number among the words, such as that of lines."""
        counts = [int(word) for word in self.words if is_count(word)]
        return min(counts[-1], most) if counts else default

    def one_and_text(self) -> tuple[str, str]:
        """The first word, and the text after it."""
        first, *rest = self.rest.split(maxsplit=1) or [""]
        if not rest:
            raise self.usage()
        return first, rest[0]


Handler = Callable[..., Awaitable[BotReply]]
"""Takes a CommandCall, and as keyword-only parameters the use cases that it needs."""
PressHandler = Callable[..., Awaitable[BotReply | Redrawn]]
"""As Handler."""


@dataclass(frozen=True, slots=True)
class BotCommand:
    run: Handler
    usage: str
    help: str


def is_count(word: str) -> bool:
    return word.isascii() and word.isdecimal() and len(word) <= _NUMBER_MAX_DIGITS
