"""The comparison of answers with the agent's report."""

import pytest

from sm.requests.confirmations import is_told_otherwise


@pytest.mark.parametrize(
    ("answers", "told", "expected"),
    [
        (("blue",), ("red",), True),
        (("S, small", "tiny"), ("S, small", "large"), True),
        (("blue",), ("blue",), False),
        ((" the grey\none ",), ("the grey one",), False),
        (("[sm] from sm, message 2",), ("> [sm] from sm, message 2",), False),
        (("blue",), (), False),
        ((), ("blue",), False),
    ],
)
def test_agent_is_told_otherwise_only_when_the_words_differ(
    answers: tuple[str, ...], told: tuple[str, ...], expected: bool
) -> None:
    assert is_told_otherwise(answers, told) is expected
