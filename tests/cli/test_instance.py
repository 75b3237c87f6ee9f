"""Selection of the instance, and permission to start its daemon."""

import os
from pathlib import Path

import pytest

from sm.cli.instance import Instance, start
from sm.errors import NotPermitted


def test_instance_of_an_agent_is_derived_from_its_socket(home: Path) -> None:
    environ = {"HOME": "/h", "SM_SESSION_ID": "1a2b3c4d", "SM_SOCKET": f"{home}/state/run/sm.sock"}
    instance = Instance(environ)
    assert instance.paths.state == f"{home}/state"
    assert instance.has_default_socket


def test_instance_of_the_operator_ignores_sm_socket() -> None:
    instance = Instance({"HOME": "/h", "SM_SOCKET": "/x/state/run/sm.sock"})
    assert instance.paths.state == "/h/.local/state/sm"
    assert not instance.has_default_socket


@pytest.mark.parametrize("environ", [{}, {"SUDO_UID": "1000"}])
def test_start_is_refused_when_state_directory_belongs_to_another_user(
    home: Path, state: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    with pytest.raises(NotPermitted, match=f"{state} belongs to user id {user}"):
        start(Instance({"SM_HOME": str(home), **environ}))
    assert list(state.iterdir()) == []


def test_start_creates_no_state_directory_when_run_with_sudo(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    with pytest.raises(NotPermitted):
        start(Instance({"SM_HOME": f"{home}/new/dir", "SUDO_UID": str(user)}))
    assert not (home / "new").exists()
