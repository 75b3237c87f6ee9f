"""The trust of a person in a directory, which its copies get too."""

import json
from concurrent.futures import ThreadPoolExecutor
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


def trusting_home(tmp_path: Path, *directories: Path) -> dict[str, str]:
    projects = {str(directory): {"hasTrustDialogAccepted": True} for directory in directories}
    (tmp_path / ".claude.json").write_text(json.dumps({"projects": projects}))
    return {"HOME": str(tmp_path), "PATH": "/usr/bin"}


def trusted(tmp_path: Path) -> set[str]:
    return set(json.loads((tmp_path / ".claude.json").read_text())["projects"])


def test_variable_that_suppresses_the_question_makes_no_entry(tmp_path: Path) -> None:
    environment = trusting_home(tmp_path) | {"CLAUDE_CODE_SANDBOXED": "1"}
    setup = ClaudeSetup(ClaudeSection(), [], [])
    setup.carry_trust(environment, ["claude"], str(tmp_path / "texts"), str(tmp_path / "copy"))
    assert trusted(tmp_path) == set()


def test_copies_that_are_made_at_once_are_all_trusted(tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    environment = trusting_home(tmp_path, texts)
    setup = ClaudeSetup(ClaudeSection(), [], [])
    copies = [str(tmp_path / f"copy-{number}") for number in range(20)]
    with ThreadPoolExecutor(20) as threads:
        list(threads.map(lambda copy: setup.carry_trust(environment, ["claude"], str(texts), copy), copies))
    assert trusted(tmp_path) == {str(texts), *copies}
