"""Knowledge about Claude Code as data: its words, and facts that differ between versions.

The data of sm is in this package. An operator's file comes before it (`claude.dialect` of the configuration), so that a
new version can be understood without a new sm. There is one dialect for a process, as there is one locale: the readers
are pure functions of their input and of it.

Words of all versions count at the same time, because a screen does not say which version drew it. A fact with versions
is chosen by the outcome of a contract (`sm check claude`), else by the version, else it is the careful one.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from sm.core.dataclass import dataclass
from sm.core.lines import plural
from sm.providers.claude.dialect.loading import Case, DialectFile, Value, load_own, load_shipped, version_in
from sm.providers.claude.dialect.phrases import PhraseList

__all__ = ["NOTHING", "Choice", "Dialect", "Known", "current", "facts_text", "models", "use", "version_in"]

_FILES = ("words.toml", "facts.toml")
_MODELS = "models.toml"
_CAREFUL = "nothing better is known"


@dataclass(frozen=True, slots=True)
class Known:
    """The version of one program, and the outcomes of its contracts."""

    version: tuple[int, ...] | None = None
    contracts: Mapping[str, bool] | None = None
    """By contract whether it holds, or None if the program was not checked."""


NOTHING = Known()
"""Of a program that was neither asked nor checked."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The value of a fact for one program."""

    name: str
    value: Value
    reason: str
    """For people, such as `its contract plan holds`."""
    contract: str = ""
    """The contract that decided."""


class Dialect:
    """The words and facts of several files. Of a table, and of a fact with versions, the first file counts most."""

    def __init__(self, files: tuple[DialectFile, ...]) -> None:
        self._files = files
        self._phrases: dict[str, PhraseList] = {}
        self._texts: dict[str, tuple[str, ...]] = {}
        self._tables: dict[str, Mapping[str, Any]] = {}
        self._cases: dict[str, tuple[Case, ...]] = {}
        self._careful: dict[str, Value] = {}
        measured = (
            version_in(text) for file in files for fact in file.facts.values() for text in fact.measured
        )
        self._newest = max(filter(None, measured), default=())
        for file in reversed(files):
            for name, fact in file.facts.items():
                match fact.kind:
                    case "phrases":
                        self._phrases[name] = PhraseList(
                            (*fact.content, *self._phrases.get(name, PhraseList(())).texts)
                        )
                    case "texts":
                        self._texts[name] = (*fact.content, *self._texts.get(name, ()))
                    case "table":
                        self._tables[name] = {**self._tables.get(name, {}), **fact.content}
                    case _:
                        self._cases[name] = (*fact.cases, *self._cases.get(name, ()))
                        self._careful[name] = fact.content

    def phrases(self, name: str) -> PhraseList:
        return self._phrases[name]

    def texts(self, name: str) -> tuple[str, ...]:
        return self._texts[name]

    def table(self, name: str) -> Mapping[str, Any]:
        return self._tables[name]

    def renamed(self, kind: str, value: Mapping[str, Any]) -> Mapping[str, Any]:
        """Give the keys of a JSON object the names that the readers know.

        `kind`: `hook`, `state` or `transcript`. A key with a known name stays as it is.
        """
        for path, name in self._tables[f"renamed.{kind}"].items():
            value = _renamed(value, path.split("."), name)
        return value

    def group(self, prefix: str) -> Iterator[tuple[str, PhraseList]]:
        """Yield the last part of the name and the phrases of each fact in a group of phrases."""
        for name, phrases in self._phrases.items():
            if name.startswith(f"{prefix}."):
                yield name[len(prefix) + 1 :], phrases

    def choose(self, name: str, known: Known) -> Choice:
        """Choose the value of a fact with versions for a program."""
        contracts = known.contracts or {}
        for case in self._cases[name]:
            if case.contract and contracts.get(case.contract) is case.holds:
                outcome = "holds" if case.holds else "does not hold"
                return Choice(name, case.value, f"its contract {case.contract} {outcome}", case.contract)
        for case in self._cases[name]:
            if case.has_versions and known.version is not None and case.first <= known.version <= case.last:
                return Choice(name, case.value, "its version")
        return Choice(name, self._careful[name], _CAREFUL)

    def choices(self, known: Known) -> Iterator[Choice]:
        """Yield the values of all facts with versions for a program."""
        for name in sorted(self._careful):
            yield self.choose(name, known)

    def notes(self, known: Known) -> list[str]:
        """Name a version that sm was not measured with, the contracts that decided, and the operator's facts."""
        notes = []
        if known.version is not None and known.version > self._newest:
            careful = [choice.name for choice in self.choices(known) if choice.reason == _CAREFUL]
            version, newest = (".".join(map(str, numbers)) for numbers in (known.version, self._newest))
            notes.append(
                f"{version} is newer than {newest}, with which sm was measured last; careful facts: "
                f"{', '.join(careful) or 'none'}"
            )
        by_contract = (choice for choice in self.choices(known) if choice.contract)
        notes += [f"fact {choice.name} is {choice.value}: {choice.reason}" for choice in by_contract]
        if (own := self.own_file) is not None:
            notes.append(
                f"{plural(len(own.facts), 'fact')} of {own.path} before those of sm: {', '.join(own.facts)}"
            )
        return notes

    @property
    def own_file(self) -> DialectFile | None:
        """The operator's file, or None without one."""
        return self._files[0] if len(self._files) > len(_FILES) else None


def _renamed(value: Any, path: Sequence[str], name: str) -> Any:
    """Rename the key at a path of keys, which leads through objects and lists of objects."""
    key, *rest = path
    if isinstance(value, list):
        return [_renamed(item, path, name) for item in value]
    if not isinstance(value, dict) or key not in value:
        return value
    if rest:
        return {**value, key: _renamed(value[key], rest, name)}
    return {name: value[key], **value}


@cache
def _shipped() -> tuple[DialectFile, ...]:
    here = Path(__file__).parent
    return tuple(load_shipped(here / name) for name in _FILES)


_active: Dialect | None = None


def current() -> Dialect:
    """Return the dialect of this process: that of sm until `use` was called."""
    global _active
    if _active is None:
        _active = Dialect(_shipped())
    return _active


def use(own_file: str | None) -> Dialect:
    """Make the dialect of this process from sm's data, after an operator's file if there is one.

    Raises ConfigError for a file with a mistake, and then changes nothing.
    """
    global _active
    _active = read(own_file)
    return _active


def read(own_file: str | None) -> Dialect:
    """Read the dialect with an operator's file, or without one. Raises ConfigError for a file with a mistake."""
    shipped = _shipped()
    if own_file is None:
        return Dialect(shipped)
    known = {name: fact for file in shipped for name, fact in file.facts.items()}
    return Dialect((load_own(own_file, known), *shipped))


def facts_text() -> str:
    """The TOML of all facts of sm."""
    return "\n".join(Path(__file__).with_name(name).read_text(encoding="utf-8") for name in _FILES)


@cache
def models() -> Mapping[str, Any]:
    """Read the list of models: prices in US dollars for a million tokens, context windows in tokens."""
    return tomllib.loads(Path(__file__).with_name(_MODELS).read_text(encoding="utf-8"))
