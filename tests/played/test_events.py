"""`sm events`: followers lose nothing, repeat nothing and see only what they may see."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from sm.core.models import Event
from sm.store import Store
from tests.fixtures import context_fixture
from tests.sim.command import Streams
from tests.sim.stage import Instance, until

instance = context_fixture("function", Instance)


class Follower:
    """A running `sm events --follow --json` whose output is recorded."""

    def __init__(self, instance: Instance, *arguments: str) -> None:
        self._streams = Streams()
        command = ["events", "--follow", "--json", *arguments]
        self.process = instance.command.start(command, instance.env, instance.work, self._streams)

    def events(self) -> list[dict[str, Any]]:
        whole, _, _ = self._streams.texts[0].rpartition("\n")
        return [json.loads(line) for line in whole.splitlines()]

    def seqs(self) -> list[int]:
        return [event["seq"] for event in self.events()]

    def has(self, seq: int) -> bool:
        return seq in self.seqs()


@contextmanager
def following(instance: Instance, *arguments: str) -> Iterator[Follower]:
    follower = Follower(instance, *arguments)
    try:
        yield follower
    finally:
        follower.process.kill()


def last_seq(instance: Instance) -> int:
    return int(instance.events()[-1]["seq"])


def note(instance: Instance, session_id: str, *texts: str) -> None:
    requests = [("POST", "/v1/sessions/me/note", None, {"text": text}) for text in texts]
    assert [code for code, *_ in instance.request_as(session_id, *requests)] == ["ok"] * len(texts)


@pytest.mark.parametrize("way", ["restart", "kill"])
def test_follower_loses_and_repeats_no_event_when_the_daemon_restarts(instance: Instance, way: str) -> None:
    session_id = instance.spawn("Sleeper", "x")["session_id"]
    with following(instance, "--since", "0") as follower:
        for round in range(3):
            note(instance, session_id, *(f"{round} {number}" for number in range(5)))
            if way == "restart":
                instance.sm("daemon", "restart")
            else:
                instance.kill_daemon()
                instance.sm("status")
            note(instance, session_id, f"after {round}", f"again {round}")
        until(lambda: follower.has(last_seq(instance)), "the follower has caught up")
        assert follower.seqs() == [e["seq"] for e in instance.events()]
        assert follower.events() == instance.events()


def test_seq_has_no_gaps_when_the_daemon_restarts(instance: Instance) -> None:
    session_id = instance.spawn("Sleeper", "x")["session_id"]
    for number in range(3):
        note(instance, session_id, str(number))
        refused = instance.refused("ask", "x" * 10_001, exit_code=2, env={"SM_SESSION_ID": session_id})
        assert "at most 10,000" in refused  # and uses no number
        instance.kill_daemon()
        instance.sm("status")
    instance.sm("kill", session_id, "--force")
    assert [e["seq"] for e in instance.events()] == list(range(1, 7))


def test_events_can_be_filtered_by_since_type_and_limit(instance: Instance) -> None:
    session_id = instance.spawn("Sleeper", "x")["session_id"]
    note(instance, session_id, "0", "1", "2", "3")
    assert [e["seq"] for e in instance.events("--since", "4")] == [5, 6]
    assert [e["type"] for e in instance.events("--type", "started")] == ["started"]
    assert [e["seq"] for e in instance.json("events", "--limit", "2")] == [5, 6]
    assert "'strated' is not one of" in instance.refused("events", "--type", "strated", exit_code=2)
    with following(instance, "--since", "0", "--type", "note") as follower:
        until(lambda: follower.has(6), "the notes were followed")
        assert follower.seqs() == [3, 4, 5, 6]


def test_since_takes_a_number_and_a_time_everywhere(instance: Instance) -> None:
    session_id = instance.spawn("Sleeper", "x")["session_id"]
    note(instance, session_id, "0", "1")
    instance.wait(60)
    at = (instance.now() - timedelta(seconds=30)).isoformat()
    note(instance, session_id, "2", "3")
    assert [e["seq"] for e in instance.events("--since", at)] == [5, 6]
    assert [e["seq"] for e in instance.events("--since", "today", "--type", "note")] == [3, 4, 5, 6]
    instance.wait(1)
    assert instance.json("events", "--since", instance.now().isoformat()) == []
    with following(instance, "--since", at) as follower:
        until(lambda: follower.has(6), "the notes were followed")
        assert follower.seqs() == [5, 6]
    assert instance.json("digest", "--since", "5")["since"] == instance.events("--since", "4")[0]["timestamp"]
    assert "there is no event 99 or later" in instance.refused("usage", "--since", "99", exit_code=2)


def test_events_of_a_session_include_children_and_with_recursive_all_descendants(instance: Instance) -> None:
    root = instance.spawn("Sleeper", "x")["session_id"]
    child = instance.spawn("Sleeper", "x", "--parent", root)["session_id"]
    grandchild = instance.spawn("Sleeper", "x", "--parent", child)["session_id"]
    stranger = instance.spawn("Sleeper", "x")["session_id"]
    assert {e["session_id"] for e in instance.events(root)} == {root, child}
    assert {e["session_id"] for e in instance.events(root, "--recursive")} == {root, child, grandchild}
    assert {e["session_id"] for e in instance.events()} == {root, child, grandchild, stranger}
    # Without an argument a session sees itself and its children.
    own = instance.json("events", env={"SM_SESSION_ID": child})
    assert {e["session_id"] for e in own} == {child, grandchild}
    with following(instance, root, "--since", "0") as follower:
        late = instance.spawn("Sleeper", "x", "--parent", root)["session_id"]
        note(instance, stranger, "not for you")
        note(instance, late, "the last")
        until(lambda: follower.has(last_seq(instance)), "the late child is followed")
        assert {e["session_id"] for e in follower.events()} == {root, child, late}


def test_follower_sees_a_child_that_is_spawned_while_events_are_read(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, last, reading, read_events = 3, 6, list[int](), Store.events

    async def read_slowly(store: Store, **filters: Any) -> list[Event]:
        """Read event `first` only after event `last` is committed."""
        if first <= store.last_seq < last:
            reading.append(store.last_seq)
            await store.wait_until(lambda: store.last_seq >= last)
        return await read_events(store, **filters)

    monkeypatch.setattr(Store, "events", read_slowly)
    root = instance.spawn("Sleeper", "x")["session_id"]
    with following(instance, root, "--since", "0") as follower:
        until(lambda: follower.has(2), "the follower has started")
        # The others are committed while the daemon reads the first with the children of that moment.
        note(instance, root, "one")
        until(lambda: reading, "the note is being read")
        instance.spawn("Sleeper", "x", "--parent", root)
        note(instance, root, "two")
        until(lambda: follower.has(last_seq(instance)), "the follower has caught up")
        assert follower.seqs() == [e["seq"] for e in instance.events(root)]


def test_events_are_printed_as_specified(instance: Instance) -> None:
    parent = instance.spawn("Sleeper", "x")["session_id"]
    child = instance.spawn("Sleeper", "x", "--parent", parent, "--name", "abc123")["session_id"]
    as_child = {"SM_SESSION_ID": child}
    instance.sm("checkpoint", "Found 15 files", "--metadata", "files=15", env=as_child)
    instance.sm("complete", "Feature X done", env=as_child)
    lines = [line.partition("] ")[2] for line in instance.sm("events", parent).splitlines()]
    assert f"spawned: Child sleeper-abc123 ({child}) started" in lines
    assert 'checkpoint: Child sleeper-abc123 - "Found 15 files"' in lines
    assert 'completed: Child sleeper-abc123 completed - "Feature X done"' in lines
    (checkpoint,) = instance.json("checkpoints", child)
    assert (checkpoint["message"], checkpoint["metadata"]) == ("Found 15 files", {"files": "15"})


def test_people_read_names_and_ids_only_of_sessions_that_are_alike(instance: Instance) -> None:
    parent = instance.spawn("Sleeper", "x", "--name", "lead")["session_id"]
    first = instance.spawn("Sleeper", "x", "--name", "one", "--parent", parent)["session_id"]
    unnamed = instance.spawn("Sleeper", "x")
    named = [
        instance.sm("status", "one"),
        instance.sm("kill", "one"),
        instance.refused("send", "one", "more work", exit_code=4),
        instance.sm("reparent", "one", "--operator"),
        instance.sm("archive", "one"),
        instance.sm("unarchive", "one"),
    ]
    assert "Parent:    sleeper-lead\n" in named[0]
    assert named[1:] == [
        "Killed sleeper-one\n",
        "sm: session sleeper-one has ended (killed): it cannot receive messages\nhint: sm restore sleeper-one\n",
        "sleeper-one now belongs to the operator\n",
        "Archived sleeper-one\n",
        "Unarchived sleeper-one\n",
    ]
    second = instance.spawn("Sleeper", "x", "--name", "one")["session_id"]
    assert instance.sm("kill", second) == f"Killed sleeper-one ({second})\n"
    events = instance.sm("events")
    assert "killed: Child sleeper-one was killed" in events
    assert f"killed: Session sleeper-one ({second}) was killed" in events
    assert {s["session_id"]: s["label"] for s in instance.json("all")} == {
        parent: "sleeper-lead",
        first: f"sleeper-one ({first})",
        second: f"sleeper-one ({second})",
        unnamed["session_id"]: unnamed["name"],
    }
    assert instance.refused("send", second, "x", exit_code=4).endswith(f"\nhint: sm restore {second}\n")
    assert instance.sm("rm", first) == f"Removed sleeper-one ({first})\n"
    assert instance.refused("send", second, "x", exit_code=4).endswith("\nhint: sm restore sleeper-one\n")
