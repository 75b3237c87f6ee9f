"""Groups of a report of usage."""

from datetime import UTC

from sm.capabilities.usage.model import UsageRecords, UsedSession, UsedTokens
from sm.capabilities.usage.usage_groups import UsageGroups
from sm.core.estimates import Spread
from sm.core.statuses import Status
from sm.core.time_slots import local_day
from sm.core.usage import FollowUpKind, TokenCounts
from sm.wire_types.usage_answers import EndingsView, Grouping, TokensView, UsageGroupView

OPUS, OTHER = "claude-opus-4-8", "unknown-1"
DAY, NEXT = "2026-01-30", "2026-01-31"
SESSIONS = [
    UsedSession(
        "a",
        "Engineer",
        OPUS,
        "acc",
        "a",
        f"{DAY}T10:00:00.000Z",
        f"{NEXT}T09:00:00.000Z",
        60,
        2.0,
        live=False,
    ),
    UsedSession("b", "Engineer", OPUS, "acc", "a", f"{DAY}T11:00:00.000Z", None, live=True),
    UsedSession("c", "Explore", OTHER, None, None, f"{NEXT}T08:00:00.000Z", None, removed=True),
]
RECORDS = UsageRecords(
    tokens=[
        UsedTokens("a", f"{DAY}T10:00", OPUS, TokenCounts(1, 2, 3, 4), 1.5),
        UsedTokens("a", f"{NEXT}T08:45", f"{OPUS}-20260101", TokenCounts(10), 0.5),
        UsedTokens("b", f"{DAY}T11:00", OPUS, TokenCounts(100), 3.0),
        UsedTokens("c", f"{NEXT}T08:00", OTHER, TokenCounts(1000), None),
        UsedTokens("hidden", f"{NEXT}T08:00", OPUS, TokenCounts(5000), 9.0),
    ],
    work=[("a", f"{DAY}T10:00", 90.0), ("b", f"{NEXT}T00:00", 30.0), ("hidden", NEXT, 1e9)],
    endings=[
        ("a", f"{DAY}T12:00:00.000Z", Status.ERROR),
        ("a", f"{NEXT}T09:00:00.000Z", Status.COMPLETED),
        ("c", f"{NEXT}T08:30:00.000Z", Status.KILLED),
        ("hidden", f"{NEXT}T08:30:00.000Z", Status.KILLED),
    ],
    follow_ups=[
        ("b", f"{DAY}T12:00:00.000Z", FollowUpKind.REMINDER),
        ("b", f"{DAY}T12:10:00.000Z", FollowUpKind.RETRY),
        ("b", f"{NEXT}T12:00:00.000Z", FollowUpKind.REMINDER),
        ("hidden", f"{NEXT}T12:00:00.000Z", FollowUpKind.REMINDER),
    ],
)


def grouped(by: Grouping, since: str = "") -> tuple[dict[str | None, UsageGroupView], UsageGroupView]:
    """The groups, after the sessions were added one by one."""
    added = UsageGroups(by, lambda at: local_day(at, UTC), since)
    for session in SESSIONS:
        before, added = added, added.copy(lambda at: local_day(at, UTC))
        added.add([session], RECORDS)
        before.add([session], RECORDS)  # a copy has numbers of its own
    groups, total = added.views()
    return {group.key: group for group in groups}, total


def test_total_is_the_same_in_every_grouping_and_has_only_the_sessions_of_the_report() -> None:
    totals = [grouped(by)[1] for by in Grouping]
    assert all(total == totals[0] for total in totals)
    total = totals[0]
    assert (total.sessions, total.live, total.removed) == (3, 1, 1)
    assert total.tokens == TokensView(1111, 2, 3, 4)
    assert (total.cost_usd, total.cost_partial) == (5.0, True)
    assert total.endings == EndingsView(completed=1, error=1, abandoned=0, killed=1)
    assert (total.minutes, total.reminders, total.retries) == (2.0, 2, 1)
    assert (total.cost_usd_each, total.seconds_each) == (Spread(2.0, 2.0), Spread(60, 60))


def test_sessions_are_grouped_by_type_account_and_tree() -> None:
    types = grouped(Grouping.TYPE)[0]
    assert list(types) == ["Engineer", "Explore"]
    assert (types["Explore"].cost_usd, types["Explore"].cost_partial) == (None, True)
    assert not types["Engineer"].cost_partial
    accounts = grouped(Grouping.ACCOUNT)[0]
    assert {key: group.sessions for key, group in accounts.items()} == {"acc": 2, None: 1}
    trees = grouped(Grouping.TREE)[0]
    assert {key: group.sessions for key, group in trees.items()} == {"a": 2, None: 1}


def test_dated_models_are_one_group() -> None:
    models = grouped(Grouping.MODEL)[0]
    assert set(models) == {OPUS, OTHER}
    assert models[OPUS].cost_usd == 5.0
    assert models[OTHER].tokens == TokensView(1000, 0, 0, 0)


def test_each_record_counts_on_its_own_day() -> None:
    days = grouped(Grouping.DAY)[0]
    assert list(days) == [DAY, NEXT]
    assert (days[DAY].cost_usd, days[NEXT].cost_usd) == (4.5, 0.5)
    assert (days[DAY].endings.error, days[NEXT].endings.completed) == (1, 1)
    assert (days[DAY].minutes, days[NEXT].minutes) == (1.5, 0.5)
    assert (days[DAY].reminders, days[NEXT].reminders) == (1, 1)
    assert (days[DAY].seconds_each, days[NEXT].seconds_each) == (None, Spread(60, 60))


def test_sessions_from_before_the_beginning_count_by_their_records_only() -> None:
    added = UsageGroups(Grouping.TYPE, lambda at: None, f"{NEXT}T00:00:00.000Z")
    added.add(SESSIONS, UsageRecords())
    groups, total = added.views()
    assert {group.key: group.sessions for group in groups} == {"Engineer": 1, "Explore": 1}
    assert total.tokens is None
    assert total.cost_usd is None
    assert not total.cost_partial
