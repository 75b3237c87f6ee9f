"""Titles of sessions: any printable text of one line."""

import pytest

from sm.core.names import friendly_name, nearest_name, normalize_title
from sm.errors import UsageError


@pytest.mark.parametrize(
    "title",
    [
        "Fix login \N{EM DASH} part 2",
        "Build, test & ship",
        "api/v2: migrate",
        "What's wrong with 'x'?",
        "50% faster",
        "[WIP] thing",
        "\u65e5\u672c\u8a9e\u3001\u30c6\u30b9\u30c8",
        "#[fg=red]#(reboot) $(reboot) `x` <b>",
        "\N{MAN}\N{ZERO WIDTH JOINER}\N{WOMAN} family",
        "x" * 200,
    ],
)
def test_printable_title_is_kept_as_written(title: str) -> None:
    assert normalize_title(title) == title


@pytest.mark.parametrize(
    ("title", "reason"),
    [
        ("", "the title is empty"),
        (" \u3000 ", "the title is empty"),
        ("two\nlines", "must be one line"),
        ("a\ttab", "invalid title"),
        ("esc\x1b[31m", "U\\+001B"),
        ("right \u202e left", "U\\+202E"),
        ("mark \u200f", "invalid title"),
        ("line\u2028separator", "invalid title"),
        ("half \ud83d", "U\\+D83D"),
        ("[sm] from sm", r"cannot begin with \[sm\]"),
        (" [\uff33M] x", r"cannot begin with \[sm\]"),
        ("x" * 201, "201 characters, at most 200"),
    ],
)
def test_title_with_controls_several_lines_or_directions_is_refused(title: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        normalize_title(title)


def test_title_is_normalized() -> None:
    assert normalize_title("  u\u0308ber  ") == "\u00fcber"


@pytest.mark.parametrize(
    ("wish", "taken", "name"),
    [
        ("login", [], "login"),
        ("Login", ["engineer-login"], "login-2"),
        ("login", ["engineer-login", "engineer-login-2"], "login-3"),
        ("Fix the LOGIN!", [], "fix-the-login"),
        ("engineer-login", ["engineer-login"], "engineer-login-2"),
        ("\u00dcber/Gr\u00f6\u00dfe v1.2_x", [], "uber-groe-v1.2_x"),
        ("-.x", [], "x"),
        ("a" * 300, [], "a" * 56),
        ("\u65e5\u672c", [], None),
        ("  ", [], None),
    ],
)
def test_nearest_name_is_valid_and_free(wish: str, taken: list[str], name: str | None) -> None:
    found = nearest_name("{agent_type}-{friendly_name}", "engineer", wish, taken)
    assert found == name
    if found is not None:
        assert friendly_name("{agent_type}-{friendly_name}", "engineer", found) not in taken
