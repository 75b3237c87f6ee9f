"""The list of live views: what it shows after updates, and that it holds still."""

import random
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from sm.board import Board, Sort, board_row
from sm.board.details import earlier_command, earlier_words
from sm.board.order import arrange
from sm.client.live_stream import Json
from sm.wire_types.live_answers import LiveRowView, LiveUpdateView, TreeView
from sm.wire_types.usage_answers import TokensView
from tests.board.samples import AT_S, board_of, earlier, row, row_data, shown_ids, update


def test_samples_have_only_fields_that_the_daemon_sends() -> None:
    sent = update([row_data("a")])
    (shown,) = sent["rows"]
    assert sent.keys() == LiveUpdateView.__dataclass_fields__.keys()
    assert shown.keys() <= LiveRowView.__dataclass_fields__.keys()
    assert shown["tree"].keys() == TreeView.__dataclass_fields__.keys()
    assert shown["tokens"].keys() == TokensView.__dataclass_fields__.keys()


def test_row_has_the_fields_that_an_older_daemon_does_not_send() -> None:
    later = ("attention", "children_failed", "children_done", "last_words", "lost", "paused", "warnings")
    shown = board_row({name: value for name, value in row_data("a").items() if name not in later})
    assert (shown.attention, shown.badges(), shown.task(), shown.data["lost"]) == ("", [], "works", False)


def test_board_equals_the_rows_of_snapshot_and_changes() -> None:
    board = board_of(row_data("a"), row_data("b"))
    board.apply(update([row_data("c"), row_data("b", note="half")], "a", revision="r-2"), 1.0)
    assert (list(board.rows), board.rows["b"].data["note"], board.revision) == (["b", "c"], "half", "r-2")
    board.apply(update([row_data("d")], snapshot=True), 2.0)
    board.refresh(2.0, rests=True)
    assert shown_ids(board) == list(board.rows) == ["d"]


def test_parts_of_an_update_have_an_effect_when_the_last_one_has_come() -> None:
    board = board_of(row_data("a"))
    board.apply(update([row_data("b")], snapshot=True, more=True, revision=None), 1.0)
    assert list(board.rows) == ["a"]
    board.apply(update([row_data("c")], revision="r-9"), 1.0)
    assert (list(board.rows), board.revision) == (["b", "c"], "r-9")


def test_half_an_update_is_forgotten_when_the_daemon_is_lost() -> None:
    board = board_of(row_data("a"))
    board.apply(update([row_data("b")], snapshot=True, more=True, revision=None), 1.0)
    board.lose(2.0)
    board.apply(update([row_data("a", note="back")]), 3.0)
    assert (list(board.rows), board.rows["a"].data["note"]) == (["a"], "back")


def test_first_row_of_an_empty_list_does_not_wait() -> None:
    board = Board()
    board.apply(update([], snapshot=True), 0.0)
    board.refresh(0.0, rests=True)
    board.apply(update([row_data("a")]), 1.0)
    assert board.refresh(1.0, rests=False)
    assert ([line.row.id for line in board.lines], board.waiting) == (["a"], 0)


def test_list_holds_still_until_it_rests() -> None:
    board = board_of(row_data("a"), row_data("b"), row_data("c"))
    board.sort_by(Sort.COST, 0.0)
    before = shown_ids(board)
    board.apply(update([row_data("c", cost_usd=9.0), row_data("d", cost_usd=99.0)], "a"), 1.0)
    assert board.refresh(1.0, rests=False)
    assert (shown_ids(board), board.waiting) == (before, 1)
    assert [line.gone for line in board.lines] == [True, False, False]
    assert board.lines[2].row.cost == 9.0
    assert not board.refresh(1.5, rests=False)
    assert board.refresh(2.0, rests=True)
    assert (shown_ids(board), board.waiting) == (["d", "c", "b"], 0)
    assert not board.refresh(2.5, rests=True)


def test_selection_stays_on_its_session_when_the_order_is_taken_anew() -> None:
    board = board_of(row_data("a"), row_data("b"), row_data("c"))
    board.select(1)
    board.apply(update([row_data("c", name="aaa", status="waiting_input")]), 1.0)
    for sort in (*Sort, Sort.TREE):
        board.sort_by(sort, 1.0)
        assert board.selected == "b"
        assert board.lines[board.place].row.id == "b"


def test_selection_goes_to_the_neighbour_when_its_session_is_gone() -> None:
    board = board_of(*(row_data(s) for s in "abc"))
    board.select(1)
    board.apply(update([], "b"), 1.0)
    board.refresh(1.0, rests=False)
    assert (board.selected, board.current) == ("b", None)
    board.refresh(2.0, rests=True)
    assert board.selected == "c"
    board.apply(update([], "c"), 3.0)
    board.refresh(3.0, rests=True)
    assert board.selected == "a"
    board.apply(update([], "a"), 4.0)
    board.refresh(4.0, rests=True)
    assert [board.selected, *board.lines] == [None]


def test_tree_shows_folds_and_a_filter_shows_folded_matches() -> None:
    board = board_of(
        row_data("a"),
        row_data("b", parent_session_id="a"),
        row_data("c", parent_session_id="b", note="login page"),
        row_data("d", parent_session_id="a"),
    )
    assert [(line.row.id, line.branch) for line in board.lines] == [
        ("a", ""),
        ("b", "├─ "),
        ("c", "│  └─ "),
        ("d", "└─ "),
    ]
    board.fold("a", 0.0)
    assert [(line.row.id, line.folded) for line in board.lines] == [("a", 3)]
    board.filter_by("login", 0.0)
    assert [(line.row.id, line.branch) for line in board.lines] == [("c", "")]
    board.filter_by("", 0.0)
    assert shown_ids(board) == ["a"]
    board.reveal("c", 0.0)
    assert (shown_ids(board), board.selected) == (["a", "b", "c", "d"], "c")


def test_row_is_nested_below_its_nearest_shown_ancestor() -> None:
    board = board_of(
        row_data("a", note="x"),
        row_data("b", parent_session_id="a"),
        row_data("c", parent_session_id="b", note="x"),
    )
    board.filter_by("x note:", 0.0)
    assert shown_ids(board) == []
    board.filter_by("x", 0.0)
    assert [(line.row.id, line.depth) for line in board.lines] == [("a", 0), ("c", 1)]


def test_order_by_need_keeps_trees_together() -> None:
    board = board_of(
        row_data("a", status="completed"),
        row_data("b"),
        row_data("c"),
        row_data("d", parent_session_id="c", open_requests=["r1"]),
    )
    board.sort_by(Sort.NEEDS_ME, 0.0)
    assert shown_ids(board) == ["c", "d", "b", "a"]


def test_age_is_of_the_daemons_clock_and_stands_still_without_a_daemon() -> None:
    board = board_of(row_data("a"))
    assert board.now_s(600.0) == AT_S + 600
    assert board.rows["a"].status_text(board.now_s(600.0)) == "running 10min"
    board.lose(600.0)
    board.lose(650.0)
    assert (board.now_s(700.0), board.lost_for_s(700.0)) == (AT_S + 600, 100.0)
    board.apply(update([], at="2026-01-27T15:25:00Z"), 900.0)
    assert (board.now_s(901.0), board.lost_for_s(901.0)) == (AT_S + 901, None)


def test_filter_by_age_finds_rows_that_have_become_older() -> None:
    board = board_of(row_data("a"))
    board.filter_by("older:10min", 0.0)
    assert shown_ids(board) == []
    assert not board.refresh(0.5, rests=True)
    assert board.refresh(601.0, rests=True)
    assert shown_ids(board) == ["a"]


def test_chosen_workspace_hides_other_sessions_and_reveal_leaves_it() -> None:
    board = board_of(row_data("a", workspace="shop"), row_data("b", workspace="shop2"), row_data("c"))
    board.choose("shop", 0.0)
    assert shown_ids(board) == ["a"]
    board.reveal("c", 0.0)
    assert (board.workspace, board.selected) == (None, "c")


def test_row_leaves_the_list_when_the_filter_selects_it_no_more() -> None:
    board = board_of(row_data("a"), row_data("b"))
    board.filter_by("status:running", 0.0)
    board.apply(update([row_data("a", status="idle")]), 1.0)
    board.refresh(1.0, rests=True)
    assert shown_ids(board) == ["b"]


IDS = [f"s{number}" for number in range(8)]
rows_of_trees = st.lists(
    st.builds(
        row_data,
        st.sampled_from(IDS),
        parent_session_id=st.sampled_from([None, *IDS]),
        status=st.sampled_from(["running", "idle", "waiting_input", "completed"]),
        cost_usd=st.sampled_from([None, 0.5, 3.0]),
        name=st.text(max_size=5),
    ),
    max_size=12,
)


@settings(max_examples=200, deadline=None)
@given(rows=rows_of_trees, sort=st.sampled_from(list(Sort)), folded=st.sets(st.sampled_from(IDS)))
def test_every_order_has_each_row_once_or_below_a_fold(
    rows: list[Json], sort: Sort, folded: set[str]
) -> None:
    known = {data["session_id"]: board_row(data) for data in rows}
    lines = arrange(known, list(known.values()), sort, folded)
    ids = [line.row.id for line in lines]
    assert len(ids) == len(set(ids))
    assert len(ids) + sum(line.folded for line in lines) == len(known)
    for before, line in pairwise(lines):
        assert line.depth <= before.depth + 1
    for line in lines:
        assert len(line.branch) == 3 * line.depth


@settings(max_examples=100, deadline=None)
@given(
    first=rows_of_trees,
    changes=st.lists(st.tuples(rows_of_trees, st.lists(st.sampled_from(IDS)), st.booleans()), max_size=5),
    sort=st.sampled_from(list(Sort)),
    place=st.integers(0, 8),
    text=st.sampled_from(["", "status:running", "cost:>1", "s1"]),
)
def test_list_never_moves_below_the_cursor_and_rests_as_a_new_board(
    first: list[Json],
    changes: list[tuple[list[Json], list[str], bool]],
    sort: Sort,
    place: int,
    text: str,
) -> None:
    board = Board()
    board.apply(update(first, snapshot=True), 0.0)
    board.sort_by(sort, 0.0)
    board.filter_by(text, 0.0)
    board.select(place)
    for rows, removed, rests in changes:
        before, selected = shown_ids(board), board.selected
        board.apply(update(rows, *removed), 1.0)
        board.refresh(1.0, rests=rests)
        if before and not rests:
            assert (shown_ids(board), board.selected) == (before, selected)
        elif rests and selected in shown_ids(board):
            assert board.selected == selected
    board.refresh(2.0, rests=True)
    new = Board()
    new.apply(update([r.data for r in board.rows.values()], snapshot=True), 0.0)
    new.sort_by(sort, 0.0)
    new.filter_by(text, 0.0)
    assert list(board.lines) == list(new.lines)


def test_board_holds_ten_thousand_sessions_of_wide_names_in_deep_trees() -> None:
    choose = random.Random(1)
    rows = [
        row_data(
            f"{number:08x}",
            name="数" * 200,
            parent_session_id=f"{number - choose.randint(1, 20):08x}" if number % 21 else None,
            archived=number % 5 == 0,
        )
        for number in range(10_000)
    ]
    board = board_of(*rows)
    assert len(board.lines) == 10_000
    for sort in Sort:
        board.sort_by(sort, 0.0)
        assert len(board.lines) == 10_000
    deepest = 10_000
    chain = {f"{n}": row(f"{n}", parent_session_id=f"{n - 1}" if n else None) for n in range(deepest)}
    lines = arrange(chain, list(chain.values()), Sort.NEEDS_ME, ())
    assert len(lines) == deepest
    assert len(lines[-1].branch) < 100


def test_audience_is_the_live_sessions_of_the_chosen_workspace() -> None:
    board = board_of(
        row_data("a", workspace="shop"),
        row_data("b"),
        row_data("c", workspace="shop", status="killed"),
    )
    assert list(board.target().audience) == ["a", "b"]
    board.choose("shop", 1.0)
    assert (board.target().workspace, list(board.target().audience)) == ("shop", ["a"])
    board.apply(update([row_data("d", workspace="shop")]), 2.0)
    assert list(board.target().audience) == ["a", "d"]


def test_board_says_how_many_sessions_of_the_workspace_ended_earlier() -> None:
    board = board_of(row_data("a"))
    assert (board.earlier, earlier_words(board)) == (0, "")
    counts = [earlier(300), earlier(12, "shop"), earlier(1, "blog"), earlier(5, "shop", archived=True)]
    board.apply(update(earlier=counts), 0.0)
    assert earlier_words(board) == "318 sessions ended earlier"
    assert earlier_command(board, archived=True) == "sm ls --all --archived --limit all"
    board.choose("shop", 0.0)
    assert earlier_words(board) == "17 sessions ended earlier"
    board.choose("blog", 0.0)
    assert earlier_words(board) == "1 session ended earlier"
    assert earlier_command(board, archived=False) == "sm ls --all --workspace blog --limit all"
    board.filter_by("status:error", 0.0)
    assert earlier_words(board) == "The filter does not search 1 session that ended earlier"
    assert earlier_command(board, archived=False) == "sm ls --all --workspace blog --search WORDS"
    board.filter_by("Fix status:error login", 0.0)
    assert earlier_command(board, archived=False) == "sm ls --all --workspace blog --search 'fix login'"
    board.choose("none", 0.0)
    assert earlier_words(board) == ""
    hidden = Board(board.table, archived=False)
    assert hidden.earlier == 313
    older = {name: value for name, value in update([row_data("a")]).items() if name != "earlier"}
    board.apply(older, 0.0)
    assert hidden.earlier == 313, "an older daemon does not send them"
    board.apply(update([row_data("a")], snapshot=True, earlier=None), 0.0)
    assert hidden.earlier == 0, "all rows, and these numbers, come again"
