"""The filter words of live views: `status:waiting ws:shop type:engineer cost:>1 older:10min fix login`. Pure."""

import re
from collections.abc import Callable

from sm.board.row import BoardRow
from sm.board.words import status_word
from sm.core.dataclass import dataclass
from sm.core.statuses import ENDED

_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_SPAN = re.compile(r"([0-9]{1,9})(s|m|min|h|d)", re.ASCII)
_COST = re.compile(r"([<>]?)([0-9]{1,9}(?:\.[0-9]{0,6})?)", re.ASCII)
_WORDS_MAX = 50
KEYS = "status: ws: type: cost: older:"

Test = Callable[[BoardRow, float], bool]
"""Takes a row and the daemon's time in seconds."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Selects rows. All tests have to hold."""

    tests: tuple[Test, ...] = ()
    words: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    """The mistakes in words that are incomplete or invalid. Such words select nothing and exclude nothing."""
    depends_on_time: bool = False

    @property
    def is_empty(self) -> bool:
        return not self.tests and not self.words

    def selects(self, row: BoardRow, now_s: float) -> bool:
        text = row.words
        return all(word in text for word in self.words) and all(test(row, now_s) for test in self.tests)


def parse_filter(text: str) -> Filter:
    """Read filter words. A word without a known key is looked for in names, titles, notes and last words."""
    tests, words, problems = list[Test](), list[str](), list[str]()
    depends_on_time = False
    for word in text.split()[:_WORDS_MAX]:
        key, colon, value = word.partition(":")
        key = key.casefold()
        if not colon or key not in _PARSERS:
            words.append(word.casefold())
            continue
        test = _PARSERS[key](value) if value else None
        if test is None:
            problems.append(f"{key}: needs {_NEEDED[key]}")
            continue
        tests.append(test)
        depends_on_time |= key == "older"
    return Filter(tuple(tests), tuple(words), tuple(problems), depends_on_time)


def _status(value: str) -> Test:
    begin = value.casefold()
    if begin == "stale":
        return lambda row, now_s: row.stale
    if begin == "live":
        return lambda row, now_s: row.is_live
    if begin == "paused":
        return lambda row, now_s: bool(row.data["paused"])
    if begin == "ended":
        return lambda row, now_s: row.status in ENDED
    return lambda row, now_s: (
        row.status.startswith(begin) or status_word(row.status, stale=False).startswith(begin)
    )


def _workspace(value: str) -> Test:
    wanted = None if value == "-" else value
    return lambda row, now_s: row.workspace == wanted


def _type(value: str) -> Test:
    begin = value.casefold()
    return lambda row, now_s: row.agent_type.casefold().startswith(begin)


def _cost(value: str) -> Test | None:
    found = _COST.fullmatch(value)
    if found is None:
        return None
    bound = float(found[2])
    if found[1] == "<":
        return lambda row, now_s: row.cost < bound
    if found[1] == ">":
        return lambda row, now_s: row.cost > bound
    return lambda row, now_s: row.cost >= bound


def _older(value: str) -> Test | None:
    found = _SPAN.fullmatch(value.casefold())
    if found is None:
        return None
    seconds = int(found[1]) * _UNITS[found[2]]
    return lambda row, now_s: now_s - row.status_at_s > seconds


_PARSERS: dict[str, Callable[[str], Test | None]] = {
    "status": _status,
    "ws": _workspace,
    "type": _type,
    "cost": _cost,
    "older": _older,
}
_NEEDED = {
    "status": "a status, live, ended or stale",
    "ws": "a workspace, or - for none",
    "type": "an agent type",
    "cost": "an amount in dollars, such as >1",
    "older": "a time, such as 10min",
}
