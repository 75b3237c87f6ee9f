"""Makes routes from the operations of capabilities."""

import dataclasses
from collections.abc import Iterator
from functools import cache
from typing import Any, get_type_hints

from pydantic import create_model

from sm.api.body import Body, EmptyBody
from sm.api.context import ApiRequest
from sm.api.route import Route
from sm.core.capability_parts import capability_parts
from sm.core.models import RequestKey
from sm.kernel import OperationCall
from sm.operations import Operation


def capability_routes() -> dict[str, list[Route]]:
    """The routes of each capability that has operations, by its name."""
    parts = capability_parts("operations")
    return {part.__name__.split(".")[-2]: [operation_route(o) for o in part.OPERATIONS] for part in parts}


def operation_route(operation: Operation) -> Route:
    """The route of an operation. A POST takes an Idempotency-Key."""

    async def handler(request: ApiRequest, body: Body | None = None, key: RequestKey | None = None) -> Any:
        target = next(iter(request.http.match_info.values()), "")
        arguments = None
        if operation.arguments is not None:
            arguments = operation.arguments(**dict(_values(body)))
        use_case = request.services.use_cases[operation]
        return await use_case(OperationCall(request.caller, target, arguments, key))

    is_read = operation.method == "GET"
    return Route(
        operation.method,
        operation.path,
        operation.agents,
        operation.audit or operation.name,
        handler,
        operation.name,
        operation.summary,
        None if is_read else EmptyBody if operation.arguments is None else _body(operation.arguments),  # type: ignore[arg-type]  # classes are hashable
        None,
        not is_read,
        operation.result,
        None,
    )


def _values(body: Body | None) -> Iterator[tuple[str, Any]]:
    if body is not None:
        for name in type(body).model_fields:
            yield name, getattr(body, name)


@cache
def _body(arguments: type[Any]) -> type[Body]:
    """The model that checks the fields of a body."""
    hints = get_type_hints(arguments, include_extras=True)
    fields: dict[str, Any] = {
        field.name: (hints[field.name], ... if field.default is dataclasses.MISSING else field.default)
        for field in dataclasses.fields(arguments)
    }
    model: type[Body] = create_model(arguments.__name__, __base__=Body, __doc__=arguments.__doc__, **fields)
    model.declared = arguments
    return model
