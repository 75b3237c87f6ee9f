"""Builds the answers with sums, and reports of usage (docs/protocol.md)."""

from collections.abc import Callable

from sm.core.tree_totals import Totals
from sm.core.usage import TokenCounts
from sm.core.usage_report import UsageGroup
from sm.services.usage import UsageReport
from sm.wire_types.usage import (
    EndingsView,
    SessionSumsView,
    SumsView,
    TokensView,
    TreeSumsView,
    UsageGroupView,
    UsageReportView,
)


def session_sums_json(own: Totals, tree: Totals, now_s: float) -> SessionSumsView:
    return SessionSumsView(
        SumsView(*_sums(own, now_s)),
        TreeSumsView(*_sums(tree, now_s), tree.sessions, tree.live, tree.removed),
    )


def _sums(sums: Totals, now_s: float) -> tuple[TokensView | None, bool, float | None, bool, float]:
    return (
        tokens_json(sums.counted),
        sums.unread > 0,
        sums.known_cost_usd,
        sums.unpriced > 0,
        sums.minutes(now_s),
    )


def tokens_json(counts: TokenCounts | None) -> TokensView | None:
    if counts is None:
        return None
    return TokensView(counts.input, counts.output, counts.cache_read, counts.cache_write)


def report_json(
    report: UsageReport, label: Callable[[str | None], str], prices_as_of: str | None
) -> UsageReportView:
    """`label`: of the key of a group."""
    return UsageReportView(
        by=report.by,
        since=report.since,
        until=report.until,
        prices_as_of=prices_as_of,
        groups=[_group_json(group, label(group.key)) for group in report.groups],
        total=_group_json(report.total, "total"),
    )


def _group_json(group: UsageGroup, label: str) -> UsageGroupView:
    return UsageGroupView(
        key=group.key,
        label=label,
        sessions=group.sessions,
        live=group.live,
        removed=group.removed,
        endings=EndingsView(**{status.value: count for status, count in group.endings.items()}),
        tokens=tokens_json(group.tokens),
        tokens_partial=group.tokens_partial,
        cost_usd=group.cost_usd,
        cost_partial=group.cost_partial,
        minutes=group.minutes,
        reminders=group.reminders,
        retries=group.retries,
        cost_usd_each=group.cost_spread,
        seconds_each=group.seconds_spread,
    )
