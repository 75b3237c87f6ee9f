"""The archive of the real Claude Code: its words are found and read when its process and its files are gone."""

import tarfile
from pathlib import Path

from tests.claude_fixtures import claude_instance, scripted_api
from tests.claude_instance import ClaudeInstance
from tests.instance import until
from tests.integration.ended_agents import wait_outbox
from tests.integration.test_claude_restarts import conversation
from tests.load import option
from tests.scripted_api import ScriptedApi, tool

api = scripted_api("module")
claudes = claude_instance("module")


def test_words_of_an_ended_agent_are_found_exported_and_read_without_its_files(
    claudes: ClaudeInstance, api: ScriptedApi, tmp_path: Path
) -> None:
    session_id = claudes.spawn("Editor", *option("--wait", 60))["session_id"]
    claudes.idle(session_id)
    claudes.prompt(
        session_id,
        f"archive-1 {tool('Bash', command='echo capybara')}[[then]][[text:The axolotl importer is finished.]]",
    )
    # The agent may write the end of its transcript after the hook that ends its turn.
    until(lambda: claudes.json("search", "axolotl", "--type", "text"), "its words are indexed")
    claudes.idle(session_id)
    (words,) = claudes.json("search", "axolotl", "--type", "text")
    assert (words["session_id"], "importer" in words["excerpt"]) == (session_id, True)
    used = claudes.json("search", "capybara", "--type", "tool")
    assert [found["session_id"] for found in used] == [session_id]
    transcript = claudes.transcript(conversation(claudes, session_id))
    tokens = claudes.progress(session_id)["tokens"]
    claudes.sm("kill", session_id)
    wait_outbox(claudes)
    archive = claudes.state / "archives" / session_id
    kept = archive / "transcripts" / transcript.name
    assert kept.read_bytes() == transcript.read_bytes()
    transcript.unlink()
    assert "axolotl" in claudes.sm("tail", session_id)
    assert claudes.progress(session_id)["tokens"] == tokens
    assert [found["session_id"] for found in claudes.json("search", "axolotl", "--type", "text")] == [
        session_id
    ]
    target = tmp_path / "agent.tar.gz"
    claudes.sm("export", session_id, str(target))
    with tarfile.open(target) as exported:
        names = exported.getnames()
        assert f"{session_id}/transcripts/{transcript.name}" in names
        assert f"{session_id}/terminal.txt" in names
