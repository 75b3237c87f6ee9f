"""Usage in parts of a time: the length of the parts, and sums that agree with the parts to the unit."""

import pytest

from sm.capabilities.usage.chart_groups import ChartGroups, ChartTime
from sm.core.usage import TokenCounts

NOW_S = 1_700_000_123.0


@pytest.mark.parametrize(
    ("length_s", "most", "step_s"),
    [
        (3600, 100, 60),
        (3600, 20, 300),
        (86_400, 100, 900),
        (7 * 86_400, 100, 7200),
        (7 * 86_400, 10, 86_400),
        (60 * 86_400, 10, 8 * 86_400),
        (0, 100, 60),
    ],
)
def test_chart_has_at_most_as_many_parts_as_asked(length_s: float, most: int, step_s: int) -> None:
    time = ChartTime.of(NOW_S - length_s, NOW_S, most)
    assert time.step_s == step_s
    assert 1 <= time.parts <= most
    assert time.since_s <= NOW_S - length_s
    assert time.since_s % min(step_s, 900) == 0
    assert time.since_s + time.parts * time.step_s >= NOW_S


@pytest.mark.parametrize("length_s", [-5, 0, 59, 3600, 86_399, 86_400, 900_001, 10**8])
@pytest.mark.parametrize("most", [0, 1, 2, 7, 100, 400])
def test_parts_cover_the_time_whatever_its_length(length_s: float, most: int) -> None:
    time = ChartTime.of(NOW_S - length_s, NOW_S, most)
    assert 1 <= time.parts <= max(1, most)
    assert time.since_s + time.parts * time.step_s >= NOW_S


def test_sums_of_groups_agree_with_their_parts_and_with_the_total() -> None:
    groups = ChartGroups(3)
    for number in range(10):
        for part in range(3):
            groups.add(f"type{number}", part, TokenCounts(number, part, 7, 1), 0.1 * number + 0.000001)
    groups.add("odd", 1, TokenCounts(4, 4), None)
    groups.add("unread", 1, TokenCounts(), None, is_unread=True)
    groups.add("late", 3, TokenCounts(4, 4), 1.0)
    found, total = groups.views(4, str)
    assert [group.label for group in found] == ["type9", "type8", "type7", "type6", "8 others"]
    assert (found[-1].merged, found[-1].key, total.merged) == (8, None, 12)
    for group in (*found, total):
        assert sum(group.tokens_used) == group.tokens.input + group.tokens.output
        assert group.cost_usd == round(sum(group.costs_usd), 6)
    assert total.cost_usd == pytest.approx(sum(group.cost_usd or 0 for group in found), abs=1e-9)
    assert [sum(parts) for parts in zip(*(g.tokens_used for g in found), strict=True)] == total.tokens_used
    assert (total.cost_partial, total.tokens_partial) == (True, True)


def test_rest_is_never_a_single_group() -> None:
    groups = ChartGroups(1)
    for name in ("a", "b", "c"):
        groups.add(name, 0, TokenCounts(1), None)
    found, total = groups.views(2, str)
    assert [group.merged for group in found] == [1, 1, 1]
    assert total.cost_usd is None
