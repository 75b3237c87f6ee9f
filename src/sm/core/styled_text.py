"""Splits the styled lines of a terminal into runs of text with one style. Pure."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import field

from sm.core.dataclass import dataclass

Run = tuple[str, str]
"""A text without control characters, and its style: words separated by blanks, none for the terminal's own style.

Words: `bold dim italic underline blink reverse hidden strike`, `fg:` and `bg:` with a number of the palette (0 to 255)
or `#rrggbb`.
"""

_SEQUENCE = re.compile(
    "\x1b\\[([0-9;:]*)m|\x1b\\[[0-?]*[ -/]*[@-~]|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|([\x0e\x0f])"
)
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f]")
_ON = {
    1: "bold", 2: "dim", 3: "italic", 4: "underline", 5: "blink", 7: "reverse", 8: "hidden", 9: "strike",
    21: "underline",
}  # fmt: skip
_OFF = {
    22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 25: ("blink",), 27: ("reverse",), 28: ("hidden",),
    29: ("strike",),
}  # fmt: skip
_ORDER = tuple(dict.fromkeys(_ON.values()))
_SHIFT_OUT = "\x0e"
# The line drawing characters of the VT100, which tmux writes between SO and SI.
_DRAWN = str.maketrans("`afgijklmnopqrstuvwxyz{|}~", "◆▒°±␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·")


@dataclass(slots=True)
class _Style:
    attributes: set[str] = field(default_factory=set)
    colours: dict[str, str] = field(default_factory=dict)
    drawing: bool = False

    def __str__(self) -> str:
        words = [word for word in _ORDER if word in self.attributes]
        return " ".join([*words, *(f"{place}:{self.colours[place]}" for place in sorted(self.colours))])

    def apply(self, parameters: str) -> None:
        """Apply the parameters of SGR (ECMA-48, 8.3.117). Unknown ones change nothing."""
        numbers = [_numbers(part) for part in parameters.split(";")]
        while numbers:
            first, *more = numbers.pop(0)
            if first in (38, 48, 58):
                colour = _colour(more) if more else _colour_of(numbers)
                place = {38: "fg", 48: "bg"}.get(first)
                if place is not None and colour is not None:
                    self.colours[place] = colour
            elif first == 0:
                self.attributes.clear()
                self.colours.clear()
            elif first == 4 and more[:1] == [0]:
                self.attributes.discard("underline")
            elif first in _ON:
                self.attributes.add(_ON[first])
            elif first in _OFF:
                self.attributes.difference_update(_OFF[first])
            elif first in (39, 49):
                self.colours.pop("fg" if first == 39 else "bg", None)
            else:
                self._set_basic(first)

    def _set_basic(self, number: int) -> None:
        for place, dark, bright in (("fg", 30, 90), ("bg", 40, 100)):
            if dark <= number < dark + 8:
                self.colours[place] = str(number - dark)
            elif bright <= number < bright + 8:
                self.colours[place] = str(number - bright + 8)


def styled_runs(lines: Iterable[str]) -> list[tuple[Run, ...]]:
    """The runs of each line. A style continues on the next line, as in the output of tmux."""
    style = _Style()
    return [_runs(line, style) for line in lines]


def _runs(line: str, style: _Style) -> tuple[Run, ...]:
    runs: list[Run] = []
    place = 0
    for found in (*_SEQUENCE.finditer(line), None):
        text = _CONTROLS.sub("", line[place : len(line) if found is None else found.start()])
        if text:
            shown, name = text.translate(_DRAWN) if style.drawing else text, str(style)
            if runs and runs[-1][1] == name:
                runs[-1] = runs[-1][0] + shown, name
            else:
                runs.append((shown, name))
        if found is not None:
            place = found.end()
            if found[1] is not None:
                style.apply(found[1])
            elif found[2] is not None:
                style.drawing = found[2] == _SHIFT_OUT
    return tuple(runs)


def _numbers(part: str) -> list[int]:
    return [int(number[:9]) if number else 0 for number in part.split(":")]


def _colour_of(numbers: list[list[int]]) -> str | None:
    """The colour in the next parameters, which are removed: `5;N` or `2;R;G;B`."""
    kind = numbers[0][0] if numbers else 0
    count = {5: 2, 2: 4}.get(kind, 1)
    taken = [number[0] for number in numbers[:count]]
    del numbers[:count]
    return _colour(taken)


def _colour(values: Sequence[int]) -> str | None:
    """The colour of `5 N`, `2 R G B`, or `2 SPACE R G B`; None for others."""
    if len(values) == 2 and values[0] == 5 and values[1] < 256:
        return str(values[1])
    if len(values) >= 4 and values[0] == 2 and max(values[-3:]) < 256:
        red, green, blue = values[-3:]
        return f"#{red:02x}{green:02x}{blue:02x}"
    return None
