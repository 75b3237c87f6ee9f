"""The list of what needs a person: its selection, and what is announced."""

from typing import Any

from sm.board import needs
from sm.board.needs_list import NeedsList, NeedsNews
from tests.board.samples import AT_S
from tests.cli.samples import request


def update(found: NeedsList, *names: str, clock_s: float) -> NeedsNews:
    requests: list[dict[str, Any]] = [request(request_id=name) for name in names]
    return found.update(needs({}, requests, [], {}, AT_S), clock_s)


def selected(found: NeedsList) -> str | None:
    return None if found.current is None else found.current.key


def test_first_entries_are_not_new_and_later_ones_are_new_once() -> None:
    found = NeedsList()
    assert update(found, "r1", clock_s=0.0).new == []
    assert [need.key for need in update(found, "r1", "r2", clock_s=1.0).new] == ["r2"]
    assert update(found, "r1", "r2", clock_s=2.0).new == []


def test_selection_follows_its_entry_and_its_neighbour_is_dead_after_it_vanished() -> None:
    found = NeedsList()
    update(found, "r1", "r2", clock_s=0.0)
    assert (found.select_key("r2"), found.select_key("r9")) == (True, False)
    update(found, "r0", "r1", "r2", clock_s=5.0)
    assert selected(found) == "r2"
    assert update(found, "r0", "r1", clock_s=10.0).vanished == "r2"
    assert selected(found) == "r1"
    assert found.guard.is_dead("r1", 10.1)
    assert not found.guard.is_dead("r1", 11.0)


def test_list_without_entries_has_no_selection() -> None:
    found = NeedsList()
    update(found, "r1", clock_s=0.0)
    assert update(found, clock_s=1.0).vanished == "r1"
    assert selected(found) is None
