"""docs/design-of-views.md matches the style sheets."""

import re

import pytest

from sm.board.words import sign_of
from sm.core.statuses import Status
from sm.web.page_files import STATIC
from tests.colour_table import DOCUMENT, LEAST, colours, ratios, used_pairs, written

TEXT = DOCUMENT.read_text(encoding="utf-8")
APP, CHANGES = ((STATIC / name).read_text(encoding="utf-8") for name in ("app.css", "changes.css"))
BASE_PX = 15
CODE = [f"code-{part}" for part in ("comment", "keyword", "string", "value", "name")]
LINES = [f"diff-{part}" for part in ("add", "del", "add-word", "del-word")]


def test_table_of_contrasts_is_up_to_date() -> None:
    assert written(TEXT) == TEXT, "run: python -m tests.colour_table"


@pytest.mark.parametrize(("text", "ground"), [*used_pairs()])
def test_text_has_enough_contrast_in_dark_and_light_colours(text: str, ground: str) -> None:
    assert min(ratios(colours(APP), text, ground)) >= LEAST


@pytest.mark.parametrize("text", [*CODE, "text"])
@pytest.mark.parametrize("ground", [*LINES, "ground"])
def test_source_code_has_enough_contrast_in_changed_lines(text: str, ground: str) -> None:
    base, own = colours(APP), colours(CHANGES)
    assert min(ratios({theme: {**base[theme], **own[theme]} for theme in base}, text, ground)) >= LEAST


@pytest.mark.parametrize("css", [APP, CHANGES], ids=["app", "changes"])
def test_light_colours_are_the_same_by_hand_and_by_the_system(css: str) -> None:
    found = colours(css)
    assert found["light"] == found["system"] != found["dark"]


def test_sizes_are_those_of_the_document() -> None:
    def px(name: str, block: str) -> int:
        rem = re.search(rf"{re.escape(block)}[^}}]*--{name}: ([\d.]+)rem", APP)
        assert rem is not None
        return round(float(rem[1]) * BASE_PX)

    assert "font: 93.75%/" in APP and BASE_PX == 16 * 93.75 / 100
    compact = px("row", ':root[data-density="compact"] {')
    assert f"| row | {px('row', ':root {')} px comfortable, {compact} px compact |" in TEXT
    assert f"| button, field | {px('control', ':root {')} px;" in TEXT
    for selector in (":root", ':root[data-density="compact"]'):
        assert re.search(rf"pointer: coarse\).*{re.escape(selector)}.*--row: 44px; --control: 44px", APP)
    limits = re.search(r"clamp\((\d+)px, var\(--list, \d+\) \* 1%, 100% - (\d+)px\)", APP)
    assert limits is not None
    assert f"The list needs {limits[1]} px at least, the detail {limits[2]} px." in TEXT
    script = (STATIC / "border.js").read_text(encoding="utf-8")
    assert re.findall(r"_MIN = (\d+);", script) == list(limits.groups())


@pytest.mark.parametrize(
    ("words", "status", "stale", "waits"),
    [
        ("waits for the person", Status.RUNNING, False, True),
        ("failed, not seen", Status.ERROR, False, False),
        ("status not sure", Status.RUNNING, True, False),
        ("running", Status.RUNNING, False, False),
        ("idle", Status.IDLE, False, False),
        ("starting", Status.STARTING, False, False),
        ("completed", Status.COMPLETED, False, False),
        ("killed or abandoned", Status.KILLED, False, False),
    ],
)
def test_signs_of_states_are_those_of_the_document(
    words: str, status: Status, *, stale: bool, waits: bool
) -> None:
    assert f"| {words} | `{sign_of(status, stale=stale, waits=waits)}`" in TEXT


def test_changes_use_the_sizes_of_the_document() -> None:
    assert set(re.findall(r"font(?:-size)?: ([\d.]+r?em)", CHANGES)) <= {"1rem", ".9rem", ".8rem"}
    assert set(re.findall(r"border-radius: (\d+px)", CHANGES)) <= {"6px", "4px", "2px"}
