"""Builds the documented JSON of sums and reports of usage (docs/protocol.md)."""

from collections.abc import Callable
from dataclasses import asdict
from typing import cast

from sm.api.answers.usage import (
    EndingsView,
    EstimateView,
    SessionSumsView,
    SpreadView,
    SumsView,
    TokensView,
    TreeSumsView,
    UsageGroupView,
    UsageReportView,
)
from sm.core.estimates import Estimate
from sm.core.percentiles import Spread
from sm.core.tree_totals import Totals
from sm.core.usage import TokenCounts
from sm.core.usage_report import UsageGroup
from sm.services.usage import UsageReport


def session_sums_json(own: Totals, tree: Totals, now_s: float) -> SessionSumsView:
    return {"own": sums_json(own, now_s), "tree": tree_sums_json(tree, now_s)}


def sums_json(sums: Totals, now_s: float) -> SumsView:
    return {
        "tokens": tokens_json(sums.counted),
        "tokens_partial": sums.unread > 0,
        "cost_usd": sums.known_cost_usd,
        "cost_partial": sums.unpriced > 0,
        "minutes": sums.minutes(now_s),
    }


def tree_sums_json(sums: Totals, now_s: float) -> TreeSumsView:
    return {
        **sums_json(sums, now_s),
        "sessions": sums.sessions,
        "live": sums.live,
        "removed": sums.removed,
    }


def tokens_json(counts: TokenCounts | None) -> TokensView | None:
    if counts is None:
        return None
    return {
        "input": counts.input,
        "output": counts.output,
        "cache_read": counts.cache_read,
        "cache_write": counts.cache_write,
    }


def estimate_json(found: Estimate | None) -> EstimateView | None:
    return None if found is None else cast(EstimateView, asdict(found))


def report_json(
    report: UsageReport, label: Callable[[str | None], str], prices_as_of: str | None
) -> UsageReportView:
    """`label`: of the key of a group."""
    return {
        "by": report.by,
        "since": report.since,
        "until": report.until,
        "prices_as_of": prices_as_of,
        "groups": [_group_json(group, label(group.key)) for group in report.groups],
        "total": _group_json(report.total, "total"),
    }


def _group_json(group: UsageGroup, label: str) -> UsageGroupView:
    return {
        "key": group.key,
        "label": label,
        "sessions": group.sessions,
        "live": group.live,
        "removed": group.removed,
        "endings": cast(EndingsView, {status.value: count for status, count in group.endings.items()}),
        "tokens": tokens_json(group.tokens),
        "tokens_partial": group.tokens_partial,
        "cost_usd": group.cost_usd,
        "cost_partial": group.cost_partial,
        "minutes": group.minutes,
        "reminders": group.reminders,
        "retries": group.retries,
        "cost_usd_each": _spread_json(group.cost_spread),
        "seconds_each": _spread_json(group.seconds_spread),
    }


def _spread_json(found: Spread | None) -> SpreadView | None:
    return None if found is None else {"p50": found.p50, "p90": found.p90}
