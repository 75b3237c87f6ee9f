"""Plays a short life of a daemon that lacks a capability: `python -m tests.capabilities.without NAME`."""

import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import sm.capabilities

if TYPE_CHECKING:
    from tests.sim.stage import Instance


def lacks_restarts(instance: "Instance") -> None:
    """A crash ends a session, also one that asked for restarts."""
    session = instance.spawn("Sleeper", "--restart", "on-failure", "a task")
    os.kill(instance.in_status(session["session_id"], "running")["pid"], signal.SIGKILL)
    assert instance.in_status(session["session_id"], "error")["restarts"] is None
    instance.sm("rm", session["session_id"])


def lacks_warnings(instance: "Instance") -> None:
    """A crash that a restart follows is recorded, and no warning is open."""
    session_id = instance.spawn("Sleeper", "--restart", "on-failure", "a task")["session_id"]
    os.kill(instance.in_status(session_id, "running")["pid"], signal.SIGKILL)
    crashed = instance.in_status(session_id, "starting")
    assert (crashed["restarts"]["count"], crashed["warnings"]) == (1, [])
    assert "has crashed" in instance.sm("events", session_id, "--type", "warning")
    instance.sm("kill", session_id)
    instance.sm("rm", session_id)


def lacks_pauses(instance: "Instance") -> None:
    """No command pauses a session. A spent budget keeps it from its next turn, and pauses nothing."""
    from tests.sim.stage import until  # as in `play`

    session_id = instance.spawn("Sleeper", "--budget", "minutes=0.01", "a task")["session_id"]
    instance.in_status(session_id, "running")
    assert (instance.run("pause", session_id).returncode, instance.run("resume", session_id).returncode) == (
        8,
        8,
    )
    until(
        lambda: instance.get(f"/v1/sessions/{session_id}/budget")["budget"]["state"] == "stopped",
        "its budget is spent",
        900,
    )
    assert instance.json("status", session_id)["paused"] is None
    sent = instance.run("send", session_id, "go on")
    assert "budget of" in sent.stdout + sent.stderr, sent
    instance.sm("budget", session_id, "--add", "minutes=5")
    instance.sm("kill", session_id)
    instance.sm("rm", session_id)


LACKS: Mapping[str, Callable[["Instance"], None]] = {
    "pauses": lacks_pauses,
    "restarts": lacks_restarts,
    "warnings": lacks_warnings,
}
"""Shows that a capability without a command is gone, or what its absence changes."""

COMMANDS = {
    "accounts": ["accounts"],
    "archives": ["export", "lead", "lead.tar.gz"],
    "budgets": ["budget", "lead"],
    "digest": ["digest"],
    "pairing": ["pair", "list"],
    "search": ["search", "task"],
}
"""A command of each capability that has some. Without the capability, the daemon does not have its route."""


def play(name: str) -> None:
    """Start, list, send, restart and end, each through the real command."""
    from tests.sim.stage import (
        Instance,
        until,
    )  # builds the configuration and the routes of the capabilities that are left

    with Instance("child_agents: {cleanup: {close_tmux_session: true}}\n") as instance:
        session = instance.spawn("Sleeper", "--name", "lead", "a task")
        lead = session["session_id"]
        assert instance.in_status(lead, "running")["budget"] is None
        instance.sm("send", lead, "a message")
        instance.restart()
        assert [row["session_id"] for row in instance.json("ls", "-a")] == [lead]
        for command in (
            ["status"],
            ["progress", lead],
            ["usage"],
            ["requests"],
            ["inbox"],
            ["config", "--check"],
        ):
            instance.sm(*command)
        instance.sm("kill", lead)
        for capability, command in COMMANDS.items():
            ended = instance.run(*command)
            assert ended.returncode == (8 if capability == name else 0), f"{command}: {ended}"
        until(lambda: not instance.has_terminal(session["tmux_session"]), "its terminal is closed")
        shown = instance.run("output", lead)
        assert shown.returncode == (9 if name == "archives" else 0), f"{shown}"
        instance.sm("rm", lead)
        if name in LACKS:
            LACKS[name](instance)
        assert instance.json("ls", "-a") == []
        print("played")  # noqa: T201 - the answer for the test


if __name__ == "__main__":
    known = sm.capabilities.CAPABILITIES
    assert sys.argv[1] in known
    sm.capabilities.CAPABILITIES = tuple(name for name in known if name != sys.argv[1])
    play(sys.argv[1])
