"""Reads the data files about Claude Code: its words on the screen and in its reports, and facts that have versions.

A file has a table for each fact, in groups; its path is the name of the fact. The table has one of these keys:

- `phrases`: texts in the language of `PhraseList`,
- `texts`: plain texts, such as glyphs or values of a key,
- `table`: values by key,
- `careful`: the value for a program of which nothing better is known, beside `values`: a list of tables with a `value`
  and its condition: `from` and `until` (versions, both inclusive), or `contract` and `holds`.

A table with `closed = true` in the data of sm has values that the readers know: an operator's table has no others.

`measured` lists the versions with which a fact was seen, and `shown_by` names a contract or a recording.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sm.core.dataclass import dataclass
from sm.errors import ConfigError
from sm.linux.files import read_file
from sm.providers.claude.dialect.phrases import InvalidPhrase, check_phrase

_VERSION = re.compile(r"(?<![\w.-])(\d{1,6})\.(\d{1,6})\.(\d{1,6})(?![\w.-])", re.ASCII)
_MAX_BYTES = 64 * 1024
_ENTRIES_MAX = 100
_HINT = "show the facts that the file may have: sm check claude --facts"
_KINDS = ("phrases", "texts", "table", "careful")
_ABOUT = {"measured", "shown_by", "closed"}
_CONDITIONS = {"from", "until", "contract", "holds"}
_OLDEST, _NEWEST = (0, 0, 0), (1_000_000, 0, 0)

Value = bool | int | str


def version_in(text: str) -> tuple[int, ...] | None:
    """Return the first version in a text, such as the output of --version. Returns None without one."""
    found = _VERSION.search(text)
    return None if found is None else tuple(map(int, found.groups()))


@dataclass(frozen=True, slots=True)
class Case:
    """A value of a fact, and its condition."""

    value: Value
    first: tuple[int, ...] = _OLDEST
    last: tuple[int, ...] = _NEWEST
    contract: str = ""
    holds: bool = True
    """The outcome of `contract`."""

    @property
    def has_versions(self) -> bool:
        return (self.first, self.last) != (_OLDEST, _NEWEST)


@dataclass(frozen=True, slots=True)
class Fact:
    kind: str
    """`phrases`, `texts`, `table` or `careful`."""
    content: Any
    """Of this kind: a tuple of texts, a mapping, or the careful value."""
    cases: tuple[Case, ...] = ()
    measured: tuple[str, ...] = ()
    is_closed: bool = False
    """The readers know only the values of this table."""


@dataclass(frozen=True, slots=True)
class DialectFile:
    path: str
    facts: Mapping[str, Fact] = field(default_factory=dict)


class _Mistake(ValueError):
    """The message is about one fact."""


def load_shipped(path: Path) -> DialectFile:
    """Read a file of this package."""
    return DialectFile(path.name, dict(_facts(tomllib.loads(path.read_text(encoding="utf-8")))))


def load_own(path: str, shipped: Mapping[str, Fact]) -> DialectFile:
    """Read the operator's file, which may have any of the facts of `shipped` and no other.

    Raises ConfigError for a file that cannot be read, and for the first mistake in it.
    """
    try:
        content = read_file(path, _MAX_BYTES, follow=True)
        if content.cut:
            raise ConfigError(f"{path} is larger than {_MAX_BYTES // 1024} KiB")
        document = tomllib.loads(content.data.decode("utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} contains invalid UTF-8") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    try:
        facts = dict(_facts(document))
        for name, fact in facts.items():
            _check_against(name, fact, shipped)
    except (_Mistake, InvalidPhrase) as mistake:
        raise ConfigError(
            f"{path}: {mistake}", "show the facts that a file may have: sm check claude --facts"
        ) from None
    return DialectFile(path, MappingProxyType(facts))


def _check_against(name: str, fact: Fact, shipped: Mapping[str, Fact]) -> None:
    known = shipped.get(name)
    if known is None:
        near = get_close_matches(name, shipped, 1)
        raise _Mistake(f"there is no fact {name}{f'; do you mean {near[0]}?' if near else ''}")
    if known.kind != fact.kind:
        raise _Mistake(f"{name} needs {known.kind!r}, not {fact.kind!r}")
    if fact.kind == "careful":
        for value in (fact.content, *(case.value for case in fact.cases)):
            if type(value) is not type(known.content):
                raise _Mistake(f"{name} needs values such as {known.content!r}, not {value!r}")
    if fact.kind == "table":
        kinds = {type(value) for value in known.content.values()} or {str}
        for key, value in fact.content.items():
            if known.is_closed and value not in known.content.values():
                words = ", ".join(sorted(set(known.content.values())))
                raise _Mistake(f"the value of {key} in {name} must be one of {words}")
            if type(value) not in kinds:
                example = next(iter(known.content.values()), "a text")
                raise _Mistake(f"the value of {key} in {name} must be like {example!r}")


def _facts(document: Mapping[str, Any], group: str = "") -> Iterator[tuple[str, Fact]]:
    for key, value in document.items():
        name = f"{group}{key}"
        if not isinstance(value, dict):
            raise _Mistake(f"{name} is not a table")
        if any(kind in value for kind in _KINDS):
            yield name, _fact(name, value)
        elif value and all(isinstance(inner, dict) for inner in value.values()):
            yield from _facts(value, f"{name}.")
        else:
            raise _Mistake(f"{name} has none of the keys {', '.join(_KINDS)}")


def _fact(name: str, table: Mapping[str, Any]) -> Fact:
    kind = next(kind for kind in _KINDS if kind in table)
    unknown = table.keys() - {kind, *_ABOUT, *(("values",) if kind == "careful" else ())}
    if unknown:
        raise _Mistake(f"{name} has the unknown key {min(unknown)}")
    measured = _texts(f"{name}.measured", table.get("measured", []))
    content = table[kind]
    match kind:
        case "phrases":
            content = _texts(name, content)
            for phrase in content:
                try:
                    check_phrase(phrase)
                except InvalidPhrase as mistake:
                    raise _Mistake(f"{name}: {mistake}") from None
        case "texts":
            content = _texts(name, content)
        case "table":
            if not isinstance(content, dict) or not all(
                isinstance(value, Value) for value in content.values()
            ):
                raise _Mistake(f"the table of {name} must have texts, numbers, or true and false")
            content = MappingProxyType(content)
        case _:
            if not isinstance(content, Value):
                raise _Mistake(f"the careful value of {name} must be a text, a number, or true or false")
    cases = tuple(_case(name, case) for case in table.get("values", []))
    _check_contradictions(name, cases)
    return Fact(kind, content, cases, measured, table.get("closed") is True)


def _texts(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(text, str) and text for text in value):
        raise _Mistake(f"{name} must be a list of texts")
    if len(value) > _ENTRIES_MAX:
        raise _Mistake(f"{name} has more than {_ENTRIES_MAX} entries")
    return tuple(value)


def _case(name: str, table: object) -> Case:
    if not isinstance(table, dict) or not isinstance(table.get("value"), Value):
        raise _Mistake(f"each of the values of {name} needs a value")
    conditions = table.keys() - {"value"}
    if not conditions or not conditions <= _CONDITIONS:
        raise _Mistake(f"a value of {name} needs a condition: from, until, or contract and holds")
    contract = table.get("contract", "")
    if not isinstance(contract, str) or not isinstance(table.get("holds", True), bool):
        raise _Mistake(f"a value of {name} needs the name of a contract, and true or false for holds")
    if bool(contract) == bool(conditions & {"from", "until"}) or ("holds" in conditions) > bool(contract):
        raise _Mistake(f"a value of {name} depends either on versions or on a contract")
    first, last = (
        default if text is None else _version(name, text)
        for text, default in ((table.get("from"), _OLDEST), (table.get("until"), _NEWEST))
    )
    if first > last:
        raise _Mistake(f"a value of {name} is for no version: from is after until")
    return Case(table["value"], first, last, contract, table.get("holds", True))


def _version(name: str, text: object) -> tuple[int, ...]:
    version = version_in(text) if isinstance(text, str) else None
    if version is None:
        raise _Mistake(f'{text!r} in {name} is not a version such as "2.1.332"')
    return version


def _check_contradictions(name: str, cases: Sequence[Case]) -> None:
    for number, case in enumerate(cases):
        for other in cases[:number]:
            overlaps = case.first <= other.last and other.first <= case.last
            same = (case.contract, case.holds) == (other.contract, other.holds)
            if same and overlaps and case.value != other.value:
                raise _Mistake(
                    f"two values of {name} contradict each other: {other.value!r} and {case.value!r}"
                )
