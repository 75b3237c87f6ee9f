"""Spend and timeline of live views: the numbers behind their pictures."""

from collections.abc import Sequence
from typing import Any, cast

import pytest

from sm.board.choices import Choices, Theme, choices_of
from sm.board.lanes import lanes
from sm.board.order import Sort
from sm.board.spend import spend_by_model, spend_by_tree, spend_over_time
from sm.client.live_stream import Json
from tests.board.samples import board_of, row_data

USAGE = {"input": 10, "output": 5, "cache_read": 0, "cache_write": 0}
BEGIN, END = "2026-01-27T15:00:00.000Z", "2026-01-27T16:00:00.000Z"


def tree(cost: float | None) -> dict[str, Any]:
    return {"sessions": 1, "live": 1, "tokens": None if cost is None else USAGE, "cost_usd": cost}


def bucket(at: str, cost: float | None, **models: float | None) -> Json:
    used = [{"model": name, "tokens": USAGE, "cost_usd": spent} for name, spent in models.items()]
    return cast(Json, {"at": at, "tokens": USAGE, "cost_usd": cost, "models": used})


def test_spend_by_tree_nests_sessions_below_the_most_expensive_root() -> None:
    board = board_of(
        row_data("a", cost_usd=1.0, tree=tree(1.0)),
        row_data("b", cost_usd=1.0, tree=tree(4.0), workspace="shop"),
        row_data("c", cost_usd=3.0, tree=tree(3.0), parent_session_id="b", workspace="shop"),
        row_data("d", cost_usd=None, tree=tree(None)),
    )
    bars = spend_by_tree(board.rows)
    assert [(bar.branch, bar.label, bar.cost, bar.share, bar.own) for bar in bars] == [
        ("", "engineer-b", 4.0, 1.0, 0.25),
        ("└─ ", "engineer-c", 3.0, 0.75, 0.75),
        ("", "engineer-a", 1.0, 0.25, 0.25),
    ]
    assert [bar.label for bar in spend_by_tree(board.rows, "shop")] == ["engineer-b", "engineer-c"]


def test_spend_by_model_has_no_cost_for_a_model_without_a_price() -> None:
    buckets = [bucket(BEGIN, 1.0, opus=1.0, odd=None), bucket(END, 3.0, opus=3.0)]
    bars = spend_by_model(buckets)
    assert [(bar.label, bar.cost, bar.share) for bar in bars] == [("opus", 4.0, 1.0), ("odd", None, 0.0)]
    assert bars[0].tokens is not None and bars[0].tokens["input"] == 20
    assert [(bar.label, bar.share) for bar in spend_over_time(buckets)] == [(END, 1.0), (BEGIN, 1 / 3)]


def timeline(*found: tuple[str, str | None, Sequence[tuple[str, str, str | None]]]) -> Json:
    made = [
        {
            "session_id": session_id,
            "label": f"engineer-{session_id}",
            "parent_session_id": parent,
            "created_at": BEGIN,
            "spans": [{"status": s, "start": b, "end": e, "reason": None} for s, b, e in spans],
        }
        for session_id, parent, spans in found
    ]
    return cast(Json, {"since": BEGIN, "until": END, "sessions": made})


def test_lane_has_the_status_that_needs_a_person_where_several_share_a_cell() -> None:
    half, late = "2026-01-27T15:30:00.000Z", "2026-01-27T15:30:10.000Z"
    spans = [("running", BEGIN, half), ("waiting_input", half, late), ("idle", late, None)]
    events = [{"type": "checkpoint", "session_id": "a", "timestamp": half}, {"type": "idle"}]
    (lane,) = lanes(timeline(("a", None, spans)), events)
    begin, end = lane.spans[0].start_s, lane.spans[-1].end_s
    assert lane.cells(begin, end, 4) == ["running", "running", "waiting_input", "idle"]
    assert lane.cells(begin - 3600, end, 4) == [None, None, "running", "waiting_input"]
    assert [(mark.sign, place) for mark, place in lane.mark_cells(begin, end, 4)] == [("◆", 2)]
    assert lane.totals() == {"running": 1800.0, "waiting": 10.0, "idle": 1790.0}


def test_lanes_are_nested_and_survive_a_cycle_and_a_missing_parent() -> None:
    spans = [("running", BEGIN, None)]
    found = lanes(
        timeline(
            ("a", None, spans), ("b", "a", spans), ("c", "gone", spans), ("d", "e", spans), ("e", "d", spans)
        )
    )
    shown = [(lane.branch, lane.label, lane.spawned_by) for lane in found]
    assert shown[:3] == [
        ("", "engineer-a", ""),
        ("└─ ", "engineer-b", "engineer-a"),
        ("", "engineer-c", ""),
    ]
    assert shown[3:] == [("", "engineer-d", "engineer-e"), ("└─ ", "engineer-e", "engineer-d")]


def test_choices_are_the_same_after_they_were_kept() -> None:
    chosen = Choices("shop", Sort.COST, Theme.LIGHT, True, ("1a2b3c4d",))
    assert choices_of(dict(chosen.as_json())) == chosen


@pytest.mark.parametrize(
    "kept", [None, [], "x", {"workspace": 5, "sort": "odd", "theme": [], "archived": "yes", "folded": [5]}]
)
def test_choices_that_are_not_known_are_left_out(kept: object) -> None:
    assert choices_of(kept) == Choices()
