"""The login that tells the accounts of agents apart, on real files."""

import json
from pathlib import Path
from typing import Any

import pytest

from sm.providers.claude.setup import login_of_agent
from sm.sandboxes.home import ContainerHome


def write(home: Path, settings: dict[str, Any], state: dict[str, Any]) -> dict[str, str]:
    directory = home / ".claude"
    directory.mkdir(exist_ok=True)
    (directory / "settings.json").write_text(json.dumps(settings))
    (directory / ".claude.json").write_text(json.dumps(state))
    (directory / ".credentials.json").write_text("secret")
    return {"HOME": str(home), "CLAUDE_CONFIG_DIR": str(directory)}


LOGGED_IN = {"oauthAccount": {"accountUuid": "uuid-1", "emailAddress": "me@example.org"}}


@pytest.mark.parametrize(
    ("settings", "state", "more", "identity"),
    [
        ({}, LOGGED_IN, {}, "uuid-1"),
        ({}, {}, {}, ""),
        ({}, {"oauthAccount": "x"}, {}, ""),
        ({}, LOGGED_IN, {"ANTHROPIC_API_KEY": "key"}, "key"),
        ({}, LOGGED_IN, {"CLAUDE_CODE_OAUTH_TOKEN": "token"}, "token"),
        (
            {"env": {"ANTHROPIC_API_KEY": "of the settings"}},
            {},
            {"ANTHROPIC_API_KEY": "x"},
            "of the settings",
        ),
        ({"apiKeyHelper": "/bin/key"}, LOGGED_IN, {}, "/bin/key"),
    ],
)
def test_identity_is_what_claude_logs_in_with(
    tmp_path: Path, settings: dict[str, Any], state: dict[str, Any], more: dict[str, str], identity: str
) -> None:
    environment = write(tmp_path, settings, state) | more
    login = login_of_agent(environment, None)
    assert (login.directory, login.identity) == (str(tmp_path / ".claude"), identity)
    assert not identity or identity not in repr(login)


def test_login_without_files_is_known_by_its_directory(tmp_path: Path) -> None:
    assert login_of_agent({"HOME": str(tmp_path)}, None).directory == str(tmp_path / ".claude")


def test_login_in_a_container_is_read_from_its_home_on_this_host(tmp_path: Path) -> None:
    write(tmp_path, {}, LOGGED_IN)
    inside = {"HOME": "/home/sandbox", "CLAUDE_CONFIG_DIR": "/home/sandbox/.claude"}
    login = login_of_agent(inside, ContainerHome(str(tmp_path)))
    assert (login.directory, login.identity) == (str(tmp_path / ".claude"), "uuid-1")
    (tmp_path / ".claude" / ".claude.json").unlink()
    (tmp_path / ".claude" / ".claude.json").symlink_to("/etc/passwd")
    assert login_of_agent(inside, ContainerHome(str(tmp_path))).identity == ""
