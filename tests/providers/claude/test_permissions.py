"""Permission modes of an agent below another agent."""

import pytest

from sm.providers.claude.permissions import limit_to_parent, mode_of, ranks, shown_mode

SKIP, MAY_SKIP = "--dangerously-skip-permissions", "--allow-dangerously-skip-permissions"
MODES = tuple(ranks())
LIFTS = "limited by the parent's permissions; to allow more, set spawnable: true for the agent type"


def flags(mode: str | None) -> tuple[str, ...]:
    return ("claude", "--model", "opus", *(() if mode is None else ("--permission-mode", mode)), "--verbose")


@pytest.mark.parametrize(
    ("command_line", "mode"),
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
def test_mode_of_returns_the_permission_mode_of_a_command_line(command_line: str, mode: str | None) -> None:
    assert mode_of(command_line.split()) == mode


@pytest.mark.parametrize("parent", [None, *MODES])
@pytest.mark.parametrize("child", [None, *MODES])
def test_limit_to_parent_lowers_the_mode_of_a_child_only_above_that_of_its_parent(
    child: str | None, parent: str | None
) -> None:
    kept, warnings = limit_to_parent(flags(child), flags(parent))
    requested, most = child or "default", parent or "default"
    if ranks()[requested] <= ranks()[most]:
        assert warnings == ()
    else:
        assert warnings == (f"permission mode {shown_mode(most)}, not {shown_mode(requested)}: {LIFTS}",)
    lower = most if child is None or ranks()[requested] > ranks()[most] else requested
    if parent == "bypassPermissions":
        assert kept == flags(child)
    else:
        # Always explicit: otherwise user or project settings decide, and agents can write project settings.
        assert kept == ("claude", "--permission-mode", lower, *flags(None)[1:])
    assert limit_to_parent(kept, flags(parent)) == (kept, ())


def test_limit_to_parent_inserts_the_mode_right_after_the_program() -> None:
    arguments = ("npx", "claude", "--effort")
    kept, _ = limit_to_parent((*arguments, "--permission-mode", "plan"), ("claude",), program=2)
    assert kept == ("npx", "claude", "--permission-mode", "plan", "--effort")


def test_permission_modes_are_ranked_by_what_they_allow_without_asking() -> None:
    assert list(ranks()) == ["plan", "dontAsk", "default", "acceptEdits", "auto", "bypassPermissions"]
    assert list(ranks().values()) == sorted(set(ranks().values()))


@pytest.mark.parametrize(
    "arguments",
    [
        ("claude", SKIP),
        ("claude", "--permission-mode=bypassPermissions"),
        ("claude", "--permission-mode", "bypassPermissions", SKIP, SKIP),
        ("claude", "--permission-mode", "plan", SKIP),
        ("claude", "--permission-mode", "from-a-later-version"),
    ],
)
def test_limit_to_parent_recognizes_every_spelling_of_a_higher_mode(arguments: tuple[str, ...]) -> None:
    kept, warnings = limit_to_parent(arguments, ("claude", "--permission-mode", "acceptEdits"))
    assert kept == ("claude", "--permission-mode", "acceptEdits")
    assert len(warnings) == 1


def test_limit_to_parent_drops_the_allow_skip_option_when_the_parent_lacks_it() -> None:
    default = ("claude", "--permission-mode", "default")
    assert limit_to_parent(("claude", MAY_SKIP), ("claude",)) == (default, (f"without {MAY_SKIP}: {LIFTS}",))
    assert limit_to_parent(("claude", MAY_SKIP), ("claude", MAY_SKIP)) == ((*default, MAY_SKIP), ())
    assert limit_to_parent(("claude", MAY_SKIP), ("claude", SKIP)) == (("claude", MAY_SKIP), ())


def test_unknown_mode_allows_only_itself_for_a_child() -> None:
    strange = ("claude", "--permission-mode", "wild")
    assert limit_to_parent(strange, strange) == (strange, ())
    for mode in MODES:
        assert mode_of(limit_to_parent(flags(mode), strange)[0]) == "wild"
