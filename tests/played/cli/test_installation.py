"""Hints that name the program with which sm was installed: pipx, uv or pip."""

import json
import sys
import tomllib
from pathlib import Path

import pytest

from sm.cli.installation import SEGNO, TELEGRAM, TEXTUAL, path_command, uninstall_command
from tests.played.cli.command import Sm

PIPX = "/home/ann/.local/share/pipx/venvs/sm-sessions"
UV_TOOL = "/home/ann/.local/share/uv/tools/sm-sessions"
VENV = "/home/ann/my sm/.venv"


@pytest.fixture(params=["pipx", "uv tool", "uv", "pip"])
def install(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The start of the command that installs a package beside sm, which the named program installed."""
    prefix = {"pipx": PIPX, "uv tool": UV_TOOL}.get(request.param, VENV)
    monkeypatch.setattr(sys, "prefix", prefix)
    monkeypatch.setattr(sys, "executable", f"{prefix}/bin/python")
    if request.param in ("uv tool", "uv"):
        monkeypatch.setitem(sys.modules, "pip", None)  # uv installs none
    return {
        "pipx": "pipx inject sm-sessions",
        "uv tool": f"uv pip install --python {UV_TOOL}/bin/python",
        "uv": f"uv pip install --python '{VENV}/bin/python'",
        "pip": f"'{VENV}/bin/python' -m pip install",
    }[request.param]


def test_top_names_the_command_that_installs_textual(
    run: Sm, install: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "sm.cli.tui.app", raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == "textual"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "textual", None)
    assert run("top", code=2).err == (
        "sm: sm top needs the package textual, which is not installed here\n"
        f"hint: install it: {install} '{TEXTUAL}'\n"
    )


def test_doctor_names_missing_packages_and_the_commands_that_install_them(
    run: Sm, install: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = {"textual": "sm top", "segno": "sm web link --qr", "telegram": "the bot of Telegram"}
    for module in parts:
        monkeypatch.setitem(sys.modules, module, None)
    checks = json.loads(run("doctor", "--json", code=None).out)["checks"]
    missing = [check for check in checks if check["what"].startswith("the package ")]
    assert [check["todo"] for check in missing] == [
        f"{install} '{requirement}'" for requirement in (TEXTUAL, SEGNO, TELEGRAM)
    ]
    for check, part in zip(missing, parts.values(), strict=True):
        assert f" is not installed: {part} does not work" in check["what"]
        assert not check["needed"]


def test_doctor_says_nothing_about_packages_that_are_installed(run: Sm) -> None:
    assert "the package" not in run("doctor", code=None).out


@pytest.mark.parametrize(
    ("prefix", "command"),
    [
        (PIPX, "pipx ensurepath, then open a new terminal"),
        (UV_TOOL, "uv tool update-shell, then open a new terminal"),
        (VENV, f'export PATH="{VENV}/bin:$PATH"'),
    ],
)
def test_path_command_is_that_of_the_installer(
    prefix: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", prefix)
    monkeypatch.setattr(sys, "executable", f"{prefix}/bin/python")
    assert path_command() == command


def test_uninstall_command_uses_uv_in_an_environment_without_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/srv/sm/bin/python")
    assert uninstall_command("/srv/sm/bin/sm") == "/srv/sm/bin/python -m pip uninstall sm-sessions"
    monkeypatch.setitem(sys.modules, "pip", None)
    assert uninstall_command("/srv/sm/bin/sm") == "uv pip uninstall --python /srv/sm/bin/python sm-sessions"


def test_hints_name_the_versions_of_pyproject() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {TEXTUAL, SEGNO, TELEGRAM} <= set(project["dependencies"])
    assert set(project["optional-dependencies"]) == {"dev"}
