"""Handlers and classes get the use cases that their keyword-only parameters name."""

from dataclasses import KW_ONLY

import pytest

from sm.core.dataclass import dataclass
from sm.services.parts import DoorParts


class Lamp:
    """A part."""


class Desk:
    """Another part."""


class StandingDesk(Desk):
    """A part of a known type."""


@dataclass
class Room:
    name: str
    _: KW_ONLY
    lamp: Lamp


async def handler(name: str, *, lamp: Lamp, desk: Desk) -> tuple[str, Lamp, Desk]:
    return name, lamp, desk


async def test_handler_and_class_get_the_parts_of_their_types() -> None:
    lamp, desk = Lamp(), StandingDesk()
    parts = DoorParts(lamp).plus(desk)
    assert await parts.bound(handler)("study") == ("study", lamp, desk)
    assert parts.bound(Room)("study") == Room("study", lamp=lamp)


@pytest.mark.parametrize("parts", [(Lamp(),), (Lamp(), Desk(), StandingDesk())])
def test_parts_are_refused_when_a_type_has_not_exactly_one(parts: tuple[object, ...]) -> None:
    with pytest.raises(TypeError, match=r"^[02] parts are a Desk$"):
        DoorParts(*parts).bound(handler)
