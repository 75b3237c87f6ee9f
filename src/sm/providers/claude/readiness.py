"""Checks the files of claude for first-start dialogs that would stop an agent.

Reads no credentials. Measured with 2.1.197 and 2.1.332: on a new machine claude asks for its first-time setup, for
trust in the directory, for the use of an API key, and for permission to bypass permissions.
"""

import json
import os
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence

from sm.errors import BypassNotAccepted, DirectoryNotTrusted, ExternalError, ProgramMissing, SetupRequired
from sm.linux.files import read_file
from sm.operations.hints import Hint, Use
from sm.operations.session_operations import SPAWN
from sm.providers.claude.dialect import Known, current, version_in
from sm.providers.claude.home import ClaudeHome, read_object, trusted_by
from sm.providers.claude.permissions import bypasses
from sm.providers.claude.trouble import INSTALL

_PACKAGE = "@anthropic-ai/claude-code"
_PACKAGE_MAX_BYTES = 64 * 1024
RUN_ONCE = "run claude once in a terminal"
SET_UP = f"{INSTALL}, then run claude once in a terminal and log in"
NO_LOGIN = "sm found no login of claude"
LOG_IN = "run claude in a terminal and type /login"
BYPASS_SETTING = "skipDangerousModePermissionPrompt"
API_KEY = "ANTHROPIC_API_KEY"
_LOGINS = (
    API_KEY, "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY",
)  # fmt: skip


def installed_version(program: str, environment: Mapping[str, str]) -> tuple[int, ...] | None:
    """Return the version of the program that an agent with this environment starts. Returns None if it is unknown.

    npm keeps the program in a package with its version, and the installer of claude names the file by it.
    """
    path = shutil.which(program, path=environment.get("PATH"))
    if path is None:
        return None
    path = os.path.realpath(path)
    return version_in(os.path.basename(path)) or version_in(_package_version(path))


def is_versioned(path: str) -> bool:
    """Return whether the installer of claude put a program at this path, whose name is its version."""
    above, name = os.path.split(path)
    return version_in(name) is not None and above.endswith("/claude/versions")


def _package_version(path: str) -> str:
    above, package, _ = path.rpartition(f"/{_PACKAGE}/")
    if not package:
        return ""
    try:
        value = json.loads(read_file(f"{above}/{_PACKAGE}/package.json", _PACKAGE_MAX_BYTES).data)
    except (OSError, ValueError, RecursionError):
        return ""
    version = value.get("version") if isinstance(value, dict) else None
    return version if isinstance(version, str) else ""


def asks_per_repository(program: str, environment: Mapping[str, str]) -> bool:
    """Return whether this claude asks for trust in each git repository. A program of unknown version does."""
    known = Known(installed_version(program, environment))
    return current().choose("trust.per_repository", known).value is True


def require_ready(
    environment: Mapping[str, str], argv: Sequence[str], directory: str, project_of: Callable[[str], str]
) -> None:
    """Raise SetupRequired if claude, started with `argv` in `directory` (absolute), would open a first-start dialog.

    Raise ProgramMissing if it was never started because it is not installed.
    Another program than claude is not checked. An unreadable file is no obstacle, because claude may repair it.
    """
    if not is_claude(argv[0]):
        return
    home = ClaudeHome(environment)
    try:
        state, _ = read_object(home.state)
    except FileNotFoundError:
        require_installed(argv[0], environment)
        raise SetupRequired(f"claude has never been started: {home.state} does not exist", RUN_ONCE) from None
    except (OSError, ExternalError):
        return
    settings = read_settings(home)
    if not is_onboarded(state):
        raise SetupRequired("claude has not finished its first-time setup", RUN_ONCE)
    directory = os.path.realpath(directory)
    if not is_trusted(state, environment, directory, argv[0]):
        # The trust in a repository covers its worktrees, also those that are made later.
        directory = project_of(directory)
        raise DirectoryNotTrusted(
            f"claude does not trust {directory}",
            f"sm trust {shlex.quote(directory)}",
            directory=directory,
        )
    if asks_about_key(state, environment):
        raise SetupRequired(f"claude has not been allowed to use {API_KEY}", f"{RUN_ONCE} and choose Yes")
    given = any(BYPASS_SETTING in argument for argument in argv)
    if bypasses(argv) and not given and not accepts_bypass(state, settings):
        raise BypassNotAccepted("claude has not been allowed to bypass permissions", "sm trust --bypass")
    if login_of(home, settings, environment) is None:
        hint = Hint(f"{LOG_IN}; if claude logs in some other way: ", Use(SPAWN, "--skip-checks"))
        raise SetupRequired(NO_LOGIN, hint)


def require_installed(program: str, environment: Mapping[str, str]) -> None:
    """Raise ProgramMissing if an agent with this environment would not find claude."""
    if shutil.which(program, path=environment.get("PATH")) is None:
        raise ProgramMissing(f"claude is not installed: there is no {program} on your PATH", SET_UP)


def is_claude(program: str) -> bool:
    """Return whether the program is claude itself, not a wrapper such as npx."""
    return os.path.basename(program).startswith("claude")


def is_onboarded(state: Mapping[str, object]) -> bool:
    return state.get("hasCompletedOnboarding") is True


def is_trusted(
    state: Mapping[str, object], environment: Mapping[str, str], directory: str, program: str
) -> bool:
    """Return whether this claude opens no trust dialog in `directory` (absolute, without links)."""
    if environment.get("CLAUDE_CODE_SANDBOXED"):
        return True
    per_repository = asks_per_repository(program, environment)
    return trusted_by(state, directory, per_repository=per_repository) is not None


def asks_about_key(state: Mapping[str, object], environment: Mapping[str, str]) -> bool:
    """Return whether claude asks about the API key in its environment. It asks about each key once."""
    key = environment.get(API_KEY, "")
    answers = state.get("customApiKeyResponses")
    known = answers if isinstance(answers, dict) else {}
    return bool(key) and not any(
        isinstance(keys := known.get(answer), list) and key[-20:] in keys
        for answer in ("approved", "rejected")
    )


def accepts_bypass(state: Mapping[str, object], settings: Mapping[str, object]) -> bool:
    """Return whether the user has allowed claude to bypass permissions. The second key is of earlier versions."""
    return settings.get(BYPASS_SETTING) is True or state.get("bypassPermissionsModeAccepted") is True


def login_of(home: ClaudeHome, settings: Mapping[str, object], environment: Mapping[str, str]) -> str | None:
    """The variable, setting or file with which claude logs in, or None if unknown."""
    known = login_setting(settings, environment)
    return known or (home.credentials if os.path.exists(home.credentials) else None)


def login_setting(settings: Mapping[str, object], environment: Mapping[str, str]) -> str | None:
    """The variable or setting with which claude logs in, or None if unknown."""
    own = settings.get("env")
    for name in _LOGINS:
        if environment.get(name) or (isinstance(own, dict) and own.get(name)):
            return name
    return "apiKeyHelper" if settings.get("apiKeyHelper") else None


def login_outside(environ: Mapping[str, str]) -> str | None:
    """The variable with a login in the operator's shell, or None if there is none."""
    return next((name for name in _LOGINS if environ.get(name)), None)


def read_settings(home: ClaudeHome) -> Mapping[str, object]:
    """The user's settings; empty if the file is missing or cannot be read."""
    try:
        return read_object(home.settings)[0]
    except (OSError, ExternalError):
        return {}


def default_mode(home: ClaudeHome) -> str:
    """The permission mode in the user's own settings, or empty if they have none."""
    permissions = read_settings(home).get("permissions")
    mode = permissions.get("defaultMode") if isinstance(permissions, dict) else None
    return mode if isinstance(mode, str) else ""
