"""Generates config.yaml.example from the model."""

import textwrap
from collections.abc import Iterator, Mapping

import yaml
from pydantic import BaseModel

from sm.config.model import NOT_YET, Command, Config, ModelPrices
from sm.core.states import TrustLevel

_HEAD = """\
# Configuration of sm: every key, with its default. It lies in $SM_HOME/config.yaml, else in
# $XDG_CONFIG_HOME/sm/config.yaml (~/.config/sm/config.yaml). `sm daemon restart` applies a change.
"""
_EXAMPLES: Mapping[str, tuple[str, BaseModel]] = {
    "commands": ("Reviewer", Command(command=("python3", "review.py"), env={"REVIEW_DEPTH": "2"})),
    "prices": ("claude-sonnet", ModelPrices(input=3, output=15)),
}
"""What stands as a comment below a key that has names of people's own below it, and none as shipped."""


def example() -> str:
    """The text of config.yaml.example: the defaults, with what each key means."""
    lines = [_HEAD]
    lines += _example_of(Config(), 0)
    lines += ["# Keys that are accepted, and have no effect in this version:"]
    lines += [f"#   {dotted.replace('*', 'NAME')}" for dotted in NOT_YET]
    return "\n".join(lines) + "\n"


def _example_of(section: BaseModel, depth: int, *, told: bool = True) -> Iterator[str]:
    """`told`: with what each key means; else only the keys that differ from what they are without being given."""
    space = "  " * depth
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if not told and value == field.default:
            continue
        if told:
            comment = " ".join((field.description or "").split())
            lines = textwrap.wrap(
                comment, 98 - len(space) - 2, break_long_words=False, break_on_hyphens=False
            )
            yield from (f"{space}# {line}" for line in lines)
        if isinstance(value, BaseModel):
            yield f"{space}{name}:"
            yield from _example_of(value, depth + 1)
        elif isinstance(value, dict) and any(isinstance(each, BaseModel) for each in value.values()):
            yield f"{space}{name}:"
            yield from _named(value, depth + 1)
        else:
            yield from _entry(name, value, space)
        if name in _EXAMPLES:
            key, example = _EXAMPLES[name]
            yield f"{space}# for example:"
            yield from (f"{space}# {line}" for line in (f"{name}:", *_named({key: example}, 1)))
        if depth == 0:
            yield ""


def _named(sections: Mapping[str, BaseModel], depth: int) -> Iterator[str]:
    """Sections under names; what their keys mean is said at the first."""
    for index, (name, section) in enumerate(sections.items()):
        yield f"{'  ' * depth}{name}:"
        yield from _example_of(section, depth + 1, told=index == 0)


def _entry(name: str, value: object, space: str) -> Iterator[str]:
    if isinstance(value, tuple) and value:
        yield f"{space}{name}:"
        yield from (f"{space}  - {item}" for item in value)
    else:
        plain = value.value if isinstance(value, TrustLevel) else [] if value == () else value
        # In a list of one, because a lone scalar would be followed by a line "...".
        text = yaml.safe_dump([plain], default_flow_style=True, width=1000, allow_unicode=True)
        yield f"{space}{name}: {text.strip()[1:-1]}"
