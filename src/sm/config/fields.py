"""Types of values in config.yaml, with their validators."""

import re
import string
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from sm.core.observation import Source
from sm.core.programs import is_question
from sm.core.states import TrustLevel
from sm.policy.tool_rules import RULES_MAX, parse_rule
from sm.policy.trust import normalize_trust_level
from sm.section import without_nul

_AGENT_TYPE = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"
_MODEL = r"[A-Za-z0-9][!-~]{0,199}"


def is_agent_type(name: str) -> bool:
    """Return whether `name` is valid for an agent type. A valid name is never a path."""
    return re.fullmatch(_AGENT_TYPE, name) is not None


def is_model(name: str) -> bool:
    """Return whether `name` is valid for a model. A valid name is never an option."""
    return re.fullmatch(_MODEL, name) is not None


def _trust(value: object) -> object:
    return normalize_trust_level(value) if isinstance(value, str) else value


def _source(value: object) -> object:
    return Source(value) if isinstance(value, str) and value in Source.__members__.values() else value


def _matching(pattern: str, mistake: str) -> AfterValidator:
    """Accept texts that match the whole `pattern`. `mistake`: the error message for others."""

    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(mistake)
        return value

    return AfterValidator(check)


TIME_OF_DAY = r"([01][0-9]|2[0-3]):[0-5][0-9]"


def _program(value: tuple[str, ...]) -> tuple[str, ...]:
    if not value or not value[0] or value[0].startswith("-"):
        raise ValueError("must begin with the name or path of a program")
    return value


def _words(value: object) -> object:
    """Accept a program as plain text. With arguments it must be a list, which avoids quoting rules."""
    if not isinstance(value, str):
        return value
    if not value.startswith("/") and re.search(r"\s", value):
        raise ValueError(f"must be a list if the program has arguments: [{', '.join(value.split())}]")
    return (value,)


def _rule(value: str) -> str:
    parse_rule(without_nul(value))
    return value


def _allow_rule(value: str) -> str:
    if is_question(parse_rule(without_nul(value)).tool):
        raise ValueError("cannot be allowed by a rule: questions need an answer")
    return value


def _rules(value: tuple[str, ...]) -> tuple[str, ...]:
    if len(value) > RULES_MAX:
        raise ValueError(f"must not contain more than {RULES_MAX} rules")
    return value


def _absolute(value: str) -> str:
    if not value.startswith("/") or "\0" in value:
        raise ValueError("must be an absolute path")
    return without_nul(value)


def _template(value: str, needed: str) -> str:
    allowed = ("agent_type", needed)
    try:
        parts = list(string.Formatter().parse(value))
    except ValueError as error:
        raise ValueError(f"is not a valid pattern: {error}") from None
    for text, name, form, conversion in parts:
        if not re.fullmatch(r"[A-Za-z0-9._-]*", text):
            raise ValueError(
                "may contain only letters, digits, dot, dash and underscore outside of {placeholders}"
            )
        if name is not None and (name not in allowed or form or conversion):
            raise ValueError(
                f"may contain only {{{allowed[0]}}} and {{{allowed[1]}}} as placeholders, without a format"
            )
    if all(name != needed for _, name, _, _ in parts):
        raise ValueError(f"must contain {{{needed}}}, to distinguish sessions")
    return value


_LETTERS = "use letters, digits, dot, dash and underscore, at most 64 characters"

Text = Annotated[str, AfterValidator(without_nul)]
Variable = Annotated[
    str,
    _matching(r"[A-Za-z_][A-Za-z0-9_]*", "is not a valid variable name: use letters, digits and underscore"),
]
AgentType = Annotated[
    str,
    _matching(
        _AGENT_TYPE,
        "is not a valid agent type: use letters, digits, dash and underscore, at most 64 characters",
    ),
]
Name = Annotated[str, _matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", f"is not a valid name: {_LETTERS}")]
Model = Annotated[
    str, _matching(_MODEL, "is not a valid model name: use opus, sonnet, haiku or a full model name")
]
Tool = Annotated[
    str, _matching(r"[A-Za-z][A-Za-z0-9_-]{0,99}", "is not a tool name of claude, such as Read or Bash")
]
AllowRule = Annotated[str, AfterValidator(_allow_rule)]
AllowRules = Annotated[tuple[AllowRule, ...], AfterValidator(_rules)]
DenyRules = Annotated[tuple[Annotated[str, AfterValidator(_rule)], ...], AfterValidator(_rules)]
Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]
FileName = Annotated[
    str, _matching(r"(?!\.\.?$)[A-Za-z0-9_.-]{1,64}", f"must be a plain file name: {_LETTERS}")
]
AbsolutePath = Annotated[str, AfterValidator(_absolute)]
TimeOfDay = Annotated[str, _matching(TIME_OF_DAY, 'must be a time of the day such as "07:00"')]
Url = Annotated[str, _matching(r"https?://[!\"$-~]+", "must be a URL that begins with http:// or https://")]
Program = Annotated[tuple[Text, ...], AfterValidator(_program)]
ProgramOrName = Annotated[tuple[Text, ...], BeforeValidator(_words), AfterValidator(_program)]
"""A program as plain text, or a list with its arguments."""
Trust = Annotated[TrustLevel, BeforeValidator(_trust)]
Lifecycle = Literal["auto", "manual", "supervised"]
"""A mode, as in `core.states.Mode`."""
EvidenceSource = Annotated[Source, BeforeValidator(_source)]
FriendlyNamePattern = Annotated[str, AfterValidator(lambda value: _template(value, "friendly_name"))]
ShortIdPattern = Annotated[str, AfterValidator(lambda value: _template(value, "short_id"))]
Names = Annotated[
    Literal["all"]
    | tuple[Annotated[str, _matching(r"[A-Za-z0-9_.-]{1,64}", f"is not a valid name: {_LETTERS}")], ...],
    Field(union_mode="left_to_right"),
]
_Skill = Annotated[
    str,
    _matching(
        r"[A-Za-z0-9_.:-]{1,64}",
        "is not a valid name: use letters, digits, colon, dot, dash and underscore, at most 64 characters",
    ),
]
Skills = Annotated[Literal["all"] | tuple[_Skill, ...], Field(union_mode="left_to_right")]
NOTHING = BeforeValidator(lambda value: {} if value is None else value)
"""Accepts an empty mapping, such as `commands:` without content."""
