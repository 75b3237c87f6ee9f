"""A route without an audience, an answer type or a model fails when its module is imported."""

from typing import Any

import pytest

from sm.api.body import Body
from sm.api.context import ApiRequest
from sm.api.query import Query
from sm.api.route import RouteTable
from sm.api.routes import ROUTES
from sm.core.models import RequestKey
from sm.wire_types.common import EmptyView


class OneText(Body):
    text: str | None = None


async def report_done(request: ApiRequest, body: OneText, query: Query, key: RequestKey | None) -> EmptyView:
    """Report that the session
    is done.

    Once.
    """
    return EmptyView()


async def unanswered(request: ApiRequest):  # type: ignore[no-untyped-def]  # the defect
    return {}


async def anything(request: ApiRequest) -> Any:
    return {}


async def without_model(request: ApiRequest, body: dict[str, Any]) -> EmptyView:
    return EmptyView()


async def without_query_model(request: ApiRequest, query: dict[str, Any]) -> EmptyView:
    return EmptyView()


async def unknown_input(request: ApiRequest, header: str) -> EmptyView:
    return EmptyView()


async def without_request(body: OneText) -> EmptyView:
    return EmptyView()


async def key_without_body(request: ApiRequest, key: RequestKey | None) -> EmptyView:
    return EmptyView()


def test_route_takes_its_inputs_from_the_annotations_of_its_handler() -> None:
    table = RouteTable()
    table.route("POST", "/v1/x", agents=True)(report_done)
    (route,) = table
    assert (route.body, route.query, route.takes_key, route.answer) == (OneText, Query, True, EmptyView)
    assert (route.agents, route.audit) == (True, "report_done")
    assert (route.id, *route.summary_and_description) == (
        "reportDone",
        "Report that the session is done",
        "Once.",
    )


@pytest.mark.parametrize(
    "handler",
    [
        unanswered,
        anything,
        without_model,
        without_query_model,
        unknown_input,
        without_request,
        key_without_body,
    ],
    ids=lambda handler: handler.__name__,
)
def test_route_is_refused_when_handler_is(handler: Any) -> None:
    with pytest.raises(TypeError, match="/v1/x"):
        RouteTable().route("POST", "/v1/x", agents=True)(handler)


def test_route_is_refused_when_audience_is_missing() -> None:
    with pytest.raises(TypeError, match="agents"):
        RouteTable().route("GET", "/v1/x")(report_done)  # type: ignore[call-arg]  # the defect


def test_routes_have_unique_paths_and_ids_and_a_summary() -> None:
    routes = [route for routes in ROUTES.values() for route in routes]
    assert len({(route.method, route.path) for route in routes}) == len(routes)
    assert len({route.id for route in routes}) == len(routes)
    assert all(summary for summary, _ in (route.summary_and_description for route in routes))
