"""Rules of warnings and of exchanges of messages: facts and a time in, a finding or a decision out. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, StrEnum, auto
from typing import Any

from sm.capabilities.warnings.model import MessageExchange, Sent, SessionWarning
from sm.core.dataclass import dataclass
from sm.core.timestamps import epoch_s, span

DELAYS_S = (10.0, 30.0, 120.0)
"""The waits of the messages after the warning; the last one for all further messages."""
COMPLETED_MIN = 5
"""The least number of completed sessions of a type that show its usual rate."""


@dataclass(frozen=True, slots=True)
class Anomaly:
    """The cause of a warning, as measured."""

    value: float
    limit: float
    evidence: str


class Step(StrEnum):
    """The change of a warning that follows from a finding."""

    OPEN = "open"
    TELL = "tell"
    """The agent itself was told, and goes on as before: tell the others."""
    CLOSE = "close"


def next_step(finding: Anomaly | None, known: SessionWarning | None, *, goes_on: bool) -> Step | None:
    """Decide the next step for a warning. `known`: the open one; `goes_on`: its cause has lasted as long again."""
    if finding is None:
        return None if known is None else Step.CLOSE
    if known is None:
        return Step.OPEN
    return Step.TELL if not known.told and goes_on else None


@dataclass(frozen=True, slots=True)
class LoopLimits:
    same: int
    """Calls in a row with the same tool, arguments and result."""
    failures: int
    """Calls in a row of the same tool with the same error."""


def find_loop(state: Mapping[str, Any], limits: LoopLimits) -> Anomaly | None:
    """The loop in which the agent is."""
    failures, same = state["failed"][1], state["same"][1]
    if failures >= limits.failures:
        return Anomaly(
            failures, limits.failures, f"{state['shown']} failed {failures} times with: {state['error']}"
        )
    if same >= limits.same:
        evidence = f"{state['shown']} was called {same} times with the same result"
        return Anomaly(same, limits.same, evidence)
    return None


def loop_goes_on(finding: Anomaly, known: SessionWarning) -> bool:
    """True if the agent has repeated itself as often again since it was told."""
    return finding.value >= known.value + known.limit


def longest_call(state: Mapping[str, Any]) -> tuple[str, str] | None:
    """The running call that began first: (the call in one line, its start)."""
    calls = [(at, shown) for _, _, shown, at, _ in state.get("open", {}).values() if at]
    return min(calls)[::-1] if calls else None


def find_no_progress(
    still_s: float, tool: str | None, *, after_s: float, tool_after_s: float
) -> Anomaly | None:
    """No progress for too long. `still_s`: seconds without a sign of it; `tool`: the tool that runs."""
    if tool is not None:
        if still_s < tool_after_s:
            return None
        return Anomaly(still_s, tool_after_s, f"{tool} has been running for {span(still_s)}")
    if still_s < after_s:
        return None
    return Anomaly(
        still_s, after_s, f"no tool ended, no token was used and nothing was printed for {span(still_s)}"
    )


def find_silence(
    silent_s: float, cpu_percent: float | None, *, after_s: float, limit: float
) -> Anomaly | None:
    """No source has reported for too long, while the agent's own process is busy (per cent of one core)."""
    if silent_s < after_s or cpu_percent is None or cpu_percent < limit:
        return None
    return Anomaly(
        cpu_percent,
        limit,
        f"no source has reported for {span(silent_s)}, its process uses {cpu_percent:.0f}% of a core",
    )


@dataclass(slots=True)
class Stillness:
    """Seconds since a sign of life changed last. A step of the system clock changes nothing while the daemon runs."""

    sign: object = None
    since_s: float = 0.0
    """A monotonic time."""
    is_known: bool = False

    def seconds(self, sign: object, age_s: float, now_s: float) -> float:
        """Return for how long `sign` is unchanged at `now_s` (monotonic). `age_s`: its age by the wall clock.

        The wall clock counts only for the first sign, because an earlier daemon has seen that.
        """
        if not self.is_known:
            self.since_s = now_s - max(0.0, age_s)
        elif sign != self.sign:
            self.since_s = now_s
        self.sign, self.is_known = sign, True
        return now_s - self.since_s


def find_full_context(percent: int | None, limit: float) -> Anomaly | None:
    if percent is None or percent < limit:
        return None
    return Anomaly(percent, limit, f"{percent}% of the context window is used")


def find_memory(used_mib: float | None, limit_mib: float) -> Anomaly | None:
    if used_mib is None or used_mib <= limit_mib:
        return None
    return Anomaly(used_mib, limit_mib, f"its processes use {used_mib:,.0f} MiB (limit {limit_mib:,.0f} MiB)")


def p90(values: Iterable[float]) -> float | None:
    """The value that nine of ten are not above; None for fewer than `COMPLETED_MIN` values."""
    ordered = sorted(values)
    if len(ordered) < COMPLETED_MIN:
        return None
    return ordered[max(0, -(-len(ordered) * 9 // 10) - 1)]


BURN_PERIODS = 3
"""The periods of half of `after` that must all be above the limit: two of them alone can hold a burn of half of it."""


def find_burn(
    used: Sequence[tuple[float, int]], usual: float | None, now: float, *, after_s: float, limit: float
) -> Anomaly | None:
    """The agent has used tokens too fast for at least the last `after_s` seconds. Two large messages are no burn.

    `used`: (time, tokens) of its messages in the last `BURN_PERIODS` periods of `after_s / 2`. `usual`: the p90 of
    tokens a minute of its type, or None if unknown.
    """
    if not usual or usual <= 0:
        return None
    half, bound = after_s / 2, limit * usual
    begins = [now - half * (number + 1) for number in range(BURN_PERIODS)]
    rates = [
        sum(max(0, tokens) for at, tokens in used if begin < at <= begin + half) * 60 / half
        for begin in begins
    ]
    if min(rates) <= bound:
        return None
    rate = sum(rates[:2]) / 2  # of the last `after_s`
    return Anomaly(
        rate, bound, f"{rate:,.0f} tokens a minute for {span(after_s)} (usual for its type: {usual:,.0f})"
    )


class ExchangeStep(Enum):
    PASS = auto()
    """Nothing is wrong."""
    OVER = auto()
    """One of the two has worked since the warning: it closes."""
    WARN = auto()
    SLOW = auto()
    HOLD = auto()


def turns_of(sent: Sequence[Sent]) -> list[str]:
    """The times at which one of the two took its turn: several messages of one without an answer are one turn.

    `sent`: in the order of sending.
    """
    return [each.at for n, each in enumerate(sent) if n == 0 or each.sender != sent[n - 1].sender]


def next_exchange_step(
    exchange: MessageExchange, sent: Sequence[Sent], *, limit: int, within_s: float
) -> ExchangeStep:
    """Decide what follows from the last message of `sent`, the messages of the pair after its last work."""
    turns = turns_of(sent)
    if exchange.owner is not None:
        if len(sent) == 1:
            return ExchangeStep.OVER
        return ExchangeStep.HOLD if len(turns) >= 2 * limit else ExchangeStep.SLOW
    begin = epoch_s(sent[-1].at) - within_s
    recent = sum(epoch_s(at) > begin for at in turns)
    return ExchangeStep.WARN if recent >= limit else ExchangeStep.PASS


def delay_s(count: int, limit: int) -> float:
    """The wait of the `count`-th message of an exchange with a warning at the `limit`-th."""
    return DELAYS_S[max(0, min(count - limit, len(DELAYS_S)) - 1)]
