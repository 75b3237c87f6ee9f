"""A session that fell back to this host: what it keeps, what its children are, and where it runs again."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.instance import Instance
from tests.load import until

WARNING = "no sandbox: no Docker engine runs"


@pytest.fixture
def instance() -> Iterator[Instance]:
    config = (
        "tmux: {socket_name: test}\nlimits: {spawn_interval_s: 0}\ncommands:\n  Sh: {command: [sh, -c]}\n"
    )
    with Instance(config=config) as made:
        yield made


def levels(session: dict[str, Any]) -> tuple[str, str]:
    return session["trust_level"], session["effective_mode"]


def warnings_of(instance: Instance, session_id: str) -> list[str]:
    events = instance.events(session_id, "--type", "warning")
    return [e["message"] for e in events if e["session_id"] == session_id and "no sandbox" in e["message"]]


def test_fallback_is_kept_by_restores_restarts_and_children_and_shown(instance: Instance) -> None:
    script = (
        "echo run >> runs; [ $(wc -l < runs) = 1 ] || sleep 1000; "
        "sm spawn Sh 'sleep 1000' --json > child.json; until [ -e crash ]; do sleep 0.1; done; exit 7"
    )
    spawned = instance.run("spawn", "Sh", script, "--restart", "on-failure", "--json")
    assert WARNING in spawned.stderr
    parent = json.loads(spawned.stdout)["session_id"]
    assert levels(instance.session(parent)) == ("sandboxed", "direct")

    def child() -> dict[str, Any] | None:
        file = instance.work / "child.json"
        return json.loads(file.read_text()) if file.exists() and "}" in file.read_text() else None

    below = until(child, "the child of the agent")["session_id"]
    assert levels(instance.session(below)) == ("sandboxed", "direct")
    assert "and so does its child" in warnings_of(instance, below)[0]
    for command in (("ls",), ("all",), ("children",)):
        shown = instance.sm(*command)
        assert "!direct" in shown, command
    assert "direct (requested: sandboxed)" in instance.sm("status", parent)

    (instance.work / "crash").touch()
    until(lambda: instance.session(parent)["restarts"]["total"] == 1, "the crash is seen", 60)
    until(lambda: instance.session(parent)["status"] == "running", "it runs again", 60)
    assert len(warnings_of(instance, parent)) == 2
    instance.sm("kill", parent)
    instance.sm("restore", parent)
    assert levels(instance.session(parent)) == ("sandboxed", "direct")
    told = warnings_of(instance, parent)
    assert len(told) == 3
    assert len({words[words.index("no sandbox") :] for words in told}) == 1, "the same warning each time"


def test_engine_that_was_met_once_is_no_reason_to_fall_back_any_more(instance: Instance) -> None:
    fallen = json.loads(instance.run("spawn", "Sh", "sleep 1000", "--json").stdout)["session_id"]
    instance.sm("kill", fallen)
    instance.kill_daemon()
    with closing(sqlite3.connect(instance.state / "sm.db")) as database, database:
        database.execute("INSERT INTO meta (name, value) VALUES ('met_engine', '2026-01-01T00:00:00Z')")
    instance.start_daemon()
    for command in (("spawn", "Sh", "sleep 1000"), ("restore", fallen)):
        refused = instance.refused(*command, exit_code=9)
        assert "no Docker engine runs" in refused
        assert "--trust direct" in refused
    assert instance.json("restore", fallen, "--trust", "direct")["status"] == "running"
    assert levels(instance.session(fallen)) == ("direct", "direct")
    assert "!direct" not in instance.sm("all")
    refused = instance.refused("restore", fallen, "--trust", "sandboxed", exit_code=2)
    assert "a restore does not move it" in refused
