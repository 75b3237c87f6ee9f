"""What happens to a session that is done: its output kept, its terminal closed, its process ended; and who agrees."""

import os
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.instance import Instance, until
from tests.integration.test_endings import ENDED, gone, how, rows, written


@contextmanager
def configured(more: str) -> Iterator[Instance]:
    with Instance(f"child_agents: {more}") as made:
        yield made


@pytest.fixture(scope="module")
def supervised() -> Iterator[Instance]:
    with configured("{mode: supervised}") as made:
        yield made


def idle_outbox(instance: Instance) -> None:
    until(
        lambda: rows(instance, "SELECT count(*) FROM outbox WHERE state IN ('pending', 'taken')") == [(0,)],
        "everything that was to be done is done",
    )


def held(script: str) -> str:
    """A script that ends only when it may: tmux 3.3a can lose what is written just before an end."""
    return f"{script}; while [ ! -e go ]; do sleep 0.02; done"


def let_end(instance: Instance, words: str, *sessions: dict[str, Any]) -> None:
    """Once their terminals show `words`."""
    for session in sessions:
        until(lambda s=session: words in instance.sm("output", s["session_id"], "-n", "400"), "it has spoken")  # type: ignore[misc]  # bound
    (instance.work / "go").touch()


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# What its terminal showed


def test_the_output_of_an_ended_session_is_kept_for_its_owners_eyes_only(instance: Instance) -> None:
    lines = "for n in $(seq 1 300); do echo line $n; done; printf 'grüße\\n'"
    ends = {
        "completed": instance.spawn("Sh", held(lines)),
        "error": instance.spawn("Sh", f"{held(lines)}; exit 3"),
        "killed": instance.spawn("Sh", f"{lines}; exec sleep 1000"),
    }
    let_end(instance, "grüße", *ends.values())
    instance.sm("kill", ends["killed"]["session_id"])
    for status, session in ends.items():
        assert instance.ended(session["session_id"])["status"] == status
        path = instance.state / "archives" / f"{session['session_id']}.txt"
        until(path.exists, "its output is kept")
        assert mode_of(path) == 0o600
        kept = path.read_text().splitlines()
        assert kept[:301] == [*(f"line {n}" for n in range(1, 301)), "grüße"]
    assert mode_of(instance.state / "archives") == 0o700
    assert {p.name for p in (instance.state / "archives").iterdir()} == {
        f"{s['session_id']}.txt" for s in ends.values()
    }
    assert instance.json("status")["dead_letters"] == 0


def test_output_is_kept_where_the_configuration_says(tmp_path: Path) -> None:
    place = tmp_path / "of" / "mine"
    with configured(f'{{cleanup: {{archive_path: "{place}"}}}}') as instance:
        session = instance.spawn("Sh", held("echo kept words"))
        session_id = session["session_id"]
        let_end(instance, "kept words", session)
        path = place / f"{session_id}.txt"
        until(path.exists, "its output is kept")
        assert path.read_text() == "kept words\n"
        assert (mode_of(path), mode_of(place)) == (0o600, 0o700)
        instance.ended(session_id)
        idle_outbox(instance)
        assert not (instance.state / "archives").exists()
        instance.sm("rm", session_id)
        until(lambda: not path.exists(), "it is removed with its session")


def test_output_is_not_kept_when_that_is_off() -> None:
    with configured("{cleanup: {auto_archive_transcript: false}}") as instance:
        session = instance.spawn("Sh", held("echo words"))
        session_id = session["session_id"]
        let_end(instance, "words", session)
        instance.ended(session_id)
        idle_outbox(instance)
        assert not (instance.state / "archives").exists()
        assert rows(instance, "SELECT count(*) FROM outbox WHERE kind = 'archive'") == [(0,)]
        assert "words" in instance.sm("output", session_id)  # its terminal has it all the same


def test_output_that_cannot_be_kept_is_a_dead_letter_that_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with configured(
        f'{{cleanup: {{archive_path: "{tmp_path}/file/dir", close_tmux_session: true}}}}'
    ) as instance:
        session = instance.spawn("Sh", "echo words")
        instance.ended(session["session_id"])
        idle_outbox(instance)
        assert instance.json("status")["dead_letters"] == 1
        (warning,) = [e["message"] for e in instance.events(session["session_id"]) if e["type"] == "warning"]
        assert f"its output could not be kept in {tmp_path}/file/dir: Not a directory" in warning


def test_a_session_whose_terminal_was_closed_has_nothing_to_keep(instance: Instance) -> None:
    session = instance.spawn("Sleeper")
    instance.tmux("kill-session", "-t", f"={session['tmux_session']}:")
    instance.ended(session["session_id"])
    idle_outbox(instance)
    assert not (instance.state / "archives" / f"{session['session_id']}.txt").exists()
    assert instance.json("status")["dead_letters"] == 0


def test_output_is_kept_by_the_next_daemon_when_this_one_dies(instance: Instance) -> None:
    session = instance.spawn("Sh", held("echo words"))
    until(lambda: "words" in instance.sm("output", session["session_id"]), "it has spoken")
    instance.kill_daemon()
    (instance.work / "go").touch()
    until(lambda: gone(session["pid"]), "it has ended")
    path = instance.state / "archives" / f"{session['session_id']}.txt"
    instance.ended(session["session_id"])
    until(path.exists, "its output is kept")
    assert path.read_text() == "words\n"


# Its terminal


def test_the_terminal_of_an_ended_session_is_closed_after_its_output_was_kept() -> None:
    with configured("{cleanup: {close_tmux_session: true}}") as instance:
        other = instance.spawn("Sleeper")
        for script in (held("echo words"), "echo words; exec sleep 1000"):
            session = instance.spawn("Sh", script)
            let_end(instance, "words", session)
            if script.endswith("sleep 1000"):
                os.kill(session["pid"], signal.SIGKILL)
            instance.ended(session["session_id"])
            until(
                lambda s=session: (  # type: ignore[misc]  # bound
                    s["tmux_session"] not in instance.tmux("list-sessions", "-F", "#S").splitlines()
                ),
                "its terminal is closed",
            )
            assert (instance.state / "archives" / f"{session['session_id']}.txt").read_text() == "words\n"
            idle_outbox(instance)
        assert instance.session(other["session_id"])["status"] == "running"
        instance.tmux("has-session", "-t", f"={other['tmux_session']}")
        assert instance.json("status")["dead_letters"] == 0


def test_the_terminal_of_an_ended_session_stays_by_itself(instance: Instance) -> None:
    session = instance.spawn("Sh", held("echo words"))
    let_end(instance, "words", session)
    instance.ended(session["session_id"])
    idle_outbox(instance)
    instance.tmux("has-session", "-t", f"={session['tmux_session']}")
    assert "words" in instance.sm("output", session["session_id"])


# Its process


def test_a_session_that_is_done_is_ended_with_all_it_has_started() -> None:
    with configured("{cleanup: {auto_kill_on_complete: true}}") as instance:
        script = "sleep 1000 & echo $! > below; sm complete 'all done' > o.txt 2>&1; exec sleep 1000"
        session = instance.spawn("Sh", script)
        below = int(written(instance.work / "below"))
        until(lambda: gone(session["pid"]) and gone(below), "its processes are ended")
        ended = until(
            lambda: (s := instance.session(session["session_id"]))["exit_signal"] and s, "its end is known"
        )
        assert how(ended) == ("completed", None, signal.SIGTERM)
        assert ended["completion_message"] == "all done"
        assert [e["type"] for e in instance.events() if e["type"] in ENDED] == ["completed"]


@pytest.mark.parametrize("status", ["error", "abandoned"])
def test_a_session_that_failed_is_left_for_inspection(status: str) -> None:
    with configured("{cleanup: {auto_kill_on_complete: true}}") as instance:
        session = instance.spawn("Sh", f"sm complete bad --status {status} > o.txt; exec sleep 1000")
        instance.in_status(session["session_id"], status)
        assert rows(instance, "SELECT count(*) FROM outbox WHERE kind = 'kill'") == [(0,)]
        assert not gone(session["pid"])


def test_a_session_that_is_done_lives_on_by_itself(instance: Instance) -> None:
    session = instance.spawn("Sh", "sm complete done > o.txt; exec sleep 1000")
    instance.in_status(session["session_id"], "completed")
    idle_outbox(instance)
    assert not gone(session["pid"])


# Who agrees


def proposing(instance: Instance, name: str, then: str = "exec sleep 1000") -> dict[str, Any]:
    """A session that has proposed its completion."""
    session = instance.spawn(
        "Sh", f"sm complete 'built {name}' > {name}.out 2>&1; echo $? > {name}.code; {then}"
    )
    assert written(instance.work / f"{name}.code") == "0\n"
    return session


def request_of(instance: Instance, session: dict[str, Any]) -> dict[str, Any]:
    (found,) = [r for r in instance.json("requests") if r["session_id"] == session["session_id"]]
    request: dict[str, Any] = found
    return request


def test_a_supervised_session_proposes_its_completion_and_is_completed_by_an_approval(
    supervised: Instance,
) -> None:
    session = proposing(supervised, "ark")
    session_id = session["session_id"]
    request = request_of(supervised, session)
    assert (request["kind"], request["state"]) == ("completion", "open")
    assert [q["question"] for q in request["questions"]] == ["built ark"]
    assert supervised.session(session_id)["status"] == "running"
    types = [e["type"] for e in supervised.events(session_id)]
    assert "proposed_completion" in types and "completed" not in types
    until(lambda: request["request_id"] in supervised.sm("inbox"), "the operator is asked")
    told = supervised.sm("inbox")
    assert f"sm approve {request['request_id']}" in told and "built ark" in told
    supervised.sm("approve", session_id)
    done = supervised.session(session_id)
    assert (done["status"], done["completion_message"]) == ("completed", "built ark")
    assert done["status_reason"] == f"operator approved it ({request['request_id']})"
    assert [e["type"] for e in supervised.events(session_id) if e["type"] in ENDED] == ["completed"]
    assert request["request_id"] not in [r["request_id"] for r in supervised.json("requests")]
    error = supervised.refused("reject", request["request_id"], "too late", exit_code=4)
    assert "was answered by operator" in error
    assert supervised.session(session_id)["status"] == "completed"


def test_a_rejection_goes_to_the_session_as_a_message_and_it_may_propose_again(supervised: Instance) -> None:
    then = "sm inbox --take --wait > why.txt; sm complete 'built better' > again.out; exec sleep 1000"
    session = proposing(supervised, "boat", then)
    session_id = session["session_id"]
    first = request_of(supervised, session)
    supervised.sm("reject", session_id, "it leaks")
    told = until(lambda: (supervised.work / "why.txt").read_text(), "the session has the message")
    assert "[sm] from operator, message" in told
    assert f"your completion ({first['request_id']}) was rejected: it leaks" in told
    until(
        lambda: [r for r in supervised.json("requests") if r["session_id"] == session_id], "it proposes again"
    )
    second = request_of(supervised, session)
    assert second["request_id"] != first["request_id"]
    supervised.sm("approve", second["request_id"])
    assert supervised.session(session_id)["completion_message"] == "built better"


def test_a_session_proposes_one_completion_at_a_time(supervised: Instance) -> None:
    script = "sm complete one > c1 2>&1; sm complete two > c2 2>&1; echo $? > second; exec sleep 1000"
    session = supervised.spawn("Sh", script)
    assert written(supervised.work / "second") == "4\n"
    assert "has proposed its completion already" in (supervised.work / "c2").read_text()
    assert [q["question"] for q in request_of(supervised, session)["questions"]] == ["one"]


def test_a_failure_needs_nobodys_approval(supervised: Instance) -> None:
    session = supervised.spawn("Sh", "sm complete 'no luck' --status error > e1; exec sleep 1000")
    assert supervised.in_status(session["session_id"], "error")["completion_message"] == "no luck"


def test_a_proposal_of_a_session_that_ends_is_called_off(supervised: Instance) -> None:
    session = proposing(supervised, "raft")
    request = request_of(supervised, session)
    supervised.sm("kill", session["session_id"])
    assert "is cancelled" in supervised.refused("approve", request["request_id"], exit_code=4)
    assert supervised.session(session["session_id"])["status"] == "killed"


def test_a_parent_approves_its_child_and_no_other_session_does(supervised: Instance) -> None:
    parent, stranger = supervised.spawn("Sleeper"), supervised.spawn("Sleeper")
    script = "sm complete 'built it' > p.out; echo yes > proposed; exec sleep 1000"
    child = supervised.spawn("Sh", script, "--parent", parent["session_id"])
    written(supervised.work / "proposed")
    request = request_of(supervised, child)["request_id"]
    for session, code in ((stranger, 3), (child, 5)):
        env = {"SM_SESSION_ID": session["session_id"]}
        supervised.refused("approve", request, exit_code=code, env=env)
    assert supervised.session(child["session_id"])["status"] == "running"
    supervised.sm("approve", request, env={"SM_SESSION_ID": parent["session_id"]})
    assert supervised.session(child["session_id"])["status"] == "completed"


def test_an_approved_session_is_ended_when_completed_ones_are() -> None:
    with configured("{mode: supervised, cleanup: {auto_kill_on_complete: true}}") as instance:
        session = proposing(instance, "ark")
        assert not gone(session["pid"])
        instance.sm("approve", session["session_id"])
        until(lambda: gone(session["pid"]), "its process is ended")
        assert instance.session(session["session_id"])["status"] == "completed"
