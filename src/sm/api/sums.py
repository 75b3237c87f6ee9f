"""Builds the answers with sums (docs/protocol.md)."""

from sm.core.tree_totals import Totals
from sm.wire_types.usage_answers import SessionSumsView, SumsView, TokensView, TreeSumsView


def session_sums_json(own: Totals, tree: Totals, now_s: float) -> SessionSumsView:
    return SessionSumsView(
        SumsView(*_sums(own, now_s)),
        TreeSumsView(*_sums(tree, now_s), tree.sessions, tree.live, tree.removed),
    )


def _sums(sums: Totals, now_s: float) -> tuple[TokensView | None, bool, float | None, bool, float]:
    return (
        None if sums.counted is None else TokensView.of(sums.counted),
        sums.unread > 0,
        sums.known_cost_usd,
        sums.unpriced > 0,
        sums.minutes(now_s),
    )
