"""A session that fell back to this host: what it keeps, what its children are, and where it runs again."""

import contextlib
import json
import socket
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.instance import Instance
from tests.integration.played_claude import Stage
from tests.waits import until

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
    until(lambda: instance.session(parent)["restarts"]["total"] == 1, "the crash is seen")
    until(lambda: instance.session(parent)["status"] == "running", "it runs again")
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


@pytest.fixture
def engine_socket() -> Iterator[socket.socket]:
    """A socket in place of that of an engine."""
    with (
        tempfile.TemporaryDirectory(prefix="sm-engine-", dir="/tmp") as directory,
        socket.socket(socket.AF_UNIX) as made,
    ):
        made.bind(f"{directory}/s")
        yield made


def no_listener(_: socket.socket) -> None:
    """As a crashed engine leaves its socket."""


def close_each(made: socket.socket) -> None:
    answer_each(made, b"")


def fail_each(made: socket.socket) -> None:
    words = b'{"message": "the store is broken"}'
    head = b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\nConnection: close\r\n"
    answer_each(made, head + b"Content-Length: %d\r\n\r\n" % len(words) + words)


def answer_each(made: socket.socket, answer: bytes) -> None:
    made.listen(16)

    def serve() -> None:
        with contextlib.suppress(OSError):  # the test has ended
            while True:
                client, _ = made.accept()
                with client:
                    client.recv(65536)
                    client.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()


@pytest.mark.parametrize(
    ("behave", "reason"),
    [
        (no_listener, "no Docker engine listens on"),
        (close_each, "the Docker engine at"),
        (fail_each, "the store is broken"),
    ],
)
def test_engine_that_is_there_and_does_not_work_does_not_move_a_session_to_this_host(
    engine_socket: socket.socket, behave: Callable[[socket.socket], None], reason: str
) -> None:
    behave(engine_socket)
    config = f"tmux: {{socket_name: test}}\nsandbox: {{engine: unix://{engine_socket.getsockname()}}}\n"
    with Instance(config=f"{config}commands:\n  Sh: {{command: [sh, -c]}}\n") as instance:
        refused = instance.refused("spawn", "Sh", f"touch {instance.home}/ran; exec sleep 1000", exit_code=9)
        assert reason in refused
        assert "to run it on this host: add --trust direct" in refused
        assert instance.json("all") == []
        assert not (instance.home / "ran").exists()


def fork(stage: Stage, session_id: str) -> dict[str, Any]:
    """Fork the session, and return the copy without waiting until its agent accepts the conversation."""
    before = {s["session_id"] for s in stage.json("all")}
    command = stage.start_command("fork", session_id)

    def copy() -> dict[str, Any] | None:
        return next(
            (s for s in stage.get("/v1/sessions") if s["session_id"] not in before and s["pid"]), None
        )

    try:
        made: dict[str, Any] = until(copy, "the copy runs")
    finally:
        command.kill()
        command.communicate()
    return made


def test_fork_of_a_session_that_fell_back_runs_where_it_runs_and_fails_once_an_engine_was_met() -> None:
    with Stage() as stage:
        stage.config.write_text(stage.config.read_text().replace("default_trust: direct\n", ""))
        stage.restart()
        lead = stage.agent()
        child = stage.agent("Plain", "--parent", lead.id)
        for agent in (lead, child):
            agent.send_event("UserPromptSubmit", prompt="go on", prompt_id="1")
            agent.append_turn("It works.")
            forked = fork(stage, agent.id)
            assert levels(forked) == ("sandboxed", "direct")
            assert len(warnings_of(stage, forked["session_id"])) == 1
        stage.kill_daemon()
        with closing(sqlite3.connect(stage.state / "sm.db")) as database, database:
            database.execute("INSERT INTO meta (name, value) VALUES ('met_engine', '2026-01-01T00:00:00Z')")
        stage.start_daemon()
        before = len(stage.json("all"))
        for agent in (lead, child):
            assert "--trust direct" in stage.refused("fork", agent.id, exit_code=9)
        assert len(stage.json("all")) == before
