"""The archives that are deleted."""

from sm.capabilities.archives.rules import ArchiveEntry, surplus

DAY = 86_400.0
ENTRIES = [
    ArchiveEntry("c", 30 * DAY, 3_000_000),
    ArchiveEntry("a", 10 * DAY, 1_000_000),
    ArchiveEntry("b", 20 * DAY, 2_000_000),
]


def gone(live: set[str], keep_days: int | None, max_mb: int | None) -> list[str]:
    found = surplus(ENTRIES, live, 31 * DAY, keep_days=keep_days, max_mb=max_mb)
    return [entry.session_id for entry in found]


def test_archives_without_limits_stay() -> None:
    assert gone(set(), None, None) == []


def test_old_archives_go_oldest_first() -> None:
    assert gone(set(), 5, None) == ["a", "b"]
    assert gone(set(), 21, None) == []
    aged = ArchiveEntry("e", 10 * DAY - 1, 1)
    assert surplus([aged], set(), 31 * DAY, keep_days=21, max_mb=None) == [aged]


def test_oldest_archives_go_until_the_others_have_room() -> None:
    assert gone(set(), None, 6) == []
    assert gone(set(), None, 5) == ["a"]
    assert gone(set(), None, 3) == ["a", "b"]
    more = ArchiveEntry("d", 0.0, 1)
    assert surplus([*ENTRIES, more], set(), 31 * DAY, keep_days=None, max_mb=6) == [more]


def test_archive_of_a_live_session_stays_and_takes_room() -> None:
    assert gone({"a"}, 5, 3) == ["b", "c"]
    assert gone({"a"}, None, 4) == ["b"]
    assert gone({"a", "b", "c"}, 1, 1) == []


def test_archive_larger_than_all_room_goes_alone() -> None:
    huge = ArchiveEntry("d", 30.5 * DAY, 7_000_000)
    found = surplus([*ENTRIES, huge], set(), 31 * DAY, keep_days=None, max_mb=6)
    assert found == [huge]
    found = surplus([*ENTRIES, huge], {"d"}, 31 * DAY, keep_days=None, max_mb=6)
    assert [entry.session_id for entry in found] == ["a", "b", "c"]
