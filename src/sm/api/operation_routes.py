"""Makes routes from operations."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from enum import Enum
from functools import partial
from types import UnionType
from typing import IO, Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from aiohttp import web
from pydantic import AfterValidator, BeforeValidator, Field, SkipValidation, create_model

from sm.api.body import BODY, Body, EmptyBody
from sm.api.context import ApiRequest
from sm.api.fields import Moment, Present, Query, choice, count, needed
from sm.api.route import Handler, Route
from sm.core.capability_parts import capability_parts
from sm.core.models import RequestKey
from sm.errors import UsageError
from sm.kernel import OperationCall, UseCases
from sm.operations import EventStream, Most, Noun, Operation, PackedFile, SessionsResult
from sm.operations.arguments import Needed, OneOf, Unchecked, Within
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
        file = bytes(request.http[BODY].take()) if operation.file_max_bytes else b""
        call = OperationCall(request.caller, target, arguments, key, file, request.wait_until)
        result = await use_cases[operation](call)
        if operation.result is SessionsResult:
            return _shown(request, result)
        return await _sent(request, result) if operation.result is PackedFile else result

    return carried_out(operation, handler, parts_of(handler))


class OperationTable(list[Route]):
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
                _answer(operation),
            ]
            parts = parts_of(handler)
            hints = get_type_hints(handler, include_extras=True).items()
            if [hint for name, hint in hints if name not in parts] != wanted:
                raise TypeError(f"{handler.__name__} does not fit the operation {operation.name}")

            def act(
                request: ApiRequest, arguments: Any, key: RequestKey | None, **parts: Any
            ) -> Awaitable[Any]:
                inputs = [] if operation.arguments is None else [arguments]
                return handler(request, *inputs, *([key] if takes_key(operation) else []), **parts)

            self.append(carried_out(operation, act, parts))
            return handler

        return add


def takes_key(operation: Operation) -> bool:
    return operation.method == "POST" and operation.takes_key


def carried_out(operation: Operation, act: Act, parts: Mapping[str, type]) -> Route:
    """The route of an operation, which `act` carries out with these use cases."""

    def handler(  # no coroutine, which would keep the arguments until its end
        request: ApiRequest,
        body: Body | None = None,
        query: Query | None = None,
        key: RequestKey | None = None,
        **parts: Any,
    ) -> Awaitable[Any]:
        arguments = operation.arguments and operation.arguments(**dict(_values(body or query)))
        return act(request, arguments, key, **parts)

    arguments, has_body = operation.arguments, operation.method == "POST" and operation.reads_body
    is_asked = operation.method == "GET" or operation.file_max_bytes > 0
    return Route(
        operation.method,
        operation.path,
        operation.agents,
        operation.audit or operation.name,
        handler,
        operation.name,
        operation.summary,
        partial(_body, operation) if has_body and not operation.file_max_bytes else None,
        partial(_model, Query, arguments, _of_text, operation.fields) if is_asked and arguments else None,
        takes_key(operation),
        _answer(operation),
        operation.result if isinstance(operation.result, EventStream) else None,
        operation.target,
        parts,
        operation.file_max_bytes,
        201 if operation.creates else 200,
    )


def _answer(operation: Operation) -> Any:
    """The type of the answer of its route."""
    if operation.result is None or isinstance(operation.result, EventStream):
        return web.StreamResponse
    return _ANSWERS.get(operation.result, operation.result)


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
    return _model(Body, arguments, _of_field, operation.fields)


def _model(
    base: type[Model], arguments: type[Any], checked: Callable[[str, Any], Any], schemas: Schemas
) -> type[Model]:
    hints = get_type_hints(arguments, include_extras=True)
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(arguments):
        hint = checked(field.name, hints[field.name])
        if added := schemas.get(field.name):
            hint = Annotated[hint, Field(json_schema_extra=dict(added))]
        default = ... if field.default is dataclasses.MISSING else field.default
        if field.default_factory is not dataclasses.MISSING:
            default = Field(default_factory=field.default_factory)
        fields[field.name] = (hint, default)
    model: type[Model] = create_model(arguments.__name__, __base__=base, __doc__=arguments.__doc__, **fields)
    model.declared = arguments
    return model


def _of_json(hint: Any) -> Any:
    """The type of a field of a body, with the checks of pydantic in place of those of `operations`."""
    if get_origin(hint) in (Union, UnionType):
        return Union[*map(_of_json, get_args(hint))]
    if get_origin(hint) is list:
        return list[*map(_of_json, get_args(hint))]  # type: ignore[misc]  # made of what it has
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return Annotated[hint, BeforeValidator(partial(_part, hint, _model(Body, hint, _of_field, {})))]
    if get_origin(hint) is not Annotated:
        return hint
    plain, *checks = get_args(hint)
    return Annotated[plain, *(_check(plain, check) for check in checks)]


def _of_field(name: str, hint: Any) -> Any:
    return _of_json(hint)


def _part(arguments: Any, model: type[Body], value: Any) -> Any:
    """An object in a list of a body, checked as a body of its own. Raises UsageError."""
    if not isinstance(value, dict):
        raise UsageError("the items of the list must be objects")
    return arguments(**dict(_values(model.of(value))))


def _check(plain: Any, check: Any) -> Any:
    match check:
        case Needed():
            return needed("" if plain is str else [])
        case Unchecked():
            return SkipValidation
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
        match hint.__metadata__:
            case (Most(value),):
                return Annotated[int, count(value)]
            case (Noun(value),):
                return _of_text(value, hint.__origin__)
            case (OneOf(noun, options),):
                return Annotated[str, choice(noun, options)]
            case _:
                return hint
    if isinstance(hint, type) and issubclass(hint, Enum):
        return Annotated[str, choice(name, tuple(hint)), AfterValidator(hint)]
    return hint
