"""The dark and the light colours of `sm top`. Those of the terminal itself are unknown, so no test computes them."""

import time
from collections.abc import Iterator

import pytest
from rich.color import Color
from rich.style import Style

from sm.board.choices import Theme
from sm.cli.display.patch_colours import piece_style
from sm.cli.display.patch_lines import PieceRole
from sm.cli.display.patch_syntax import Syntax
from sm.cli.tui.appearance import FILLED_COLOURS
from sm.cli.tui.start_sheet import StartSheet
from sm.feed import Mail
from sm.web.page_files import STATIC
from tests.board.samples import message, row_data, update
from tests.cli.samples import request
from tests.cli.tui.view import View, top
from tests.colour_table import LEAST, colours, contrast
from tests.instance import Instance

FILLED = (Theme.DARK, Theme.LIGHT)
APP, CHANGES = (colours((STATIC / name).read_text(encoding="utf-8")) for name in ("app.css", "changes.css"))
CODE = {"string": Syntax.STRING, "keyword": Syntax.KEYWORD, "comment": Syntax.COMMENT} | {
    "value": Syntax.LITERAL,
    "name": Syntax.NAME,
}
LINES = {"add": PieceRole.ADDED, "del": PieceRole.DELETED} | {
    "add-word": PieceRole.ADDED_WORD,
    "del-word": PieceRole.DELETED_WORD,
}

EDIT = {"file_path": "a.py", "old_string": "one", "new_string": "two"}


@pytest.fixture(scope="module")
def home() -> Iterator[Instance]:
    with Instance() as instance:
        instance.start_daemon()
        yield instance


def hex_of(colour: Color) -> str:
    return "{:02x}{:02x}{:02x}".format(*colour.get_truecolor())


def ratio(style: Style) -> float:
    assert style.color is not None and style.bgcolor is not None, style
    assert not style.dim
    return contrast(hex_of(style.color), hex_of(style.bgcolor))


def faint_texts(view: View) -> set[tuple[str, float]]:
    """The texts on the screen whose ratio is too small."""
    found = set[tuple[str, float]]()
    for strip in view.app.screen._compositor.render_strips():
        for text, style, _ in strip:
            if any(character.isalnum() for character in text):
                assert style is not None
                if (now := ratio(style)) < LEAST:
                    found.add((text.strip(), round(now, 1)))
    return found


@pytest.mark.parametrize("theme", FILLED)
def test_colours_are_those_of_the_page(theme: Theme) -> None:
    page, own = APP[theme], FILLED_COLOURS[theme]
    assert own == {name: f"#{page[name]}" for name in own}
    code, changes = {**page, **CHANGES[theme]}, piece_style
    for name, syntax in CODE.items():
        colour = changes(PieceRole.CONTEXT, syntax, theme).color
        assert colour is not None and hex_of(colour) == code[f"code-{name}"]
    for name, role in LINES.items():
        ground = changes(role, Syntax.NONE, theme).bgcolor
        assert ground is not None and hex_of(ground) == code[f"diff-{name}"]


@pytest.mark.parametrize("theme", FILLED)
async def test_all_texts_have_enough_contrast_in_dark_and_in_light_colours(
    home: Instance, theme: Theme
) -> None:
    statuses = ("running", "idle", "starting", "waiting_input", "completed", "killed", "abandoned", "error")
    rows = [
        row_data(f"{number:08x}", status=status, attention=attention)
        for number, (status, attention) in enumerate(
            [*((status, "working") for status in statuses), ("error", "failed"), ("completed", "done")]
            + [(status, "over") for status in ("completed", "killed", "abandoned", "error")]
        )
    ]
    async with top(home, (140, 40)) as view:
        await view.end_feed()
        view.app.board.apply(update(rows, snapshot=True), time.monotonic())
        asked = request(kind="permission", tool="Edit", arguments=EDIT, session_id="00000003")
        view.app.take(Mail(requests=[asked], messages=[message(2, "failed")]))
        await view.shows("r57")
        assert view.app.select_need("r57")
        while view.app.choices.theme is not theme:
            await view.press("C")
        await view.shows("engineer-0000000d", "failed", "|+ two")
        assert not faint_texts(view)
        for key, shown in (("question_mark", "Keys (Esc: back)"), ("w", "sm why 00000003"), ("T", "Table")):
            await view.press(key)
            await view.shows(shown)
            assert not faint_texts(view)
            await view.press("escape")
            await view.until(lambda: len(view.app.screen_stack) == 1, "the list")
        await view.press("n")
        await view.until(lambda: isinstance(view.app.screen, StartSheet), "the sheet")
        await view.shows("optional; without it the agent waits for a message")
        assert not faint_texts(view)
        await view.press("escape")
        await view.until(lambda: len(view.app.screen_stack) == 1, "the list")
        await view.press("ctrl+k")
        await view.shows("Quit")
        assert not faint_texts(view)
