"""Everything that the real Claude Code executes or applies from a repository, as listed in docs/security.md."""

import json
import subprocess
from pathlib import Path

import pytest

from sm.providers.claude.project import project_effects
from tests.claude_fixtures import claude_instance, scripted_api
from tests.claude_instance import ClaudeInstance
from tests.instance import until
from tests.scripted_api import ScriptedApi

UNASKED = {"hook", "statusLine", "apiKeyHelper"}
"""Programs that run at the start in a trusted directory."""
FORMERLY_UNASKED = {"fsmonitor"}
"""A program that claude 2.1.197 runs too. git in a shell of an agent runs it with each version."""

api = scripted_api("module")
claude = claude_instance("function")
untrusting = claude_instance("function", trusted=False)


class Repository:
    """A repository whose programs write their names into a log."""

    def __init__(self, home: Path, log: Path) -> None:
        self.log = log / "ran"
        self.directory = home / "repo"
        (self.directory / ".claude").mkdir(parents=True)
        subprocess.run(["git", "init", "-q", str(self.directory)], check=True)
        fsmonitor = [
            "git",
            "-C",
            str(self.directory),
            "config",
            "core.fsmonitor",
            f"{self._program('fsmonitor')}; false",
        ]
        subprocess.run(fsmonitor, check=True)
        server = self.directory / "server.sh"
        server.write_text(f"#!/bin/sh\n{self._program('server')}\ncat\n")
        server.chmod(0o755)
        self._write(".mcp.json", {"mcpServers": {"probe": {"command": str(server)}}})
        hook = {"type": "command", "command": self._program("hook")}
        settings = {
            "hooks": {"SessionStart": [{"hooks": [hook]}]},
            "statusLine": {"type": "command", "command": self._program("statusLine")},
            "apiKeyHelper": f"{self._program('apiKeyHelper')}; echo key",
            "permissions": {"allow": ["Bash(touch *)"]},
        }
        self._write(".claude/settings.json", settings)
        task = {"id": "1", "cron": "* * * * *", "prompt": "OBEY THE TASK", "recurring": True, "createdAt": 1}
        self._write(".claude/scheduled_tasks.json", {"tasks": [task]})
        for path in ("CLAUDE.md", "CLAUDE.local.md", ".claude/CLAUDE.md", ".claude/rules/r.md"):
            self._text(path, f"OBEY {path}")
        self._text(".claude/skills/s/SKILL.md", "---\nname: s\ndescription: OBEY A SKILL\n---\n")
        self._text(".claude/agents/a.md", "---\nname: a\ndescription: OBEY AN AGENT\n---\n")

    def _program(self, name: str) -> str:
        return f"echo {name} >> {self.log}"

    def _write(self, path: str, content: object) -> None:
        self._text(path, json.dumps(content))

    def _text(self, path: str, text: str) -> None:
        file = self.directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def ran(self) -> set[str]:
        return set(self.log.read_text().split()) if self.log.exists() else set()


def prompted(api: ScriptedApi, prompt: str) -> bool:
    return any(prompt in text for turn in api.turns() for text in turn.user_texts)


def test_claude_executes_files_of_a_trusted_repository_without_a_question(
    claude: ClaudeInstance, api: ScriptedApi
) -> None:
    repository = Repository(claude.home, claude.shared)
    shown = " ".join(project_effects(str(repository.directory)))  # claude removes a task that it has run
    claude.sm(
        "trust", str(repository.directory)
    )  # trust in a parent does not reach a repository in later claudes
    claude.workspace("shop", repository.directory)
    session_id = claude.spawn("Plain", "Look at it.", "--workspace", "shop")["session_id"]
    (request, *_) = api.wait_for(lambda: api.turns("Look at it."), "the turn")
    said = json.dumps(request.body)
    for words in (
        "CLAUDE.md", "CLAUDE.local.md", ".claude/CLAUDE.md", ".claude/rules/r.md", "A SKILL", "AN AGENT",
    ):  # fmt: skip
        assert f"OBEY {words}" in said
    # A later claude says in the same turn that the task, which is old, has run for the last time.
    api.wait_for(lambda: prompted(api, "OBEY THE TASK"), "the scheduled task")
    until(lambda: repository.ran() >= UNASKED, "the programs run")
    claude.idle(session_id)
    # sm turned off claude's question about this server, so the server must not run.
    assert repository.ran() - FORMERLY_UNASKED == UNASKED
    for name in (*UNASKED, *FORMERLY_UNASKED, "server.sh", "OBEY THE TASK", "Bash(touch *)"):
        assert name in shown


@pytest.mark.parametrize("workspace", [False, True])
def test_claude_executes_nothing_before_its_directory_is_trusted(
    untrusting: ClaudeInstance, *, workspace: bool
) -> None:
    repository = Repository(untrusting.home, untrusting.shared)
    if workspace:
        untrusting.sm("workspace", "create", "shop", "--working-dir", str(repository.directory))
        untrusting.sm("workspace", "agree", "shop", "--yes")
    where = ("--working-dir", str(repository.directory))
    session_id = untrusting.spawn("Plain", "Hello", "--skip-checks", *where)["session_id"]
    untrusting.says(session_id, "waiting_input", "asks whether the directory is trusted")
    assert repository.ran() == set()
