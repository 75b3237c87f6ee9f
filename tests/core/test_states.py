"""Enums of stored words."""

import pytest

from sm.core.states import OPEN_STATES, EventType, MessageState, Mode, RequestState
from sm.core.statuses import ENDED, LIVE, Status, Tolerant


@pytest.mark.parametrize("kind", [Status, EventType, Mode, MessageState, RequestState])
def test_stored_word_of_a_newer_version_loads_and_keeps_its_text(kind: type[Tolerant]) -> None:
    word = kind("from-the-future")
    assert (word.name, word.value, str(word)) == ("UNKNOWN", "from-the-future", "from-the-future")
    assert isinstance(word, kind)
    assert word == "from-the-future"
    assert word not in kind.__members__.values()
    assert "from-the-future" not in list(kind)


def test_every_status_is_live_or_ended() -> None:
    assert [*LIVE, *ENDED] == list(Status)


def test_words_equal_the_texts_of_answers() -> None:
    assert "completed" in ENDED
    assert "queued" in OPEN_STATES
