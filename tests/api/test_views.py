from dataclasses import fields, replace
from typing import cast

import orjson

from sm.api.views import build_view, nest, session_json
from sm.core.models import Event, Exit, Process, Session
from sm.core.states import EventType
from sm.core.timestamps import iso
from sm.wire_types.event_answers import EventView
from sm.wire_types.session_answers import SessionWithSums
from tests.samples import AT, session

DOCUMENTED = (
    "session_id name friendly_name label title agent_type provider model program_version status status_source"
    " status_reason status_at status_stale mode mode_source parent_session_id parent_label created_by working_dir"
    " workspace trust_level effective_mode"
    " tmux_session pid exit_code exit_signal created_at started_at completed_at completion_status completion_message"
    " note last_activity_at archived seen_at paused restarts budget worktree copy_of"
    " takes_files children warnings"
).split()


def test_session_json_has_exactly_the_documented_fields() -> None:
    assert list(orjson.loads(orjson.dumps(session_json(session("aaaa1111"))))) == DOCUMENTED


def test_session_json_has_flat_fields_for_exit_and_process() -> None:
    shown = session_json(replace(session("aaaa1111"), process=Process(7, "b/1"), exit=Exit(None, 9)))
    assert (shown.pid, shown.exit_code, shown.exit_signal) == (7, None, 9)


def test_session_json_contains_no_secret_field() -> None:
    assert {f.name for f in fields(Session)} - set(DOCUMENTED) == {
        "id", "terminal", "parent_id", "process", "exit", "runs", "token_hash", "conversation", "transcript",
        "branch", "shares_name", "reminders", "turn_ended_at", "account", "cut_off_at", "paired_user",
        "worked_s", "working_since", "bound_to", "lost_parent", "told_operator",
    }  # fmt: skip
    shown = session_json(replace(session("aaaa1111"), token_hash="the hash"))
    assert b"hash" not in orjson.dumps(shown)


def test_last_activity_is_the_later_of_terminal_output_and_status_change() -> None:
    changed = replace(session("aaaa1111"), status_at="2026-01-27T15:10:00.000Z")
    assert session_json(changed, 1).last_activity_at == "2026-01-27T15:10:00.000Z"
    assert session_json(changed, 1_769_530_000).last_activity_at == iso(1_769_530_000) > changed.status_at


def test_event_json_has_exactly_the_documented_fields() -> None:
    event = Event(7, EventType.CHECKPOINT, "aaaa1111", None, AT, "half", {"coverage": "0"})
    assert orjson.loads(orjson.dumps(build_view(EventView, event))) == {
        "seq": 7,
        "type": "checkpoint",
        "session_id": "aaaa1111",
        "parent_session_id": None,
        "timestamp": AT,
        "message": "half",
        "metadata": {"coverage": "0"},
    }


def test_tree_has_each_session_in_the_children_of_its_parent() -> None:
    root, child = session("aaaa1111"), session("bbbb2222", parent="aaaa1111")
    grandchild, sibling = session("cccc3333", parent="bbbb2222"), session("eeee5555", parent="aaaa1111")

    def view(session: Session) -> SessionWithSums:
        return cast(SessionWithSums, session_json(session))

    tree = nest([root, child, session("dddd4444"), grandchild, sibling], view)
    assert [s.session_id for s in tree] == ["aaaa1111", "dddd4444"]
    assert [s.session_id for s in tree[0].children] == ["bbbb2222", "eeee5555"]
    assert tree[0].children[0].children[0].session_id == "cccc3333"
    (parent,) = nest([root, child], view)
    assert [s.session_id for s in parent.children] == ["bbbb2222"]
    assert not parent.children[0].children


def test_tree_has_the_members_of_a_cycle_of_parents() -> None:
    cycle = [session("aaaa1111", parent="bbbb2222"), session("bbbb2222", parent="aaaa1111")]
    (first,) = nest(cycle, lambda s: cast(SessionWithSums, session_json(s)))
    assert [s.session_id for s in (first, *first.children)] == ["aaaa1111", "bbbb2222"]


def test_iso_time_is_utc_with_z() -> None:
    assert iso(0) == "1970-01-01T00:00:00.000Z"
    assert iso(1769526600.25) == "2026-01-27T15:10:00.250Z"
