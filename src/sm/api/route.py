"""Routes of the API as data: method, path, audience, and the models in the annotations of the handler."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from aiohttp import web

from sm.api.body import Body, read_json, read_key
from sm.api.context import ApiRequest
from sm.api.query import Query
from sm.core.models import RequestKey
from sm.services.parts import parts_of

Handler = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class StreamOf:
    """Documents a stream of events, in the annotation of a handler's answer."""

    data: Any
    """The type of the JSON of each event."""
    id: str | None = None
    """The meaning of the `id` line; None: events have none."""


@dataclass(frozen=True, slots=True)
class Route:
    """A route. `body`, `query`, `takes_key`, `answer` and `stream` come from the annotations of `handler`."""

    method: str
    path: str
    agents: bool
    """True: agent sockets have the route too. False: only the operator's socket has it."""
    audit: str
    """The action of a refusal in the audit log."""
    handler: Handler
    name: str
    """The name of the operation, in snake case."""
    documentation: str
    """The summary, and after a blank line more."""
    body: type[Body] | None
    query: type[Query] | None
    takes_key: bool
    answer: Any
    """The type of the answer's JSON, or web.StreamResponse for a stream of events."""
    stream: StreamOf | None
    target: str = ""
    """As `Operation.target`."""
    parts: Mapping[str, type] = field(default_factory=dict)
    """The use cases that the handler takes."""

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


class RouteTable(list[Route]):
    """The routes of one module, in order."""

    def route(self, method: str, path: str, *, agents: bool, audit: str = "") -> Callable[[Handler], Handler]:
        """Add the decorated handler to the table.

        The handler takes an ApiRequest, any of the inputs `query`, `body` and `key` (the Idempotency-Key, None
        without one), and as keyword-only parameters the use cases that it needs. Its name and docstring document the
        route. Raises TypeError for a handler without an answer type or with an unknown input.
        """

        def add(handler: Handler) -> Handler:
            annotations = _annotations(handler, f"route {method} {path}")
            name, text = handler.__name__, inspect.getdoc(handler) or ""
            parts = parts_of(handler)
            route = Route(method, path, agents, audit or name, handler, name, text, *annotations, parts=parts)
            self.append(route)
            return handler

        return add


def _is_model(hint: Any, base: type) -> bool:
    return isinstance(hint, type) and issubclass(hint, base)


def _annotations(
    handler: Handler, where: str
) -> tuple[type[Body] | None, type[Query] | None, bool, Any, StreamOf | None]:
    """The handler's body, its query, True if it takes a key, the type of its answer, and its stream."""
    parts = parts_of(handler)
    hints = {n: h for n, h in get_type_hints(handler, include_extras=True).items() if n not in parts}
    answer = hints.pop("return", None)
    if answer is None or answer is type(None) or answer is Any:
        raise TypeError(f"{where}: the handler names no type of its answer")
    if hints.pop("request", None) is not ApiRequest:
        raise TypeError(f"{where}: the handler takes no `request: ApiRequest`")
    body, query, key = hints.pop("body", None), hints.pop("query", None), hints.pop("key", None)
    if hints:
        raise TypeError(f"{where}: unknown inputs: {', '.join(hints)}")
    if body is not None and not _is_model(body, Body):
        raise TypeError(f"{where}: the body has no model")
    if query is not None and not _is_model(query, Query):
        raise TypeError(f"{where}: the query has no model")
    if key is not None and (key != RequestKey | None or body is None):
        raise TypeError(f"{where}: a key is `RequestKey | None`, and only beside a body")
    stream = None
    if get_origin(answer) is Annotated:
        answer, stream = get_args(answer)
    return body, query, key is not None, answer, stream
