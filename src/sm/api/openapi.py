"""Generates docs/openapi.json from the route table: `python -m sm.api.openapi > docs/openapi.json`."""

import dataclasses
import inspect
import json
import sys
import textwrap
from typing import Any

from aiohttp import web
from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from sm import __version__
from sm.api.fields import REQUIRED, Query
from sm.api.route import Route
from sm.api.routes import ROUTES
from sm.core.attribute_docs import attribute_docs
from sm.errors import BY_CODE
from sm.operations import EventStream
from sm.operations.arguments import PagedSessions
from sm.wire import KEY_HEADER, KEY_MAX, LEFT_HEADER, NEXT_HEADER, PROTOCOL, PROTOCOL_HEADER
from sm.wire_types.fields import SOMETIMES, ErrorBody, Sparse, json_name

Schema = dict[str, Any]

_WIDTH = 110
_ABOUT = f"""\
The API of sm's daemon: HTTP/1.1 with JSON over Unix sockets. On the operator's socket, `state/run/sm.sock`, the kernel
identifies the caller; the agents of each workspace have a socket of their own with fewer routes (those with a `token`).
Every answer carries `{PROTOCOL_HEADER}: {PROTOCOL}`. Later versions only add fields: ignore unknown fields.
`docs/protocol.md` has the details."""
_PARAMETERS: dict[str, Schema] = {
    "Protocol": {
        "name": PROTOCOL_HEADER,
        "in": "header",
        "description": "The protocol that the client speaks; a newer one is refused with 426.",
        "schema": {"type": "integer", "enum": [PROTOCOL]},
    },
    "Key": {
        "name": KEY_HEADER,
        "in": "header",
        "description": "A repetition with the same key gets the first answer, and nothing is done twice.",
        "schema": {"type": "string", "minLength": 1, "maxLength": KEY_MAX, "pattern": "^[ -~]+$"},
    },
}
_MESSAGE = {
    "type": "object",
    "required": ["jsonrpc"],
    "properties": {
        "jsonrpc": {"const": "2.0"},
        "id": {"type": ["string", "integer", "null"]},
        "method": {"type": "string"},
        "params": {"type": "object"},
        "result": {"type": "object"},
        "error": {"type": "object"},
    },
}
_CARRIED: dict[str, Schema] = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": _MESSAGE}}},
    "responses": {
        "200": {
            "description": "Done.",
            "content": {
                "application/json": {"schema": _MESSAGE},
                "text/event-stream": {"schema": {"type": "string", "description": "`data: MESSAGE`"}},
            },
        },
        "202": {"description": "Accepted: the message has no response."},
        "default": {"$ref": "#/components/responses/Error"},
    },
}
"""The body and the answers of the route of MCP, whose messages another specification describes."""
_PAGE_HEADERS: dict[str, Schema] = {
    NEXT_HEADER: {
        "description": "The parameter `before` of the next page; absent: there is none.",
        "schema": {"type": "string"},
    },
    LEFT_HEADER: {
        "description": "The number of sessions on later pages; absent: there are none.",
        "schema": {"type": "integer"},
    },
}
_TEXT = {"type": "string", "minLength": 1}
_IN_PATH: dict[str, tuple[str, Schema]] = {
    "sessions": (
        "An id, a unique prefix of one (4 digits or more), a name, a friendly name, or `me`.",
        _TEXT,
    ),
    "messages": ("The number of a message.", {"type": "integer", "minimum": 1}),
    "requests": ("`rN`; for an answer also a session with exactly one open request.", _TEXT),
    "sandbox": ("The slug of a workspace, or `default`: the container for sessions without one.", _TEXT),
    "workspaces": ("The slug of a workspace.", _TEXT),
}


class _Generator(GenerateJsonSchema):
    """Generates JSON schemas without titles and empty defaults, and marks the required fields of bodies."""

    def normalize_name(self, name: str) -> str:
        """Drop the suffix that distinguishes a view from a class in `core`."""
        return super().normalize_name(name).removesuffix("View")

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def enum_schema(self, schema: core_schema.EnumSchema) -> JsonSchemaValue:
        generated = super().enum_schema(schema)
        return {name: value for name, value in generated.items() if name not in ("title", "description")}

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        plain = _plain(super().model_schema(schema))
        declared = getattr(schema["cls"], "declared", None)
        return plain if declared is None else _described(plain, declared)

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        return _plain(super().typed_dict_schema(schema))

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        return _described(_plain(super().dataclass_schema(schema)), schema["cls"])


def _plain(schema: JsonSchemaValue) -> JsonSchemaValue:
    schema.pop("title", None)
    required = list(schema.get("required", ()))
    for name, field in schema.get("properties", {}).items():
        if field.pop(REQUIRED, False):
            required.append(name)
        if not field.get("default"):
            field.pop("default", None)
    if required:
        schema["required"] = required
    return schema


def _described(schema: JsonSchemaValue, cls: type) -> JsonSchemaValue:
    """Add the docstrings of a dataclass and of its fields to its schema."""
    if cls.__doc__ and not cls.__doc__.startswith(
        f"{cls.__name__}("
    ):  # as `dataclass` writes it where there is none
        schema["description"] = inspect.cleandoc(cls.__doc__)
    for base in filter(dataclasses.is_dataclass, cls.__mro__):
        for name, text in attribute_docs(base).items():
            schema["properties"][name].setdefault("description", " ".join(text.split()))
    if issubclass(cls, Sparse):
        schema["properties"] = {json_name(name): field for name, field in schema["properties"].items()}
        schema["required"] = [json_name(name) for name in schema["required"]]
    for field in dataclasses.fields(cls):
        if field.metadata == SOMETIMES:
            schema["required"].remove(field.name)
    return schema


def document() -> dict[str, Any]:
    schemas, components = _schemas()
    paths: dict[str, dict[str, Any]] = {}
    for tag, routes in ROUTES.items():
        for route in routes:
            of_all = [*_in_path(route), _parameter("Protocol")]
            operation = _operation(tag, route, schemas)
            paths.setdefault(route.path, {"parameters": of_all})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "sm", "version": __version__, "description": _ABOUT},
        "servers": [
            {"url": "http://sm", "description": "Any host name will do: the server is a Unix socket."}
        ],
        "tags": [{"name": tag} for tag in ROUTES],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The text of the file that `SM_TOKEN_FILE` names. Needed on agent sockets, and on"
                    " `sm.sock` by a process that only its `SM_SESSION_ID` identifies.",
                }
            },
            "parameters": _PARAMETERS,
            "responses": {"Error": _error()},
            "schemas": components,
        },
    }


def _schemas() -> tuple[dict[str, Schema], dict[str, Schema]]:
    """The JSON schemas of bodies and answers by key, and the components that they refer to by name."""
    types: dict[str, Any] = {"error": ErrorBody}
    for route in (route for routes in ROUTES.values() for route in routes):
        if route.body is not None:
            types[f"{route.id} body"] = route.body
        if route.stream is not None:
            types[f"{route.id} answer"] = route.stream.data
        elif route.answer is not web.StreamResponse:
            types[f"{route.id} answer"] = route.answer
    schemas, definitions = TypeAdapter.json_schemas(
        [(key, "validation", TypeAdapter(type)) for key, type in types.items()],
        ref_template="#/components/schemas/{model}",
        schema_generator=_Generator,
    )
    by_key = {key: schema for (key, _), schema in schemas.items()}
    error = {
        "description": "The body of every answer that is not a success.",
        "properties": {"error": by_key["error"]},
        "required": ["error"],
        "type": "object",
    }
    return by_key, dict(sorted({**definitions["$defs"], "Error": error}.items()))


def _operation(tag: str, route: Route, schemas: dict[str, Schema]) -> dict[str, Any]:
    summary, description = route.summary_and_description
    operation: dict[str, Any] = {"tags": [tag], "operationId": route.id, "summary": summary}
    if description:
        operation["description"] = description
    # No credentials on the operator's socket, a token on an agent socket.
    operation["security"] = [{}, {"token": []}] if route.agents else []
    parameters = [] if route.query is None else _in_query(route.query)
    if route.method == "POST":
        parameters.append(_parameter("Key"))
    if parameters:
        operation["parameters"] = parameters
    if route.body is not None:
        operation["requestBody"] = {
            "required": "required" in route.body.model_json_schema(schema_generator=_Generator),
            "content": {"application/json": {"schema": schemas[f"{route.id} body"]}},
        }
    if route.file_max_bytes:
        file = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
        operation["requestBody"] = {"required": True, "content": file}
    if tag == "mcp":
        return {**operation, **_CARRIED}
    if route.stream is not None:
        content = {"text/event-stream": {"schema": _stream(route.stream, schemas[f"{route.id} answer"])}}
    elif route.answer is web.StreamResponse:
        content = {"application/gzip": {"schema": {"type": "string", "format": "binary"}}}
    else:
        content = {"application/json": {"schema": schemas[f"{route.id} answer"]}}
    declared = None if route.query is None else route.query.declared
    paged = declared is not None and issubclass(declared, PagedSessions)
    operation["responses"] = {
        str(route.status): {
            "description": "Done.",
            **({"headers": _PAGE_HEADERS} if paged else {}),
            "content": content,
        },
        "default": {"$ref": "#/components/responses/Error"},
    }
    return operation


def _stream(stream: EventStream, data: Schema) -> Schema:
    name = data["$ref"].rpartition("/")[2]
    id = "" if stream.id is None else f"`id: {stream.id}` and "
    return {"type": "string", "description": f"{id}`data: {name.upper()}`, each an object {name} as JSON."}


def _in_query(query: type[Query]) -> list[Schema]:
    parameters = []
    for name, field in query.model_json_schema(schema_generator=_Generator)["properties"].items():
        (value,) = [schema for schema in field.get("anyOf", [field]) if schema != {"type": "null"}]
        value = {k: v for k, v in {**value, **field}.items() if k != "anyOf"}
        description = value.pop("description", None)
        described = {} if description is None else {"description": description}
        parameters.append({"name": name, "in": "query", **described, "schema": value})
    return parameters


def _in_path(route: Route) -> list[Schema]:
    path = route.path
    if "{" not in path:
        return []
    name = path[path.index("{") + 1 : path.index("}")]
    description, schema = (route.target, _TEXT) if route.target else _IN_PATH[path.split("/")[2]]
    return [{"name": name, "in": "path", "required": True, "description": description, "schema": schema}]


def _parameter(name: str) -> Schema:
    return {"$ref": f"#/components/parameters/{name}"}


def _error() -> dict[str, Any]:
    statuses = sorted({error.http_status for error in BY_CODE.values()})
    codes = {status: [f"`{c}`" for c, e in BY_CODE.items() if e.http_status == status] for status in statuses}
    lines = [f"- {status}: {', '.join(of_status)}" for status, of_status in codes.items()]
    retry = {
        "description": "With `rate_limited`: the seconds to wait before the next try.",
        "schema": {"type": "integer"},
    }
    return {
        "description": "\n".join(["A refusal or a failure. The codes, by HTTP status:", "", *lines]),
        "headers": {"Retry-After": retry},
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
    }


def format_json(value: Any, indent: str = "", before: int = 0) -> str:
    """Format as JSON with short values on one line. `before`: the number of characters before the value in its line."""
    line = json.dumps(value, ensure_ascii=False)
    if before + len(line) <= _WIDTH or not isinstance(value, dict | list):
        return line
    deeper = indent + "  "
    if isinstance(value, dict):
        named = [(f"{deeper}{json.dumps(name)}: ", item) for name, item in value.items()]
        items = [start + format_json(item, deeper, len(start)) for start, item in named]
        return "{\n" + ",\n".join(items) + f"\n{indent}}}"
    if not any(isinstance(item, dict | list) for item in value):
        words = ", ".join(map(json.dumps, value))  # names: items without blanks
        filled = textwrap.wrap(words, _WIDTH, initial_indent=deeper, subsequent_indent=deeper)
        return "[\n" + "\n".join(filled) + f"\n{indent}]"
    items = [deeper + format_json(item, deeper, len(deeper)) for item in value]
    return "[\n" + ",\n".join(items) + f"\n{indent}]"


if __name__ == "__main__":
    sys.stdout.write(format_json(document()) + "\n")
