"""An instance of sm whose agents are the real Claude Code, connected to the scripted API."""

import os
import re
import shlex
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sm.paths import InstancePaths
from tests import claude_cli, claude_container
from tests.claude_container import Container, published_pid
from tests.fork_server import ForkedProcess
from tests.instance import Instance
from tests.scripted_api import Request, ScriptedApi
from tests.waits import explained, repeat_until, until

_POINTER = "\n\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"
_BOX = f"\N{BOX DRAWINGS LIGHT HORIZONTAL}{_POINTER}"
CONFIG = """
default_trust: {trust}
tmux: {{socket_name: {socket}, width: 120, height: 40}}
commands:
  Sh: {{command: [sh, -c]}}
claude:
  default_command: {claude}
  check_new_versions: false
  env:
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1"
{environment}    DISABLE_AUTOUPDATER: "1"
    DISABLE_TELEMETRY: "1"
{claude_more}
  agent_configs:
    Plain: {{args: []}}
    Planner: {{args: ["--permission-mode", "plan"]}}
    Editor: {{args: ["--permission-mode", "acceptEdits", "--allowedTools", "Bash(sleep *),Bash(echo *),Bash(sm *)"]}}
    Bypass: {{args: ["--permission-mode", "bypassPermissions"]}}
{more}
"""

INSIDE = """\
    ANTHROPIC_BASE_URL: "{url}"
"""
INSIDE_KEY = "    ANTHROPIC_AUTH_TOKEN: {key}\n"
"""Left out if the test has a login of its own, which claude would ignore."""


def calling_session(request: Request) -> str:
    """The id of the session that sent the request, from its briefing; empty for sub-agents, which have none."""
    found = re.search(r"\(session ([0-9a-f]{8})\), an agent of type ", request.system)
    return found[1] if found else ""


def hook_pids(session_id: str) -> list[int]:
    """The processes of `sm hook claude` that run for the session."""
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _is_hook(pid, session_id)]


def _is_hook(pid: int, session_id: str) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            argv = file.read().split(b"\0")
        with open(f"/proc/{pid}/environ", "rb") as file:
            environ = file.read().split(b"\0")
    except OSError:  # the process has ended or belongs to another user
        return False
    # The interpreter and its options may come first. The shell around the hook has all in one word, so it is no match.
    return argv[-3:] == [b"hook", b"claude", b""] and f"SM_SESSION_ID={session_id}".encode() in environ


def _first_line(screen: str, marker: str) -> str:
    """The rest of the line after the last `marker`."""
    return screen.rpartition(marker)[2].partition("\n")[0].strip()


class ClaudeInstance(Instance):
    """`home` is the home of a user who has answered claude's first questions, except those that `seed` leaves out.

    `completion`: the section `child_agents.auto_complete`, unless `more` has `child_agents`. By default only
    `sm complete` completes a session, so that tests may take their time.

    `sandbox`: an engine and an image. Agents in `work` or below run in the container of a workspace then, which has
    another home. `claude_home` is the configuration directory of the agents' claude.

    `program`: another claude than that of `./check`.
    """

    def __init__(
        self,
        api: ScriptedApi,
        *,
        more: str = "",
        claude_more: str = "",
        completion: str = "{enabled: false}",
        sandbox: tuple[str, str] | None = None,
        program: str | None = None,
        **seed: bool,
    ) -> None:
        binary = program or claude_cli.binary()
        sandbox = sandbox or claude_container.chosen()
        slug = f"inside-{os.urandom(4).hex()}"
        self.container = Container(*sandbox, slug, urlsplit(api.url).port or 0) if sandbox else None
        super().__init__(in_memory=self.container is None)
        paths = InstancePaths(str(self.config), str(self.state))
        self._agent_paths = paths.sandbox(slug) if self.container else paths
        self.claude_home = self.home / ".claude"
        self.python = "python3" if self.container else sys.executable
        """The command for a Python that agents can run."""
        environment = f"    CLAUDE_CODE_TMPDIR: {self.claude_home / 'tmp'}\n"
        if self.container:
            self.claude_home = Path(paths.sandbox(slug).home, ".claude")
            has_login = "CLAUDE_CODE_OAUTH_TOKEN" in claude_more
            environment = INSIDE.format(url=api.url)
            environment += "" if has_login else INSIDE_KEY.format(key=claude_cli.KEY)
        self.config.write_text(
            CONFIG.format(
                trust="sandboxed" if self.container else "direct",
                socket="test",
                claude=self.container.program if self.container else binary,
                environment=environment,
                more=more  # may go on with `agent_configs`
                + ("" if "child_agents:" in more else f"\nchild_agents: {{auto_complete: {completion}}}\n")
                + (self.container.configure(self.home) if self.container else ""),
                claude_more=claude_more,
            )
        )
        self.api = api
        claude_cli.seed(self.home, **seed)
        self.env |= {
            name: value
            for name, value in claude_cli.environment(self.home, api).items()
            if name in ("CLAUDE_CONFIG_DIR", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL")
        }
        if self.container:
            self.container.give(self.work)
            self.home.chmod(0o755)
            self.sm("workspace", "create", slug, "--working-dir", str(self.work), "--trust", "sandboxed")

    def end(self) -> None:
        super().end()
        if self.container:
            self.container.close()

    @property
    def shared(self) -> Path:
        """A directory that agents of every workspace can read and write."""
        return self.container.shared or self.home if self.container else self.home

    def workspace(self, slug: str, directory: Path, *options: str) -> None:
        """Create a workspace whose agents run where this instance has its agents."""
        if self.container:
            self.container.give(directory)
            options = (*options, "--trust", "sandboxed")
        self.sm("workspace", "create", slug, "--working-dir", str(directory), *options)

    @property
    def launch_dir(self) -> Path:
        return Path(self._agent_paths.launch)

    def launch_dir_of(self, slug: str) -> Path:
        """As `launch_dir`, for the agents of a workspace."""
        paths = InstancePaths(str(self.config), str(self.state))
        return Path(paths.sandbox(slug).launch if self.container else paths.launch)

    def home_of(self, slug: str) -> Path:
        """The home directory of the agents of a workspace."""
        paths = InstancePaths(str(self.config), str(self.state))
        return Path(paths.sandbox(slug).home) if self.container else self.home

    def identity(self, session_id: str, workspace: str, parent: str = "") -> dict[str, str]:
        """The variables of a session for its agent and its MCP servers."""
        paths = InstancePaths(str(self.config), str(self.state))
        inside = paths.agent_paths(session_id, sandboxed=self.container is not None)
        return {
            "SM_SESSION_ID": session_id,
            "SM_PARENT_ID": parent,
            "SM_WORKSPACE_ID": workspace,
            "SM_TRUST_LEVEL": "sandboxed" if self.container else "direct",
            "SM_SOCKET": inside.socket,
            "SM_TOKEN_FILE": inside.token_file,
        }

    def spool(self, session_id: str) -> Path:
        """The directory in which commands of a session leave reports while no daemon runs."""
        return Path(self._agent_paths.spool, session_id)

    def start_daemon(self, crash_point: str = "") -> ForkedProcess:
        if self.container:  # for which a daemon runs already
            self.run("daemon", "stop")
        return super().start_daemon(crash_point)

    def write_settings(self, text: str) -> None:
        """Write the settings of the user, as whom claude runs, before the first spawn."""
        missing = [path for path in (self.claude_home, *self.claude_home.parents) if not path.exists()]
        for path in reversed(missing):
            path.mkdir(0o700)
        settings = self.claude_home / "settings.json"
        settings.write_text(text)
        if self.container:
            for path in (self.claude_home.parent, self.claude_home, settings):
                self.container.give(path)

    def path_of(self, session_id: str, path: str) -> Path:
        """A path of this host to a file that the agent names."""
        return Path(f"/proc/{self.session(session_id)['pid']}/root{path}") if self.container else Path(path)

    def state_file(self, session: dict[str, Any]) -> Path:
        """The file in which claude publishes its state. `session`: of a live process."""
        return self.claude_home / "sessions" / f"{published_pid(session['pid'])}.json"

    def other_home(self, name: str, **seed: bool) -> dict[str, str]:
        """The environment of a user who has not answered all questions of claude's first start."""
        config = claude_cli.seed(self.home / name, **seed)
        state = config / ".claude.json"
        state.write_text(state.read_text().replace(str(self.home / name), str(self.home)))
        return {"CLAUDE_CONFIG_DIR": str(config)}

    def why(self, session_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.get(f"/v1/sessions/{session_id}/why")
        return found

    def progress(self, session_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.get(f"/v1/sessions/{session_id}/progress")
        return found

    def says(self, session_id: str, status: str, words: str) -> dict[str, Any]:
        """Wait until the session has this status with `words` in its reason; return the session."""

        def look() -> dict[str, Any] | None:
            found = self.session(session_id)
            return found if found["status"] == status and words in found["status_reason"] else None

        with explained(lambda: f"{self.why(session_id)}\n{self.screen(session_id)}"):
            return until(look, f"{status}: {words}")

    def idle(self, session_id: str) -> dict[str, Any]:
        return self.says(session_id, "idle", "")

    def screen(self, session_id: str, *options: str) -> str:
        """The text on the agent's terminal; `options` as for tmux's capture-pane."""
        return self.tmux("capture-pane", "-p", *options, "-t", f"=claude-{session_id}:", check=False)

    def redraw(self, session_id: str) -> None:
        """Make claude draw its screen anew: on a busy machine it may have drawn one thing over another."""
        self.keys(session_id, "C-l")

    def start_in_user_pane(self, prompt: str) -> str:
        """Start a claude that sm does not know, in a shell in the tmux session `mine`; return its pane."""
        self.tmux("-f", "/dev/null", "new-session", "-d", "-s", "mine", "-x", "120", "-y", "40", "sh")
        (pane,) = self.tmux("list-panes", "-t", "=mine:", "-F", "#{pane_id}").split()
        environment = claude_cli.environment(self.home, self.api)
        words = " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items())
        line = f"cd {self.work} && env -i {words} {claude_cli.binary()} {shlex.quote(prompt)}"
        self.tmux("send-keys", "-t", pane, "-l", line)
        self.tmux("send-keys", "-t", pane, "Enter")
        return pane

    def keys(self, session_id: str, *keys: str) -> None:
        """Press keys as a person at the terminal does."""
        self.tmux("send-keys", "-t", f"=claude-{session_id}:", *keys)

    def answer_dialog(self, session_id: str, key: str) -> None:
        """Press a key once claude has drawn its dialog, which may be after the hook of the dialog has reported it.

        claude 2.1.332 ignores keys for a moment after it has drawn a dialog.
        """

        def is_drawn() -> bool:
            return f"{_POINTER[1:]} 1. " in self.screen(session_id)

        until(is_drawn, "the dialog is drawn")
        repeat_until(lambda: self.keys(session_id, key), lambda: not is_drawn(), "the dialog is closed")

    def trust_by_key(self, session_id: str) -> None:
        """Approve a first-start dialog as a person does: claude 2.1.332 selects the refusal."""
        if f"{_POINTER[1:]} No, exit" in self.screen(session_id):
            self.keys(session_id, "Down")
            until(lambda: f"{_POINTER[1:]} Yes" in self.screen(session_id), "the approval is selected")
        self.keys(session_id, "Enter")

    def open_view(self, session_id: str, *keys: str) -> None:
        """Press keys until claude shows a view over its input box: claude loses keys while it draws."""
        repeat_until(
            lambda: self.keys(session_id, *keys),
            lambda: self.session(session_id)["status"] == "waiting_input",
            "the view is open",
        )

    def prompt(self, session_id: str, text: str) -> None:
        """Paste a prompt as a person does, then press Enter until the input box accepts the prompt."""
        before, asked = self._typed(session_id), len(self.api.turns(text))
        self.tmux("set-buffer", "-b", "person", "--", text)

        def paste() -> None:
            # Claude loses keys while it closes a dialog. A paste that only came late is erased before the next one.
            if pastes:
                self.keys(session_id, "C-u")
            pastes.append(text)
            self.tmux("paste-buffer", "-p", "-r", "-b", "person", "-t", f"=claude-{session_id}:")

        def draft() -> str | None:
            now = self._typed(session_id)
            return now if now != before else None

        pastes: list[str] = []
        typed = repeat_until(paste, draft, "the input box shows the prompt")

        def accepted() -> bool:
            # The model is asked before a dialog of this turn is drawn, which a second Enter would answer.
            if len(self.api.turns(text)) > asked:
                return True
            dead = self.tmux("display-message", "-p", "-t", f"=claude-{session_id}:", "#{pane_dead}").strip()
            screen = self.screen(session_id)
            if dead == "1" or _BOX in screen:
                return dead == "1" or _first_line(screen, _BOX) != typed
            # A dialog has replaced the box, or the box is being drawn: then the last pointer still has the text
            # behind it. A command's dialog looks the same, and a second Enter would answer that dialog.
            return text.startswith("/") or _first_line(screen, _POINTER) != typed

        # Claude loses an Enter right after a paste; then the box still shows the text.
        repeat_until(
            lambda: self.keys(session_id, "Enter"), accepted, f"the input box accepts the prompt: {text[:60]}"
        )

    def _typed(self, session_id: str) -> str:
        """The first line of the input box: the text after a pointer right below a horizontal rule.

        A command that opened a dialog has a pointer too, but no rule above.
        """
        screen = self.screen(session_id)
        return _first_line(screen, _BOX) if _BOX in screen else "no input box"

    def transcript(self, session_id: str) -> Path:
        (path,) = (self.claude_home / "projects").glob(f"*/{session_id}*.jsonl")
        return path

    def has_read_transcripts(self, session_id: str) -> bool:
        """True if the database says that the daemon has read all transcripts of the session."""
        with closing(sqlite3.connect(self.state / "sm.db")) as database:
            query = "SELECT path, offset FROM transcripts WHERE session_id = ?"
            found = database.execute(query, (session_id,)).fetchall()
        return bool(found) and all(os.path.getsize(path) == offset for path, offset in found)
