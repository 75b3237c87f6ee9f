"""Plays a short life of a daemon that lacks a capability: `python -m tests.capabilities.without NAME`."""

import sys

import sm.capabilities

COMMANDS = {"budgets": ("budget", "daily"), "pairing": ("pair", "list")}
"""A command of each capability that has one."""


def play(missing: str) -> None:
    """Start, list, send, restart and end, each through the real command."""
    from tests.sim.stage import (
        Instance,
    )  # builds the configuration and the routes of the capabilities that are left

    with Instance() as instance:
        session = instance.spawn("Sleeper", "--name", "lead", "a task")
        lead = session["session_id"]
        assert instance.in_status(lead, "running")["budget"] is None
        instance.sm("send", lead, "a message")
        instance.restart()
        assert [row["session_id"] for row in instance.json("ls", "-a")] == [lead]
        for command in (
            ["progress", lead],
            ["usage"],
            ["digest"],
            ["requests"],
            ["inbox"],
            ["config", "--check"],
        ):
            instance.sm(*command)
        for name, own in COMMANDS.items():
            assert (instance.run(*own).returncode == 0) == (name != missing), own
        instance.sm("kill", lead)
        instance.sm("rm", lead)
        assert instance.json("ls", "-a") == []
        print("played")  # noqa: T201 - the answer for the test


if __name__ == "__main__":
    known = sm.capabilities.CAPABILITIES
    assert sys.argv[1] in known
    sm.capabilities.CAPABILITIES = tuple(name for name in known if name != sys.argv[1])
    play(sys.argv[1])
