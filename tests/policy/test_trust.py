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
def test_normalize_trust_level_maps_every_old_and_new_word(word: str, level: TrustLevel) -> None:
    assert normalize_trust_level(word) is level


@pytest.mark.parametrize("word", ["", "root", "direct\n direct", "sandbox", "none", "trustedd"])
def test_normalize_trust_level_refuses_an_unknown_word(word: str) -> None:
    with pytest.raises(ValueError, match=r": use sandboxed or direct$"):
        normalize_trust_level(word)


@pytest.mark.parametrize(
    ("parent", "requested", "granted"),
    [
        (DIRECT, None, DIRECT),
        (DIRECT, DIRECT, DIRECT),
        (DIRECT, SANDBOXED, SANDBOXED),
        (SANDBOXED, None, SANDBOXED),
        (SANDBOXED, SANDBOXED, SANDBOXED),
        (SANDBOXED, DIRECT, None),
    ],
)
def test_child_trust_is_never_higher_than_the_parents(
    parent: TrustLevel, requested: TrustLevel | None, granted: TrustLevel | None
) -> None:
    assert child_trust(parent, requested) is granted
