"""Cleanup of ended sessions: archive the output, close the terminal, end the process; approval of completions."""

import os
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.archived import Archived
from tests.fixtures import context_fixture
from tests.integration.ended_agents import ENDED, rows, wait_line, wait_outbox
from tests.sim.stage import Instance, until


@contextmanager
def configured(more: str) -> Iterator[Instance]:
    with Instance(f"child_agents: {more}") as instance:
        yield instance


instance = context_fixture("function", Instance)
supervised = context_fixture("function", configured, "{mode: supervised}")


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# Archived output


def test_output_of_an_ended_session_is_archived_in_a_private_file(instance: Instance) -> None:
    lines = "seq 1 300; printf 'grüße\\n'"
    ends = {
        "completed": instance.spawn("Sh", lines),
        "error": instance.spawn("Sh", f"{lines}; exit 3"),
        "killed": instance.spawn("Sh", f"{lines}; exec sleep 1000"),
    }
    instance.sm("kill", ends["killed"]["session_id"])
    for status, session in ends.items():
        assert instance.ended(session["session_id"])["status"] == status
        archive = Archived(instance.state / "archives" / session["session_id"])
        path = archive / "terminal.txt"
        until(path.exists, "its output is archived")
        assert mode_of(archive.path) == 0o600
        kept = path.read_text().splitlines()
        assert kept[:301] == [*(f"{n}" for n in range(1, 301)), "grüße"]
    assert mode_of(instance.state / "archives") == 0o700
    assert {p.name for p in (instance.state / "archives").iterdir()} == {
        f"{s['session_id']}.tar" for s in ends.values()
    }
    assert instance.json("status")["dead_letters"] == 0


def test_output_is_archived_in_the_configured_directory(tmp_path: Path) -> None:
    directory = tmp_path / "of" / "mine"
    with configured(f'{{cleanup: {{archive_path: "{directory}"}}}}') as instance:
        session = instance.spawn("Sh", "echo kept words")
        session_id = session["session_id"]
        archive = Archived(directory / session_id)
        path = archive / "terminal.txt"
        until(path.exists, "its output is archived")
        assert path.read_text() == "kept words\n"
        assert (mode_of(archive.path), mode_of(directory)) == (0o600, 0o700)
        instance.ended(session_id)
        wait_outbox(instance)
        assert not (instance.state / "archives").exists()
        instance.sm("rm", session_id)
        until(lambda: not path.exists(), "it is removed with its session")


def test_output_is_not_archived_when_archiving_is_off() -> None:
    with configured("{cleanup: {auto_archive_transcript: false}}") as instance:
        session = instance.spawn("Sh", "echo words")
        session_id = session["session_id"]
        instance.ended(session_id)
        wait_outbox(instance)
        assert not (instance.state / "archives").exists()
        assert rows(instance, "SELECT count(*) FROM outbox WHERE kind = 'archive'") == [(0,)]
        assert "words" in instance.sm("output", session_id)  # the terminal still shows it


def test_warning_appears_and_the_terminal_stays_when_output_cannot_be_archived(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with configured(
        f'{{cleanup: {{archive_path: "{tmp_path}/file/dir", close_tmux_session: true}}}}'
    ) as instance:
        session = instance.spawn("Sh", "echo words")
        instance.ended(session["session_id"])
        wait_outbox(instance)
        assert instance.json("status")["dead_letters"] == 1
        (warning,) = [e["message"] for e in instance.events(session["session_id"]) if e["type"] == "warning"]
        assert f"its archive could not be saved in {tmp_path}/file/dir: Not a directory" in warning
        assert "words" in instance.sm("output", session["session_id"])
        instance.sm("rm", session["session_id"])
        wait_outbox(instance)
        assert not instance.has_terminal(session["tmux_session"])


def test_nothing_is_archived_when_the_terminal_was_closed(instance: Instance) -> None:
    session = instance.spawn("Sleeper")
    instance.close_terminal(session["tmux_session"])
    instance.ended(session["session_id"])
    wait_outbox(instance)
    assert not (Archived(instance.state / "archives" / session["session_id"]) / "terminal.txt").exists()
    assert instance.json("status")["dead_letters"] == 0


def test_output_is_archived_by_the_next_daemon_when_the_daemon_dies(instance: Instance) -> None:
    session = instance.spawn("Sh", "echo words")
    until(lambda: "words" in instance.sm("output", session["session_id"]), "its output is shown")
    instance.kill_daemon()
    (instance.work / "go").touch()
    until(lambda: not instance.lives(session["pid"]), "it has ended")
    path = Archived(instance.state / "archives" / session["session_id"]) / "terminal.txt"
    instance.ended(session["session_id"])
    until(path.exists, "its output is archived")
    assert path.read_text() == "words\n"


# Terminal


def test_terminal_is_closed_after_archiving_when_configured() -> None:
    with configured("{cleanup: {close_tmux_session: true}}") as instance:
        other = instance.spawn("Sleeper")
        for script in ("echo words", "echo words; exec sleep 1000"):
            session = instance.spawn("Sh", script)
            if script.endswith("sleep 1000"):
                os.kill(session["pid"], signal.SIGKILL)
            instance.ended(session["session_id"])
            until(
                lambda s=session: not instance.has_terminal(s["tmux_session"]),  # type: ignore[misc]  # bound
                "its terminal is closed",
            )
            assert (
                Archived(instance.state / "archives" / session["session_id"]) / "terminal.txt"
            ).read_text() == "words\n"
            wait_outbox(instance)
        assert instance.session(other["session_id"])["status"] == "running"
        assert instance.has_terminal(other["tmux_session"])
        assert instance.json("status")["dead_letters"] == 0


def test_terminal_of_an_ended_session_stays_open_by_default(instance: Instance) -> None:
    session = instance.spawn("Sh", "echo words")
    instance.ended(session["session_id"])
    wait_outbox(instance)
    assert instance.has_terminal(session["tmux_session"])
    assert "words" in instance.sm("output", session["session_id"])


# Process


@pytest.mark.parametrize("status", ["error", "abandoned"])
def test_failed_session_keeps_running_when_auto_kill_is_on(status: str) -> None:
    with configured("{cleanup: {auto_kill_on_complete: true}}") as instance:
        session = instance.spawn("Sh", f"sm complete bad --status {status} > o.txt; exec sleep 1000")
        instance.in_status(session["session_id"], status)
        assert rows(instance, "SELECT count(*) FROM outbox WHERE kind = 'kill'") == [(0,)]
        assert instance.lives(session["pid"])


def test_completed_session_keeps_running_by_default(instance: Instance) -> None:
    session = instance.spawn("Sh", "sm complete done > o.txt; exec sleep 1000")
    instance.in_status(session["session_id"], "completed")
    wait_outbox(instance)
    assert instance.lives(session["pid"])


# Approval


def spawn_proposer(instance: Instance, name: str, then: str = "exec sleep 1000") -> dict[str, Any]:
    """Spawn a session that has proposed its completion."""
    session = instance.spawn(
        "Sh", f"sm complete 'built {name}' > {name}.out 2>&1; echo $? > {name}.code; {then}"
    )
    assert wait_line(instance.work / f"{name}.code", until) == "0\n"
    return session


def request_of(instance: Instance, session: dict[str, Any]) -> dict[str, Any]:
    request: dict[str, Any]
    (request,) = [r for r in instance.json("requests") if r["session_id"] == session["session_id"]]
    return request


def test_supervised_session_is_completed_when_its_proposal_is_approved(supervised: Instance) -> None:
    session = spawn_proposer(supervised, "ark")
    session_id = session["session_id"]
    request = request_of(supervised, session)
    assert (request["kind"], request["state"]) == ("completion", "open")
    assert [q["question"] for q in request["questions"]] == ["built ark"]
    assert supervised.session(session_id)["status"] == "running"
    types = [e["type"] for e in supervised.events(session_id)]
    assert "proposed_completion" in types and "completed" not in types
    until(lambda: request["request_id"] in supervised.sm("inbox"), "the operator is asked")
    inbox = supervised.sm("inbox")
    assert f"sm approve {request['request_id']}" in inbox and "built ark" in inbox
    supervised.sm("approve", session_id)
    done = supervised.session(session_id)
    assert (done["status"], done["completion_message"]) == ("completed", "built ark")
    assert done["status_reason"] == f"operator approved it ({request['request_id']})"
    assert [e["type"] for e in supervised.events(session_id) if e["type"] in ENDED] == ["completed"]
    assert request["request_id"] not in [r["request_id"] for r in supervised.json("requests")]
    error = supervised.refused("reject", request["request_id"], "too late", exit_code=4)
    assert "was answered by operator" in error
    assert supervised.session(session_id)["status"] == "completed"


def test_rejected_session_gets_the_reason_and_can_propose_again(supervised: Instance) -> None:
    script = "sm inbox --take --wait > why.txt; sm complete 'built better' > again.out; exec sleep 1000"
    session = spawn_proposer(supervised, "boat", script)
    session_id = session["session_id"]
    first = request_of(supervised, session)
    supervised.sm("reject", session_id, "it leaks")
    message = until(lambda: (supervised.work / "why.txt").read_text(), "the session has the message")
    assert "[sm] from operator, message" in message
    assert f"your completion ({first['request_id']}) was denied: it leaks" in message
    until(
        lambda: [r for r in supervised.json("requests") if r["session_id"] == session_id], "it proposes again"
    )
    second = request_of(supervised, session)
    assert second["request_id"] != first["request_id"]
    supervised.sm("approve", second["request_id"])
    assert supervised.session(session_id)["completion_message"] == "built better"


def test_second_proposal_is_refused_while_the_first_is_open(supervised: Instance) -> None:
    script = "sm complete one > c1 2>&1; sm complete two > c2 2>&1; echo $? > second; exec sleep 1000"
    session = supervised.spawn("Sh", script)
    assert wait_line(supervised.work / "second", until) == "4\n"
    assert "has already proposed its completion" in (supervised.work / "c2").read_text()
    assert [q["question"] for q in request_of(supervised, session)["questions"]] == ["one"]


def test_failure_needs_no_approval(supervised: Instance) -> None:
    session = supervised.spawn("Sh", "sm complete 'no luck' --status error > e1; exec sleep 1000")
    assert supervised.in_status(session["session_id"], "error")["completion_message"] == "no luck"


def test_proposal_is_cancelled_when_its_session_ends(supervised: Instance) -> None:
    session = spawn_proposer(supervised, "raft")
    request = request_of(supervised, session)
    supervised.sm("kill", session["session_id"])
    assert "was cancelled" in supervised.refused("approve", request["request_id"], exit_code=4)
    assert supervised.session(session["session_id"])["status"] == "killed"


def test_only_the_parent_session_can_approve_a_proposal(supervised: Instance) -> None:
    parent, stranger = supervised.spawn("Sleeper"), supervised.spawn("Sleeper")
    script = "sm complete 'built it' > p.out; echo yes > proposed; exec sleep 1000"
    child = supervised.spawn("Sh", script, "--parent", parent["session_id"])
    wait_line(supervised.work / "proposed", until)
    request = request_of(supervised, child)["request_id"]
    for session, code in ((stranger, 3), (child, 5)):
        env = {"SM_SESSION_ID": session["session_id"]}
        supervised.refused("approve", request, exit_code=code, env=env)
    assert supervised.session(child["session_id"])["status"] == "running"
    supervised.sm("approve", request, env={"SM_SESSION_ID": parent["session_id"]})
    assert supervised.session(child["session_id"])["status"] == "completed"


def test_approved_session_is_killed_when_auto_kill_is_on() -> None:
    with configured("{mode: supervised, cleanup: {auto_kill_on_complete: true}}") as instance:
        session = spawn_proposer(instance, "ark")
        assert instance.lives(session["pid"])
        instance.sm("approve", session["session_id"])
        until(lambda: not instance.lives(session["pid"]), "its process is ended")
        assert instance.session(session["session_id"])["status"] == "completed"
