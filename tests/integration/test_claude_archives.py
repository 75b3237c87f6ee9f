"""The archive of the real Claude Code: its words are found and read when its process and its files are gone."""

import json
import tarfile
from pathlib import Path

from tests.archived import Archived
from tests.claude_fixtures import claude_instance, scripted_api
from tests.claude_instance import ClaudeInstance
from tests.instance import until
from tests.integration.ended_agents import wait_outbox
from tests.integration.test_claude_restarts import conversation
from tests.scripted_api import ScriptedApi, tool
from tests.waits import PATIENT

api = scripted_api("module")
claudes = claude_instance("module")


def test_words_of_an_ended_agent_are_found_exported_and_read_without_its_files(
    claudes: ClaudeInstance, api: ScriptedApi, tmp_path: Path
) -> None:
    session_id = claudes.spawn("Editor", "--wait", PATIENT)["session_id"]
    claudes.idle(session_id)
    claudes.prompt(
        session_id,
        f"archive-1 {tool('Bash', command='echo capybara')}[[then]][[text:The axolotl importer is finished.]]",
    )
    # The agent may write the end of its transcript after the hook that ends its turn.
    until(lambda: claudes.get("/v1/search", words="axolotl", type="text"), "its words are indexed")
    claudes.idle(session_id)
    (words,) = claudes.get("/v1/search", words="axolotl", type="text")
    assert (words["session_id"], "importer" in words["excerpt"]) == (session_id, True)
    used = claudes.json("search", "capybara", "--type", "tool")
    assert [found["session_id"] for found in used] == [session_id]
    transcript = claudes.transcript(conversation(claudes, session_id))
    tokens = claudes.progress(session_id)["tokens"]
    claudes.sm("kill", session_id)
    wait_outbox(claudes)
    archive = Archived(claudes.state / "archives" / session_id)
    kept = archive / f"transcripts/{transcript.name}"
    assert kept.read_bytes() == transcript.read_bytes()
    transcript.unlink()
    assert "axolotl" in claudes.sm("tail", session_id)
    assert claudes.progress(session_id)["tokens"] == tokens
    assert [found["session_id"] for found in claudes.get("/v1/search", words="axolotl", type="text")] == [
        session_id
    ]
    target = tmp_path / "agent.tar.gz"
    claudes.sm("export", session_id, str(target))
    with tarfile.open(target) as exported:
        names = exported.getnames()
        assert f"{session_id}/transcripts/{transcript.name}" in names
        assert f"{session_id}/terminal.txt" in names


def finished(claudes: ClaudeInstance, session_id: str, tokens: int) -> Path:
    """Wait until the transcript has the end of the turn, and return the transcript."""

    def counted() -> bool:
        used = claudes.progress(session_id)["tokens"]
        return used is not None and used["output"] == tokens

    until(counted, "its transcript")
    claudes.idle(session_id)
    return claudes.transcript(conversation(claudes, session_id))


def ended(claudes: ClaudeInstance, session_id: str) -> Archived:
    """Kill the session, and return its archive."""
    claudes.sm("kill", session_id)
    wait_outbox(claudes)
    return Archived(claudes.state / "archives" / session_id)


def has_prompt(transcript: str, words: str) -> bool:
    """True if a prompt has the words. claude 2.1.332 also keeps parts of its requests in the file."""
    lines = [json.loads(line) for line in transcript.splitlines()]
    return any(words in json.dumps(line["message"]) for line in lines if line["type"] == "user")


def knows(claudes: ClaudeInstance, api: ScriptedApi, session_id: str, prompt: str, *words: str) -> list[bool]:
    """Send a prompt, and return whether the model gets these words of the conversation before it."""
    claudes.idle(session_id)
    claudes.prompt(session_id, prompt)
    request = api.wait_for(lambda: next(iter(api.turns(prompt)), None), prompt)
    text = json.dumps(request.body["messages"])
    return [word in text for word in words]


def test_restore_and_fork_give_claude_the_transcript_back_that_it_has_deleted(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    session_id = claudes.spawn("Plain", "numbat-1 [[text:first]]")["session_id"]
    transcript = finished(claudes, session_id, 5)
    archive = ended(claudes, session_id)
    kept = (archive / f"transcripts/{transcript.name}").read_bytes()
    transcript.unlink()
    fork_id = claudes.json("fork", session_id)["session_id"]
    assert knows(claudes, api, fork_id, "numbat-fork", "numbat-1") == [True]
    ended(claudes, fork_id)
    transcript.unlink()
    assert claudes.sm("restore", session_id).strip().startswith("Restored plain-")
    assert knows(claudes, api, session_id, "numbat-2", "numbat-1") == [True]
    assert transcript.read_bytes().startswith(kept)


def test_transcript_of_a_live_agent_that_was_deleted_does_not_cost_the_archive(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    session_id = claudes.spawn("Plain", "bilby-1 [[text:first]]")["session_id"]
    transcript = finished(claudes, session_id, 5)
    ended(claudes, session_id)
    claudes.sm("restore", session_id)
    claudes.idle(session_id)
    transcript.unlink()
    assert knows(claudes, api, session_id, "bilby-2", "bilby-1") == [True]  # from its memory
    finished(claudes, session_id, 10)
    archive = ended(claudes, session_id)
    assert not has_prompt(transcript.read_text(), "bilby-1")
    copies = archive.texts(end=transcript.name).values()
    assert sorted(has_prompt(copy, "bilby-1") for copy in copies) == [False, True]
    shown = claudes.sm("restore", session_id)
    assert "is lost" not in shown
    assert knows(claudes, api, session_id, "bilby-3", "bilby-1", "bilby-2") == [True, True]


def test_restore_and_fork_say_what_is_lost_when_no_archive_has_it(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    session_id = claudes.spawn("Plain", "quoll-1 [[text:first]]")["session_id"]
    transcript = finished(claudes, session_id, 5)
    # The last line of a turn: a later one would make the file again.
    until(lambda: '"turn_duration"' in transcript.read_text(), "claude writes no more")
    transcript.unlink()
    problem = claudes.refused("fork", session_id, exit_code=4)
    assert "cannot be copied: the transcript" in problem and "is gone, and no archive has it" in problem
    assert len(claudes.json("ls", "-a")) == len({s["session_id"] for s in claudes.json("ls", "-a")})
    claudes.prompt(session_id, "quoll-2")
    finished(claudes, session_id, 10)
    archive = ended(claudes, session_id)
    shown = claudes.sm("restore", session_id)
    assert "; the conversation before 20" in shown and "is lost" in shown
    told = [
        e["message"]
        for e in claudes.events(session_id)
        if e["type"] == "warning" and "is lost" in e["message"]
    ]
    assert len(told) == 1
    assert knows(claudes, api, session_id, "quoll-3", "quoll-1", "quoll-2") == [False, True]
    ended(claudes, session_id)
    before = claudes.session(session_id)
    transcript.unlink()
    archive.path.unlink()
    problem = claudes.refused("restore", session_id, exit_code=4)
    assert "cannot be resumed: the transcript" in problem and "is gone, and no archive has it" in problem
    assert claudes.session(session_id) == before
    assert not archive.exists()


def test_doctor_shows_how_long_claude_and_sm_keep_conversations(claudes: ClaudeInstance) -> None:
    claudes.sm("daemon", "start")
    settings = claudes.claude_home / "settings.json"
    before = json.loads(settings.read_text()) if settings.exists() else {}
    settings.write_text(json.dumps({**before, "cleanupPeriodDays": 11}))
    try:
        shown = claudes.run("doctor").stdout
    finally:
        settings.write_text(json.dumps(before))
    assert (
        f"claude deletes a transcript 11 days after its last line (cleanupPeriodDays in {settings})" in shown
    )
    until(lambda: claudes.get("/v1/archives")["bytes"] is not None, "the archives were counted")
    assert "MB (at most 2,000 MB), kept 90 days" in claudes.run("doctor").stdout
