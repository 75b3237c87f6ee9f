"""One route of the API as data: its method, path and audience, and the models that its handler names."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, get_type_hints

from aiohttp import web

from sm.api.body import Body, read_json, read_key
from sm.api.context import ApiRequest
from sm.api.query import Query
from sm.core.models import RequestKey

Handler = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Route:
    """A route. `body`, `query`, `answer` and `takes_key` follow from the annotations of `handler`."""

    method: str
    path: str
    agents: bool
    """Whether the route exists on agent sockets too, and not only on the operator's."""
    id: str
    """The operationId in docs/openapi.json."""
    summary: str
    description: str
    handler: Handler
    body: type[Body] | None
    query: type[Query] | None
    takes_key: bool
    audit: str
    """The action of a refusal in the audit log."""
    answer: Any
    """The type of the answer's JSON, or web.StreamResponse for a stream of events."""

    async def inputs(self, request: web.Request) -> dict[str, Any]:
        """The arguments of the handler besides the request. Raises UsageError."""
        found: dict[str, Any] = {}
        if self.query is not None:
            found["query"] = self.query.of(request)
        if self.body is not None:
            value = await read_json(request)
            found["body"] = self.body.of(value)
            if self.takes_key:
                found["key"] = read_key(request, value)
        return found


class RouteTable(list[Route]):
    """The routes of one module, in order."""

    def route(
        self,
        method: str,
        path: str,
        *,
        agents: bool,
        id: str,
        summary: str,
        description: str = "",
        audit: str = "",
    ) -> Callable[[Handler], Handler]:
        """Adds the decorated handler to the table.

        The handler takes an ApiRequest and, by these names, the inputs that it wants: `query`, `body`, `key` (the
        Idempotency-Key, None without one). Raises TypeError for a handler without a type for its answer, and for
        one of an unknown input.
        """

        def add(handler: Handler) -> Handler:
            self.append(_read(method, path, agents, id, summary, description, audit, handler))
            return handler

        return add


def _read(
    method: str,
    path: str,
    agents: bool,
    id: str,
    summary: str,
    description: str,
    audit: str,
    handler: Handler,
) -> Route:
    where = f"route {method} {path}"
    hints = get_type_hints(handler, include_extras=True)
    answer = hints.pop("return", None)
    if answer is None or answer is type(None) or answer is Any:
        raise TypeError(f"{where}: the handler names no type of its answer")
    if hints.pop("request", None) is not ApiRequest:
        raise TypeError(f"{where}: the handler takes no `request: ApiRequest`")
    body, query, key = hints.pop("body", None), hints.pop("query", None), hints.pop("key", None)
    if hints:
        raise TypeError(f"{where}: unknown inputs: {', '.join(hints)}")
    if body is not None and not issubclass(body, Body):
        raise TypeError(f"{where}: the body has no model")
    if query is not None and not issubclass(query, Query):
        raise TypeError(f"{where}: the query has no model")
    if key is not None and (key != RequestKey | None or body is None):
        raise TypeError(f"{where}: a key is `RequestKey | None`, and only beside a body")
    return Route(
        method=method,
        path=path,
        agents=agents,
        id=id,
        summary=summary,
        description=description,
        handler=handler,
        body=body,
        query=query,
        takes_key=key is not None,
        audit=audit or handler.__name__,
        answer=answer,
    )
