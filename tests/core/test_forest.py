"""Trees as lines: nesting below the nearest shown ancestor, cycles, order and folding."""

from collections.abc import Mapping, Sequence

from sm.core.forest import Forest

CHAIN: Mapping[str, str | None] = {"a": None, "b": "a", "c": "b", "d": "a"}


def forest(parents: Mapping[str, str | None], shown: Sequence[str] | None = None) -> Forest[str]:
    known = {name: name for name in parents}
    return Forest(list(parents) if shown is None else shown, str, lambda name: parents[name], known)


def drawn(trees: Forest[str], folded: Sequence[str] = ()) -> list[str]:
    return [placed.branch + placed.row for placed in trees.lines(folded)]


def test_children_follow_their_parent_with_the_lines_of_the_tree() -> None:
    assert drawn(forest(CHAIN)) == ["a", "├─ b", "│  └─ c", "└─ d"]


def test_item_is_nested_below_its_nearest_shown_ancestor() -> None:
    assert drawn(forest(CHAIN, ["a", "c"])) == ["a", "└─ c"]
    assert drawn(forest(CHAIN, ["c", "d"])) == ["c", "d"]


def test_first_member_of_a_cycle_is_a_root() -> None:
    assert drawn(forest({"a": "c", "b": "a", "c": "b", "d": None})) == ["d", "a", "└─ b", "   └─ c"]
    assert drawn(forest({"a": "a", "b": "a"})) == ["a", "└─ b"]


def test_siblings_are_ordered_by_the_least_rank_below_them() -> None:
    trees = forest({"a": None, "b": "a", "c": "a", "d": "c", "e": None})
    trees.sort(lambda name: {"d": 1, "e": 0}.get(name, 5))
    assert drawn(trees) == ["e", "a", "├─ c", "│  └─ d", "└─ b"]


def test_folded_item_counts_what_it_hides() -> None:
    lines = forest(CHAIN).lines(["b"])
    assert [(placed.row, placed.children, placed.folded) for placed in lines] == [
        ("a", 2, 0),
        ("b", 1, 1),
        ("d", 0, 0),
    ]
    assert drawn(forest(CHAIN), ["a", "d"]) == ["a"]
