"""A row changes at most four times a second; others do not wait for it."""

from sm.services.row_pace import RowPace


def test_row_may_change_again_a_quarter_of_a_second_later() -> None:
    pace = RowPace()
    assert pace.may_change("a", 10.0)
    pace.note("a", 10.0)
    assert [pace.may_change("a", at_s) for at_s in (10.0, 10.2, 10.25)] == [False, False, True]


def test_row_does_not_wait_for_another_one() -> None:
    pace = RowPace()
    pace.note("a", 10.0)
    assert pace.may_change("b", 10.0)
    pace.forget("a")
    assert pace.may_change("a", 10.0)
