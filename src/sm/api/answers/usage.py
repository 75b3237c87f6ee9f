"""The JSON objects of sums, estimates and reports of usage."""

from typing import Annotated

from typing_extensions import TypedDict  # pydantic reads the one of `typing` only from Python 3.12 on

from sm.api.fields import doc
from sm.core.estimates import Basis
from sm.core.usage_report import Grouping
from sm.wire_types.fields import Time


class TokensView(TypedDict):
    """Tokens by kind. Each token counts in exactly one field."""

    input: int
    output: int
    cache_read: int
    cache_write: int


class SpreadView(TypedDict):
    """The median and the 90th percentile of measured numbers."""

    p50: float
    p90: float


class SumsView(TypedDict):
    """The usage of a session itself."""

    tokens: Annotated[TokensView | None, doc("Includes the tokens of sub-agents. Null: nothing is known.")]
    tokens_partial: Annotated[bool, doc("True: some tokens cannot be read, so there are more.")]
    cost_usd: Annotated[float | None, doc("The known part of the cost; null: there is none.")]
    cost_partial: Annotated[
        bool, doc("True: the price of a model, or some tokens, are unknown, so the cost is higher.")
    ]
    minutes: Annotated[float, doc("Minutes of work: running and not paused.")]


class TreeSumsView(SumsView):
    """The usage of a session and all its descendants, as far as the caller sees them."""

    sessions: Annotated[int, doc("At least 1: the session itself. Archived ones included.")]
    live: int
    removed: Annotated[int, doc("Removed descendants, whose usage is included; not in `sessions`.")]


class SessionSumsView(TypedDict):
    own: SumsView
    tree: TreeSumsView


class EstimateView(TypedDict):
    """The totals at the end of a session, never below what it has used. A field without evidence is null."""

    seconds: Annotated[SpreadView | None, doc("From the start to the completion.")]
    tokens: Annotated[SpreadView | None, doc("As `tokens_used`: input and output.")]
    cost_usd: SpreadView | None
    samples: Annotated[int, doc("The completed sessions or the finished tasks that it rests on.")]
    basis: Annotated[
        Basis,
        doc(
            "`sessions`: completed ones of the same agent type and model, at least 5. `tasks`: its own finished ones."
        ),
    ]


class EndingsView(TypedDict):
    """How often sessions ended. A restored session may end again."""

    completed: int
    error: int
    abandoned: int
    killed: int


class UsageGroupView(TypedDict):
    """The usage of the sessions of a group. A session may be in several groups by day or model."""

    key: Annotated[
        str | None,
        doc("An agent type, model, date, account or the id of a root session; null: unknown, or none."),
    ]
    label: Annotated[str, doc("The key for people.")]
    sessions: Annotated[int, doc("The sessions with a record in the group, removed ones included.")]
    live: int
    removed: int
    endings: EndingsView
    tokens: TokensView | None
    tokens_partial: Annotated[bool, doc("True: some tokens cannot be read, so there are more.")]
    cost_usd: Annotated[float | None, doc("The known part of the cost; null: there is none.")]
    cost_partial: Annotated[
        bool, doc("True: the price of a model, or some tokens, are unknown, so the cost is higher.")
    ]
    minutes: Annotated[float, doc("Minutes of work: running and not paused.")]
    reminders: int
    retries: Annotated[int, doc("Retries after faults of the service.")]
    cost_usd_each: Annotated[SpreadView | None, doc("Of the completed sessions whose cost is known.")]
    seconds_each: Annotated[SpreadView | None, doc("Of the completed sessions, from start to completion.")]


class UsageReportView(TypedDict):
    by: Grouping
    since: Annotated[Time | None, doc("As asked; null: all that is known.")]
    until: Annotated[Time, doc("The daemon's time.")]
    prices_as_of: Annotated[str | None, doc("The date of the list prices.")]
    groups: Annotated[list[UsageGroupView], doc("Days in order; others by their cost, the largest first.")]
    total: UsageGroupView
