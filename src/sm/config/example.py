"""Generates config.yaml.example from the model."""

import functools
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import suppress

import yaml
from pydantic import BaseModel

from sm.config.model import Command, Config
from sm.config.section import ProviderSection
from sm.core.attribute_docs import attribute_docs
from sm.core.states import TrustLevel
from sm.section import Section

_HEAD = """\
# Configuration of sm: every key with its default. sm reads $SM_HOME/config.yaml or, without
# SM_HOME, $XDG_CONFIG_HOME/sm/config.yaml (~/.config/sm/config.yaml). The daemon applies a change
# within two seconds, unless the key says otherwise; `sm config --check` tells you.
#
# A key that is not in your file keeps its default. Sections merge key by key, also those with names,
# such as agent types: your entry overrides the keys that it contains, and `NAME: null` removes a
# shipped entry. A list replaces the default list.
"""
_EXAMPLES: Mapping[str, tuple[str, BaseModel]] = {
    "commands": ("Reviewer", Command(command=("python3", "review.py"), env={"REVIEW_DEPTH": "2"})),
}
"""Commented examples for keys that hold sections with user-defined names, empty by default."""


def example() -> str:
    """The text of config.yaml.example: the defaults, with a description of each key."""
    lines = [_HEAD]
    lines += _example_of(Config(), 0)
    return "\n".join(lines)


@functools.cache
def descriptions(section: type[BaseModel]) -> Mapping[str, str]:
    """Read the docstring below each key from the source of a section and of its base classes.

    A section of a provider is described by the docstring of its class. pydantic can read docstrings too
    (`use_attribute_docstrings`), but for each section at its import: a tenth of the start of the daemon, which shows no
    description.
    """
    found: dict[str, str] = {}
    for base in reversed(section.__mro__):
        if issubclass(base, Section) and base is not Section:
            with suppress(OSError):  # a generated class has no source
                found |= attribute_docs(base)
    for name, field in section.model_fields.items():
        if isinstance(field.default, ProviderSection):
            found[name] = inspect.cleandoc(type(field.default).__doc__ or "")
    return found


def _example_of(section: BaseModel, depth: int, *, described: bool = True) -> Iterator[str]:
    """`described`: all keys with their descriptions; otherwise only keys that differ from their defaults."""
    space = "  " * depth
    examples = {**_EXAMPLES, **(section.examples if isinstance(section, ProviderSection) else {})}
    described_keys = descriptions(type(section)) if described else {}
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if not described and value == field.default:
            continue
        if described:
            comment = " ".join(described_keys.get(name, "").split())
            lines = textwrap.wrap(
                comment, 98 - len(space) - 2, break_long_words=False, break_on_hyphens=False
            )
            yield from (f"{space}# {line}" for line in lines)
        if isinstance(value, BaseModel):
            yield f"{space}{name}:"
            yield from _example_of(value, depth + 1)
        elif isinstance(value, dict) and any(isinstance(item, BaseModel) for item in value.values()):
            yield f"{space}{name}:"
            yield from _named_sections(value, depth + 1)
        else:
            yield from _entry(name, value, space)
        if name in examples:
            key, example = examples[name]
            yield f"{space}# for example:"
            yield from (f"{space}# {line}" for line in (f"{name}:", *_named_sections({key: example}, 1)))
        if depth == 0:
            yield ""


def _named_sections(sections: Mapping[str, BaseModel], depth: int) -> Iterator[str]:
    """Named sections. Only the first one describes its keys."""
    for index, (name, section) in enumerate(sections.items()):
        yield f"{'  ' * depth}{name}:"
        yield from _example_of(section, depth + 1, described=index == 0)


def _entry(name: str, value: object, space: str) -> Iterator[str]:
    if isinstance(value, tuple) and value:
        yield f"{space}{name}:"
        yield from (f"{space}  - {item}" for item in value)
    else:
        plain = value.value if isinstance(value, TrustLevel) else [] if value == () else value
        # Dumped as a list, because PyYAML ends a lone scalar with a line "...".
        text = yaml.safe_dump([plain], default_flow_style=True, width=1000, allow_unicode=True)
        yield f"{space}{name}: {text.strip()[1:-1]}"
