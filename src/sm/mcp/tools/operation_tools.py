"""Makes tools from the operations of capabilities."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from sm.core.attribute_docs import attribute_docs
from sm.core.capability_parts import capability_operations
from sm.core.text import REPORT_MAX
from sm.kernel import OperationCall, UseCases
from sm.mcp.schemas import Schema, arguments, choice, flag, many, number, result, text
from sm.mcp.tool import Result, Tool, ToolCall
from sm.operations import Most, Operation

_TARGET = "session_id"
_EXAMPLES = {_TARGET: "1a2b3c4d"}
_WHOLE_MAX = 10**9
_JSON_TYPES: Mapping[type, str] = {str: "string", bool: "boolean", int: "integer", float: "number"}


def operation_tools() -> list[Tool]:
    """The tools of the operations that have one for themselves."""
    return [operation_tool(o) for o in capability_operations() if o.tool and not o.tool_action]


def operation_tool(operation: Operation) -> Tool:
    """The tool of an operation: its summary, an example, its arguments and the members of its result."""

    async def handler(call: ToolCall, *, use_cases: UseCases) -> Result:
        values = dict(call.values)
        target = values.pop(_TARGET, "")
        given = None if operation.arguments is None else operation.arguments(**values)
        done = await use_cases[operation](OperationCall(call.caller, target, given, call.key))
        answer: Result = dataclasses.asdict(done)
        return answer

    is_read, schema = operation.method == "GET", _input(operation)
    example = {name: _EXAMPLES.get(name, name) for name in schema.get("required", ())}
    output = {f.name: _json_type(hint) for f, hint in _fields(operation.result)}
    return Tool(
        operation.tool,
        f"{operation.summary} Example: {json.dumps(example)}",
        schema,
        result(**output, duration_ms="number"),
        handler,
        reads=is_read,
        idempotent=not is_read and not operation.takes_key,
    )


def _fields(cls: type[Any]) -> list[tuple[dataclasses.Field[Any], Any]]:
    hints = get_type_hints(cls, include_extras=True)
    return [(field, hints[field.name]) for field in dataclasses.fields(cls)]


def _input(operation: Operation) -> Schema:
    required: dict[str, Schema] = {_TARGET: text(200)} if operation.has_target else {}
    optional: dict[str, Schema] = {}
    if operation.arguments is not None:
        docs = attribute_docs(operation.arguments)  # type: ignore[arg-type]  # classes are hashable
        for field, hint in _fields(operation.arguments):
            schema = _schema(hint, " ".join(docs.get(field.name, "").split()))
            (required if field.default is dataclasses.MISSING else optional)[field.name] = schema
    return arguments(required, **optional)


def _schema(hint: Any, description: str) -> Schema:
    """The schema of an argument: a text, a closed set, a flag, a whole number or a list of these."""
    kind, most = _kind(hint)
    if get_origin(kind) in (list, tuple, Sequence):
        return many(_schema(get_args(kind)[0], ""), 100, description)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return choice([str(option) for option in kind], description)
    if kind is bool:
        return flag(description)
    if kind is int:
        return number(0, most, description)
    return text(REPORT_MAX, description)


def _kind(hint: Any) -> tuple[Any, int]:
    """The type of an argument without None, and its largest whole number."""
    if get_origin(hint) in (Union, UnionType):
        (hint,) = (part for part in get_args(hint) if part is not type(None))
    most = _WHOLE_MAX
    if get_origin(hint) is Annotated:
        most = next((part.value for part in hint.__metadata__ if isinstance(part, Most)), most)
        hint = get_args(hint)[0]
    return hint, most


def _json_type(hint: Any) -> str:
    kind = _kind(hint)[0]
    if get_origin(kind) in (list, tuple, Sequence):
        return "array"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "string"
    return _JSON_TYPES.get(kind, "object")
