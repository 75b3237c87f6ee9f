"""Archives of ended sessions, their export and the search."""

import os
import shutil
import signal
import stat
import tarfile
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.archived import Archived
from tests.fixtures import context_fixture
from tests.integration.ended_agents import AnyInstance, rows, wait_outbox
from tests.played_agent import Agent
from tests.sim.stage import BOX, Instance, Stage, until

SETTINGS = "daemon: {ignore_evidence: [screen, title]}"

instance = context_fixture("function", Instance)
stage = context_fixture("function", Stage, SETTINGS, BOX)


@pytest.fixture
def agent(stage: Stage) -> Agent:
    agent = stage.agent("Plain")
    agent.send_event("UserPromptSubmit", prompt="work", prompt_id=os.urandom(4).hex())
    return agent


def said(text: str) -> dict[str, Any]:
    usage = {"input_tokens": 10, "output_tokens": 5}
    return {
        "id": f"msg_{text[:8]}",
        "model": "claude-x",
        "content": [{"type": "text", "text": text}],
        "usage": usage,
    }


def tool(name: str, use: str, **arguments: str) -> dict[str, Any]:
    content = [{"type": "tool_use", "id": use, "name": name, "input": arguments}]
    return {"id": f"msg_{use}", "model": "claude-x", "content": content}


def found(instance: Instance, *words: str) -> list[tuple[str, str]]:
    return [(f["session_id"], f["type"]) for f in instance.json("search", *words)]


def archive_of(instance: AnyInstance, session_id: str) -> Archived:
    return Archived(instance.state / "archives" / session_id)


def killed(instance: AnyInstance, session_id: str) -> Archived:
    """End the session, and return its archive."""
    instance.sm("kill", session_id)
    wait_outbox(instance)
    return archive_of(instance, session_id)


def test_archive_has_transcripts_and_records_and_answers_when_their_sources_are_gone(
    stage: Stage, agent: Agent
) -> None:
    agent.write_message(said("The walrus parser is ready."))
    below = agent.transcript.with_suffix("") / "subagents"
    below.mkdir(parents=True)
    (below / "agent-1.jsonl").write_text('{"type": "user"}\n')
    (below / "agent-2.jsonl").symlink_to("/etc/passwd")
    stage.sm("send", agent.id, "please look at the ostrich", "--no-wait")
    until(lambda: "walrus" in stage.sm("tail", agent.id), "the transcript is known")
    archive = killed(stage, agent.id)
    names = set(archive.files())
    main = agent.transcript.name
    assert names == {
        *(
            "session.json",
            "usage.json",
            "events.jsonl",
            "checkpoints.jsonl",
            "messages.jsonl",
            "requests.jsonl",
        ),
        *("terminal.txt", f"transcripts/{main}", f"transcripts/{main[:-6]}/subagents/agent-1.jsonl"),
    }
    assert [path.name for path in archive.path.parent.iterdir()] == [f"{agent.id}.tar"]
    assert stat.S_IMODE(archive.path.stat().st_mode) == 0o600
    assert "ostrich" in (archive / "messages.jsonl").read_text()
    assert "token_hash" not in (archive / "session.json").read_text()
    shutil.rmtree(agent.transcript.parent)
    assert "walrus" in stage.sm("tail", agent.id)
    assert "walrus" in stage.sm("what", agent.id)
    stage.close_terminal(stage.session(agent.id)["tmux_session"])
    stage.sm("output", agent.id)


def test_failed_restore_writes_nothing_and_the_archive_gives_the_transcript_back(
    stage: Stage, agent: Agent
) -> None:
    agent.write_message(said("The walrus parser is ready."), uuid="u1", parentUuid=None)
    until(lambda: "walrus" in stage.sm("tail", agent.id), "the transcript is known")
    archive = killed(stage, agent.id)
    text, before = agent.transcript.read_text(), stage.session(agent.id)
    agent.transcript.unlink()
    aside = archive.path.rename(archive.path.with_name("aside"))
    assert "is gone, and no archive has it" in stage.refused("restore", agent.id, exit_code=4)
    assert (stage.session(agent.id), archive.exists(), agent.transcript.exists()) == (before, False, False)
    assert "is gone, and no archive has it" in stage.refused("fork", agent.id, exit_code=4)
    aside.rename(archive.path)
    # The agent of this test accepts no conversation, so the command need not succeed.
    stage.run("restore", agent.id, "--json")
    assert agent.transcript.read_text() == text
    assert "walrus" in (archive / f"transcripts/{agent.transcript.name}").read_text()


def test_archive_has_two_conversations_with_the_same_file_name(stage: Stage, agent: Agent) -> None:
    agent.write_message(said("The first walrus."))
    until(lambda: "walrus" in stage.sm("tail", agent.id), "the first transcript is known")
    first = agent.transcript
    agent.transcript = first.parent.parent / "other" / first.name
    agent.send_event("SessionStart", source="resume")
    agent.send_event("UserPromptSubmit", prompt="more", prompt_id=os.urandom(4).hex())
    agent.write_message(said("The second ostrich."))
    until(lambda: "ostrich" in stage.sm("tail", agent.id), "the second transcript is known")
    archive = killed(stage, agent.id)
    texts = archive.texts("transcripts/", ".jsonl")
    assert texts == {f"{p.parent.name}/{p.name}": p.read_text() for p in (first, agent.transcript)}
    for path in (first, agent.transcript):
        shutil.rmtree(path.parent)
    shown = stage.sm("tail", agent.id)
    assert (shown.count("walrus"), shown.count("ostrich")) == (1, 1)


def test_search_finds_texts_and_tools_of_a_live_agent_once_and_none_after_its_removal(
    stage: Stage, agent: Agent
) -> None:
    agent.write_message(said("The pangolin index is built."))
    agent.write_message(tool("Bash", "toolu_9", command="make pangolin"))
    agent.write_turn_end()
    until(lambda: len(found(stage, "Pangolin")) == 2, "the transcript is read")
    assert sorted(found(stage, "Pangolin")) == [(agent.id, "text"), (agent.id, "tool")]
    text = agent.transcript.read_text()
    agent.transcript.unlink()
    agent.transcript.write_text(text)  # another file, which is read from its beginning
    agent.write_message(said("A second numbat."))
    until(lambda: found(stage, "numbat", "--type", "text"), "the new file is read")
    assert len(found(stage, "pangolin")) == 2
    assert found(stage, "pangolin", "--type", "tool") == [(agent.id, "tool")]
    assert found(stage, "pangolin", "--since", "1h") != []
    shown = stage.sm("search", "pangolin")
    assert "The pangolin index is built." in shown
    killed(stage, agent.id)
    stage.sm("rm", agent.id)
    assert found(stage, "pangolin") == []


def test_search_finds_the_terminal_of_an_ended_session(instance: Instance) -> None:
    session = instance.spawn("Sh", "printf 'quokka \\033[31mred\\033[0m\\n'; exec sleep 1000")["session_id"]
    until(lambda: "quokka" in instance.sm("output", session), "its output is shown")
    assert "terminal" not in {type for _, type in found(instance, "quokka")}
    killed(instance, session)
    assert (session, "terminal") in found(instance, "quokka", "red")
    assert "\x1b" not in instance.sm("search", "quokka")


def outputs(archive: Archived) -> dict[str, str]:
    return {name: text.strip() for name, text in archive.texts("", ".txt").items()}


def test_output_before_a_restore_stays_findable(instance: Instance) -> None:
    text = instance.work / "text"
    text.write_text("the potoroo number 1\n")
    session = instance.spawn("Sh", "cat text; exec sleep 1000")["session_id"]
    for number in (1, 2):
        until(lambda n=number: f"number {n}" in instance.sm("output", session), "its output is shown")  # type: ignore[misc]
        archive = killed(instance, session)
        if number == 1:
            instance.stamp(archive / "terminal.txt")
            text.write_text("the potoroo number 2\n")
            instance.sm("restore", session)
    assert outputs(archive) == {
        "terminal.txt": "the potoroo number 2",
        "terminal-1.txt": "the potoroo number 1",
    }
    assert found(instance, "potoroo", "--type", "terminal") == [(session, "terminal")] * 2


@pytest.mark.parametrize("words", ['"', "NEAR(", "*", ":", "a AND", "-x", "text:q"])
def test_hostile_words_are_no_internal_error(instance: Instance, words: str) -> None:
    run = instance.run("search", "--", words)
    assert run.returncode in (0, 2), run.stderr


def test_session_finds_only_what_it_may_read(instance: Instance) -> None:
    lead = instance.spawn("Sleeper", "the numbat lead")["session_id"]
    child = instance.spawn("Sleeper", "the numbat child", "--parent", lead)["session_id"]
    mate = instance.spawn("Sleeper", "the numbat mate")["session_id"]
    for caller, expected in (
        (lead, {lead, child}),
        (child, {child}),
        (mate, {mate}),
        (None, {lead, child, mate}),
    ):
        (answer,) = instance.request_as(caller, ("GET", "/v1/search?words=numbat"))
        assert answer[0] == "ok", answer
        assert {f["session_id"] for f in answer[1]} == expected


def test_session_may_not_export_an_archive(instance: Instance) -> None:
    lead = instance.spawn("Sleeper")["session_id"]
    child = instance.spawn("Sleeper", "wait", "--parent", lead)["session_id"]
    killed(instance, child)
    for caller in (lead, child):
        (answer,) = instance.request_as(caller, ("GET", f"/v1/sessions/{child}/export"))
        assert answer[0] == "not_permitted", answer


def test_export_writes_a_private_file_and_replaces_none(instance: Instance, tmp_path: Path) -> None:
    session = instance.spawn("Sh", "echo the bilby; exec sleep 1000")["session_id"]
    until(lambda: "bilby" in instance.sm("output", session), "its output is shown")
    file = tmp_path / "x.tar.gz"
    instance.refused("export", session, str(file), exit_code=4)
    assert list(tmp_path.iterdir()) == []
    killed(instance, session)
    instance.sm("export", session, str(file))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with tarfile.open(file) as tar:
        member = tar.extractfile(f"{session}/terminal.txt")
        assert member is not None and member.read() == b"the bilby\n"
    instance.refused("export", session, str(file), exit_code=2)
    file.write_text("old")
    instance.sm("export", session, str(file), "--force")
    assert file.read_bytes()[:2] == b"\x1f\x8b"
    assert [p.name for p in tmp_path.iterdir()] == ["x.tar.gz"]


@pytest.mark.parametrize("defect", ["link", "file"])
def test_completion_counts_when_the_archive_directory_is_unusable(tmp_path: Path, defect: str) -> None:
    directory, elsewhere = tmp_path / "archives", tmp_path / "elsewhere"
    elsewhere.mkdir()
    if defect == "link":
        directory.symlink_to(elsewhere)
    else:
        directory.write_text("in the way")
    with Instance(f'child_agents: {{cleanup: {{archive_path: "{directory}"}}}}') as instance:
        session = instance.spawn("Sh", "true")["session_id"]
        assert instance.ended(session)["status"] == "completed"
        wait_outbox(instance)
        warnings = [e["message"] for e in instance.events(session) if e["type"] == "warning"]
        assert len(warnings) == 1 and "archive could not be saved" in warnings[0]
        trouble = instance.json("status")["trouble"]
        assert len(trouble) == 1 and "archive could not be saved" in trouble[0]
        assert list(elsewhere.iterdir()) == []
        instance.restart_daemon()
        assert instance.json("status")["trouble"] == trouble
        directory.unlink()
        instance.ended(instance.spawn("Sh", "true")["session_id"])
        wait_outbox(instance)
        for _ in range(2):
            assert instance.json("status")["trouble"] == []
            instance.restart_daemon()


def test_archive_is_complete_when_the_daemon_died_while_it_was_written(instance: Instance) -> None:
    session = instance.spawn("Sh", "echo the dunnart; exec sleep 1000")
    session_id = session["session_id"]
    until(lambda: "dunnart" in instance.sm("output", session_id), "its output is shown")
    instance.kill_daemon()
    os.kill(session["pid"], signal.SIGKILL)
    # What a daemon leaves that was killed before its rename, and one of an earlier version between its two renames.
    archive = archive_of(instance, session_id)
    archives = archive.path.parent
    archives.mkdir(mode=0o700, exist_ok=True)
    (archives / f"{session_id}.tar.new").write_text("half")
    for end in ("new", "old"):
        (archives / f"{session_id}.{end}").mkdir()
        (archives / f"{session_id}.{end}" / "terminal.txt").write_text("half")
    instance.ended(session_id)
    wait_outbox(instance)
    assert (archive / "terminal.txt").read_text() == "the dunnart\n"
    assert [p.name for p in archives.iterdir() if p.name.startswith(session_id)] == [archive.path.name]


@pytest.mark.parametrize(
    "point",
    [
        "Archives.keep before 1",
        "ArchiveRecords.collect after 1",
        "ArchiveRecords.add_terminal before 1",
        "ArchiveRecords.add_terminal after 1",
        "Archives.keep after 1",
    ],
)
def test_archive_is_written_once_when_the_daemon_is_killed_at_any_step(point: str) -> None:
    with Instance() as instance:
        gate = instance.work / "gate"
        command = f"echo the dunnart; while [ ! -e {gate} ]; do sleep 0.05; done; exit 3"
        session = instance.spawn("Sh", command)["session_id"]
        until(lambda: "dunnart" in instance.sm("output", session), "its output is shown")
        instance.kill_daemon()
        daemon = instance.start_crashing_daemon(point)
        gate.touch()
        daemon.wait()
        instance.start_daemon()
        assert instance.ended(session)["exit_code"] == 3
        wait_outbox(instance)
        archive = archive_of(instance, session)
        assert [*archive.path.parent.iterdir()] == [archive.path]
        assert "dunnart" in (archive / "terminal.txt").read_text()
        assert found(instance, "dunnart", "--type", "terminal") == [(session, "terminal")]
        assert [e["type"] for e in instance.events(session)].count("error") == 1


def test_completed_session_is_archived_while_its_process_lives_and_again_when_that_ends(
    instance: Instance, tmp_path: Path
) -> None:
    command = "echo the bettong; sm complete 'all done' > o.txt 2>&1; read -r line; exec sleep 1000"
    session = instance.spawn("Sh", command)["session_id"]
    until(lambda: instance.session(session)["status"] == "completed", "it has reported")
    wait_outbox(instance)
    archive = archive_of(instance, session)
    assert orjson.loads((archive / "session.json").read_text())["completion_message"] == "all done"
    assert (archive / "terminal.txt").read_text() == "the bettong\n"
    assert (session, "terminal") in found(instance, "bettong")
    instance.sm("export", session, str(tmp_path / "a.tar.gz"))
    assert instance.session(session)["pid"] is not None
    instance.type_line(instance.session(session), "and more")
    until(lambda: "and more" in instance.sm("output", session), "more is shown")
    assert "and more" in (killed(instance, session) / "terminal.txt").read_text()


def test_abandoned_session_is_archived_while_its_process_lives() -> None:
    with Instance("child_agents: {on_parent_end: abandon}") as instance:
        parent = instance.spawn("Sleeper")["session_id"]
        child = instance.spawn("Sh", "trap '' INT; echo the bilby; exec sleep 1000", "--parent", parent)
        until(lambda: "bilby" in instance.sm("output", child["session_id"]), "its output is shown")
        instance.sm("kill", parent)
        instance.in_status(child["session_id"], "abandoned")
        wait_outbox(instance)
        saved = (archive_of(instance, child["session_id"]) / "terminal.txt").read_text()
        assert saved.startswith("the bilby\n")  # and the Ctrl-C of sm


def test_process_of_a_completed_session_ends_after_the_configured_time_and_only_then() -> None:
    with Instance("child_agents: {cleanup: {reap_completed_after: 1}}") as instance:
        session = instance.spawn("Sh", "sm complete 'all done' > o.txt 2>&1; exec sleep 1000")
        until(lambda: not instance.lives(session["pid"]), "its process has ended")
        after = instance.session(session["session_id"])
        assert (after["status"], after["completion_message"]) == ("completed", "all done")
        assert rows(instance, "SELECT count(*) FROM timers WHERE kind = 'reap'") == [(0,)]


def test_old_archives_are_deleted_with_an_event_and_those_of_live_sessions_stay() -> None:
    with Instance("archives: {keep_days: 1}") as instance:
        ended = instance.spawn("Sh", "true")["session_id"]
        instance.ended(ended)
        live = instance.spawn("Sleeper")["session_id"]
        wait_outbox(instance)
        archive_of(instance, live).path.touch()
        for session in (ended, live):
            os.utime(archive_of(instance, session).path, (1_000_000_000, 1_000_000_000))
        instance.restart_daemon()
        until(lambda: not archive_of(instance, ended).exists(), "the old archive is deleted")
        warnings = [e["message"] for e in instance.events(ended) if e["type"] == "warning"]
        assert len(warnings) == 1 and "archive was deleted" in warnings[0]
        assert archive_of(instance, live).exists()
