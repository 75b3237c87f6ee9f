"""Usage in parts of equal length of a time, in groups. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import field

from sm.core.dataclass import dataclass
from sm.core.time_slots import SLOT_S
from sm.core.usage import COST_DIGITS, TokenCounts
from sm.wire_types.usage_answers import ChartGroupView, TokensView

_DAY_S = 86_400
_STEPS_S = (60, 120, 300, SLOT_S, 2 * SLOT_S, 3600, 7200, 10_800, 21_600, 43_200, _DAY_S)


@dataclass(frozen=True, slots=True)
class ChartTime:
    """The parts of the time of a chart. Seconds since the epoch."""

    since_s: float
    until_s: float
    step_s: int
    parts: int

    @classmethod
    def of(cls, since_s: float, until_s: float, most: int) -> "ChartTime":
        """At most `most` parts. The time begins at a slot, or at a minute if a part is shorter than a slot."""
        length_s, most = max(0.0, until_s - since_s), max(1, most)
        # The beginning moves back by less than a part, which may make a part more.
        days_s = _DAY_S * (2 + int(length_s / most / _DAY_S))
        step_s = next((step for step in (*_STEPS_S, days_s) if length_s / step + 1 <= most), days_s)
        since_s = since_s // min(step_s, SLOT_S) * min(step_s, SLOT_S)
        return cls(since_s, until_s, step_s, min(most, max(1, -int((since_s - until_s) // step_s))))


@dataclass
class _ChartSums:
    parts: int
    merged: int = 1
    tokens: TokenCounts = field(default_factory=TokenCounts)
    tokens_partial: bool = False
    has_cost: bool = False
    cost_partial: bool = False
    tokens_used: list[int] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tokens_used, self.costs = [0] * self.parts, [0.0] * self.parts

    def add(self, other: "_ChartSums") -> None:
        self.tokens += other.tokens
        self.tokens_partial |= other.tokens_partial
        self.has_cost |= other.has_cost
        self.cost_partial |= other.cost_partial
        for part in range(self.parts):
            self.tokens_used[part] += other.tokens_used[part]
            self.costs[part] = round(self.costs[part] + other.costs[part], COST_DIGITS)

    @property
    def cost(self) -> float:
        return round(sum(self.costs), COST_DIGITS)

    def view(self, key: str | None, label: str) -> ChartGroupView:
        return ChartGroupView(
            key=key,
            label=label,
            merged=self.merged,
            tokens=TokensView.of(self.tokens),
            tokens_partial=self.tokens_partial,
            cost_usd=self.cost if self.has_cost else None,
            cost_partial=self.cost_partial,
            tokens_used=self.tokens_used,
            costs_usd=self.costs,
        )


class ChartGroups:
    """The groups of a chart, to which usage is added."""

    def __init__(self, parts: int) -> None:
        self._parts = parts
        self._groups: dict[str | None, _ChartSums] = {}

    def add(
        self,
        key: str | None,
        part: int,
        tokens: TokenCounts,
        cost_usd: float | None,
        *,
        is_unread: bool = False,
    ) -> None:
        """Add usage of a group. `cost_usd` is None if the price is unknown. Ignores a part that does not exist."""
        if not 0 <= part < self._parts:
            return
        if (sums := self._groups.get(key)) is None:
            sums = self._groups[key] = _ChartSums(self._parts)
        if is_unread:
            sums.tokens_partial = sums.cost_partial = True
            return
        sums.tokens += tokens
        sums.tokens_used[part] += tokens.used
        if cost_usd is not None:
            sums.has_cost = True
            sums.costs[part] = round(sums.costs[part] + cost_usd, COST_DIGITS)
        elif tokens != TokenCounts():
            sums.cost_partial = True

    def views(
        self, most: int, label: Callable[[str | None], str]
    ) -> tuple[list[ChartGroupView], ChartGroupView]:
        """The `most` largest groups, then the rest as one, and the total of all. `label`: of the key of a group."""
        ordered = sorted(self._groups.items(), key=lambda group: (-group[1].cost, -group[1].tokens.used))
        # The rest is never a single group, which can have the place itself.
        cut = len(ordered) if len(ordered) <= most + 1 else most
        found = [sums.view(key, label(key)) for key, sums in ordered[:cut]]
        if rest := [sums for _, sums in ordered[cut:]]:
            found.append(self._sum(rest).view(None, f"{len(rest)} others"))
        return found, self._sum([sums for _, sums in ordered]).view(None, "total")

    def _sum(self, groups: Sequence[_ChartSums]) -> _ChartSums:
        total = _ChartSums(self._parts, merged=len(groups))
        for sums in groups:
            total.add(sums)
        return total
