"""Sums over the tree stay equal to sums that are computed anew."""

import random

from sm.core.tree_totals import Totals, TreePart, TreeTotals
from sm.core.usage import TokenCounts


def own(number: int, *, live: bool = True, priced: bool = True) -> Totals:
    cost, unpriced = (float(number), 0) if priced else (0.0, 1)
    return Totals(1, int(live), TokenCounts(number, 2 * number), 1, cost, unpriced)


def computed(parts: dict[str, TreePart], session_id: str) -> Totals:
    total = parts[session_id].own
    for child in (s for s, part in parts.items() if part.parent_id == session_id):
        total = total.plus(computed(parts, child))
    return total


def test_totals_include_all_descendants() -> None:
    totals = TreeTotals()
    parts = {
        "root": TreePart(None, own(1)),
        "child": TreePart("root", own(2, live=False)),
        "grandchild": TreePart("child", own(4)),
    }
    assert totals.update(parts) == set(parts)
    assert totals["root"] == Totals(3, 2, TokenCounts(7, 14), 3, 7.0)
    assert totals["child"] == Totals(2, 1, TokenCounts(6, 12), 2, 6.0)
    assert totals.update({"grandchild": TreePart("child", own(5))}) == set(parts)
    assert totals["root"].cost_usd == 8.0
    assert totals.update({"child": parts["child"]}) == set()


def test_totals_are_right_when_a_parent_and_its_child_change_places() -> None:
    totals = TreeTotals()
    totals.update({"a": TreePart(None, own(1)), "b": TreePart("a", own(2))})
    totals.update({"b": TreePart(None, own(2)), "a": TreePart("b", own(1))})
    assert (totals["a"].cost, totals["b"].cost) == (1.0, 3.0)


def test_totals_are_right_when_a_parent_becomes_known_after_its_child() -> None:
    totals = TreeTotals()
    totals.update({"child": TreePart("parent", own(2))})
    totals.update({"parent": TreePart("top", own(1))})
    totals.update({"top": TreePart(None, own(4))})
    assert totals["top"].cost == 7.0


def test_children_of_a_removed_session_count_for_no_ancestor() -> None:
    totals = TreeTotals()
    totals.update(
        {
            "top": TreePart(None, own(4)),
            "parent": TreePart("top", own(1)),
            "child": TreePart("parent", own(2)),
        }
    )
    totals.update({}, removed=["parent"])
    assert (totals["top"].cost, totals["child"].cost) == (4.0, 2.0)


def test_cost_is_unknown_when_one_price_is_unknown() -> None:
    totals = TreeTotals()
    totals.update({"a": TreePart(None, own(1)), "b": TreePart("a", own(2, priced=False))})
    assert totals["a"].cost_usd is None
    assert totals["a"].counted == TokenCounts(3, 6)
    assert Totals(1, 1).counted is None
    assert Totals(1, 1).cost_usd is None


def test_totals_equal_those_computed_anew_after_random_changes() -> None:
    chance = random.Random(1)
    totals = TreeTotals()
    parts: dict[str, TreePart] = {}
    for _ in range(300):
        changed = {}
        for _ in range(chance.randint(1, 4)):
            number = chance.randint(0, 30)
            # Parents have smaller numbers, so that there is no cycle.
            parent = f"s{chance.randint(0, number - 1)}" if number and chance.random() < 0.8 else None
            changed[f"s{number}"] = TreePart(parent, own(chance.randint(0, 9), priced=chance.random() < 0.9))
        totals.update(changed)
        parts |= changed
        assert all(totals[s] == computed(parts, s) for s in parts)
