"""The files of claude in the home directory of a container, and its login there.

Measured with 2.1.197: with these files and CLAUDE_CODE_SANDBOXED, claude starts without a question. It asks once about
each API key, so the first key of a container is approved with the files.
"""

import json
from collections.abc import Mapping, Sequence

from sm.errors import SetupRequired
from sm.operations.hints import Hint, Use
from sm.operations.session_operations import SPAWN
from sm.providers.claude.home import ClaudeHome
from sm.providers.claude.readiness import (
    API_KEY,
    BYPASS_SETTING,
    asks_about_key,
    is_claude,
    is_onboarded,
    login_setting,
)
from sm.sandboxes.home import ContainerHome

_FILE_MAX_BYTES = 8 * 1024 * 1024


def home_files(environment: Mapping[str, str]) -> Mapping[str, str]:
    """The content of each file, by its path in the container. `environment`: that of the agent."""
    inside, key = ClaudeHome(environment), environment.get(API_KEY, "")
    state: dict[str, object] = {"hasCompletedOnboarding": True}
    if key:
        state["customApiKeyResponses"] = {"approved": [key[-20:]], "rejected": []}
    return {inside.state: json.dumps(state), inside.settings: json.dumps({BYPASS_SETTING: True})}


def require_login(
    environment: Mapping[str, str], argv: Sequence[str], home: ContainerHome, container: str
) -> None:
    """Raise SetupRequired if claude would wait in its container for a login or an answer.

    `container`: its name in commands. Another program than claude is not checked.
    """
    if not is_claude(argv[0]):
        return
    inside, log_in = ClaudeHome(environment), f"sm sandbox login {container} claude"
    run_once = f"run claude once in the container: sm sandbox shell {container}"
    state, settings = read_object(home, inside.state), read_object(home, inside.settings)
    if state is not None and not is_onboarded(state):
        raise SetupRequired("claude has not finished its first-time setup in its container", run_once)
    if state is not None and asks_about_key(state, environment):
        raise SetupRequired(
            f"claude has not been allowed to use {API_KEY} in its container",
            f"{run_once}, then: {API_KEY}=KEY claude",
        )
    credentials = home.host_path(inside.credentials)
    has_file = credentials is not None and home.has_file(credentials)
    if not has_file and login_setting(settings or {}, environment) is None:
        raise SetupRequired(
            "claude has no login in its container",
            Hint(
                f"{log_in}; or pass a key with sandbox.pass_env: [{API_KEY}] or claude.env in config.yaml; "
                "if claude logs in some other way: ",
                Use(SPAWN, "--skip-checks"),
            ),
        )


def read_object(home: ContainerHome, inside: str) -> Mapping[str, object] | None:
    """The JSON object in a file of the container, or None if it is missing or unreadable."""
    path = home.host_path(inside)
    try:
        value = None if path is None else json.loads(home.read(path, _FILE_MAX_BYTES).data)
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
