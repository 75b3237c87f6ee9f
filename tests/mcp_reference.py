"""The reference of the MCP tools in docs/mcp.md: `python -m tests.mcp_reference` writes it."""

import json
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sm.mcp.resources import RESOURCES
from sm.mcp.tool import Tool
from sm.mcp.tools import TOOLS

DOCUMENT = Path("docs/mcp.md")
HEAD = """# MCP

<!-- written by: python -m tests.mcp_reference -->

The daemon is a server of the [Model Context Protocol](https://modelcontextprotocol.io). Its tools do what the commands
of `sm` do: the same checks, limits and words. A tool acts for the session that calls it, as the kernel or the token of
the session says. No argument names a caller, a parent, a workspace or a trust level.

## Transport

`POST /v1/mcp` takes one JSON-RPC message, on the socket of the operator and on the sockets of agents. It speaks the
versions with a handshake (`initialize`, up to 2025-11-25) and version 2026-07-28 (`server/discover`). Both are answered
without a session of their own, so a client may use a new connection for each message, also as Streamable HTTP.

- A request is answered with its response as JSON. A call that reports progress is answered with an event stream, in
  which the response comes last. Notifications, responses and cancelled requests are answered with 202.
- `Mcp-Protocol-Version` has the negotiated version.
- `Mcp-Client` is an id of the client process. With it, `notifications/cancelled` ends a held call, and a call before
  `initialize` is refused. Without it, a client cancels a call by closing its connection.
- `Mcp-Report-Read` in an answer asks `sm mcp` for the notification `notifications/sm/answer_read` once its client has
  read the answer. The list of tools has it, so that an agent begins its [first turn](lifecycle.md#first-turns) with it.
- `Idempotency-Key` makes a repeated call return the first result. A repetition with the id and the key of a call that
  is still held takes its place.

## Results

The result of a tool is one JSON object, in `structuredContent` and as text. Members without a value are left out.
Lists have at most 100 entries, and `more` is the number of the others. `duration_ms` is the time in the daemon. Texts
of other sessions are on one line of at most 500 characters, and quoted where they stand in a member of their own.
`untrusted` marks those of a sandboxed session.

A call that fails has `isError`, and its result is `{"error": {"code", "message", "hint", "retry_after_s"}}` with a code
of the [errors](reference/errors.md). Behind the commands of `sm`, the hint has the tools that do the same, such as
`list sessions: sm all [tool list_workspace_sessions]`. A limit per time has `retry_after_s`. `create_session` waits for
the limit of spawns per second up to 30 s. An unknown tool is a JSON-RPC error.

Arguments are taken in the forms in which models write them: `null` or an empty text for an optional one, a number or a
boolean as a text, a single value or a text with JSON where a list is expected, a choice in another case, blanks and
quotes around a name, and `sessionId` for `session_id`. A number of seconds or lines beyond its limits becomes the
nearest one that is allowed, and the result says so in `warnings`. All other arguments that do not match the schema are
refused with the code `usage`, and the error has their `path`, the `value` and what is `allowed`.

## Resources

{resources}

They are announced with `mcp.resources: true`, because clients spend tokens on tools that read them. A client that knows
an address may always read it.

## Configuration

The section `mcp` of the [configuration](reference/configuration.md#mcp) switches the server off and selects its tools.
The tools marked with "in a session" do not exist for the operator.
"""
_TYPES = {"array": "list", "integer": "whole number", "string": "text", "boolean": "`true` or `false`"}


def document() -> str:
    resources = "\n".join(f"- `{r.uri}`: {r.description}" for r in RESOURCES)
    return (
        "\n".join(
            [
                HEAD.replace("{resources}", resources),
                "## Tools",
                *(line for tool in TOOLS.values() for line in _section(tool)),
            ]
        )
        + "\n"
    )


def _section(tool: Tool) -> Iterator[str]:
    words, _, example = tool.description.partition(" Example: ")
    marks = {
        "reads": tool.reads,
        "idempotent": tool.idempotent,
        "destructive": tool.destructive,
        "in a session": tool.in_session,
    }
    yield f"\n### {tool.name}\n"
    yield "\n".join(textwrap.wrap(words, 120))
    if any(marks.values()):
        yield f"\nHints: {', '.join(mark for mark, has in marks.items() if has)}."
    properties: Mapping[str, Any] = tool.input["properties"]
    if properties:
        yield "\n| argument | value | meaning |\n|---|---|---|"
        for name, schema in properties.items():
            needed = " (required)" if name in tool.input.get("required", ()) else ""
            yield f"| `{name}`{needed} | {_value(schema)} | {_meaning(schema)} |"
    results = ", ".join(f"`{name}`" for name in tool.output["properties"] if name != "duration_ms")
    yield "\n" + "\n".join(textwrap.wrap(f"Result: {results}.", 120))
    yield f"\n```json\n{json.dumps(json.loads(example))}\n```"


def _meaning(schema: Mapping[str, Any]) -> str:
    words = schema.get("description", "")
    return f"{schema['default']} by default." if "default" in schema else words


def _value(schema: Mapping[str, Any]) -> str:
    match schema:
        case {"enum": options}:
            return ", ".join(f"`{option}`" for option in options)
        case {"type": "string", "maxLength": most}:
            return f"text, at most {most:,} characters"
        case {"type": "integer", "minimum": least, "maximum": most}:
            return f"{least:,} to {most:,}"
        case {"type": "array", "maxItems": most}:
            return f"list, at most {most}"
        case {"type": kind}:
            return _TYPES.get(kind, str(kind))
        case _:
            raise AssertionError(schema)


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
