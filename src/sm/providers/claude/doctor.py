"""What `sm doctor` says about Claude Code: whatever would hold up an agent at its start. None of it is needed by sm.

Nothing is run but `claude --version`, and no credential is read. Source: CC 1, measured with 2.1.197.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping

from sm.config import Config
from sm.errors import ExternalError, UsageError
from sm.providers.claude.home import ClaudeHome, given_to_agents, home_of_agents, read_object, trusted_by
from sm.providers.claude.options import bypasses, excused, gathered
from sm.providers.claude.trouble import INSTALL

_MEASURED = (2, 1, 197)
_OLDEST = (2, 1)
_VERSION_S = 10
_LOGINS = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
)

Finding = tuple[bool, str, str | None]
"""(fine, what was found, what to type)."""


def checks(config: Config, environ: Mapping[str, str], current_dir: str) -> Iterator[Finding]:
    """Nothing when no agent type is Claude Code. `environ`: of the person's shell, who would spawn."""
    if not config.claude_agents:
        return
    program = config.claude.default_command[0]
    path = shutil.which(program, path=environ.get("PATH"))
    if path is None:
        types = ", ".join(config.claude_agents)
        yield False, f"{program} is not on your PATH: no agent of type {types} can start", INSTALL
        return
    yield _version(path)
    given = given_to_agents(config, environ)
    home = home_of_agents(config, environ)
    try:
        state = read_object(home.state)
    except FileNotFoundError:
        yield False, f"claude has never been started here: there is no {home.state}", "claude, in a terminal"
        return
    except (OSError, ExternalError) as error:
        yield False, f"claude: {home.state} cannot be read: {error}", "claude, in a terminal"
        return
    if state.get("hasCompletedOnboarding") is True:
        yield True, f"claude has been set up ({home.state})", None
    else:
        yield False, "claude would ask what it asks at its first start", "claude, in a terminal"
    settings = _settings(home)
    yield _login(home, state, settings, given, environ)
    yield _trust(state, given, current_dir)
    # Where claude keeps the answer today, and where it did before.
    accepted = settings.get("skipDangerousModePermissionPrompt") or state.get("bypassPermissionsModeAccepted")
    yield from _bypass(config, given, accepted=accepted is True)


def _version(path: str) -> Finding:
    if not os.path.basename(path).startswith("claude"):
        return True, f"agents are started with {path}, whose version is not asked", None
    try:
        done = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_VERSION_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, f"{path} --version does not work: {error}", INSTALL
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", done.stdout)
    if found is None:
        return False, f"{path} --version names no version", INSTALL
    version = tuple(map(int, found.groups()))
    if version < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        return False, f"claude {found[0]} at {path} is too old, {oldest} is needed", f"{INSTALL}@latest"
    note = "" if version == _MEASURED else f", not the version that sm was measured with ({_measured()})"
    return True, f"claude {found[0]} at {path}{note}", None


def _measured() -> str:
    return ".".join(map(str, _MEASURED))


def _settings(home: ClaudeHome) -> Mapping[str, object]:
    try:
        return read_object(home.settings)
    except (OSError, ExternalError):
        return {}


def _login(
    home: ClaudeHome,
    state: Mapping[str, object],
    settings: Mapping[str, object],
    given: Mapping[str, str],
    environ: Mapping[str, str],
) -> Finding:
    own = settings.get("env")
    for name in _LOGINS:
        if given.get(name) or (isinstance(own, dict) and own.get(name)):
            key = given.get(name, "")
            if name == "ANTHROPIC_API_KEY" and key and not _approved(state, key):
                return (
                    False,
                    f"claude would ask whether it may use {name}",
                    "claude, in a terminal, and 1. Yes",
                )
            return True, f"claude logs in with {name}", None
    if settings.get("apiKeyHelper"):
        return True, "claude logs in with apiKeyHelper", None
    if os.path.exists(home.credentials):
        return True, f"claude has a login ({home.credentials})", None
    for name in _LOGINS:
        if environ.get(name):
            todo = f"add {name} to sessions.inherit_environment_vars in config.yaml, then: sm daemon restart"
            return False, f"claude has no login: {name} is not handed to agents", todo
    return False, "claude has no login that sm knows of", "claude, in a terminal, and there: /login"


def _approved(state: Mapping[str, object], key: str) -> bool:
    answers = state.get("customApiKeyResponses")
    approved = answers.get("approved") if isinstance(answers, dict) else None
    return isinstance(approved, list) and key[-20:] in approved


def _trust(state: Mapping[str, object], given: Mapping[str, str], current_dir: str) -> Finding:
    directory = os.path.realpath(current_dir)
    if trusted_by(state, directory) or given.get("CLAUDE_CODE_SANDBOXED"):
        return True, f"claude trusts {directory}", None
    return False, f"claude would ask whether to trust {directory}", f"sm trust {shlex.quote(directory)}"


def _bypass(config: Config, given: Mapping[str, str], *, accepted: bool) -> Iterator[Finding]:
    """Agent types that ask for no permission: claude refuses that to root, and asks everybody else once."""
    claude = config.claude
    found = []
    for name in config.claude_agents:
        try:
            options = gathered(((None, claude.default_args), (None, claude.agent_configs[name].args)))
        except UsageError as error:
            yield False, f"{name}: {error.message}", "edit config.yaml"
            continue
        if bypasses(options.arguments):
            found.append(name)
    if not found:
        return
    types = ", ".join(found)
    if os.geteuid() == 0 and not excused(given):
        yield (
            False,
            f"claude refuses to bypass permissions as root, so that {types} cannot start",
            "run sm as another user, or choose another --permission-mode in config.yaml; only if this machine is a "
            'sandbox: claude: {env: {IS_SANDBOX: "1"}}',
        )
    elif not accepted:
        yield (
            False,
            f"claude would ask {types} to accept bypassing permissions",
            "claude --permission-mode bypassPermissions, in a terminal, and accept once",
        )
