"""The route of the search in the texts of sessions."""

from typing import Annotated

from sm.api.context import ApiRequest
from sm.api.fields import choice, count, doc
from sm.api.query import Moment, Query
from sm.api.route import RouteTable
from sm.core.labels import label
from sm.core.search_types import SearchType
from sm.wire_types.search import FoundView

_LIMIT = 20
_LIMIT_MAX = 1_000
routes = RouteTable()


class SearchQuery(Query):
    words: Annotated[str, doc("All of them must occur; `word*` matches words that begin with it.")] = ""
    type: Annotated[str, choice("type", tuple(SearchType)), doc("Only texts of this type.")] | None = None
    since: Annotated[Moment | None, doc("Only texts from this time on.")] = None
    limit: Annotated[int, count(_LIMIT_MAX)] = _LIMIT


@routes.route("GET", "/v1/search", agents=True)
async def search(request: ApiRequest, query: SearchQuery) -> list[FoundView]:
    """Find texts of the sessions that the caller may read, best first."""
    found = await request.services.search.find(
        request.caller, query.words, type=query.type, since=query.since, limit=query.limit
    )
    return [
        FoundView(
            session_id=f.session.id,
            label=label(f.session),
            status=f.session.status.value,
            type=SearchType(f.type),
            at=f.at,
            excerpt=f.excerpt,
        )
        for f in found
    ]
