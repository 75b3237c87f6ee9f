"""Real processes after the end of the daemon: acknowledged reports, agents without a terminal, clients of tmux."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.instance import SM, Instance, until
from tests.integration.ended_agents import end_events, gone, tmux_server

# Sends checkpoints until the daemon is gone and prints the number of each acknowledged one.
WRITER = """
import itertools, os
from sm.client.http import Client
from sm.errors import SmError
client = Client(os.environ["SM_SOCKET"])
try:
    for n in itertools.count():
        client.post("/v1/sessions/me/checkpoints", {"message": str(n)})
        print(n, flush=True)
except SmError:
    pass
"""


def as_session(instance: Instance, session: dict[str, Any]) -> dict[str, str]:
    """The environment in which `session` calls `sm`."""
    return {
        "SM_SESSION_ID": session["session_id"],
        "SM_SOCKET": str(instance.socket),
        "SM_TOKEN_FILE": str(instance.state / "launch" / f"{session['session_id']}.token"),
    }


@contextmanager
def stopped_tmux(instance: Instance) -> Iterator[None]:
    """Stop the tmux server, so that it exists but does not answer."""
    server = tmux_server(instance)
    os.kill(server, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server, signal.SIGCONT)


def test_acknowledged_reports_survive_when_the_daemon_is_killed_under_load(instance: Instance) -> None:
    busy = [instance.spawn("Sleeper") for _ in range(3)]
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER],
            env={**instance.env, **as_session(instance, s)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for s in busy
    ]
    acknowledged_counts = []
    for writer in writers:
        assert writer.stdout is not None
        for _ in range(20):  # every writer is running
            assert writer.stdout.readline()
    instance.kill_daemon()
    for writer in writers:
        assert writer.stdout is not None
        acknowledged_counts.append(20 + len(writer.stdout.read().split()))
        writer.stdout.close()
        writer.wait()
    events = instance.events()
    assert [e["seq"] for e in events] == list(range(1, len(events) + 1))
    for session, acknowledged in zip(busy, acknowledged_counts, strict=True):
        messages = [
            c["message"] for c in instance.json("checkpoints", session["session_id"], "--limit", "200")
        ]
        assert messages == [str(n) for n in range(len(messages))]
        assert len(messages) in (
            acknowledged,
            acknowledged + 1,
        )  # the last one may be stored but not acknowledged
        checkpoints = [
            e for e in events if e["session_id"] == session["session_id"] and e["type"] == "checkpoint"
        ]
        assert len(checkpoints) == len(messages)


def test_agent_that_outlives_its_terminal_is_in_error_and_can_be_killed(instance: Instance) -> None:
    session = instance.spawn("Sh", 'trap "" HUP; echo yes > deaf; while :; do sleep 0.05; done')
    until((instance.work / "deaf").exists, "SIGHUP is ignored")
    instance.kill_daemon()
    instance.tmux("kill-session", "-t", f"={session['tmux_session']}:")
    found = instance.session(session["session_id"])
    assert found["status"] == "error"
    assert f"process {session['pid']} still runs" in found["status_reason"]
    assert not gone(session["pid"])
    instance.sm("kill", session["session_id"], "--force")
    assert gone(session["pid"])
    assert end_events(instance, session["session_id"]) == ["error"]


def test_killed_daemon_leaves_no_tmux_client(instance: Instance) -> None:
    instance.spawn("Sleeper")
    client, server = map(int, instance.tmux("list-clients", "-F", "#{client_pid} #{pid}").split())
    with stopped_tmux(instance):
        # Output for the daemon that tmux can write only after the daemon is dead.
        new_session = ["tmux", "-L", instance.socket_name, "new-session", "-d", "sleep", "1000"]
        made = [subprocess.Popen(new_session, env=instance.env) for _ in range(20)]
        instance.kill_daemon()
    assert [process.wait() for process in made] == [0] * 20
    until(lambda: gone(client), "its tmux client is gone too")
    instance.tmux("kill-server")
    until(lambda: gone(server), "the server has ended")


def test_command_of_a_session_waits_for_a_starting_daemon(instance: Instance) -> None:
    session = instance.spawn("Sleeper")
    instance.kill_daemon()
    instance.socket.unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(instance.socket))
        listener.listen()
        command = subprocess.Popen(
            [SM, "me", "--json"],
            env={**instance.env, **as_session(instance, session)},
            stdout=subprocess.PIPE,
            text=True,
        )
        connection, _ = listener.accept()
        # A start may take longer than the command's patience, which begins at the lost connection: it sleeps meanwhile.
        command.send_signal(signal.SIGSTOP)
        connection.close()
    instance.sm("daemon", "start")
    command.send_signal(signal.SIGCONT)
    out, _ = command.communicate()
    assert json.loads(out)["session_id"] == session["session_id"]
