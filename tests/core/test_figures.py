"""The costs, tokens and names of models of every view."""

import pytest

from sm.core.figures import dollars, model_name, short_count, token_count

TOKENS = {"input": 12_000, "output": 340, "cache_read": 5, "cache_write": 6}


@pytest.mark.parametrize(
    ("number", "shown", "narrow"),
    [
        (950, "950", "950"),
        (999, "999", "999"),
        (12_399, "12.4k", "12k"),
        (3_400_000, "3.4M", "3.4M"),
        (1_250_000_000, "1.2G", "1.2G"),
        (12.5, "12.5", "12.5"),
    ],
)
def test_short_count_has_a_unit(number: float, shown: str, narrow: str) -> None:
    assert (short_count(number), short_count(number, narrow=True)) == (shown, narrow)


def test_token_count_says_that_tokens_are_unknown() -> None:
    assert [token_count(None), token_count(None, partial=True)] == ["-", "?"]
    assert [token_count(TOKENS), token_count(TOKENS, partial=True)] == ["12.3k", "12.3k+"]
    assert token_count(TOKENS, ("cache_read", "cache_write")) == "11"


def test_dollars_say_that_a_part_of_the_price_is_unknown() -> None:
    assert [dollars(1.25), dollars(1234.5, partial=True)] == ["$1.25", "$1,234.50+"]
    assert [dollars(None), dollars(None, partial=True)] == ["-", "?"]


@pytest.mark.parametrize(
    ("model", "provider", "name"),
    [
        ("claude-haiku-4-5-20251001", "claude", "haiku-4-5"),
        ("claude-opus-4-8", "claude", "opus-4-8"),
        ("gpt-5", "codex", "gpt-5"),
        ("20251001", "claude", "20251001"),
        ("-", "command", "-"),
    ],
)
def test_model_name_has_no_provider_and_no_date(model: str, provider: str, name: str) -> None:
    assert model_name(model, provider) == name
