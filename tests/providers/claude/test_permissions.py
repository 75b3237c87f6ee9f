"""What an agent may do below another one."""

import pytest

from sm.providers.claude.permissions import RANKS, capped, mode_of

SKIP, MAY_SKIP = "--dangerously-skip-permissions", "--allow-dangerously-skip-permissions"
MODES = tuple(RANKS)
LIFTS = "its parent has no more; spawnable: true in the configuration lifts that"


def flags(mode: str | None) -> tuple[str, ...]:
    return ("claude", "--model", "opus", *(() if mode is None else ("--permission-mode", mode)), "--verbose")


@pytest.mark.parametrize(
    ("given", "mode"),
    [
        ("claude", None),
        ("claude --permission-mode plan", "plan"),
        ("claude --permission-mode=plan", "plan"),
        ("claude --permission-mode plan --permission-mode acceptEdits", "acceptEdits"),
        (f"claude {SKIP}", "bypassPermissions"),
        (f"claude {SKIP} --permission-mode plan", "bypassPermissions"),
        (f"claude {MAY_SKIP}", None),
        ("claude --permission-mode", None),
        ("claude --permission-mode wild", "wild"),
    ],
)
def test_mode_is_that_in_which_claude_starts(given: str, mode: str | None) -> None:
    assert mode_of(given.split()) == mode


@pytest.mark.parametrize("parent", [None, *MODES])
@pytest.mark.parametrize("child", [None, *MODES])
def test_child_is_capped_exactly_where_it_would_have_more(child: str | None, parent: str | None) -> None:
    kept, warnings = capped(flags(child), flags(parent))
    wanted, most = child or "default", parent or "default"
    if RANKS[wanted] <= RANKS[most]:
        assert warnings == ()
    else:
        assert warnings == (f"permission mode {most}, not {wanted}: {LIFTS}",)
    lower = most if child is None or RANKS[wanted] > RANKS[most] else wanted
    if parent == "bypassPermissions":
        assert kept == flags(child)
    else:
        # Always said: else the settings of the user or of the project say it, and agents write the latter.
        assert kept == ("claude", "--permission-mode", lower, *flags(None)[1:])
    assert capped(kept, flags(parent)) == (kept, ())


def test_mode_stands_where_no_other_option_can_take_it_for_its_value() -> None:
    given = ("npx", "claude", "--effort")
    kept, _ = capped((*given, "--permission-mode", "plan"), ("claude",), program=2)
    assert kept == ("npx", "claude", "--permission-mode", "plan", "--effort")


def test_ranks_rise_with_what_is_done_unasked() -> None:
    assert list(RANKS) == ["plan", "dontAsk", "default", "acceptEdits", "auto", "bypassPermissions"]
    assert list(RANKS.values()) == sorted(set(RANKS.values()))


@pytest.mark.parametrize(
    "given",
    [
        ("claude", SKIP),
        ("claude", "--permission-mode=bypassPermissions"),
        ("claude", "--permission-mode", "bypassPermissions", SKIP, SKIP),
        ("claude", "--permission-mode", "plan", SKIP),
        ("claude", "--permission-mode", "from-a-later-version"),
    ],
)
def test_no_spelling_gets_around_it(given: tuple[str, ...]) -> None:
    kept, warnings = capped(given, ("claude", "--permission-mode", "acceptEdits"))
    assert kept == ("claude", "--permission-mode", "acceptEdits")
    assert len(warnings) == 1


def test_being_allowed_to_skip_is_dropped_where_the_parent_is_not() -> None:
    default = ("claude", "--permission-mode", "default")
    assert capped(("claude", MAY_SKIP), ("claude",)) == (default, (f"without {MAY_SKIP}: {LIFTS}",))
    assert capped(("claude", MAY_SKIP), ("claude", MAY_SKIP)) == ((*default, MAY_SKIP), ())
    assert capped(("claude", MAY_SKIP), ("claude", SKIP)) == (("claude", MAY_SKIP), ())


def test_mode_that_nobody_knows_is_kept_below_itself_and_nothing_else_is() -> None:
    strange = ("claude", "--permission-mode", "wild")
    assert capped(strange, strange) == (strange, ())
    for mode in MODES:
        assert mode_of(capped(flags(mode), strange)[0]) == "wild"
