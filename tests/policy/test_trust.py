import pytest

from sm.core.states import TrustLevel
from sm.policy.trust import child_trust, normalize_trust_level

DIRECT, SANDBOXED = TrustLevel.DIRECT, TrustLevel.SANDBOXED


@pytest.mark.parametrize(
    ("word", "level"),
    [
        ("direct", DIRECT),
        ("trusted", DIRECT),
        ("full", DIRECT),
        ("vault", DIRECT),
        ("sandboxed", SANDBOXED),
        ("untrusted", SANDBOXED),
        (" Direct ", DIRECT),
        ("SANDBOXED", SANDBOXED),
    ],
)
def test_every_word_that_was_ever_used_has_one_meaning(word: str, level: TrustLevel) -> None:
    assert normalize_trust_level(word) is level


@pytest.mark.parametrize("word", ["", "root", "direct\n direct", "sandbox", "none", "trustedd"])
def test_an_unknown_word_is_refused_rather_than_trusted(word: str) -> None:
    with pytest.raises(ValueError, match="unknown trust level"):
        normalize_trust_level(word)


@pytest.mark.parametrize(
    ("parent", "asked", "given"),
    [
        (DIRECT, None, DIRECT),
        (DIRECT, DIRECT, DIRECT),
        (DIRECT, SANDBOXED, SANDBOXED),
        (SANDBOXED, None, SANDBOXED),
        (SANDBOXED, SANDBOXED, SANDBOXED),
        (SANDBOXED, DIRECT, None),
    ],
)
def test_a_child_has_its_parents_mode_or_less(
    parent: TrustLevel, asked: TrustLevel | None, given: TrustLevel | None
) -> None:
    assert child_trust(parent, asked) is given
