"""Codex's protocol with frames that are dropped, doubled, cut, reordered, or have unknown members."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sm.core.observation import Activity
from sm.providers.codex.frames import decoded, read_frame
from sm.providers.codex.protocol import ProtocolReader
from sm.providers.links import LinkEvent, MessageUpdate, Receipt, StateUpdate
from tests.codex_recordings import NAMES, Line, feed, lines_of, only, read

RECORDINGS = {name: [line for line in lines_of(name) if line.dir != "truth"] for name in NAMES}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
METHODS = sorted(
    {line.msg["method"] for lines in RECORDINGS.values() for line in lines if "method" in line.msg}
)
names = st.sampled_from(NAMES)


def echoed(lines: list[Line]) -> set[str]:
    """The ids of messages that the program repeated in these frames."""
    items = (line.msg.get("params", {}).get("item") for line in lines if line.dir == "in")
    return {i["clientId"] for i in items if isinstance(i, dict) and isinstance(i.get("clientId"), str)}


def submitted(events: list[LinkEvent]) -> set[str]:
    return {update.id for update in only(events, MessageUpdate) if update.receipt is Receipt.SUBMITTED}


def lost(events: list[LinkEvent]) -> set[str]:
    return {update.id for update in only(events, MessageUpdate) if update.receipt is Receipt.NOT_DELIVERED}


@settings(max_examples=30, deadline=None)
@given(names, st.data())
def test_dropped_frames_never_submit_a_message_without_its_item(name: str, data: st.DataObject) -> None:
    kept = [line for line in RECORDINGS[name] if data.draw(st.integers(0, 9)) > 0]
    assert submitted(feed(ProtocolReader(), kept)) <= echoed(kept)


@settings(max_examples=30, deadline=None)
@given(names, st.data())
def test_link_that_is_lost_and_back_never_calls_a_delivered_message_lost(
    name: str, data: st.DataObject
) -> None:
    lines = RECORDINGS[name]
    start = data.draw(st.integers(0, len(lines)))
    end = data.draw(st.integers(start, len(lines)))
    reader = ProtocolReader()
    said = feed(reader, lines[:start]) + reader.lost(0.0, "closed")
    # Sm sends nothing over a lost link, and does not hear what the program says meanwhile.
    said += feed(reader, lines[end:])
    assert not lost(said) & echoed(lines)


@settings(max_examples=30, deadline=None)
@given(names, st.data())
def test_doubled_frames_say_nothing_more(name: str, data: st.DataObject) -> None:
    lines = RECORDINGS[name]
    doubled = [line for line in lines for _ in range(data.draw(st.sampled_from((1, 1, 2))))]
    assert feed(ProtocolReader(), doubled) == read(name)


@settings(max_examples=30, deadline=None)
@given(names, st.data())
def test_frames_in_another_order_say_only_what_they_prove(name: str, data: st.DataObject) -> None:
    lines = list(RECORDINGS[name])
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(lines) - 2))
        lines[at], lines[at + 1] = lines[at + 1], lines[at]
    said = feed(ProtocolReader(), lines)
    assert submitted(said) <= echoed(lines)
    assert only(said, StateUpdate)


@settings(max_examples=30, deadline=None)
@given(names, st.dictionaries(st.text(min_size=1, max_size=8).map("x-{}".format), JSON, max_size=3))
def test_unknown_members_change_nothing(name: str, members: dict[str, Any]) -> None:
    lines = [Line(line.t, line.dir, _with(line.msg, members)) for line in RECORDINGS[name]]
    assert feed(ProtocolReader(), lines) == read(name)


def _with(value: Any, members: dict[str, Any]) -> Any:
    """Add members to each object, except to the ones whose members have names of the agent's own."""
    if isinstance(value, list):
        return [_with(inner, members) for inner in value]
    if not isinstance(value, dict):
        return value
    inner = {
        key: held if key in ("availableDecisions", "changes", "questions") else _with(held, members)
        for key, held in value.items()
    }
    return inner if "totalTokens" in value else {**inner, **members}


@settings(max_examples=30, deadline=None)
@given(names, st.data())
def test_values_of_another_kind_never_raise(name: str, data: st.DataObject) -> None:
    lines = [Line(line.t, line.dir, copy.deepcopy(line.msg)) for line in RECORDINGS[name]]
    for _ in range(data.draw(st.integers(1, 8))):
        spots = list(_spots(lines[data.draw(st.integers(0, len(lines) - 1))].msg))
        data.draw(st.sampled_from(spots))(data.draw(JSON))
    feed(ProtocolReader(), lines)


def _spots(value: Any) -> list[Callable[[Any], None]]:
    """A function for each value inside of a value, which puts another one in its place."""
    found: list[Callable[[Any], None]] = []
    pairs = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
    for key, inner in pairs:
        found.append(partial(value.__setitem__, key))
        if isinstance(inner, dict | list):
            found += _spots(inner)
    return found


@given(st.lists(st.tuples(st.booleans(), JSON), max_size=10))
def test_any_json_never_raises(frames: list[tuple[bool, Any]]) -> None:
    reader = ProtocolReader()
    for sends, frame in frames:
        (reader.sent if sends else reader.received)(frame, 1.0)


@given(st.lists(st.tuples(st.sampled_from(METHODS), JSON, st.none() | st.integers(0, 3)), max_size=12))
def test_known_methods_with_any_parameters_never_raise(frames: list[tuple[str, Any, int | None]]) -> None:
    reader = ProtocolReader()
    for line in RECORDINGS["approval_accepted"][:6]:
        feed(reader, [line])
    thread = reader.conversation
    for method, params, id in frames:
        given_ = {**params, "threadId": thread} if isinstance(params, dict) else params
        frame = {"method": method, "params": given_, **({} if id is None else {"id": id})}
        reader.sent(frame, 1.0)
        reader.received(frame, 1.0)


@settings(max_examples=30, deadline=None)
@given(names, st.data())
def test_next_status_is_right_after_any_loss_of_frames(name: str, data: st.DataObject) -> None:
    reader = ProtocolReader()
    feed(reader, [line for line in RECORDINGS[name] if data.draw(st.booleans()) or "result" in line.msg])
    if reader.conversation is None:
        return
    status = {"type": "active", "activeFlags": ["waitingOnApproval"]}
    params = {"threadId": reader.conversation, "status": status}
    reader.received({"method": "thread/status/changed", "params": params}, 2e9)
    params = {"threadId": reader.conversation, "status": {"type": "idle"}}
    (update,) = reader.received({"method": "thread/status/changed", "params": params}, 2e9)
    assert isinstance(update, StateUpdate)
    assert update.observation.activity is Activity.IDLE


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, b"\xff\xfe", '{"id": 1}', "[]", '"text"', "1e999"])
def test_text_that_is_no_frame_is_none(text: str | bytes) -> None:
    assert read_frame(decoded(text)) is None
