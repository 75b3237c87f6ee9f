"""Makes routes from the operations of capabilities."""

import asyncio
import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from enum import Enum
from functools import cache
from types import UnionType
from typing import IO, Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from aiohttp import web
from pydantic import AfterValidator, Field, create_model

from sm.api.body import Body, EmptyBody
from sm.api.context import ApiRequest
from sm.api.fields import Present, choice, count
from sm.api.query import Moment, Query
from sm.api.route import Route
from sm.core.capability_parts import capability_parts
from sm.core.models import RequestKey
from sm.kernel import OperationCall
from sm.operations import Most, Operation, PackedFile
from sm.wire import PROTOCOL, PROTOCOL_HEADER
from sm.wire_types.fields import Time

Model = TypeVar("Model", Body, Query)
_PIECE_BYTES = 256 * 1024


def capability_routes() -> dict[str, list[Route]]:
    """The routes of the operations of capabilities, by tag: TAG of their module, or the name of the capability."""
    found: dict[str, list[Route]] = {}
    for part in capability_parts("operations"):
        tag = getattr(part, "TAG", part.__name__.split(".")[-2])
        found.setdefault(tag, []).extend(map(operation_route, part.OPERATIONS))
    return found


def operation_route(operation: Operation) -> Route:
    """The route of an operation."""

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
        result = await use_case(OperationCall(request.caller, target, arguments, key, request.wait_until))
        return await _sent(request, result) if operation.result is PackedFile else result

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
        _query(arguments, operation.fields) if is_read and arguments is not None else None,
        not is_read and operation.takes_key,
        web.StreamResponse if operation.result is PackedFile else operation.result,
        None,
        operation.target,
    )


async def _sent(request: ApiRequest, opened: AbstractAsyncContextManager[IO[bytes]]) -> web.StreamResponse:
    """Send a tar.gz file."""
    async with opened as file:
        headers = {"Content-Type": "application/gzip", PROTOCOL_HEADER: str(PROTOCOL)}
        response = web.StreamResponse(headers=headers)
        await response.prepare(request.http)
        while piece := await asyncio.to_thread(file.read, _PIECE_BYTES):
            await response.write(piece)
    return response


def _values(model: Body | Query | None) -> Iterator[tuple[str, Any]]:
    if model is not None:
        for name in type(model).model_fields:
            yield name, getattr(model, name)


@cache
def _body(arguments: type[Any]) -> type[Body]:
    """The model that checks the fields of a body."""
    return _model(Body, arguments, get_type_hints(arguments, include_extras=True))


def _query(arguments: type[Any], schemas: Mapping[str, Mapping[str, Any]]) -> type[Query]:
    """The model that reads the texts of a query. `schemas`: additions to the JSON schemas of its parameters."""
    hints = {
        name: Annotated[_of_text(name, hint), Field(json_schema_extra=dict(schemas.get(name, {})))]
        for name, hint in get_type_hints(arguments, include_extras=True).items()
    }
    return _model(Query, arguments, hints)


def _model(base: type[Model], arguments: type[Any], hints: Mapping[str, Any]) -> type[Model]:
    fields: dict[str, Any] = {
        field.name: (hints[field.name], ... if field.default is dataclasses.MISSING else field.default)
        for field in dataclasses.fields(arguments)
    }
    model: type[Model] = create_model(arguments.__name__, __base__=base, __doc__=arguments.__doc__, **fields)
    model.declared = arguments
    return model


def _of_text(name: str, hint: Any) -> Any:
    """The type of a parameter of a query, which reads its text. `name`: for errors."""
    if get_origin(hint) in (Union, UnionType):
        return Union[*(_of_text(name, part) for part in get_args(hint))]
    if hint == Time:
        return Moment
    if hint is bool:
        return Present
    if get_origin(hint) is Annotated:
        (mark,) = hint.__metadata__
        return (
            Annotated[int, count(mark.value)]
            if isinstance(mark, Most)
            else _of_text(mark.value, hint.__origin__)
        )
    if isinstance(hint, type) and issubclass(hint, Enum):
        return Annotated[str, choice(name, tuple(hint)), AfterValidator(hint)]
    return hint
