"""Names of models."""

import pytest

from sm.core.usage import base_model, is_same_model


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("claude-opus-4-8", "claude-opus-4-8", True),
        ("claude-opus-4-8", "claude-opus-4-8-20260101", True),
        ("claude-opus-4-8[1m]", "claude-opus-4-8-20260101", True),
        ("claude-haiku-4-5@20251001", "claude-haiku-4-5", True),
        ("opus", "claude-opus-4-8-20260101", True),
        ("gpt-5-latest", "gpt-5", True),
        ("Claude-Opus-4-8", "claude-opus-4-8", True),
        (None, None, True),
        ("claude-opus-4", "claude-opus-4-8", False),
        ("claude-opus-4-8", "claude-opus-4-9-20260101", False),
        ("opus", "claude-sonnet-5", False),
        ("opus", "sonnet", False),
        ("gpt-5", "gpt-5-mini", False),
        ("", "claude-opus-4-8", False),
        (None, "claude-opus-4-8", False),
        (None, "", False),
    ],
)
def test_is_same_model_ignores_dates_and_knows_aliases(
    one: str | None, other: str | None, same: bool
) -> None:
    assert is_same_model(one, other) is same
    assert is_same_model(other, one) is same


def test_base_model_drops_only_a_date_and_an_option() -> None:
    assert base_model("claude-opus-4-8[1m]") == "claude-opus-4-8"
    assert base_model("model-1234567") == "model-1234567"
