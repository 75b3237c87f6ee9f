"""Plans a claude process that answers one question without any tools. Pure.

Measured with 2.1.197: one request, no tools, no hooks, no transcript, and no CLAUDE.md in the question. All kinds of
login work (safe mode keeps apiKeyHelper).
"""

from collections.abc import Mapping, Sequence

from sm.config import SummarizerSettings

_SETTINGS = '{"disableAllHooks":true,"permissions":{"deny":["Read(//**)","Bash"]}}'
"""Also denies Read, so that an unescaped `@` attaches nothing."""


class ClaudeSummarizer:
    """`Summarizer` for claude. `command`: the configured program and its first arguments."""

    name = "claude"

    def __init__(self, settings: SummarizerSettings, command: Sequence[str]) -> None:
        self._settings = settings
        self._command = tuple(command)

    @property
    def model(self) -> str:
        return self._settings.model

    @property
    def timeout_s(self) -> float:
        return self._settings.timeout_s

    @property
    def unavailable(self) -> str | None:
        if not self._settings.enabled:
            return "model summaries are disabled (claude.what.enabled)"
        # A relative path would name a file that the agent can write, and the summarizer runs outside the sandbox.
        if "/" in self._command[0] and not self._command[0].startswith("/"):
            return "a summary needs a name or an absolute path in claude.default_command"
        return None

    def argv(self, instructions: str) -> tuple[str, ...]:
        return (
            *self._command,
            *("--print", "--output-format", "text", "--model", self.model, "--system-prompt", instructions),
            *("--tools", "", "--disable-slash-commands", "--no-session-persistence", "--safe-mode"),
            *("--settings", _SETTINGS, "--strict-mcp-config", "--mcp-config", '{"mcpServers":{}}'),
        )

    def environment(self, environment: Mapping[str, str]) -> Mapping[str, str]:
        return {**environment, "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}

    def as_data(self, line: str) -> str:
        """claude attaches files named by words such as @/etc/passwd, even without tools."""
        return line.replace("@", "(at)")
