"""Terminals of ended sessions: only the last ones stay open, and `sm output` shows the saved output of the others."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.archived import Archived
from tests.fixtures import context_fixture
from tests.integration.ended_agents import end_process, rows, wait_outbox
from tests.played.test_cleanup import configured
from tests.sim.stage import Instance, until

instance = context_fixture("function", Instance)
KEEP_ONE = "keep_terminals: {last: 1}"


@pytest.fixture
def one() -> Iterator[Instance]:
    """An instance that keeps the terminal of one ended session."""
    with configured(f"{{cleanup: {{{KEEP_ONE}}}}}") as instance:
        yield instance


def terminals(instance: Instance) -> set[str]:
    """The sessions that have a terminal."""
    return {pane.session_id for pane in instance.world.server.panes.values()}


def end_with_output(instance: Instance, *words: str) -> list[str]:
    """The ids of sessions that printed one of `words` each and ended one after the other."""
    ids = []
    for word in words:
        session = instance.spawn("Sh", f"echo {word}; exec sleep 1000")
        until(lambda: word in instance.sm("output", session["session_id"]), word)  # noqa: B023 - called at once
        end_process(instance, session)
        ids.append(session["session_id"])
    return ids


def wait_for_terminals(instance: Instance, expected: set[str]) -> None:
    until(lambda: terminals(instance) == expected, f"only {expected} have terminals", 60)


def test_ended_sessions_keep_at_most_fifty_terminals_by_default(instance: Instance) -> None:
    live = instance.spawn("Sleeper")["session_id"]
    body = {"agent_type": "Sh", "prompt": "exit 0", "cwd": str(instance.work), "environment": instance.env}
    requests = [("POST", "/v1/sessions", None, body)] * 53
    ids = [answer["session_id"] for _, answer in instance.request_as(None, *requests)]
    for session_id in ids:
        instance.ended(session_id)
    until(lambda: len(terminals(instance)) <= 51, "at most 50 terminals of ended sessions are left", 60)
    wait_outbox(instance)
    left = terminals(instance)
    assert live in left
    assert len(left) == 51
    assert instance.session(live)["status"] == "running"
    assert instance.json("status")["dead_letters"] == 0


def test_output_is_served_from_the_archive_when_the_terminal_is_closed(one: Instance) -> None:
    first, second = end_with_output(one, "alpha", "beta")
    wait_for_terminals(one, {second})
    assert one.sm("output", first) == "alpha\n"
    assert one.sm("output", second) == "beta\n"
    assert one.get(f"/v1/sessions/{first}/output") == {
        "session_id": first,
        "lines": ["alpha"],
        "archived": True,
    }
    assert one.get(f"/v1/sessions/{second}/output")["archived"] is False
    assert one.session(first)["last_output"] == ["alpha"]
    assert one.json("progress", first)["last_output"] == ["alpha"]
    error = one.refused("attach", first, exit_code=9)
    assert f"the terminal of session {first} is closed" in error
    assert f"sm output {first}" in error
    assert f"sm restore {first}" in error


def test_closed_terminal_does_not_prevent_a_restore(one: Instance) -> None:
    first, second = end_with_output(one, "alpha", "beta")
    wait_for_terminals(one, {second})
    one.stamp(Archived(one.state / "archives" / first) / "terminal.txt")
    one.sm("restore", first)
    assert one.session(first)["status"] == "running"
    assert first in terminals(one)
    # The saved output is that of the earlier process.
    one.close_terminal(f"command-{first}")
    one.ended(first)
    wait_outbox(one)
    assert "does not exist" in one.refused("output", first, exit_code=9)


def test_terminal_stays_open_while_its_output_cannot_be_saved(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    archive = f'archive_path: "{tmp_path}/file/dir"'
    with configured(f"{{cleanup: {{{archive}, {KEEP_ONE}}}}}") as instance:
        first, second = end_with_output(instance, "alpha", "beta")
        log = instance.state / "log/daemon.log"
        until(lambda: "left a terminal open" in log.read_text(), "the daemon reports the terminal", 60)
        assert terminals(instance) == {first, second}
        assert instance.sm("output", first) == "alpha\n"


def test_terminal_is_closed_without_an_archive_when_archiving_is_off() -> None:
    with configured(f"{{cleanup: {{auto_archive_transcript: false, {KEEP_ONE}}}}}") as instance:
        first, second = end_with_output(instance, "alpha", "beta")
        wait_for_terminals(instance, {second})
        assert not (instance.state / "archives").exists()
        assert "does not exist" in instance.refused("output", first, exit_code=9)


def test_terminals_of_an_earlier_daemon_are_saved_and_closed(one: Instance) -> None:
    """Their output was not archived: an older version, or a setting that has changed since."""
    settings = one.config.read_text()
    one.config.write_text(
        settings.replace(KEEP_ONE, "auto_archive_transcript: false, keep_terminals: {last: 50}")
    )
    sessions = end_with_output(one, "alpha", "beta", "gamma")
    one.kill_daemon()
    one.config.write_text(settings)
    one.start_daemon()
    wait_for_terminals(one, {sessions[2]})
    assert [one.sm("output", s) for s in sessions] == ["alpha\n", "beta\n", "gamma\n"]
    wait_outbox(one)
    assert rows(one, "SELECT count(*) FROM outbox WHERE state = 'dead'") == [(0,)]
