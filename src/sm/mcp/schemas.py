"""Short forms for the JSON schemas of tools, and the check of arguments against them.

The modules of the schema library are imported with the SDK (`sm.mcp.sdk`), at the first use of MCP.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sm.core.text import folded
from sm.mcp.forms import fitted

Schema = dict[str, Any]

_NUMBER_MAX = 10**9 - 1
_VALUE_MAX = 100
"""Characters of a wrong value that the error repeats."""


def text(most: int, description: str = "", *, least: int = 1, **more: Any) -> Schema:
    """A text of `least` to `most` characters."""
    return _described({"type": "string", "minLength": least, "maxLength": most, **more}, description)


def choice(options: Sequence[str], description: str = "", **more: Any) -> Schema:
    return _described({"type": "string", "enum": [str(option) for option in options], **more}, description)


def number(least: int, most: int, description: str = "", **more: Any) -> Schema:
    """A whole number."""
    return _described({"type": "integer", "minimum": least, "maximum": most, **more}, description)


def named_number() -> Schema:
    """The number of a thing, such as a pull request. It stays as it is: the nearest one would name another thing."""
    return {"type": "integer", "maximum": _NUMBER_MAX}


def flag(description: str = "") -> Schema:
    return _described({"type": "boolean"}, description)


def many(item: Schema, most: int, description: str = "", *, least: int = 0) -> Schema:
    # The number of items stands first: it is checked before a long list of items is.
    limits = {"minItems": least, "maxItems": most} if least else {"maxItems": most}
    return _described({"type": "array", **limits, "items": item}, description)


def arguments(required: Mapping[str, Schema] | None = None, **optional: Schema) -> Schema:
    """The schema of a tool's arguments; no others are allowed."""
    # An empty text is left out if its argument is optional (`fitted`), so the schema need not forbid it.
    left = {name: _without_least(part) for name, part in optional.items()}
    properties = {**(required or {}), **left}
    schema: Schema = {"type": "object", "additionalProperties": False, "properties": properties}
    if required:
        schema["required"] = list(required)
    return schema


def result(**properties: str | Schema) -> Schema:
    """The schema of a tool's result: names of types, or schemas. Members without a value are left out."""
    return {
        "type": "object",
        "properties": {
            name: {"type": kind} if isinstance(kind, str) else kind for name, kind in properties.items()
        },
    }


def _without_least(schema: Schema) -> Schema:
    return {name: value for name, value in schema.items() if (name, value) != ("minLength", 1)}


def _described(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description} if description else schema


class ArgumentError(Exception):
    """Arguments that do not match the schema. `data`: `path`, `value` and `allowed`."""

    def __init__(self, message: str, data: dict[str, Any]) -> None:
        super().__init__(message)
        self.message = message
        self.data = data


class ArgumentCheck:
    """Checks the arguments of one tool."""

    def __init__(self, schema: Schema) -> None:
        from jsonschema import Draft202012Validator

        self._schema = schema
        self._validator = Draft202012Validator(schema)

    def check(self, values: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Return the arguments as `fitted` has them, and its warnings.

        Raises ArgumentError for the first one that the schema does not allow.
        """
        found, warnings = fitted(self._schema, values)
        error = next(self._validator.iter_errors(found), None)
        if error is None:
            return found, warnings
        # For a missing or an unknown name the path ends at the object that it belongs to.
        path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in error.absolute_path).lstrip(".")
        rule, schema = str(error.validator), dict(error.schema)
        if rule == "required":
            missing = [name for name in schema["required"] if name not in error.instance]
            raise ArgumentError(
                f"missing argument: {missing[0]}", {"path": missing[0], "allowed": "required"}
            )
        if rule == "additionalProperties":
            known = list(schema.get("properties", {}))
            unknown = folded(next(name for name in error.instance if name not in known)[:1000], _VALUE_MAX)
            message = f"unknown argument: {unknown}; the arguments are: {', '.join(known) or 'none'}"
            raise ArgumentError(message, {"path": unknown, "allowed": known})
        allowed = {name: value for name, value in schema.items() if name not in ("description", "items")}
        data = {"path": path, "value": _shown(error.instance), "allowed": allowed}
        raise ArgumentError(f"{path or 'arguments'}: {_requirement(rule, schema)}", data)


def _requirement(rule: str, schema: Mapping[str, Any]) -> str:
    match rule:
        case "type":
            return f"must be {_kind(schema['type'])}"
        case "minLength" | "maxLength":
            least, most = schema.get("minLength", 0), schema.get("maxLength")
            return f"must have {least} to {most:,} characters" if most else f"must have {least} characters"
        case "minimum" | "maximum":
            return f"must be {schema.get('minimum', 1)} to {schema['maximum']:,}"
        case "minItems" | "maxItems":
            return f"must have {schema.get('minItems', 0)} to {schema['maxItems']} items"
        case "enum":
            return f"must be one of: {', '.join(schema['enum'])}"
        case _:
            return f"must match {rule} {schema.get(rule)}"


def _kind(type: str) -> str:
    return {"integer": "a whole number", "object": "an object", "array": "a list"}.get(type, f"a {type}")


def _shown(value: object) -> object:
    if isinstance(value, str):
        return folded(value[:1000], _VALUE_MAX)
    if value is None or isinstance(value, bool | int | float):
        return value
    return "a list" if isinstance(value, list) else "an object"
