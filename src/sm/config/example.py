"""config.yaml.example, made from the model, so that neither can say what the other does not."""

from collections.abc import Iterator

import yaml
from pydantic import BaseModel

from sm.config.model import NOT_YET, Command, Config
from sm.models import TrustLevel

_HEAD = """\
# Configuration of sm: every key, with its default. It lies in $SM_HOME/config.yaml, else in
# $XDG_CONFIG_HOME/sm/config.yaml (~/.config/sm/config.yaml). `sm daemon restart` applies a change.
"""
_AGENT_EXAMPLE = {
    "Reviewer": {
        "command": ["python3", "review.py"],
        "prompt": "argv",
        "input": "inbox",
        "env": {"REVIEW_DEPTH": "2"},
    }
}


def example() -> str:
    """The text of config.yaml.example: the defaults, with what each key means."""
    lines = [_HEAD]
    lines += _example_of(Config(), 0)
    lines += ["# Keys that are accepted, and have no effect in this version:"]
    lines += [f"#   {dotted.replace('*', 'NAME')}" for dotted in NOT_YET]
    return "\n".join(lines) + "\n"


def _example_of(section: BaseModel, depth: int) -> Iterator[str]:
    space = "  " * depth
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        yield from _comment(field.description or "", space)
        if isinstance(value, BaseModel):
            yield f"{space}{name}:"
            yield from _example_of(value, depth + 1)
        else:
            yield from _entry(name, value, space)
        if name == "commands":
            yield "# for example:"
            yield from (f"# {line}" for line in _commands_example())
        if depth == 0:
            yield ""


def _commands_example() -> Iterator[str]:
    yield "commands:"
    for name, keys in _AGENT_EXAMPLE.items():
        yield f"  {name}:"
        for key, value in keys.items():
            yield from _comment(Command.model_fields[key].description or "", "    ")
            yield from _entry(key, value, "    ")


def _comment(text: str, space: str) -> Iterator[str]:
    line = ""
    for word in text.split():
        if len(space) + len(line) + len(word) > 96:
            yield f"{space}#{line}"
            line = ""
        line += " " + word
    yield f"{space}#{line}"


def _entry(name: str, value: object, space: str) -> Iterator[str]:
    if isinstance(value, tuple) and value:
        yield f"{space}{name}:"
        yield from (f"{space}  - {item}" for item in value)
    else:
        plain = value.value if isinstance(value, TrustLevel) else [] if value == () else value
        # In a list of one, because a lone scalar would be followed by a line "...".
        text = yaml.safe_dump([plain], default_flow_style=True, width=1000, allow_unicode=True)
        yield f"{space}{name}: {text.strip()[1:-1]}"
