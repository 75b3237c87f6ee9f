"""Writes the table of contrasts into docs/design-of-views.md: `python -m tests.colour_table`.

The colours are the custom properties of app.css, the ratio is that of WCAG 2.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from sm.web.page_files import STATIC

DOCUMENT = Path("docs/design-of-views.md")
BEGIN, END = "<!-- begin: contrasts, python -m tests.colour_table -->", "<!-- end -->"
LEAST = 4.5
"""The least ratio of text to what is behind it."""
TEXTS = ("text", "soft", "accent", "green", "yellow", "red", "cyan", "violet")
GROUNDS = ("ground", "raised", "sunken", "selected", "alarm")
PAIRS = (("go-text", "go"), ("screen-text", "screen-back"))
"""Further texts with the one ground that they stand on."""
UNUSED = frozenset((text, "alarm") for text in ("soft", "green", "yellow", "red", "cyan", "violet"))
"""Texts that never stand on the ground of an alarm."""
_COLOUR = re.compile(r"--([\w-]+): #([0-9a-f]{6});")


def colours(css: str) -> Mapping[str, Mapping[str, str]]:
    """The colours of a style sheet for the themes `dark`, `light` and `system` (that of a light system)."""
    dark = _block(css, ":root {")
    light = _block(css, ':root[data-theme="light"] {')
    return {
        "dark": dark,
        "light": {**dark, **light},
        "system": {**dark, **_block(css, ":root:not([data-theme]) {")},
    }


def _block(css: str, begin: str) -> dict[str, str]:
    return dict(_COLOUR.findall(css.partition(begin)[2].partition("}")[0]))


def luminance(colour: str) -> float:
    def linear(value: int) -> float:
        part = value / 255
        return part / 12.92 if part <= 0.04045 else float(((part + 0.055) / 1.055) ** 2.4)

    red, green, blue = (linear(int(colour[place : place + 2], 16)) for place in (0, 2, 4))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def ratios(found: Mapping[str, Mapping[str, str]], text: str, ground: str) -> list[float]:
    """The ratios in dark and in light colours."""
    return [contrast(found[theme][text], found[theme][ground]) for theme in ("dark", "light")]


def used_pairs() -> Iterable[tuple[str, str]]:
    yield from ((text, ground) for text in TEXTS for ground in GROUNDS if (text, ground) not in UNUSED)
    yield from PAIRS


def table() -> str:
    found = colours((STATIC / "app.css").read_text(encoding="utf-8"))

    def cell(text: str, ground: str) -> str:
        if (text, ground) in UNUSED:
            return "-"
        return " / ".join(f"{ratio:.1f}" for ratio in ratios(found, text, ground))

    rows = [
        ["text", "dark", "light", *(f"on `{ground}`" for ground in GROUNDS)],
        ["---"] * (len(GROUNDS) + 3),
    ]
    for text in TEXTS:
        values = [f"`#{found[theme][text]}`" for theme in ("dark", "light")]
        rows.append([f"`--{text}`", *values, *(cell(text, ground) for ground in GROUNDS)])
    grounds = [f"`#{found['dark'][ground]}` / `#{found['light'][ground]}`" for ground in GROUNDS]
    rows.append(["ground", "", "", *grounds])
    lines = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    others = ", ".join(f"`--{text}` on `--{ground}` {cell(text, ground)}" for text, ground in PAIRS)
    return f"{lines}\nFurther pairs: {others}.\n"


def written(document: str) -> str:
    """The document with the current table."""
    before, found, rest = document.partition(f"{BEGIN}\n")
    _, end, after = rest.partition(END)
    assert found and end, f"{DOCUMENT} has no lines {BEGIN} and {END}"
    return f"{before}{found}{table()}{end}{after}"


if __name__ == "__main__":
    DOCUMENT.write_text(written(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
