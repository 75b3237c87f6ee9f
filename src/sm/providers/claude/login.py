"""Finds what claude logs in with, to tell the accounts of agents apart. Never opens its credentials."""

import json
from collections.abc import Mapping

from sm.errors import ExternalError
from sm.providers.base import Login
from sm.providers.claude.home import ClaudeHome, config_dir, read_object
from sm.providers.claude.readiness import login_setting, read_settings
from sm.providers.claude.values import mapping, string
from sm.sandboxes.home import ContainerHome

_STATE_MAX_BYTES = 8 * 1024 * 1024


def login_of_agent(environment: Mapping[str, str], home: ContainerHome | None) -> Login:
    """The login, as claude chooses it: a variable or a command of its settings, else the account of `/login`.

    The name of that account is public: claude refreshes its credentials, and they stay unread.
    """
    if home is not None:
        directory = home.host_path(config_dir(environment)) or home.directory
        name = login_setting({}, environment)
        identity = environment.get(name, "") if name else _account_in(_state_inside(environment, home))
        return Login(directory, identity)
    files = ClaudeHome(environment)
    settings = read_settings(files)
    name = login_setting(settings, environment)
    if name is None:
        return Login(files.directory, _account_in(_state(files)))
    own = mapping(settings.get("env"))
    return Login(
        files.directory, string(own.get(name)) or environment.get(name) or string(settings.get(name))
    )


def _state(files: ClaudeHome) -> Mapping[str, object]:
    try:
        return read_object(files.state)[0]
    except (OSError, ExternalError):
        return {}


def _state_inside(environment: Mapping[str, str], home: ContainerHome) -> Mapping[str, object]:
    path = home.host_path(ClaudeHome(environment).state)
    try:
        value = json.loads(home.read(path, _STATE_MAX_BYTES).data) if path is not None else None
    except (OSError, ValueError, RecursionError):
        return {}
    return mapping(value)


def _account_in(state: Mapping[str, object]) -> str:
    return string(mapping(state.get("oauthAccount")).get("accountUuid"))
