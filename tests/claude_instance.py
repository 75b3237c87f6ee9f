"""An instance of sm whose agents are the real Claude Code, talking to the scripted API."""

import re
from pathlib import Path
from typing import Any

from sm.client.http import Client
from tests import claude_cli
from tests.instance import Instance, until
from tests.scripted_api import Request, ScriptedApi

_POINTER = "\n\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"
_BOX = f"\N{BOX DRAWINGS LIGHT HORIZONTAL}{_POINTER}"
CONFIG = """
default_trust: direct
tmux: {{socket_name: {socket}, width: 120, height: 40}}
commands:
  Sh: {{command: [sh, -c]}}
claude:
  default_command: {claude}
  env:
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1"
    CLAUDE_CODE_TMPDIR: {tmp}
    DISABLE_AUTOUPDATER: "1"
    DISABLE_TELEMETRY: "1"
{claude_more}
  agent_configs:
    Plain: {{args: []}}
    Planner: {{args: ["--permission-mode", "plan"]}}
    Editor: {{args: ["--permission-mode", "acceptEdits", "--allowedTools", "Bash(sleep *),Bash(echo *),Bash(sm *)"]}}
    Bypass: {{args: ["--permission-mode", "bypassPermissions"]}}
{more}
"""


def whose(asked: Request) -> str:
    """The session that asks, by its briefing; empty where it has none, as sub-agents."""
    found = re.search(r"\(session ([0-9a-f]{8})\), an agent of type ", asked.system)
    return found[1] if found else ""


def _first_line(shown: str, behind: str) -> str:
    return shown.rpartition(behind)[2].partition("\n")[0].strip()


class ClaudeInstance(Instance):
    """`home` is the home of a user who has answered claude's first questions (but for what `seed` leaves out)."""

    def __init__(self, api: ScriptedApi, *, more: str = "", claude_more: str = "", **seed: bool) -> None:
        binary = claude_cli.binary()
        super().__init__()
        tmp = self.home / ".claude" / "tmp"
        self.config.write_text(
            CONFIG.format(socket="test", claude=binary, tmp=tmp, more=more, claude_more=claude_more)
        )
        self.api = api
        claude_cli.seed(self.home, **seed)
        self.env |= {
            name: value
            for name, value in claude_cli.environment(self.home, api).items()
            if name in ("CLAUDE_CONFIG_DIR", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL")
        }

    def why(self, session_id: str) -> dict[str, Any]:
        found: dict[str, Any] = Client(str(self.socket)).get(f"/v1/sessions/{session_id}/why")
        return found

    def progress(self, session_id: str) -> dict[str, Any]:
        found: dict[str, Any] = Client(str(self.socket)).get(f"/v1/sessions/{session_id}/progress")
        return found

    def says(self, session_id: str, status: str, words: str) -> dict[str, Any]:
        """The session once it is in this status for a reason with these words."""

        def look() -> dict[str, Any] | None:
            found = self.session(session_id)
            return found if found["status"] == status and words in found["status_reason"] else None

        try:
            return until(look, f"{status}: {words}", 60)
        except AssertionError as error:
            shown = self.tmux("capture-pane", "-p", "-t", f"=claude-{session_id}:", check=False)
            raise AssertionError(f"{error}\n{self.why(session_id)}\n{shown}") from None

    def idle(self, session_id: str) -> dict[str, Any]:
        return self.says(session_id, "idle", "")

    def keys(self, session_id: str, *keys: str) -> None:
        """Press keys as a person at the terminal."""
        self.tmux("send-keys", "-t", f"=claude-{session_id}:", *keys)

    def prompt(self, session_id: str, text: str) -> None:
        """Type a prompt as a person: pasted, and Enter once it stands in the input box, until it has been taken."""
        before = self._typed(session_id)
        self.tmux("set-buffer", "-b", "person", "--", text)
        self.tmux("paste-buffer", "-p", "-r", "-d", "-b", "person", "-t", f"=claude-{session_id}:")

        def stands() -> str | None:
            now = self._typed(session_id)
            return now if now != before else None

        typed = until(stands, "the prompt stands in the input box", 60)

        def taken() -> bool:
            gone = self.tmux("display-message", "-p", "-t", f"=claude-{session_id}:", "#{pane_dead}").strip()
            shown = self.tmux("capture-pane", "-p", "-t", f"=claude-{session_id}:")
            if gone == "1" or _BOX in shown:
                return gone == "1" or _first_line(shown, _BOX) != typed
            # A dialog has taken its place, or it is being drawn: then the text is still the last behind a pointer. That
            # is so below the dialog of a command too, and a second Enter would answer that.
            return text.startswith("/") or _first_line(shown, _POINTER) != typed

        for _ in range(5):
            self.keys(session_id, "Enter")
            try:
                until(taken, "the prompt is taken", 2)
            except AssertionError:
                continue  # claude loses an Enter that comes right after a paste; the text still stands there
            return
        raise AssertionError(f"the prompt was not taken: {text}")

    def _typed(self, session_id: str) -> str:
        """The first line of the input box, or what an empty one shows: behind a pointer right below a rule.

        A command that opens a dialog stands above it behind a pointer too, and a second Enter would answer the dialog.
        """
        shown = self.tmux("capture-pane", "-p", "-t", f"=claude-{session_id}:")
        return _first_line(shown, _BOX) if _BOX in shown else "no input box"

    def transcript(self, session_id: str) -> Path:
        (path,) = (self.home / ".claude" / "projects").glob(f"*/{session_id}*.jsonl")
        return path
