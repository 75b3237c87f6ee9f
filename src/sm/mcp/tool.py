"""A tool: its description, its schemas and the function that carries it out."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from sm.core.dataclass import dataclass
from sm.core.models import Caller, RequestKey
from sm.mcp.exchange import Exchange
from sm.mcp.schemas import Schema

Progress = Callable[[str], Awaitable[None]]
"""Reports what a held call waits for. Does nothing for a client that did not ask for progress."""
Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call whose arguments match the schema of its tool."""

    tool: str
    exchange: Exchange
    values: Mapping[str, Any]
    """The arguments."""
    progress: Progress
    tools: Collection[str]
    """The names of the tools that the caller has."""
    waits_long: bool
    """True for a client without a short time limit for a call: claude over stdio."""

    @property
    def caller(self) -> Caller:
        return self.exchange.caller

    @property
    def key(self) -> RequestKey | None:
        """The Idempotency-Key, for this tool with these arguments. Raises UsageError."""
        return self.exchange.key(f"mcp {self.tool}", self.values)

    def report_key(self, action: str, fields: Mapping[str, Any]) -> RequestKey | None:
        """The key of a report, for its request in the HTTP API with the body `fields`. Raises UsageError.

        While the daemon is away, `sm mcp` spools the report under this key, and later repeats the call.
        """
        return self.exchange.key(f"/v1/sessions/me/{action}", fields)


Handler = Callable[..., Awaitable[Result]]
"""Takes a ToolCall, and as keyword-only parameters the use cases that it needs."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool. Its name, its description and its schemas are documented in docs/mcp.md."""

    name: str
    description: str
    input: Schema
    output: Schema
    handler: Handler
    reads: bool = False
    """The tool changes nothing."""
    idempotent: bool = False
    destructive: bool = False
    in_session: bool = False
    """The tool reports for the calling session, so the operator does not have it."""

    def listed(self) -> dict[str, Any]:
        """The entry of the tool in the answer to `tools/list`."""
        hints: dict[str, bool] = {"openWorldHint": False}
        if self.reads:
            hints["readOnlyHint"] = True
        else:
            hints["destructiveHint"] = self.destructive
            if self.idempotent:
                hints["idempotentHint"] = True
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": self.input,
            "outputSchema": self.output,
            "annotations": hints,
        }


class ToolTable(list[Tool]):
    """The tools of one module, in order."""

    def tool(
        self,
        input: Schema,
        output: Schema,
        *,
        reads: bool = False,
        idempotent: bool = False,
        destructive: bool = False,
        in_session: bool = False,
    ) -> Callable[[Handler], Handler]:
        """Add the decorated handler to the table. Its name and its docstring are those of the tool."""

        def add(handler: Handler) -> Handler:
            description = " ".join((handler.__doc__ or "").split())
            tool = Tool(
                handler.__name__,
                description,
                input,
                output,
                handler,
                reads,
                idempotent,
                destructive,
                in_session,
            )
            self.append(tool)
            return handler

        return add
