"""Puts the arguments of a tool into the form of its schema, because models write one value in several forms.

Only forms that can mean one thing are changed. The check against the schema refuses all others.
"""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from sm.core.reference import bare, chosen

Schema = Mapping[str, Any]

_WORDS = frozenset(
    {
        *("session_id", "session_ids", "request_id", "agent_name", "name"),
        *("model", "preset", "working_dir", "budget"),
        *("base", "branch", "remote_branch", "remote"),
    }
)
"""Arguments that name something. Blanks and quotes around them mean nothing."""
_OTHER_NAMES = {
    "agent": "agent_name",
    "agent_type": "agent_name",
    "answer": "answers",
    "base_branch": "base",
    "pr_number": "pr",
    "prompt": "initial_message",
    "pull_request": "pr",
    "request": "request_id",
    "session": "session_id",
    "sessions": "session_ids",
    "task": "initial_message",
    "text": "message",
    "timeout": "timeout_s",
}
"""Names of arguments that models use in place of those of the schema."""
_FLAGS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_NUMBER = re.compile(r"[+-]?[0-9]{1,15}(\.[0-9]{1,15})?")
_BLANKS = re.compile(r"[ \t\r\n]+")
"""No other control characters: a text with one is refused."""
_CAPITAL = re.compile(r"(?<=[a-z0-9])[A-Z]")


def fitted(schema: Schema, values: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The arguments in the form of the schema, and a warning for each value that became another one."""
    properties: Mapping[str, Schema] = schema["properties"]
    required = schema.get("required", ())
    found, warnings = dict[str, Any](), list[str]()
    for given, value in values.items():
        name = _name(given, properties, values)
        part = properties.get(name)
        if part is None or name in found:
            found[given] = value
            continue
        wanted = None if value is None else _fit(name, part, value)
        is_left_out = wanted is None or (wanted == "" and part.get("minLength", 1) > 0)
        if is_left_out and name not in required:
            continue
        if wanted is None and part.get("minLength") == 0:
            wanted = ""
        found[name], warning = _within(name, part, wanted)
        if warning:
            warnings.append(warning)
    return found, tuple(warnings)


def _within(name: str, part: Schema, value: Any) -> tuple[Any, str]:
    """The value within the limits of a number or of an option, and a warning if it is another one."""
    if "minimum" in part and type(value) is int:
        nearest = min(max(value, part["minimum"]), part["maximum"])
        which = "most" if nearest < value else "least"
        return nearest, "" if nearest == value else f"{name}: {nearest}, the {which} that is allowed"
    if name == "options" and isinstance(value, list):
        most = part["items"]["maxLength"]
        cut = [
            f"{item[: most - 1]}…" if isinstance(item, str) and len(item) > most else item for item in value
        ]
        return cut, "" if cut == value else f"{name}: cut to {most} characters"
    return value, ""


def _name(given: str, properties: Mapping[str, Schema], values: Mapping[str, Any]) -> str:
    """The name of the argument that `given` means, such as `session_id` for `sessionId`."""
    if given in properties:
        return given
    snake = _CAPITAL.sub(lambda capital: f"_{capital[0]}", given[:100]).lower().replace("-", "_")
    name = snake if snake in properties else _OTHER_NAMES.get(snake, snake)
    return name if name in properties and name not in values else given


def _fit(name: str, part: Schema, value: Any) -> Any:
    match part["type"]:
        case "string":
            if "enum" in part:
                return (chosen(part["enum"], value) or value) if isinstance(value, str) else value
            return _text(name, value)
        case "integer":
            return _whole(value) if "minimum" in part else _number_of(value)
        case "boolean":
            return _flag(value)
        case "array":
            return _list(name, part, value)
        case "object":
            return _object(value)
        case _:
            return value


def _text(name: str, value: Any) -> Any:
    is_lines = isinstance(value, list) and value and all(isinstance(item, str) for item in value)
    if is_lines and (len(value) == 1 or name not in _WORDS):
        value = "\n".join(value)
    if name == "budget" and isinstance(value, dict):
        value = ",".join(f"{unit}={amount}" for unit, amount in value.items())
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    return bare(value) if name in _WORDS and isinstance(value, str) else value


def _whole(value: Any) -> Any:
    """A whole number, rounded up: the numbers are waits and counts of lines."""
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = float(value)
    if isinstance(value, float) and math.isfinite(value):
        return math.ceil(value)
    return value


def _number_of(value: Any) -> Any:
    """The number of a thing, such as `#12`, which is never rounded."""
    if isinstance(value, str) and re.fullmatch(r"#?[0-9]{1,15}", value.strip()):
        value = int(value.strip().lstrip("#"))
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _flag(value: Any) -> Any:
    if isinstance(value, str):
        return _FLAGS.get(value.strip().lower(), value)
    return bool(value) if type(value) is int and value in (0, 1) else value


def _list(name: str, part: Schema, value: Any) -> Any:
    """A list; a single value, or the JSON of a list, where one is expected."""
    if isinstance(value, str):
        value = _loaded(value, list, _single(name, value))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        value = [value]
    if not isinstance(value, list):
        return value
    items = [_item(name, item) for item in value]
    least = part["items"].get("minLength", 0)
    return [item for item in items if not (item is None or (least and item == ""))]


def _single(name: str, value: str) -> Any:
    if name == "session_ids":
        return value.split(",")
    # A list of options in one text may have any separator.
    return value if name == "options" and re.search(r"[,;|\n]", value) else [value]


def _item(name: str, item: Any) -> Any:
    if isinstance(item, dict) and isinstance(item.get("label"), str):  # as the options of AskUserQuestion
        about = item.get("description")
        item = f"{item['label']}: {about}" if isinstance(about, str) and about else item["label"]
    item = _text(name, item)
    if name == "options" and isinstance(item, str):
        item = _BLANKS.sub(" ", item).strip(" ")
    return item


def _object(value: Any) -> Any:
    """Facts by name; the name of a value without one is `value`."""
    if isinstance(value, str):
        value = _loaded(value, dict, value)
    return value if isinstance(value, dict) else {"value": value} if value not in (None, "", []) else {}


def _loaded(text: str, kind: type, otherwise: Any) -> Any:
    """The JSON value in a text, if it is of this kind."""
    try:
        loaded = json.loads(text)
    except (ValueError, RecursionError):
        return otherwise
    return loaded if isinstance(loaded, kind) else otherwise
