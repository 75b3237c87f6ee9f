"""The trust of a person in a directory, which its copies get too."""

import json
from pathlib import Path

import pytest

from sm.providers.claude.section import ClaudeSection
from sm.providers.claude.setup import ClaudeSetup


@pytest.mark.parametrize(
    ("trusted", "program", "is_carried"),
    [("texts", "claude", True), ("", "claude", False), ("other", "claude", False), ("texts", "npx", False)],
)
def test_copy_is_trusted_if_claude_trusts_the_directory(
    tmp_path: Path, trusted: str, program: str, is_carried: bool
) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    copy = texts / ".sm" / "worktrees" / "short"  # it is made later
    file = tmp_path / ".claude.json"
    projects = {str(tmp_path / trusted): {"hasTrustDialogAccepted": True}} if trusted else {}
    file.write_text(json.dumps({"projects": projects, "theme": "dark"}))
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin"}
    setup = ClaudeSetup(ClaudeSection(), [], [])
    setup.carry_trust(environment, [program], str(texts), str(copy))
    state = json.loads(file.read_text())
    assert state["theme"] == "dark"
    assert (state["projects"].get(str(copy)) == {"hasTrustDialogAccepted": True}) is is_carried
