"""Plays a short life of a daemon that lacks a capability: `python -m tests.capabilities.without NAME`."""

import sys

import sm.capabilities

COMMANDS = {
    "accounts": ["accounts"],
    "archives": ["export", "lead", "lead.tar.gz"],
    "budgets": ["budget", "lead"],
    "digest": ["digest"],
    "pairing": ["pair", "list"],
    "search": ["search", "task"],
}
"""A command of each capability. Without the capability, the daemon does not have its route."""


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
        assert instance.json("ls", "-a") == []
        print("played")  # noqa: T201 - the answer for the test


if __name__ == "__main__":
    known = sm.capabilities.CAPABILITIES
    assert sys.argv[1] in known
    sm.capabilities.CAPABILITIES = tuple(name for name in known if name != sys.argv[1])
    play(sys.argv[1])
