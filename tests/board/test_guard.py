"""The moment in which a button is dead."""

from sm.board import ButtonGuard, needs
from sm.board.needs import BoardNeed
from tests.board.samples import AT_S
from tests.cli.samples import request


def found(*numbers: int, **more: object) -> list[BoardNeed]:
    return needs({}, [request(number, **more) for number in numbers], [], {}, AT_S)


def test_button_is_dead_after_it_appears() -> None:
    guard = ButtonGuard()
    assert guard.is_dead("r57", 0.0)
    guard.see(found(57), 10.0)
    guard.see(found(57), 10.4)
    assert [guard.is_dead("r57", at_s) for at_s in (10.0, 10.49, 10.5)] == [True, True, False]


def test_button_is_dead_after_its_request_changes() -> None:
    guard = ButtonGuard()
    guard.see(found(57), 10.0)
    guard.see(found(57, digest="another"), 20.0)
    assert [guard.is_dead("r57", at_s) for at_s in (20.4, 20.5)] == [True, False]


def test_button_is_dead_after_another_request_slides_below_the_cursor() -> None:
    guard = ButtonGuard()
    guard.see(found(57, 58), 10.0)
    guard.see(found(58), 20.0)
    guard.slide(20.0)
    assert [guard.is_dead("r58", at_s) for at_s in (20.4, 20.5)] == [True, False]
