"""Makes routes from operations."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from enum import Enum
from types import UnionType
from typing import IO, Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from aiohttp import web
from pydantic import AfterValidator, Field, create_model

from sm.api.body import Body, EmptyBody
from sm.api.context import ApiRequest
from sm.api.fields import Present, choice, count, needed
from sm.api.query import Moment, Query
from sm.api.route import Handler, Route, RouteTable
from sm.core.capability_parts import capability_parts
from sm.core.models import RequestKey
from sm.kernel import OperationCall, UseCases
from sm.operations import Most, Operation, PackedFile, SessionsResult
from sm.operations.arguments import Needed, OneOf, Within
from sm.services.parts import parts_of
from sm.wire import PROTOCOL, PROTOCOL_HEADER
from sm.wire_types.fields import Time
from sm.wire_types.session_answers import PauseView

Model = TypeVar("Model", Body, Query)
Schemas = Mapping[str, Mapping[str, Any]]
Act = Callable[..., Awaitable[Any]]
_PIECE_BYTES = 256 * 1024
_ANSWERS: Mapping[Any, Any] = {PackedFile: web.StreamResponse, SessionsResult: PauseView}
"""The types of answers that only this door makes, by the result of the operation."""


def capability_routes() -> dict[str, list[Route]]:
    """The routes of the operations of capabilities, by tag: TAG of their module, or the name of the capability."""
    found: dict[str, list[Route]] = {}
    for part in capability_parts("operations"):
        tag = getattr(part, "TAG", part.__name__.split(".")[-2])
        found.setdefault(tag, []).extend(map(operation_route, part.OPERATIONS))
    return found


def operation_route(operation: Operation) -> Route:
    """The route of an operation of a capability."""

    async def handler(
        request: ApiRequest, arguments: Any, key: RequestKey | None, *, use_cases: UseCases
    ) -> Any:
        target = next(iter(request.http.match_info.values()), "")
        call = OperationCall(request.caller, target, arguments, key, request.wait_until)
        result = await use_cases[operation](call)
        if operation.result is SessionsResult:
            return _shown(request, result)
        return await _sent(request, result) if operation.result is PackedFile else result

    return carried_out(operation, handler, parts_of(handler))


class OperationTable(RouteTable):
    """The routes of operations that a module carries out, in order."""

    def carries_out(self, operation: Operation) -> Callable[[Handler], Handler]:
        """Add the route of the operation, which the decorated handler carries out.

        The handler takes an ApiRequest, the arguments and the Idempotency-Key (None without one), as far as the
        operation has them, and as keyword-only parameters the use cases that it needs. It returns the result. Raises
        TypeError for another handler.
        """

        def add(handler: Handler) -> Handler:
            given = [] if operation.arguments is None else [operation.arguments]
            wanted = [
                ApiRequest,
                *given,
                *([RequestKey | None] if takes_key(operation) else []),
                operation.result,
            ]
            parts = parts_of(handler)
            hints = get_type_hints(handler, include_extras=True).items()
            if [hint for name, hint in hints if name not in parts] != wanted:
                raise TypeError(f"{handler.__name__} does not fit the operation {operation.name}")

            async def act(request: ApiRequest, arguments: Any, key: RequestKey | None, **parts: Any) -> Any:
                inputs = [] if operation.arguments is None else [arguments]
                return await handler(request, *inputs, *([key] if takes_key(operation) else []), **parts)

            self.append(carried_out(operation, act, parts))
            return handler

        return add


def takes_key(operation: Operation) -> bool:
    return operation.method != "GET" and operation.takes_key


def carried_out(operation: Operation, act: Act, parts: Mapping[str, type]) -> Route:
    """The route of an operation, which `act` carries out with these use cases."""

    async def handler(
        request: ApiRequest,
        body: Body | None = None,
        query: Query | None = None,
        key: RequestKey | None = None,
        **parts: Any,
    ) -> Any:
        arguments = operation.arguments and operation.arguments(**dict(_values(body or query)))
        return await act(request, arguments, key, **parts)

    is_read, arguments = operation.method == "GET", operation.arguments
    return Route(
        operation.method,
        operation.path,
        operation.agents,
        operation.audit or operation.name,
        handler,
        operation.name,
        operation.summary,
        _body(operation) if not is_read and operation.reads_body else None,
        _model(Query, arguments, _of_text, operation.fields) if is_read and arguments is not None else None,
        takes_key(operation),
        _ANSWERS.get(operation.result, operation.result),
        None,
        operation.target,
        parts,
    )


def _shown(request: ApiRequest, done: SessionsResult) -> PauseView:
    target = request.session()
    return PauseView(
        **{**vars(request.views.session(target)), "warnings": done.warnings},
        sessions=[s.id for s in done.sessions],
        too=request.views.sessions(s for s in done.sessions if s.id != target.id),
        working=done.working,
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


def _body(operation: Operation) -> type[Body]:
    """The model that checks the fields of a body."""
    arguments = operation.arguments
    if arguments is None:
        return EmptyBody
    return _model(Body, arguments, lambda name, hint: _of_json(hint), operation.fields)


def _model(
    base: type[Model], arguments: type[Any], checked: Callable[[str, Any], Any], schemas: Schemas
) -> type[Model]:
    hints = get_type_hints(arguments, include_extras=True)
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(arguments):
        hint = checked(field.name, hints[field.name])
        if added := schemas.get(field.name):
            hint = Annotated[hint, Field(json_schema_extra=dict(added))]
        fields[field.name] = (hint, ... if field.default is dataclasses.MISSING else field.default)
    model: type[Model] = create_model(arguments.__name__, __base__=base, __doc__=arguments.__doc__, **fields)
    model.declared = arguments
    return model


def _of_json(hint: Any) -> Any:
    """The type of a field of a body, with the checks of pydantic in place of those of `operations`."""
    if get_origin(hint) in (Union, UnionType):
        return Union[*map(_of_json, get_args(hint))]
    if get_origin(hint) is list:
        return list[*map(_of_json, get_args(hint))]  # type: ignore[misc]  # made of what it has
    if get_origin(hint) is not Annotated:
        return hint
    plain, *checks = get_args(hint)
    return Annotated[plain, *map(_check, checks)]


def _check(check: Any) -> Any:
    match check:
        case Needed():
            return needed("")
        case Within(least, most):
            return Field(ge=least, le=most)
        case OneOf(noun, options):
            return choice(noun, options, blank=True)
        case _:
            return check


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
