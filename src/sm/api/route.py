"""Routes of the API as data: method, path, audience, and the models of inputs and answers."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from functools import cached_property
from typing import Any

from aiohttp import web

from sm.api.body import Body, read_json, read_key
from sm.api.fields import Query
from sm.core.dataclass import dataclass
from sm.operations import EventStream

Handler = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, eq=False)
class Route:
    """A route, made from an operation."""

    method: str
    path: str
    agents: bool
    """True if agent sockets have the route too, False if only the operator's socket has it."""
    audit: str
    """The action of a refusal in the audit log."""
    handler: Handler
    name: str
    """The name of the operation, in snake case."""
    documentation: str
    """The summary, and after a blank line more."""
    make_body: Callable[[], type[Body]] | None
    """Makes the model of the body; None for a route that reads none."""
    make_query: Callable[[], type[Query]] | None
    takes_key: bool
    answer: Any
    """The type of the answer's JSON, or web.StreamResponse if the handler sends it."""
    stream: EventStream | None
    target: str = ""
    """As `Operation.target`."""
    parts: Mapping[str, type] = field(default_factory=dict)
    """The use cases that the handler takes."""
    file_max_bytes: int = 0
    """The limit of a body that is a file, in bytes; 0 for other bodies."""
    status: int = 200
    """The HTTP status of an answer that is JSON."""

    @cached_property
    def body(self) -> type[Body] | None:
        """The model of the body, made at the first request: all of them would take a tenth of the start."""
        return None if self.make_body is None else self.make_body()

    @cached_property
    def query(self) -> type[Query] | None:
        """The model of the query, made at the first request."""
        return None if self.make_query is None else self.make_query()

    @property
    def id(self) -> str:
        """The operationId in docs/openapi.json: the name in camel case."""
        first, *more = self.name.split("_")
        return first + "".join(map(str.capitalize, more))

    @property
    def summary_and_description(self) -> tuple[str, str]:
        """The first paragraph of the documentation, and the rest."""
        first, _, rest = self.documentation.partition("\n\n")
        return " ".join(first.split()).removesuffix("."), " ".join(rest.split())

    async def inputs(self, request: web.Request) -> dict[str, Any]:
        """The arguments of the handler after the request. Raises UsageError."""
        arguments: dict[str, Any] = {}
        if self.query is not None:
            arguments["query"] = self.query.of(request)
        if self.body is not None:
            value = await read_json(request)
            arguments["body"] = self.body.of(value)
            if self.takes_key:
                arguments["key"] = read_key(request, value)
        return arguments
