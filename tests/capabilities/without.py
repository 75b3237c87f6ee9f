"""Plays a short life of a daemon that lacks a capability: `python -m tests.capabilities.without NAME`.

The fork server runs it (tests/fork_server.py), which has imported the libraries and a complete sm. The process imports
sm again, without the capability.
"""

import os
import signal
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

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


def lacks_worktrees(instance: "Instance") -> None:
    """A worktree is refused before anything is made. Other agents start in the repository."""
    from tests.git_repositories import make_app

    app = make_app(instance.work)
    words = ("spawn", "Sleeper", "a task", "--name", "login")
    assert "does not know" in instance.refused(*words, "--worktree", exit_code=8, cwd=app)
    assert not (app / ".sm").exists() and instance.json("ls") == []
    session = instance.spawn(*words[1:], cwd=app)
    assert (session["worktree"], session["working_dir"]) == (None, str(app))
    instance.sm("kill", session["session_id"])
    instance.sm("rm", session["session_id"])


def lacks_files(instance: "Instance") -> None:
    """No agent takes files, and messages without files are sent."""
    session = instance.spawn("Sleeper", "a task")
    assert session["takes_files"] is False
    file = instance.work / "shot.png"
    file.write_bytes(b"a picture")
    words = ("send", session["session_id"], "look")
    assert "does not know" in instance.refused(*words, "--file", str(file), exit_code=8)
    instance.sm(*words)
    instance.sm("kill", session["session_id"])
    instance.sm("rm", session["session_id"])


def lacks_pauses(instance: "Instance") -> None:
    """No command pauses a session. A spent budget keeps it from its next turn, and pauses nothing."""
    session_id = instance.spawn("Sleeper", "--budget", "minutes=0.01", "a task")["session_id"]
    instance.in_status(session_id, "running")
    assert (instance.run("pause", session_id).returncode, instance.run("resume", session_id).returncode) == (
        8,
        8,
    )
    instance.wait(900)
    assert instance.json("budget", session_id)["budget"]["state"] == "stopped"
    assert instance.json("status", session_id)["paused"] is None
    sent = instance.run("send", session_id, "go on")
    assert "budget of" in sent.stdout + sent.stderr, sent
    instance.sm("budget", session_id, "--add", "minutes=5")
    instance.sm("kill", session_id)
    instance.sm("rm", session_id)


def lacks_completion() -> None:
    """An agent that says that it is done stays idle until it reports."""
    import sqlite3
    from contextlib import closing

    from sm.capabilities.completion.model import CompletionTimer
    from tests.sim.stage import BOX, Stage, until
    from tests.turns import turn

    with Stage("daemon: {ignore_evidence: [screen, title]}\n", BOX) as stage:
        agent = stage.agent("Plain")
        turn(agent, "Done. All 26 tests pass.")
        until(lambda: stage.session(agent.id)["status"] == "idle", "the agent is idle")
        stage.settle()
        with closing(sqlite3.connect(stage.state / "sm.db")) as db:
            kinds = {kind for (kind,) in db.execute("SELECT kind FROM timers WHERE subject = ?", (agent.id,))}
        assert not kinds & set(CompletionTimer), kinds
        stage.sm("complete", "all is done", env=stage.as_session(agent.id))
        assert stage.session(agent.id)["completion_message"] == "all is done"


def lacks_usage() -> None:
    """Transcripts are read, no token is counted, and a budget sees no spending."""
    from sm.client.http import Client
    from tests.sim.stage import BOX, Stage, until

    usage = {"input_tokens": 1_000_000, "output_tokens": 1_000_000}
    with Stage("daemon: {ignore_evidence: [screen, title]}\n", BOX) as stage:
        agent = stage.agent("Plain", "--budget", "usd=1")
        agent.send_event("UserPromptSubmit", prompt="work", prompt_id="p1")
        agent.write_message({"id": "m1", "model": "claude-opus-4-8", "content": [], "usage": usage})
        client = Client(str(stage.socket))
        until(
            lambda: [row["model"] for row in client.get("/v1/overview")] == ["claude-opus-4-8"],
            "the transcript is read",
        )
        progress = stage.json("progress", agent.id)
        assert (progress["tokens"], progress["cost_usd"], progress["context_tokens"]) == (None, None, None)
        budget = stage.json("budget", agent.id)["budget"]
        assert (budget["spent"]["usd"], budget["spent"]["tokens"], budget["state"]) == (0, 0, "ok")
        (row,) = stage.json("children", "-", "--recursive")
        assert (row["sums"]["own"]["tokens"], row["sums"]["tree"]["tokens"]) == (None, None)
        assert stage.json("digest")["spending"][0]["tokens_used"] == 0
        stage.sm("agents")


LACKS: Mapping[str, Callable[["Instance"], None]] = {
    "pauses": lacks_pauses,
    "restarts": lacks_restarts,
    "warnings": lacks_warnings,
    "worktrees": lacks_worktrees,
}
"""Shows that a capability without a command is gone, or what its absence changes."""
ALONE: Mapping[str, Callable[[], None]] = {"completion": lacks_completion, "usage": lacks_usage}
"""As LACKS, in an instance of its own."""

COMMANDS = {
    "accounts": ["accounts"],
    "archives": ["export", "lead", "lead.tar.gz"],
    "budgets": ["budget", "lead"],
    "digest": ["digest"],
    "pairing": ["pair", "list"],
    "reviews": ["review", "lead", "--list"],
    "search": ["search", "task"],
    "usage": ["usage"],
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
    if name in ALONE:
        ALONE[name]()
    print("played")  # noqa: T201 - the answer for the test


def forget_sm() -> None:
    """Let the next imports load the modules of sm and of the tests anew."""
    for name in [name for name in sys.modules if name.partition(".")[0] in ("sm", "tests")]:
        del sys.modules[name]


if __name__ == "__main__":
    forget_sm()
    capabilities: Any = import_module("sm.capabilities")
    known = capabilities.CAPABILITIES
    assert sys.argv[1] in known
    capabilities.CAPABILITIES = tuple(name for name in known if name != sys.argv[1])
    play(sys.argv[1])
