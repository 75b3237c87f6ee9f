"""The query of a request: the base model of its parameters, and the parameters that several routes share."""

from typing import Annotated, Any, ClassVar, Self

from aiohttp import web
from pydantic import AfterValidator, BaseModel, ConfigDict

from sm.api.fields import Present, choice, count, doc
from sm.core.states import EventType
from sm.core.statuses import Status
from sm.core.timestamps import epoch_s, iso
from sm.errors import UsageError
from sm.operations.arguments import LISTED as LISTED
from sm.operations.arguments import LISTED_MAX as LISTED_MAX
from sm.operations.arguments import WAIT_MAX_S as WAIT_MAX_S
from sm.services import ListPage, SessionFilter
from sm.wire_types.fields import narrowed

PAGE_MAX = 200
"""Sessions of a page, besides those in memory."""

SessionName = Annotated[str, doc("An id, a name or `me`, as in a path.", minLength=1)]
WorkspaceName = Annotated[
    str, doc("Only members of this workspace (a slug, or `-` for no workspace).", minLength=1)
]
Recursive = Annotated[Present, doc("If present, include all descendants, not only the children.")]
Limit = Annotated[int, count(LISTED_MAX)]
Wait = Annotated[
    int, count(int(WAIT_MAX_S)), doc(f"How long to wait for news, in seconds, cut to {WAIT_MAX_S:.0f}.")
]


def _moment(text: str) -> str:
    try:
        return iso(epoch_s(text))
    except (ValueError, OverflowError, OSError):
        raise UsageError(f"{text[:40]!r} is not a time", "use ISO 8601: 2026-01-31T10:00:00Z") from None


Moment = Annotated[str, AfterValidator(_moment), narrowed("string", format="date-time")]
"""A time, normalized so that times compare as texts. Raises UsageError."""


class Query(BaseModel):
    """The model of a request's query. A missing parameter has its default; unknown parameters are ignored."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", defer_build=True)
    declared: ClassVar[type[Any] | None] = None
    """The dataclass from which the model was made."""

    @classmethod
    def of(cls, request: web.Request) -> Self:
        """The parameters of the request; of a repeated parameter the first. Raises UsageError."""
        given = request.query
        return cls.model_validate({name: given[name] for name in cls.model_fields if name in given})


class WaitQuery(Query):
    wait_s: Wait = 0


class SeenQuery(Query):
    """Shows one session."""

    seen: Annotated[
        Present,
        doc("If present, mark the session as seen, because a person reads this. Only the operator can."),
    ] = False


class ListQuery(Query):
    """Narrows a list of sessions."""

    status: Annotated[str, choice("status", ("all", *Status)), doc("Only sessions with this status.")] = "all"
    search: Annotated[
        str, doc("Only sessions whose descriptions contain all of these words, in any case.")
    ] = ""
    workspace: WorkspaceName | None = None
    archived: Annotated[Present, doc("If present, include archived sessions.")] = False

    def filter(self) -> SessionFilter:
        return SessionFilter(self.status, self.search, self.workspace, self.archived)


class PagedQuery(ListQuery):
    """Narrows a list of sessions of which old ones come by page."""

    before: Annotated[
        str | None,
        doc("`SM-Next` of the page before, or null for the first page, with all sessions in memory."),
    ] = None
    limit: (
        Annotated[
            int,
            count(PAGE_MAX),
            doc("The most sessions of a further page. The first page always has all in memory."),
        ]
        | None
    ) = None

    def page(self) -> ListPage:
        return ListPage(self.before, self.limit)


class EventsQuery(Query):
    """Selects events."""

    session: SessionName | None = None
    workspace: WorkspaceName | None = None
    recursive: Recursive = False
    type: Annotated[str, choice("event type", tuple(EventType)), doc("Only events of this type.")] | None = (
        None
    )
    since: Annotated[int, count(), doc("A `seq`.")] | None = None
