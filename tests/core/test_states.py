"""Enums of stored values."""

import pytest

from sm.core.states import OPEN_STATES, EventType, MessageState, Mode, RequestState
from sm.core.statuses import ENDED, Status, Tolerant


@pytest.mark.parametrize("kind", [Status, EventType, Mode, MessageState, RequestState])
def test_enum_keeps_unknown_value_when_a_newer_version_stored_the_value(kind: type[Tolerant]) -> None:
    value = kind("from-the-future")
    assert (value.name, value.value, str(value)) == ("UNKNOWN", "from-the-future", "from-the-future")
    assert isinstance(value, kind)
    assert value == "from-the-future"
    assert value not in kind.__members__.values()
    assert "from-the-future" not in list(kind)


def test_enum_members_equal_their_strings() -> None:
    assert "completed" in ENDED
    assert "queued" in OPEN_STATES
