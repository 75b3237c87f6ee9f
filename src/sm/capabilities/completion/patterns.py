"""Patterns of `completion_patterns`: a part of Python's regular expressions, matched in linear time. Pure.

Python's own matcher backtracks, so that a pattern such as `(a+)+$` takes time exponential in the length of the text,
and it has no time limit. This matcher follows all alternatives of a pattern at once (Thompson 1968): its work is at
most the product of the lengths of pattern and text.
"""

import re
import warnings
from collections.abc import Callable

from sm.core.dataclass import dataclass

LENGTH_MAX = 200
STATES_MAX = 300
"""States of the automaton. A counted repetition needs a copy of its group for each repetition."""
TEXT_MAX = 1_000
"""Characters of a text that are searched; a longer text is searched at its end."""

# The parts of a pattern: an escape, a class of characters, or one character.
_PART = re.compile(
    r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL
)
_COUNT = re.compile(r"\{(?:(\d+)|(\d*),(\d*))\}")
_REFUSED_ESCAPES = "0123456789N"

_Test = Callable[[str], object]
_Assertion = Callable[[str, int], object]
_ASSERTIONS: dict[str, _Assertion] = {
    "^": lambda text, at: at == 0,
    r"\A": lambda text, at: at == 0,
    "$": lambda text, at: at == len(text) or (at == len(text) - 1 and text[at] == "\n"),
    r"\Z": lambda text, at: at == len(text),
    r"\b": re.compile(r"\b").match,
    r"\B": re.compile(r"\B").match,
}


@dataclass(slots=True)
class _State:
    """A step of the automaton: consumes a character that passes `test`, or none; then follows every `following`."""

    following: list[int]
    test: _Test | None = None
    assertion: _Assertion | None = None


class CompletionPattern:
    """A compiled pattern without regard to case. `source` is its text."""

    __slots__ = ("_start", "_states", "source")

    def __init__(self, source: str) -> None:
        """Raises ValueError with the reason if `source` is wrong, too large or not supported."""
        if not source.strip():
            raise ValueError("a pattern must not be empty")
        if len(source) > LENGTH_MAX:
            raise ValueError(f"{len(source)} characters, at most {LENGTH_MAX} are allowed")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                re.compile(source, re.IGNORECASE)
        except (re.error, Warning, OverflowError) as error:
            raise ValueError(f"not a regular expression: {error}") from None
        self.source = source
        self._states = [_State([])]  # in state 0 the pattern has matched
        self._start = _Builder(source, self._states).build()
        if self._closure({self._start}, "", 0) & {0}:
            raise ValueError("a pattern must not match an empty text")

    def __repr__(self) -> str:
        return f"CompletionPattern({self.source!r})"

    def search(self, text: str) -> bool:
        """Return whether the pattern matches anywhere in the last 1,000 characters of `text`."""
        text = text[-TEXT_MAX:]
        states: set[int] = set()
        for at in range(len(text) + 1):
            states = self._closure(states | {self._start}, text, at)
            if 0 in states:
                return True
            if at < len(text):
                states = {
                    following
                    for number in states
                    if (test := self._states[number].test) is not None and test(text[at])
                    for following in self._states[number].following
                }
        return False

    def _closure(self, states: set[int], text: str, at: int) -> set[int]:
        """`states` and all states that follow them without another character."""
        seen = set(states)
        pending = list(states)
        while pending:
            state = self._states[pending.pop()]
            if state.test is None and (state.assertion is None or state.assertion(text, at)):
                fresh = [number for number in state.following if number not in seen]
                seen.update(fresh)
                pending += fresh
        return seen


_Node = Callable[[int], int]
"""Adds the states of a part of the pattern, given the state that follows the part. Returns its first state."""


class _Builder:
    """Turns a pattern that `re` accepts into states."""

    def __init__(self, source: str, states: list[_State]) -> None:
        self._source = source
        self._states = states
        self._at = 0

    def build(self) -> int:
        return self._alternatives()(0)

    def _add(self, state: _State) -> int:
        if len(self._states) >= STATES_MAX:
            raise ValueError(f"too large: its repetitions need more than {STATES_MAX} states")
        self._states.append(state)
        return len(self._states) - 1

    def _alternatives(self) -> _Node:
        choices = [self._sequence()]
        while self._source.startswith("|", self._at):
            self._at += 1
            choices.append(self._sequence())
        if len(choices) == 1:
            return choices[0]
        return lambda following: self._add(_State([choice(following) for choice in choices]))

    def _sequence(self) -> _Node:
        nodes: list[_Node] = []
        while self._at < len(self._source) and self._source[self._at] not in "|)":
            nodes.append(self._repetition(self._atom()))

        def add(following: int) -> int:
            for node in reversed(nodes):
                following = node(following)
            return following

        return add

    def _atom(self) -> _Node:
        if self._source.startswith("(", self._at):
            return self._group()
        found = _PART.match(self._source, self._at)
        assert found is not None  # `re` has accepted the pattern
        part = found.group()
        self._at = found.end()
        if part[0] == "\\" and part[1] in _REFUSED_ESCAPES:
            raise ValueError(f"{part} is not supported: no back-references, no octal and no named characters")
        assertion = _ASSERTIONS.get(part)
        if assertion is not None:
            return lambda following: self._add(_State([following], assertion=assertion))
        test = re.compile(part, re.IGNORECASE).match
        return lambda following: self._add(_State([following], test=test))

    def _group(self) -> _Node:
        if self._source.startswith("(?:", self._at):
            self._at += 3
        elif self._source.startswith("(?", self._at):
            raise ValueError(
                "(?...) is not supported, other than (?:...): no look-around, no flags, no names"
            )
        else:
            self._at += 1
        node = self._alternatives()
        self._at += 1  # the closing parenthesis
        return node

    def _repetition(self, node: _Node) -> _Node:
        """`node` with the quantifier behind it. A lazy quantifier matches the same texts as a greedy one."""
        counts = self._counts()
        if counts is None:
            return node
        least, most = counts
        if max(least, most or 0) > STATES_MAX:
            raise ValueError(f"a repetition of more than {STATES_MAX} times is not supported")
        if self._source.startswith("?", self._at):
            self._at += 1
        elif self._source.startswith("+", self._at):
            raise ValueError("possessive quantifiers (*+ ++ ?+) are not supported")

        def add(following: int) -> int:
            if most is None:
                loop = self._add(_State([following]))
                self._states[loop].following.append(node(loop))
                following = loop
            else:
                end = following
                for _ in range(most - least):
                    following = self._add(_State([node(following), end]))
            for _ in range(least):
                following = node(following)
            return following

        return add

    def _counts(self) -> tuple[int, int | None] | None:
        """Read a quantifier: the least and the greatest number of repetitions."""
        simple: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        sign = self._source[self._at : self._at + 1]
        if sign in simple:
            self._at += 1
            return simple[sign]
        found = _COUNT.match(self._source, self._at)
        if found is None:
            return None
        self._at = found.end()
        exactly, least, most = found.groups()
        if exactly is not None:
            return int(exactly), int(exactly)
        return int(least or 0), int(most) if most else None
