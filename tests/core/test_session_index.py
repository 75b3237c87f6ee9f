"""The index of sessions agrees with a scan of all sessions after every change."""

import sys
from collections import Counter
from dataclasses import replace
from types import FrameType
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sm.core.models import Exit, Session
from sm.core.session_index import SessionIndex, is_unfinished
from sm.core.statuses import Status
from sm.core.timestamps import later
from tests.samples import AT, session

IDS = ("aaaa1111", "aaaa2222", "bbbb1111", "bbbb2222")
NAMES = (None, "engineer-x", "engineer-y", "x", "other")
VERSIONS = st.builds(
    lambda session_id, name, status, ended: replace(
        session(session_id, status=status), friendly_name=name, exit=ended
    ),
    st.sampled_from(IDS),
    st.sampled_from(NAMES),
    st.sampled_from((Status.RUNNING, Status.COMPLETED)),
    st.sampled_from((None, Exit(0))),
)


def has_name(found: Session, word: str) -> bool:
    return word in (found.name, found.friendly_name) or found.friendly_name == f"engineer-{word}"


@given(st.lists(VERSIONS | st.sampled_from(IDS)))
def test_index_agrees_with_a_scan_after_every_change(changes: list[Session | str]) -> None:
    index, expected = SessionIndex(), dict[str, Session]()
    for change in changes:
        if isinstance(change, str):
            assert index.remove(change) == expected.pop(change, None)
        else:
            index.put(change)
            expected[change.id] = change
        assert index.sessions == expected
        assert list(index.sessions) == list(expected)
        names = Counter(s.friendly_name or s.id for s in expected.values())
        shared = {s.id for s in expected.values() if names[s.friendly_name or s.id] > 1}
        assert {s.id for s in index.sessions.values() if s.shares_name} == shared
        assert {s.id for s in index.unfinished.values() if s.shares_name} == shared & set(index.unfinished)
        assert index.unfinished == {s.id: s for s in expected.values() if is_unfinished(s)}
        for word in (*filter(None, NAMES), "y", "engineer-aaaa1111", "none"):
            named = {s.id for s in expected.values() if has_name(s, word)}
            assert {s.id for s in index.named(word)} == named
        for prefix in ("", "aaaa", "bbbb2", "cccc", "aaaa11112"):
            assert {s.id for s in index.with_prefix(prefix)} == {i for i in expected if i.startswith(prefix)}


def test_named_sessions_are_sorted_oldest_first() -> None:
    named = [replace(session(session_id), friendly_name="engineer-x") for session_id in reversed(IDS)]
    index = SessionIndex(named)
    index.put(replace(named[0], note="changed"))
    assert [s.id for s in index.named("x")] == [s.id for s in named]


def test_thread_sees_all_sessions_at_every_moment_while_an_old_one_enters_and_leaves_memory() -> None:
    index = SessionIndex(replace(session(s), created_at=later(AT, n)) for n, s in enumerate(IDS))
    old, seen = replace(session("cccc1111"), created_at=later(AT, -1)), list[list[str]]()

    def look(frame: FrameType, event: str, arg: Any) -> Any:
        frame.f_trace_opcodes = True
        if event == "opcode":  # another thread may run between any two of them
            seen.append([known.id for known in list(index.sessions.values())])
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        index.put(old)
        index.forget(old.id)
    finally:
        sys.settrace(before)
    assert set.intersection(*map(set, seen)) == {*IDS}
    assert [old.id, *IDS] in seen
    assert seen[-1] == [*IDS]
