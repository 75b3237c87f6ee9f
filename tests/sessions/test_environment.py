"""The environment of agents in containers."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from sm.config import Config
from sm.core.models import Session, Workspace
from sm.core.states import TrustLevel
from sm.errors import UsageError
from sm.paths import InstancePaths
from sm.policy.environment import DENIED_IN_SANDBOX
from sm.providers import make_providers
from sm.sessions.environment import Environments, check_sandboxed, denied_warnings
from tests.samples import AT, session

PATHS = InstancePaths("/home/u/.config/sm/config.yaml", "/home/u/state")
BOXED = replace(session("1a2b3c4d"), effective_mode=TrustLevel.SANDBOXED, parent_id="aaaa1111")
SHELL = {
    "HOME": "/home/u",
    "USER": "u",
    "PATH": "/home/u/bin:/usr/bin",
    "LANG": "de_DE.UTF-8",
    "TZ": "Europe/Berlin",
    "LC_ALL": "C",
    "SSH_AUTH_SOCK": "/tmp/agent",
    "ANTHROPIC_API_KEY": "k3y",
}


def config(**sandbox: Any) -> Config:
    return Config.model_validate({"sandbox": sandbox})


def given(
    environments: Environments,
    of: Session = BOXED,
    workspace: Workspace | None = None,
    provider: str = "claude",
    configured: Mapping[str, str] | None = None,
    added: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The complete environment of a session whose caller has the variables SHELL."""
    plan = make_providers(config())[provider]
    variables = environments.given(of, workspace, plan, SHELL, configured or {}, added or {})
    return dict(environments.complete(of, variables, has_prompt_file=True))


def test_environment_in_a_container_is_built_from_nothing() -> None:
    assert given(Environments(config(), PATHS)) == {
        "HOME": "/home/sandbox",
        "PATH": "/opt/sm/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG": "de_DE.UTF-8",
        "TZ": "Europe/Berlin",
        "NODE_EXTRA_CA_CERTS": "/etc/ssl/certs/ca-certificates.crt",
        "CLAUDE_CODE_SANDBOXED": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_INSTALLATION_CHECKS": "1",
        "SM_SESSION_ID": "1a2b3c4d",
        "SM_PARENT_ID": "aaaa1111",
        "SM_WORKSPACE_ID": "",
        "SM_TRUST_LEVEL": "sandboxed",
        "SM_SOCKET": "/run/sm/socket/s",
        "SM_TOKEN_FILE": "/run/sm/launch/1a2b3c4d.token",
        "SM_PROMPT_FILE": "/run/sm/launch/1a2b3c4d.prompt",
    }


def test_configuration_can_name_other_certificates() -> None:
    configured = {"NODE_EXTRA_CA_CERTS": "/srv/ca.crt"}
    assert given(Environments(config(), PATHS), configured=configured)["NODE_EXTRA_CA_CERTS"] == "/srv/ca.crt"


def test_command_in_a_container_gets_no_variable_of_claude() -> None:
    assert "CLAUDE_CODE_SANDBOXED" not in given(Environments(config(), PATHS), provider="command")


def test_container_gets_the_variables_of_pass_env_and_of_the_configuration() -> None:
    environments = Environments(config(pass_env=("ANTHROPIC_API_KEY",)), PATHS)
    passed = given(environments, configured={"A": "configured", "B": "x"}, added={"A": "added"})
    assert (passed["ANTHROPIC_API_KEY"], passed["A"], passed["B"]) == ("k3y", "added", "x")
    assert not passed.keys() & {"USER", "LC_ALL", "SSH_AUTH_SOCK"}
    assert environments.passed({**SHELL, "B": "x"}, None) == {"ANTHROPIC_API_KEY": "k3y"}


def test_workspace_overrides_the_variables_that_are_passed() -> None:
    environments = Environments(config(pass_env=("ANTHROPIC_API_KEY",)), PATHS)
    workspace = Workspace("shop", "/srv/shop", AT, sandbox={"pass_env": ["USER"]})
    passed = given(environments, workspace=workspace)
    assert passed["USER"] == "u"
    assert "ANTHROPIC_API_KEY" not in passed


@pytest.mark.parametrize(
    "name", [name.replace("*", "X") for name in DENIED_IN_SANDBOX] + ["HOME", "CLAUDECODE", "SM_SOCKET"]
)
def test_configuration_cannot_set_variable_in_a_container(name: str) -> None:
    environments = Environments(config(), PATHS)
    assert given(environments, configured={name: "evil"}) == given(environments)


def test_denied_variables_are_refused_or_told() -> None:
    with pytest.raises(UsageError, match="--env: GIT_DIR cannot be passed into a sandbox"):
        check_sandboxed({"A": "1", "GIT_DIR": "/x"})
    (warning,) = denied_warnings({"A": "1", "LD_PRELOAD": "x", "PYTHONPATH": "y"})
    assert "LD_PRELOAD, PYTHONPATH" in warning
    assert denied_warnings({"A": "1"}) == ()


def test_direct_session_keeps_its_environment() -> None:
    direct = replace(BOXED, effective_mode=TrustLevel.DIRECT)
    kept = given(Environments(config(), PATHS), of=direct, configured={"LD_PRELOAD": "x"})
    assert {name: kept[name] for name in SHELL if name != "PATH"} == {
        name: value for name, value in SHELL.items() if name != "PATH"
    }
    assert (kept["LD_PRELOAD"], kept["PATH"]) == ("x", f"/home/u/state/bin:{SHELL['PATH']}")
    assert kept["SM_SOCKET"] == "/home/u/state/run/sm.sock"
    assert kept["SM_TOKEN_FILE"] == "/home/u/state/launch/1a2b3c4d.token"


@pytest.mark.parametrize(
    ("mode", "socket"),
    [
        (TrustLevel.SANDBOXED, "/run/sm/socket/s"),
        (TrustLevel.DIRECT, "/home/u/state/run/sm.sock"),
    ],
)
def test_restored_environment_names_the_socket_of_its_place(mode: TrustLevel, socket: str) -> None:
    moved = replace(BOXED, effective_mode=mode, parent_id=None)
    environment = Environments(config(), PATHS).restored(moved, {"A": "1", "SM_SOCKET": "old"})
    assert environment == {"A": "1", "SM_PARENT_ID": "", "SM_SOCKET": socket}
