"""The route of the digest."""

from typing import Annotated

from sm.api.context import ApiRequest
from sm.api.fields import doc
from sm.api.query import Moment, Query, WorkspaceName
from sm.api.route import RouteTable
from sm.core.timestamps import iso
from sm.wire_types.digest import DigestView

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
    return await services.digests.read(request.caller, since, query.workspace)
