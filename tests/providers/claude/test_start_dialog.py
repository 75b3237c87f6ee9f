# ruff: noqa: RUF001  (claude's pointer looks like a greater-than sign, and is not one)
"""First-start dialogs of claude that sm can answer."""

import re
from pathlib import Path

import pytest

from sm.providers.claude.screen import Obstacle, State, read_screen
from sm.providers.claude.terminal import ClaudeScreenReader
from sm.providers.readers import SetupDialog, SetupQuestion

SCREENS = Path(__file__).parents[2] / "data/screens"
TRUST, BYPASS = "claude/trust-dialog-01", "claude/bypass-warning-01"


def shown(name: str) -> str:
    return (SCREENS / f"{name}.txt").read_text(encoding="utf-8")


def without_numbers(screen: str) -> str:
    """The screen as claude 2.1.330 draws it."""
    return re.sub(r"\b[12]\. (?=Yes|No)", "", screen)


def dialog(screen: str) -> SetupDialog | None:
    return ClaudeScreenReader().setup_dialog(screen.split("\n"), "/srv/shop")


@pytest.mark.parametrize("drawn", [str, without_numbers])
@pytest.mark.parametrize(
    ("name", "question", "key"),
    [
        (TRUST, SetupQuestion.TRUST, "Enter"),
        ("claude-sizes/trust-50", SetupQuestion.TRUST, "Enter"),
        (BYPASS, SetupQuestion.BYPASS, "Down"),
    ],
)
def test_setup_dialog_is_found_with_and_without_numbers(
    name: str, question: SetupQuestion, key: str, drawn: type[str]
) -> None:
    found = dialog(drawn(shown(name)))
    assert found is not None
    assert (found.question, found.key, found.confirms) == (question, key, key == "Enter")
    assert ("/srv/shop" in found.text) == (question is SetupQuestion.TRUST)


@pytest.mark.parametrize(("name", "obstacle"), [(TRUST, Obstacle.TRUST), (BYPASS, Obstacle.BYPASS_WARNING)])
def test_screen_is_blocked_when_the_options_have_no_numbers(name: str, obstacle: Obstacle) -> None:
    content = read_screen(without_numbers(shown(name)).split("\n"))
    assert (content.state, content.obstacle) == (State.BLOCKED, obstacle)


@pytest.mark.parametrize(
    ("name", "selected", "other", "key"),
    [
        (TRUST, "❯ 1. Yes", "  2. No", "Up"),
        (BYPASS, "❯ 1. No", "  2. Yes", "Enter"),
    ],
)
def test_key_leads_to_the_option_that_approves_when_the_other_one_is_selected(
    name: str, selected: str, other: str, key: str
) -> None:
    swapped = shown(name).replace(selected, f"  {selected[2:]}").replace(other, f"❯ {other[2:]}")
    found = dialog(swapped)
    assert found is not None and found.key == key


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("❯ 1.", "  1."),  # nothing is selected
        ("  2. No, exit", "❯ 2. No, exit"),  # both are selected
        ("No, exit", "No, ask me later"),
        ("Yes, I trust this folder", "Yes, I trust this folder and all others"),
        (" Accessing workspace:", " Another question:"),
        ("Enter to confirm", "Type to search"),
        ("Esc to cancel", "Esc to cancel\n\n the next line"),
        ("  2. No, exit", "  2. No, exit\n   3. Yes, for all folders"),
    ],
)
def test_setup_dialog_is_not_found_when_the_dialog_is_another(old: str, new: str) -> None:
    screen = shown(TRUST).replace(old, new)
    assert screen != shown(TRUST)
    assert dialog(screen) is None


def test_setup_dialog_is_not_found_when_its_process_has_ended() -> None:
    assert dialog(shown(TRUST).rstrip() + "\n\nPane is dead (status 1, Mon Nov 23 15:40:58 2026)") is None


OTHERS = [
    p for p in sorted(SCREENS.glob("*/*.txt")) if not re.match("trust|bypass-[w0-9]|firstrun-A1", p.name)
]


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.stem)
def test_setup_dialog_is_found_on_no_other_screen(path: Path) -> None:
    assert dialog(path.read_text(encoding="utf-8")) is None
