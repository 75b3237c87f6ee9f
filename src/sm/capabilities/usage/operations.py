"""The operations of usage. Standard library alone; `reporting` carries them out."""

from typing import Annotated

from sm.core.dataclass import dataclass
from sm.operations import Most, Noun, Operation
from sm.operations.access_rules import EVERY_CALLER, READ_ALSO_ITSELF, SEE
from sm.wire_types.fields import Time
from sm.wire_types.usage_answers import (
    ChartGrouping,
    Grouping,
    UsageChartView,
    UsagePeriod,
    UsageReportView,
    UsageSeriesView,
)

TAG = "live"


@dataclass(frozen=True, slots=True)
class ReportScope:
    """The groups, the time and the sessions of a report."""

    by: Annotated[Grouping, Noun("grouping")] = Grouping.TYPE
    since: Time | None = None
    """Only what came later."""
    workspace: str | None = None
    """Only members of this workspace (a slug, or `-` for no workspace)."""


@dataclass(frozen=True, slots=True)
class SeriesScope:
    """The length of buckets, the sessions and the time of a series."""

    by: Annotated[UsagePeriod, Noun("period")] = UsagePeriod.HOUR
    session: str | None = None
    """Only this session. An id, a name or `me`, as in a path."""
    tree: bool = False
    """If present, include all descendants of `session`."""
    workspace: str | None = None
    """Only members of this workspace (a slug, or `-` for no workspace)."""
    since: Time | None = None
    """Only later usage."""
    limit: Annotated[int, Most(10_000)] = 1000
    """Only the newest buckets."""


@dataclass(frozen=True, slots=True)
class ChartScope:
    """The groups, the time and the sessions of a chart."""

    by: Annotated[ChartGrouping, Noun("grouping")] = ChartGrouping.TYPE
    since: Time | None = None
    """24 hours before `until` if null."""
    until: Time | None = None
    """Now if null."""
    workspace: str | None = None
    """Only members of this workspace (a slug, or `-` for no workspace)."""
    parts: Annotated[int, Most(400)] = 100
    """At most this many parts of the time."""
    groups: Annotated[int, Most(50)] = 6
    """The largest groups. The others are one."""


_TEXT = {"minLength": 1}
REPORT = Operation(
    "usage_report",
    "Show what sessions have used, in groups, with their endings and percentiles.\n\n"
    "The sessions that the caller may read, archived and ended ones included, and removed ones as far as their usage is"
    " known. A session gets itself and its descendants.",
    "GET /v1/usage/report",
    UsageReportView,
    ReportScope,
    audience=EVERY_CALLER,
    rules=(READ_ALSO_ITSELF,),
    command="usage",
    fields={"workspace": _TEXT},
)
SERIES = Operation(
    "usage",
    "Show the tokens and the cost of sessions over time.\n\n"
    "The sums of all sessions that the caller sees, archived and ended ones included; or of `session`.",
    "GET /v1/usage",
    UsageSeriesView,
    SeriesScope,
    audience=EVERY_CALLER,
    rules=(SEE,),
    fields={"session": _TEXT, "workspace": _TEXT},
)
CHART = Operation(
    "usage_chart",
    "Show what sessions have used in each part of a time, in groups.\n\n"
    "The sessions that the caller may read, archived and ended ones included, and removed ones from whole quarters of"
    " an hour on. A session gets itself and its descendants.",
    "GET /v1/usage/chart",
    UsageChartView,
    ChartScope,
    audience=EVERY_CALLER,
    rules=(READ_ALSO_ITSELF,),
    fields={"workspace": _TEXT},
)
OPERATIONS = (SERIES, REPORT, CHART)
