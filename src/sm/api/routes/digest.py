"""The route of the digest."""

from typing import Annotated

from sm.api.context import ApiRequest
from sm.api.fields import doc
from sm.api.query import Moment, Query, WorkspaceName
from sm.api.route import RouteTable
from sm.api.views import build_view
from sm.core.timestamps import iso
from sm.wire_types.digest import DigestEntryView, DigestView, TreeSpendingView

_DEFAULT_S = 12 * 3600.0
routes = RouteTable()


class DigestQuery(Query):
    since: Annotated[Moment | None, doc("Null: 12 hours ago.")] = None
    workspace: WorkspaceName | None = None


@routes.route("GET", "/v1/digest", agents=True)
async def digest(request: ApiRequest, query: DigestQuery) -> DigestView:
    """Show what happened since a time, worst first."""
    services = request.services
    since = query.since or iso(services.monitor.now() - _DEFAULT_S)
    found = await services.digests.read(request.caller, since, query.workspace)
    return build_view(
        DigestView,
        found,
        ended=[build_view(DigestEntryView, entry) for entry in found.ended],
        requests=[build_view(DigestEntryView, entry) for entry in found.requests],
        warnings=[build_view(DigestEntryView, entry) for entry in found.warnings],
        live=[build_view(DigestEntryView, entry) for entry in found.live],
        spending=[build_view(TreeSpendingView, tree) for tree in found.spending],
    )
