"""Tokens and cost of sessions, trees and models, as bars with their numbers. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from sm.board.order import forest_of
from sm.board.row import BoardRow
from sm.board.words import shown
from sm.core.dataclass import dataclass

if TYPE_CHECKING:
    from sm.client.live_stream import Json


@dataclass(frozen=True, slots=True)
class SpendBar:
    """An entry of a chart and of its table."""

    label: str
    """Safe to show."""
    cost: float | None
    tokens: "Json | None"
    share: float
    """The length of the bar: 0 to 1 of the longest one."""
    own: float = 0.0
    """The part that a session spent itself, without its descendants, of the same length."""
    branch: str = ""


def spend_by_tree(rows: Mapping[str, BoardRow], workspace: str | None = None) -> list[SpendBar]:
    """The cost of each session with usage, with its descendants, nested, the most expensive first."""
    used = [row for row in rows.values() if _tree_cost(row) > 0 or row.data["tree"]["tokens"] is not None]
    chosen = [row for row in used if workspace in (None, row.workspace)]
    chosen.sort(key=lambda row: -_tree_cost(row))
    longest = max((_tree_cost(row) for row in chosen), default=0.0) or 1.0
    return [
        SpendBar(
            line.row.label,
            line.row.data["tree"]["cost_usd"],
            line.row.data["tree"]["tokens"],
            _tree_cost(line.row) / longest,
            line.row.cost / longest,
            line.branch,
        )
        for line in forest_of(chosen, rows).lines()
    ]


def _tree_cost(row: BoardRow) -> float:
    return row.data["tree"]["cost_usd"] or 0.0


def spend_over_time(buckets: "Sequence[Json]") -> list[SpendBar]:
    """A bar for each bucket, the newest first."""
    return _bars((bucket["at"], bucket["cost_usd"], bucket["tokens"]) for bucket in reversed(buckets))


def spend_by_model(buckets: "Sequence[Json]") -> list[SpendBar]:
    """The sum of all buckets for each model, the most expensive first. A model without a price has no cost."""
    costs, tokens, unpriced = dict[str, float](), dict[str, Counter[str]](), set[str]()
    for bucket in buckets:
        for usage in bucket["models"]:
            name = usage["model"]
            counted = tokens.setdefault(name, Counter())
            for kind, count in usage["tokens"].items():
                counted[kind] += int(str(count))
            if usage["cost_usd"] is None:
                unpriced.add(name)
            costs[name] = costs.get(name, 0.0) + (usage["cost_usd"] or 0.0)
    order = sorted(tokens, key=lambda name: (-costs[name], name))
    return _bars(
        (
            name,
            None if name in unpriced else costs[name],
            {
                "input": tokens[name]["input"],
                "output": tokens[name]["output"],
                "cache_read": tokens[name]["cache_read"],
                "cache_write": tokens[name]["cache_write"],
            },
        )
        for name in order
    )


def _bars(entries: "Iterable[tuple[str, float | None, Json]]") -> list[SpendBar]:
    found = list(entries)
    longest = max((cost or 0.0 for _, cost, _ in found), default=0.0) or 1.0
    return [
        SpendBar(shown(label, 60), cost, tokens, (cost or 0.0) / longest, (cost or 0.0) / longest)
        for label, cost, tokens in found
    ]
