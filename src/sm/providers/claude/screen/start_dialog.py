# ruff: noqa: RUF001  (claude's pointer looks like a greater-than sign, and is not one)
"""Reads the first-start dialogs that sm can answer: trust in the directory, and permission to bypass permissions.

The options have numbers in claude 2.1.197 and none in 2.1.330, so they are found by their text and by claude's pointer.
"""

import re
from collections.abc import Sequence

from sm.core.dataclass import dataclass
from sm.providers.claude.dialect import current
from sm.providers.claude.screen.rows import is_rule, last_paragraph, one_line
from sm.providers.claude.screen.states import Obstacle

_OPTION = re.compile(r" {0,3}(?P<pointer>❯| ) +(?:\d\. *)?(?P<label>\S.*)")
_DIALOGS = (Obstacle.TRUST, Obstacle.BYPASS_WARNING)


@dataclass(frozen=True, slots=True)
class StartDialog:
    obstacle: Obstacle
    steps: int
    """The options from the selected one down to the one that approves, or 0 if that one is selected."""


def read_start_dialog(rows: Sequence[str]) -> StartDialog | None:
    """The dialog that fills the bottom of the screen, or None if sm cannot answer it.

    `rows` end with claude's line of keys. The screen shows the title, both options and nothing below the keys: a dialog
    that is taller than the terminal is not answered.
    """
    words = current()
    if words.phrases("answer.keys").fit(one_line(last_paragraph(rows))) is None:
        return None
    above = list(rows[: len(rows) - len(last_paragraph(rows))])
    while above and not above[-1]:
        above.pop()
    options = [_OPTION.fullmatch(row) for row in above[-2:]]
    labels = [option["label"] for option in options if option is not None]
    pointers = [option is not None and option["pointer"] == "❯" for option in options]
    refusing = [number for number, label in enumerate(labels) if label in words.texts("answer.refuse")]
    if len(labels) != 2 or sum(pointers) != 1 or len(refusing) != 1:
        return None
    approves = 1 - refusing[0]
    first = max((number for number, row in enumerate(above) if is_rule(row)), default=-1) + 1
    for obstacle in _DIALOGS:
        name = f"answer.{obstacle.name.lower()}"
        is_asked = words.phrases(f"{name}.approve").fit(labels[approves]) is not None
        titles = words.phrases(f"{name}.title")
        if is_asked and any(titles.fit(row.strip()) is not None for row in above[first:-2]):
            return StartDialog(obstacle, approves - pointers.index(True))
    return None
