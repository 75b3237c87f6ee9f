"""A user with an empty home who has installed `sm` and claude, and reads a page of the documentation.

claude is the real one, with a scripted model that answers the prompts of the pages.
"""

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from sm.providers.checks import CheckRecord, CheckRecords, locate
from sm.providers.checks import identify as identify_program
from sm.providers.claude.check.scripted_api.conversation import newest_prompt
from tests import claude_cli
from tests.claude_instance import ClaudeInstance
from tests.instance import until
from tests.pages import Reader
from tests.private_tmux import private_server
from tests.scripted_api import Request, ScriptedApi
from tests.typist import Typist

Before = Mapping[str, Callable[[], object]]


def answers(scripts: Mapping[str, str]) -> Callable[[Request], str | None]:
    """A model for `scripts`: a text of a prompt, and its responses, separated by `[[then]]`."""

    def model(request: Request) -> str | None:
        prompt, step = newest_prompt(request.body)
        for text, script in scripts.items():
            if text in prompt:
                responses = script.split("[[then]]")
                return responses[min(step, len(responses) - 1)]
        return None

    return model


def _added(before: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """The settings with those of another text, section by section."""
    added = dict(before)
    for key, value in more.items():
        known = before.get(key)
        added[key] = _added(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return added


class ClaudeReader(ClaudeInstance):
    """The user's configuration, state and tmux server are at their default places below `home`.

    The user has logged in, and has started claude once, but in no directory of `~/projects`.
    """

    def __init__(self, api: ScriptedApi, **options: Any) -> None:
        super().__init__(api, **options)
        self.config.unlink()
        del self.env["SM_HOME"]
        self.env["PATH"] = f"{self.env['PATH']}:{claude_cli.directory_on_path(self.home)}"
        self.env["TZ"] = "UTC"
        self.config = self.home / ".config" / "sm" / "config.yaml"
        self.state = self.home / ".local" / "state" / "sm"
        self.socket = self.state / "run" / "sm.sock"
        self.tmux_server = private_server("default", self.tmux_dir, self.env)
        # The default takes keys within one millisecond for pasted text: a person types Ctrl-b d more slowly.
        (self.home / ".tmux.conf").write_text("set -g assume-paste-time 0\n")
        self.configure("")
        self._keep_check()
        self.work = self.home

    def _keep_check(self) -> None:
        """Keep an outcome of `sm check claude`, so that the daemon does not check this claude in the background."""
        program = identify_program(locate(claude_cli.binary(), None))
        CheckRecords(str(self.state / "checks")).save(
            "claude", CheckRecord(program, "2026-11-29T00:00:00+00:00", 0, ())
        )

    def configure(self, text: str) -> None:
        """Add `text` to config.yaml, with the variables that this machine needs.

        The daemon applies it at once, so what the page has set before stays.
        """
        before = self.config.read_text() if self.config.exists() else ""
        settings = _added(yaml.safe_load(before) or {}, yaml.safe_load(text) or {})
        environment = {
            name: value
            for name, value in claude_cli.environment(self.home, self.api).items()
            if name.startswith(("DISABLE_", "CLAUDE_CODE_"))
        }
        if os.geteuid() == 0:
            environment["IS_SANDBOX"] = "1"  # claude refuses root in mode bypassPermissions without it
        claude = settings.setdefault("claude", {})
        claude["env"] = {**environment, **claude.get("env", {})}
        self.config.parent.mkdir(parents=True, exist_ok=True)
        self.config.write_text(yaml.safe_dump(settings))

    def repository(self, name: str, files: Mapping[str, str]) -> Path:
        """A git repository in `~/projects` with one commit."""
        path = self.home / "projects" / name
        for file, text in files.items():
            (path / file).parent.mkdir(parents=True, exist_ok=True)
            (path / file).write_text(text)
        author = {"user.name": "Ann", "user.email": "ann@example.org", "init.defaultBranch": "main"}
        config = [word for key, value in author.items() for word in ("-c", f"{key}={value}")]
        (self.home / ".gitconfig").write_text("[user]\nname = Ann\nemail = ann@example.org\n")
        for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "Start"]):
            subprocess.run(["git", *config, *command], cwd=path, env=self.env, check=True)
        return path

    def named(self, name: str) -> dict[str, Any]:
        """The session with this name, as in the list of `sm ls --all`."""
        (found,) = [s for s in self.json("all") if s["friendly_name"] == name or s["session_id"] == name]
        session: dict[str, Any] = found
        return session

    def has_request(self, name: str) -> Callable[[], object]:
        """Wait until the request `name` (such as r1) is open."""
        return lambda: until(
            lambda: any(r["request_id"] == name for r in self.get("/v1/requests")), f"request {name} is open"
        )

    def is_idle(self, name: str) -> Callable[[], object]:
        """Wait until the session with this name has ended its turn, after which its words may have completed it."""
        return lambda: until(
            lambda: self.named(name)["status"] in ("idle", "completed"), "the turn has ended"
        )

    def read(
        self, page: str, before: Before | None = None, examples: Mapping[str, str] | None = None
    ) -> None:
        """Type all commands of the page from the home directory. `examples`: real values for those of the page."""
        terminal = Typist(self.env, self.home)
        try:
            real = {"/home/ann": str(self.home), **(examples or {})}
            Reader(terminal, before or {}, self.configure, real).read(Path(page))
        finally:
            terminal.end()
