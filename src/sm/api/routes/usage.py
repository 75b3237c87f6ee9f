"""The route of reports about what sessions have used."""

from typing import Annotated

from sm.api.context import ApiRequest
from sm.api.fields import choice, doc
from sm.api.query import Moment, Query, WorkspaceName
from sm.api.route import RouteTable
from sm.api.sums import report_json
from sm.core.labels import label_of
from sm.core.usage_report import Grouping
from sm.wire_types.usage import UsageReportView

_NO_KEY = {Grouping.TREE: "removed", Grouping.ACCOUNT: "no account"}
routes = RouteTable()


class UsageReportQuery(Query):
    by: Annotated[str, choice("grouping", tuple(Grouping))] = Grouping.TYPE
    since: Annotated[Moment | None, doc("Only what came later.")] = None
    workspace: WorkspaceName | None = None


@routes.route("GET", "/v1/usage/report", agents=True)
async def usage_report(request: ApiRequest, query: UsageReportQuery) -> UsageReportView:
    """Show what sessions have used, in groups, with their endings and percentiles.

    The sessions that the caller may read, archived and ended ones included, and removed ones as far as their usage is
    known. A session gets itself and its descendants.
    """
    services, by = request.services, Grouping(query.by)
    report = await services.usage.report(request.caller, by, query.since, query.workspace)

    def label(key: str | None) -> str:
        if key is None:
            return _NO_KEY.get(by, "unknown")
        return label_of(key, services.store.sessions.get(key)) if by is Grouping.TREE else key

    return report_json(report, label, services.usage.prices_as_of)
