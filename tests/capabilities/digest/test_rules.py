"""The digest: what belongs to it, the order of its entries, and one screen of text."""

from dataclasses import asdict, replace
from datetime import UTC, datetime

import pytest

from sm.capabilities.digest.rules import (
    ended_entries,
    live_entries,
    request_entries,
    spending,
    warning_entries,
)
from sm.capabilities.digest.screen import digest_lines
from sm.core.columns import columns
from sm.core.models import Event, Session
from sm.core.pauses import Pause
from sm.core.requests import Answer, Request
from sm.core.states import EventType, RequestKind, RequestState
from sm.core.statuses import Status
from sm.core.tree_totals import Totals
from sm.core.usage import TokenCounts
from sm.wire_types.digest import DigestEntryView, DigestView, TreeSpendingView
from tests.samples import session

SINCE = "2026-03-01T22:00:00.000Z"
BEFORE, AFTER, LATER = "2026-03-01T21:59:59.999Z", "2026-03-01T23:00:00.000Z", "2026-03-02T04:00:00.000Z"
NOW = datetime(2026, 3, 2, 6, tzinfo=UTC)


def ended(session_id: str, status: Status, at: str) -> Session:
    return replace(session(session_id, status=status), completed_at=at, status_reason="exit code 3")


def event(session_id: str, at: str, message: str, **metadata: object) -> Event:
    return Event(1, EventType.WARNING, session_id, None, at, message, metadata)


def used_of(*tokens: int, cost: float = 0.0, unpriced: int = 0) -> Totals:
    return Totals(tokens=TokenCounts(*tokens), measured=1, cost=cost, unpriced=unpriced)


def entry(name: str, text: str = "a reason") -> DigestEntryView:
    return DigestEntryView(name, name, "error", AFTER, text, f"sm output {name}", 1)


def spent_tree(
    name: str, label: str, sessions: int, tokens: int, cost: float | None, budget: str | None = None
) -> TreeSpendingView:
    return TreeSpendingView(
        name, label, sessions, tokens, cost, budget, None, tokens_partial=False, is_part=False
    )


def digest(entries: int) -> DigestView:
    some = [entry(f"e{number}") for number in range(entries)]
    trees = [spent_tree(f"t{number}", f"t{number}", 1, 1000, 0.5) for number in range(entries)]
    warnings = [replace(e, text=f"{e.label} repeats itself") for e in some]
    return DigestView(SINCE, LATER, some, some, warnings, some, trees, 0)


def test_ended_sessions_are_those_of_the_time_with_failures_first() -> None:
    sessions = [
        ended("aaaa0001", Status.COMPLETED, LATER),
        ended("aaaa0002", Status.ERROR, AFTER),
        ended("aaaa0003", Status.KILLED, AFTER),
        ended("aaaa0004", Status.ERROR, LATER),
        ended("aaaa0005", Status.ERROR, BEFORE),
        session("aaaa0006", status=Status.RUNNING),
    ]
    found = [e.session_id[-1] for e in ended_entries(sessions, SINCE)]
    assert found == ["4", "2", "3", "1"]


def test_ending_without_a_time_of_its_own_has_that_of_its_status() -> None:
    killed = replace(session("aaaa0001", status=Status.KILLED), status_at=AFTER)
    done = replace(ended("aaaa0003", Status.KILLED, AFTER), status_at=LATER)  # its status is of its archive
    sessions = [
        killed,
        replace(killed, id="aaaa0002", status_at=LATER),
        done,
        replace(killed, id="aaaa0004", status_at=BEFORE),
        replace(killed, id="aaaa0005", status=Status.RUNNING),
    ]
    found = [(e.session_id[-1], e.at) for e in ended_entries(sessions, SINCE)]
    assert found == [("2", LATER), ("1", AFTER), ("3", AFTER)]


def test_text_of_an_ending_is_the_agents_words_or_the_reason() -> None:
    crashed = ended("aaaa0001", Status.ERROR, AFTER)
    spoke = replace(crashed, completion_message="tests fail\x1b[2J")
    (first,), (second,) = ended_entries([crashed], SINCE), ended_entries([spoke], SINCE)
    assert first.text == "exit code 3"
    assert "tests fail" in second.text and "\x1b" not in second.text
    (third,) = ended_entries([replace(crashed, completion_message="exit code 3")], SINCE)
    assert third.text == "exit code 3"


def test_live_sessions_that_may_wait_come_first() -> None:
    pause = Pause(AFTER, "sm", "budget reached")
    sessions = [
        session("aaaa0001", status=Status.RUNNING),
        session("aaaa0002", status=Status.IDLE),
        session("aaaa0003", status=Status.WAITING_INPUT),
        replace(session("aaaa0004", status=Status.RUNNING), paused=pause),
        session("aaaa0005", status=Status.KILLED),
    ]
    found = live_entries(sessions)
    assert [e.session_id[-1] for e in found] == ["3", "2", "1", "4"]
    assert (found[-1].status, found[-1].text) == ("pausing (running)", "budget reached")


@pytest.mark.parametrize(
    ("paused", "note", "reason", "text"),
    [
        ("budget reached", "tests", "hook", "budget reached"),
        ("", "tests", "hook", "tests"),
        (None, "tests", "hook", "tests"),
        (None, None, "hook", "hook"),
    ],
)
def test_text_of_a_live_session_is_its_pause_its_note_or_its_reason(
    paused: str | None, note: str | None, reason: str, text: str
) -> None:
    pause = None if paused is None else Pause(AFTER, "sm", paused, settled_at=AFTER)
    live = replace(session("aaaa0001", status=Status.IDLE), paused=pause, note=note, status_reason=reason)
    (found,) = live_entries([live])
    assert (found.text, found.status) == (text, "idle" if paused is None else "paused (idle)")


def test_every_status_is_either_live_or_ended_in_the_digest() -> None:
    sessions = [session(f"aaaa000{number}", status=status) for number, status in enumerate(Status)]
    assert [e.status for e in ended_entries(sessions, "")] == ["error", "abandoned", "killed", "completed"]
    assert [e.status for e in live_entries(sessions)] == [
        *("waiting_input", "idle", "spawned", "starting", "running"),
    ]


def test_entry_names_the_command_that_shows_more() -> None:
    (over,) = ended_entries([ended("aaaa0001", Status.ERROR, SINCE)], SINCE)
    (live,) = live_entries([session("aaaa0002", status=Status.RUNNING)])
    assert (over.command, live.command) == ("sm output aaaa0001", "sm tail aaaa0002")


def test_open_requests_without_an_answer_are_listed_oldest_first() -> None:
    asked = Request(1, "aaaa0001", RequestKind.QUESTION, RequestState.OPEN, LATER, LATER)
    requests = [
        asked,
        replace(asked, id=2, created_at=AFTER),
        replace(asked, id=3, session_id="aaaa0009"),
        replace(asked, id=4, state=RequestState.CANCELLED),
        replace(asked, id=5, answer=Answer(approved=True)),
    ]
    found = request_entries(requests, {"aaaa0001": session("aaaa0001")})
    assert [(e.status, e.at, e.command) for e in found] == [
        ("question", AFTER, "sm requests r2"),
        ("question", LATER, "sm requests r1"),
    ]


def test_session_with_a_status_of_a_newer_version_is_the_last_live_one() -> None:
    sessions = [session("aaaa0001", status=Status("dozing")), session("aaaa0002", status=Status.IDLE)]
    assert [e.status for e in live_entries(sessions)] == ["idle", "dozing"]


def test_warning_of_one_kind_is_one_entry_with_its_number() -> None:
    known = {s.id: s for s in (session("aaaa0001"), session("aaaa0002"))}
    events = [
        event("aaaa0001", BEFORE, "old", kind="loop"),
        event("aaaa0001", AFTER, "first", kind="loop"),
        event("aaaa0001", LATER, "second", kind="loop"),
        event("aaaa0001", AFTER, "full", kind="context"),
        event("aaaa0002", LATER, "over", kind="loop", ended=True),
        event("aaaa0002", LATER, "it goes on", warning="loop", told=True),
        event("aaaa0009", LATER, "of an unknown session", kind="loop"),
    ]
    found = [(e.status, e.text) for e in warning_entries(events, known, SINCE)]
    assert found == [("loop", "second (2 times)"), ("context", "full")]


def test_warnings_of_two_pairs_of_a_session_are_two_entries() -> None:
    known = {"aaaa0001": session("aaaa0001")}
    events = [
        event("aaaa0001", SINCE, "first pair", kind="ping_pong", subject="a/b"),
        event("aaaa0001", AFTER, "second pair", kind="ping_pong", subject="a/c"),
        event("aaaa0001", LATER, "first pair again", kind="ping_pong", subject="a/b"),
    ]
    found = [e.text for e in warning_entries(events, known, SINCE)]
    assert found == ["first pair again (2 times)", "second pair"]


def test_warnings_are_listed_newest_first_and_those_without_a_kind_by_text() -> None:
    known = {s.id: s for s in (session("aaaa0001"), session("aaaa0002"))}
    events = [
        event("aaaa0001", SINCE, "disk full"),
        event("aaaa0002", AFTER, "disk full"),
        event("aaaa0001", LATER, "slow disk"),
        event("aaaa0001", LATER, "slow disk"),
    ]
    found = [(e.session_id[-1], e.status, e.text) for e in warning_entries(events, known, SINCE)]
    assert found == [
        ("1", "warning", "slow disk (2 times)"),
        ("2", "warning", "disk full"),
        ("1", "warning", "disk full"),
    ]


def test_equal_warnings_of_several_sessions_are_one_line() -> None:
    known = {s.id: s for s in (session(f"aaaa000{number}") for number in range(1, 6))}
    events = [
        event("aaaa0001", SINCE, "Session aaaa0001 does not go on: overloaded", kind="fault"),
        event("aaaa0002", AFTER, "Child aaaa0002 does not go on: overloaded", kind="fault"),
        event("aaaa0003", AFTER, "Child aaaa0003 does not go on: overloaded", kind="fault"),
        event("aaaa0003", LATER, "Child aaaa0003 does not go on: overloaded", kind="fault"),
        event("aaaa0004", SINCE, "Session aaaa0004: its disk is full", kind="disk"),
        event("aaaa0005", SINCE, "Session aaaa0005: its disk is full", kind="disk"),
        event("aaaa0004", SINCE, "Session aaaa0004: it repeats itself", kind="loop"),
    ]
    warnings = warning_entries(events, known, SINCE)
    lines = digest_lines(asdict(replace(digest(0), warnings=warnings)), NOW, 20, 100, UTC)
    at = lines.index("Warnings")
    assert lines[at + 1 : at + 4] == [
        "  3 sessions: does not go on: overloaded (4 times)",
        "  2 sessions: its disk is full",
        "  Session aaaa0004: it repeats itself",
    ]
    assert len(warnings) == 6


def test_spending_is_summed_by_tree_and_unknown_prices_are_none() -> None:
    known = {
        s.id: s
        for s in (
            session("aaaa0001"),
            session("aaaa0002", parent="aaaa0001"),
            session("aaaa0003"),
            session("aaaa0004"),
            session("aaaa0005", parent="aaaa0001"),
        )
    }
    used = {
        "aaaa0001": used_of(10, 5, 1000, cost=0.25),
        "aaaa0002": used_of(1, 1, cost=2.0),
        "aaaa0003": used_of(7, 0, unpriced=1),
        "aaaa0005": used_of(0, 0, cost=0.5),
    }
    found = spending(known, used, {"aaaa0002": "usd 2 of 2.2", "aaaa0004": "usd 0 of 5"})
    assert [(t.session_id[-1], t.sessions, t.tokens_used, t.cost_usd, t.budget) for t in found] == [
        ("1", 3, 17, 2.75, None),
        ("2", 1, 2, 2.0, "usd 2 of 2.2"),
        ("3", 1, 7, None, None),
        ("4", 0, 0, 0, "usd 0 of 5"),
    ]
    assert [t.session_id[-1] for t in found if t.is_part] == ["2"]
    first = digest_lines(asdict(replace(digest(0), spending=found)), NOW, 20, 100, UTC)[0]
    assert first.endswith("$2.75 spent, some without a price"), "the tree of 2 is a part of that of 1"


def test_known_part_of_the_spending_stays_when_a_price_is_unknown() -> None:
    known = {s.id: s for s in (session("aaaa0001"), session("aaaa0002", parent="aaaa0001"))}
    used = {"aaaa0001": used_of(10, 5, cost=0.25, unpriced=1), "aaaa0002": used_of(1, 1, cost=2.0)}
    (tree,) = spending(known, used, {})
    assert (tree.cost_usd, tree.known_cost_usd, tree.tokens_used) == (None, 2.25, 17)
    first, *_, last = digest_lines(asdict(replace(digest(0), spending=[tree])), NOW, 20, 100, UTC)
    assert first.endswith("$2.25 spent, some without a price")
    assert last == "  engineer-aaaa0001: $2.25+, 17 tokens"


def test_trees_without_a_cost_are_listed_last_by_their_tokens() -> None:
    known = {id: session(id) for id in ("aaaa0001", "aaaa0002", "aaaa0003")}
    used = {
        "aaaa0001": used_of(9, 0, unpriced=1),
        "aaaa0002": used_of(50, 0),
        "aaaa0003": used_of(1, 0, cost=0.5),
    }
    assert [t.session_id[-1] for t in spending(known, used, {})] == ["3", "2", "1"]


@pytest.mark.parametrize("height", [20, 24, 40])
@pytest.mark.parametrize("entries", [0, 1, 3, 100])
def test_text_fits_the_screen_and_names_all_that_it_leaves_out(entries: int, height: int) -> None:
    shown = asdict(digest(entries))
    changes = [{"label": "e0", "commits": 2, "files": 3, "added": 10, "deleted": 4} for _ in range(entries)]
    lines = digest_lines({**shown, "changes": changes}, NOW, height, 100, UTC)
    assert len(lines) <= height
    assert all(len(text) <= 100 for text in lines)
    if entries == 100:
        assert sum("more: sm " in text for text in lines) == 6
    if entries == 1:
        assert lines[0] == ("Since 2026-03-01 22:00: 1 error, 1 live, 1 open request, $0.50 spent")
        assert "  e0: 2 commits, 3 files (+10 -4)" in lines
    if entries == 0:
        assert lines == ["Since 2026-03-01 22:00: nothing ended, 0 live"]


@pytest.mark.parametrize("width", [80, 160])
def test_command_of_a_long_request_is_not_cut(width: int) -> None:
    asked = entry("e1", "asks " + "why " * 50 + "; answer with: sm answer r1 TEXT")
    shown = asdict(replace(digest(0), requests=[replace(asked, command="sm requests r1")]))
    text = digest_lines(shown, NOW, 20, width, UTC)[-1]
    assert len(text) <= width
    assert text.startswith("  asks why ") and text.endswith("; see: sm requests r1")


def test_worktrees_that_were_not_compared_are_named_before_the_changes() -> None:
    failures = [
        {"session_id": "aaaa0001", "label": "n1", "reason": "too large"},
        {"session_id": "aaaa0002", "label": "n2", "reason": "no time"},
        {"session_id": "aaaa0003", "label": "n3", "reason": "no time"},
    ]
    changes = [{"label": f"c{n}", "commits": None, "files": 1, "added": 2, "deleted": 0} for n in range(30)]
    shown = {**asdict(digest(0)), "changes": changes, "not_compared": failures}
    lines = digest_lines(shown, NOW, 20, 100, UTC)
    assert len(lines) == 20
    assert lines[2:6] == [
        "Changed on disk (+15 more: sm diff SESSION --stat)",
        "  n1: cannot be compared: too large",
        "  2 worktrees: cannot be compared: no time",
        "  c0: 1 file (+2 -0)",
    ]


@pytest.mark.parametrize("width", [20, 30, 80])
@pytest.mark.parametrize("text", ["why " * 60, "\N{CJK UNIFIED IDEOGRAPH-6F22}" * 100, "e\u0301" * 100])
def test_every_line_fits_a_narrow_terminal(text: str, width: int) -> None:
    some = [replace(entry(f"e{n}", text), label=text[:20]) for n in range(30)]
    trees = [spent_tree("t0", text[:40], 1, 12_000, 1.25, "usd 1.25 of 1.5")]
    changes = [{"label": text[:40], "commits": 2, "files": 3, "added": 10, "deleted": 4}] * 30
    shown = {**asdict(DigestView(SINCE, LATER, some, some, some, some, trees, 3)), "changes": changes}
    lines = digest_lines(shown, NOW, 24, width, UTC)
    assert len(lines) <= 24
    assert [found for found in lines if columns(found) > width] == []


def test_short_section_leaves_its_lines_to_the_long_ones() -> None:
    shown = asdict(replace(digest(0), ended=[entry(f"e{n}") for n in range(50)], live=[entry("last")]))
    lines = digest_lines(shown, NOW, 20, 100, UTC)
    assert len(lines) == 20
    assert sum(text.startswith("  e") for text in lines) == 14
    assert "  last error 7h ago: a reason" in lines
    assert "Ended (+36 more: sm ls --all)" in lines


def test_screen_shows_each_kind_of_entry_in_a_line() -> None:
    trees = [
        spent_tree("t0", "t0", 1, 12_000, 1.25, "soft: usd 1.25 of 1.5"),
        spent_tree("t1", "t1", 1, 1000, None),
    ]
    some = [entry("e0"), replace(entry("e1"), status="killed"), entry("e2", "")]
    changes = [{"label": "c0", "commits": None, "files": 1, "added": 2, "deleted": 0}]
    found = DigestView(SINCE, LATER, some, some[:2], [entry("e3", "is in a loop")], [], trees, 1)
    assert digest_lines({**asdict(found), "changes": changes}, NOW, 40, 54, UTC) == [
        "Since 2026-03-01 22:00: 2 error, 1 killed, 1 ended se…",
        *("", "Open requests", "  a reason (7h ago)", "  a reason (7h ago)"),
        *("", "Warnings", "  is in a loop"),
        *("", "Ended", "  e0 error 7h ago: a reason", "  e1 killed 7h ago: a reason", "  e2 error 7h ago"),
        *(
            "",
            "Spent",
            "  t0: $1.25, 12,000 tokens, budget soft: usd 1.25 of …",
            "  t1: no price, 1,000 tokens",
        ),
        *("", "Changed on disk", "  c0: 1 file (+2 -0)"),
    ]


def test_first_line_counts_all_that_the_digest_has() -> None:
    some = [entry("e0"), replace(entry("e1"), status="killed"), entry("e2", "")]
    trees = [spent_tree("t0", "t0", 1, 12_000, 1.25), spent_tree("t1", "t1", 1, 1000, None)]
    shown = asdict(DigestView(SINCE, LATER, some, some[:2], [], [], trees, 1))
    assert digest_lines(shown, NOW, 20, 160, UTC)[0] == (
        "Since 2026-03-01 22:00: 2 error, 1 killed, 1 ended session removed, 0 live, 2 open requests, "
        "$1.25 spent, some without a price"
    )


@pytest.mark.parametrize("cost", [None, 0.0])
def test_first_line_names_no_cost_when_none_is_known(cost: float | None) -> None:
    shown = asdict(replace(digest(0), spending=[spent_tree("t0", "t0", 1, 1000, cost)]))
    assert digest_lines(shown, NOW, 20, 100, UTC)[0] == "Since 2026-03-01 22:00: nothing ended, 0 live"
