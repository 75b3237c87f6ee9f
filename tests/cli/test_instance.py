"""Which daemon is meant, and who may start it."""

import os
from pathlib import Path

import pytest

from sm.cli.instance import Instance, start
from sm.errors import NotPermitted


def test_an_agent_finds_its_instance_by_its_socket(home: Path) -> None:
    environ = {"HOME": "/h", "SM_SESSION_ID": "1a2b3c4d", "SM_SOCKET": f"{home}/state/run/sm.sock"}
    instance = Instance(environ)
    assert instance.places.state == f"{home}/state"
    assert instance.own_socket


def test_a_persons_socket_does_not_move_the_instance() -> None:
    instance = Instance({"HOME": "/h", "SM_SOCKET": "/x/state/run/sm.sock"})
    assert instance.places.state == "/h/.local/state/sm"
    assert not instance.own_socket


@pytest.mark.parametrize("environ", [{}, {"SUDO_UID": "1000"}])
def test_nothing_is_started_in_a_state_directory_of_another_user(
    home: Path, state: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    with pytest.raises(NotPermitted, match=f"{state} belongs to user {mine}"):
        start(Instance({"SM_HOME": str(home), **environ}))
    assert list(state.iterdir()) == []


def test_sudo_makes_no_state_directory_in_the_home_of_its_caller(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    with pytest.raises(NotPermitted):
        start(Instance({"SM_HOME": f"{home}/new/dir", "SUDO_UID": str(mine)}))
    assert not (home / "new").exists()
