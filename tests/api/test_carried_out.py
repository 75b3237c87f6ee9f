"""The routes of operations that a module of the API carries out."""

import weakref
from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from sm.api.context import ApiRequest
from sm.api.operation_routes import OperationTable
from sm.core.models import RequestKey
from sm.errors import UsageError
from sm.operations import Operation
from sm.operations.access_rules import EVERY_CALLER
from sm.operations.arguments import NEEDED, LongText, OneOf, Seconds, WholeNumber
from sm.operations.event_operations import REPORT_EVENT, HookReport
from sm.wire_types.fields import EmptyView


@dataclass(frozen=True, slots=True)
class Baking:
    """The cake."""

    cake: Annotated[str, NEEDED] = ""
    mode: Annotated[str, OneOf("mode", ("hot", "cold"))] | None = None
    for_s: Seconds | None = None
    numbers: list[WholeNumber] | None = None
    note: LongText | None = None


BAKE = Operation(
    "bake",
    "Bake.",
    "POST /v1/bake/{ref}",
    EmptyView,
    Baking,
    audience=EVERY_CALLER,
    on_host=True,
    fields={"cake": {"maxLength": 9}},
)
WATCH = Operation(
    "watch_cake",
    """Watch a
    cake.

    Once.""",
    "POST /v1/watch",
    EmptyView,
    audience=EVERY_CALLER,
    takes_key=False,
    reads_body=False,
)


async def bake(request: ApiRequest, given: Baking, key: RequestKey | None) -> EmptyView:
    return EmptyView()


async def watch(request: ApiRequest) -> EmptyView:
    return EmptyView()


async def bake_without_key(request: ApiRequest, given: Baking) -> EmptyView:
    return EmptyView()


async def bake_anything(request: ApiRequest, given: Baking, key: RequestKey | None) -> dict[str, Any]:
    return {}


def test_route_takes_its_inputs_from_the_operation() -> None:
    table = OperationTable()
    table.carries_out(BAKE)(bake)
    table.carries_out(WATCH)(watch)
    baking, watching = table
    assert (baking.path, baking.agents, baking.takes_key, baking.answer) == (
        BAKE.path,
        False,
        True,
        EmptyView,
    )
    assert (watching.body, watching.query, watching.takes_key) == (None, None, False)


def test_route_has_the_name_and_the_summary_of_the_operation() -> None:
    table = OperationTable()
    table.carries_out(WATCH)(watch)
    (route,) = table
    assert (route.id, route.audit, *route.summary_and_description) == (
        "watchCake",
        "watch_cake",
        "Watch a cake",
        "Once.",
    )


class Event(dict[str, Any]):
    """An event to which a reference can be weak."""


async def test_route_keeps_no_arguments_that_its_handler_has_deleted() -> None:
    event = Event()
    kept = weakref.ref(event)

    async def forget(request: ApiRequest, given: HookReport) -> EmptyView:
        del given
        assert kept() is None, "a held request would keep a whole event in memory"
        return EmptyView()

    table = OperationTable()
    table.carries_out(REPORT_EVENT)(forget)
    assert table[0].body is not None
    carried_out = table[0].handler(None, body=table[0].body.model_construct(payload=event))
    del event
    assert await carried_out == EmptyView()


@pytest.mark.parametrize("handler", [bake_without_key, bake_anything, watch])
def test_handler_that_does_not_fit_the_operation_fails_at_import(handler: Any) -> None:
    with pytest.raises(TypeError, match="bake"):
        OperationTable().carries_out(BAKE)(handler)


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        ({"mode": "warm"}, "unknown mode warm"),
        ({"for_s": -1}, "for_s must be a number of seconds, at most a day"),
        ({"numbers": [10**19]}, "numbers contains a number out of range"),
        ({"cake": 1}, "cake must be a string"),
    ],
)
def test_body_that_the_marks_do_not_allow_is_refused(given: dict[str, Any], refused: str) -> None:
    table = OperationTable()
    table.carries_out(BAKE)(bake)
    body = table[0].body
    assert body is not None
    with pytest.raises(UsageError) as error:
        body.of(given)
    assert str(error.value) == refused


def test_needed_text_counts_as_empty_without_a_value() -> None:
    table = OperationTable()
    table.carries_out(BAKE)(bake)
    body = table[0].body
    assert body is not None
    schema = body.model_json_schema()["properties"]["cake"]
    assert (body.of({"cake": None}).model_dump()["cake"], schema["maxLength"], schema["x-required"]) == (
        "",
        9,
        True,
    )
    assert body.of({"mode": ""}).model_dump()["mode"] == ""
