"""Makes routes from the operations of capabilities."""

import dataclasses
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import AfterValidator, create_model

from sm.api.body import Body, EmptyBody
from sm.api.context import ApiRequest
from sm.api.fields import choice, count
from sm.api.query import Moment, Query
from sm.api.route import Route
from sm.core.capability_parts import capability_parts
from sm.core.models import RequestKey
from sm.kernel import OperationCall
from sm.operations import Most, Operation
from sm.wire_types import Time

Model = TypeVar("Model", Body, Query)


def capability_routes() -> dict[str, list[Route]]:
    """The routes of the operations of capabilities, by tag."""
    found: dict[str, list[Route]] = {}
    for part in capability_parts("operations"):
        for operation in part.OPERATIONS:
            tag = operation.tag or part.__name__.split(".")[-2]
            found.setdefault(tag, []).append(operation_route(operation))
    return found


def operation_route(operation: Operation) -> Route:
    """The route of an operation. A POST takes an Idempotency-Key."""

    async def handler(
        request: ApiRequest,
        body: Body | None = None,
        query: Query | None = None,
        key: RequestKey | None = None,
    ) -> Any:
        target = next(iter(request.http.match_info.values()), "")
        arguments = None
        if operation.arguments is not None:
            arguments = operation.arguments(**dict(_values(body or query)))
        use_case = request.services.use_cases[operation]
        return await use_case(OperationCall(request.caller, target, arguments, key))

    is_read, arguments = operation.method == "GET", operation.arguments
    return Route(
        operation.method,
        operation.path,
        operation.agents,
        operation.audit or operation.name,
        handler,
        operation.name,
        operation.summary,
        None if is_read else EmptyBody if arguments is None else _body(arguments),  # type: ignore[arg-type]  # classes are hashable
        _query(arguments) if is_read and arguments is not None else None,  # type: ignore[arg-type]  # as above
        not is_read,
        operation.result,
        None,
    )


def _values(model: Body | Query | None) -> Iterator[tuple[str, Any]]:
    if model is not None:
        for name in type(model).model_fields:
            yield name, getattr(model, name)


@cache
def _body(arguments: type[Any]) -> type[Body]:
    """The model that checks the fields of a body."""
    return _model(Body, arguments, get_type_hints(arguments, include_extras=True))


@cache
def _query(arguments: type[Any]) -> type[Query]:
    """The model that reads the texts of a query."""
    hints = get_type_hints(arguments, include_extras=True)
    return _model(Query, arguments, {name: _of_text(name, hint) for name, hint in hints.items()})


def _model(base: type[Model], arguments: type[Any], hints: Mapping[str, Any]) -> type[Model]:
    fields: dict[str, Any] = {
        field.name: (hints[field.name], ... if field.default is dataclasses.MISSING else field.default)
        for field in dataclasses.fields(arguments)
    }
    model: type[Model] = create_model(arguments.__name__, __base__=base, __doc__=arguments.__doc__, **fields)
    model.declared = arguments
    return model


def _of_text(name: str, hint: Any) -> Any:
    """The type of a parameter of a query, which reads its text."""
    if get_origin(hint) in (Union, UnionType):
        return Union[*(_of_text(name, part) for part in get_args(hint))]
    if hint == Time:
        return Moment
    if get_origin(hint) is Annotated:
        most = next(part for part in hint.__metadata__ if isinstance(part, Most))
        return Annotated[int, count(most.value)]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return Annotated[str, choice(name, tuple(hint)), AfterValidator(hint)]
    return hint
