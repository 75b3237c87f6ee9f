"""The state of the connection to Telegram, for `sm status` and `sm telegram status`."""

from collections.abc import Callable
from dataclasses import dataclass, field

SILENT_AFTER_S = 120.0


@dataclass(slots=True)
class TelegramLink:
    """Facts that the poller and the sender found out about the connection. `clock`: a monotonic clock."""

    clock: Callable[[], float]
    bot: str | None = None
    """The name of the bot; None: Telegram has not said it yet."""
    last_answer: float | None = None
    """The time of the last answer to a poll."""
    started: float = field(init=False)
    conflict: str | None = None
    """The answer of Telegram while another process polls with the token."""
    off: str | None = None
    """The reason for which the daemon makes no calls until its next start."""

    def __post_init__(self) -> None:
        self.started = self.clock()

    def answered(self) -> None:
        self.last_answer, self.conflict = self.clock(), None

    @property
    def silent_s(self) -> float:
        """Seconds since the last answer, or since the start."""
        return self.clock() - (self.started if self.last_answer is None else self.last_answer)

    def trouble(self) -> str | None:
        """One sentence for `sm status`; None: the connection works."""
        if self.off is not None:
            return f"telegram is off until the daemon restarts: {self.off}"
        if self.conflict is not None:
            return "telegram: another process polls with the token of the bot; sm tries again every minute"
        if self.silent_s >= SILENT_AFTER_S:
            return f"telegram has not answered for {int(self.silent_s // 60)} minutes"
        return None
