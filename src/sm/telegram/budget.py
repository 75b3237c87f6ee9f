"""The budget of calls that Telegram allows, shared by all paths. Pure: the caller passes the time.

The limits are those of the documentation ("My bot is hitting limits"), with room below them. A group keeps a part of
its minute for urgent calls, so that progress never delays a request.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import field

from sm.core.dataclass import dataclass
from sm.core.telegram_model import Need, Outgoing, is_group

ALL_PER_SECOND = 30
CHAT_PER_SECOND = 1.0
CHAT_BURST = 3
GROUP_PER_MINUTE = {Need.ANSWER: 18, Need.REQUEST: 18, Need.ENDING: 12, Need.PROGRESS: 8}
"""Calls to a group in any 60 seconds, by the need of the call that is due.

Reports leave room for six urgent calls: three requests a minute, and the edits of their cards.
"""
_LEAST_S = 1e-6
_MINUTE_S = 60.0


@dataclass(slots=True)
class _ChatBudget:
    tokens: float
    at: float
    """The time at which `tokens` was right."""
    last_minute: deque[float] = field(default_factory=deque)
    closed_until: float = 0.0


class CallBudget:
    """Decides when the next call may be made. Times are seconds of one monotonic clock and never go back."""

    def __init__(self) -> None:
        self._chats: dict[int, _ChatBudget] = {}
        self._last_second: deque[float] = deque()

    def wait_s(self, chat_id: int | None, need: int, now: float) -> float:
        """Seconds until such a call may be made, or 0 for now. `chat_id` is None for a call to no chat."""
        wait = self._second_wait_s(now)
        if chat_id is None:
            return wait
        chat = self._chat(chat_id, now)
        wait = max(wait, chat.closed_until - now, (1 - self._tokens(chat, now)) / CHAT_PER_SECOND)
        if is_group(chat_id):
            most = GROUP_PER_MINUTE[Need(min(max(need, Need.ANSWER), Need.PROGRESS))]
            self._forget(chat.last_minute, now - _MINUTE_S)
            if len(chat.last_minute) >= most:
                wait = max(wait, chat.last_minute[-most] + _MINUTE_S - now)
        # Less is what sums of such times leave: the clock may not be able to show the end of such a wait.
        return wait if wait > _LEAST_S else 0.0

    def spend(self, chat_id: int | None, now: float) -> None:
        """Count a call that is made now."""
        self._last_second.append(now)
        if chat_id is None:
            return
        chat = self._chat(chat_id, now)
        chat.tokens, chat.at = self._tokens(chat, now) - 1, now
        if is_group(chat_id):
            chat.last_minute.append(now)

    def close(self, chat_id: int, until: float) -> None:
        """Allow no call to the chat before `until`: Telegram asked for it."""
        chat = self._chat(chat_id, 0.0)
        chat.closed_until = max(chat.closed_until, until)

    def move(self, old: int, new: int) -> None:
        """Count what was sent to the group `old` for the supergroup that replaced it."""
        if old in self._chats:
            self._chats[new] = self._chats.pop(old)

    def _chat(self, chat_id: int, now: float) -> _ChatBudget:
        return self._chats.setdefault(chat_id, _ChatBudget(float(CHAT_BURST), now))

    @staticmethod
    def _tokens(chat: _ChatBudget, now: float) -> float:
        return min(float(CHAT_BURST), chat.tokens + (now - chat.at) * CHAT_PER_SECOND)

    def _second_wait_s(self, now: float) -> float:
        self._forget(self._last_second, now - 1)
        return self._last_second[0] + 1 - now if len(self._last_second) >= ALL_PER_SECOND else 0.0

    @staticmethod
    def _forget(times: deque[float], until: float) -> None:
        while times and times[0] <= until:
            times.popleft()


@dataclass(frozen=True, slots=True)
class NextCall:
    """The call that is due, or the seconds until one may be due; both are None if nothing waits."""

    call: Outgoing | None
    wait_s: float | None = None


def next_call(calls: Iterable[Outgoing], budget: CallBudget, now: float) -> NextCall:
    """Choose the most needed call that the budget allows; of equal ones the oldest.

    Calls of one need to one chat keep their order.
    """
    soonest: float | None = None
    for call in sorted(calls, key=lambda call: (call.need, call.id)):
        wait = budget.wait_s(call.chat_id, call.need, now)
        if wait <= 0:
            return NextCall(call)
        soonest = wait if soonest is None else min(soonest, wait)
    return NextCall(None, soonest)
