"""Names the commands of the program that installed sm: pipx, uv, or pip in a virtual environment."""

import os
import shlex
import sys
from importlib.util import find_spec

TEXTUAL = "textual>=8.2,<9"
SEGNO = "segno>=1.6"
TELEGRAM = "python-telegram-bot>=22.8,<23"
"""Packages without which only a part of sm works, with the versions of pyproject.toml."""

_NAME = "sm-sessions"
_PIPX, _UV_TOOL = "/pipx/venvs/", "/uv/tools/"
"""Parts of the path of every program that pipx or `uv tool` installed."""


def install_command(requirement: str) -> str:
    """Return the command that installs a package into the environment of this sm."""
    if _PIPX in sys.prefix:
        return f"pipx inject {_NAME} {shlex.quote(requirement)}"
    return f"{_pip('install')} {shlex.quote(requirement)}"


def uninstall_command(program: str) -> str:
    """Return the command that uninstalls the sm whose command is `program` (absolute, without links)."""
    if _PIPX in program:
        return f"pipx uninstall {_NAME}"
    if _UV_TOOL in program:
        return f"uv tool uninstall {_NAME}"
    return f"{_pip('uninstall')} {_NAME}"


def is_removed_with_its_link(program: str) -> bool:
    """Return whether `uninstall_command` also removes the link to the program in ~/.local/bin."""
    return _PIPX in program or _UV_TOOL in program


def path_command() -> str:
    """Return the command that adds the directory of this sm to PATH."""
    if _PIPX in sys.prefix:
        return "pipx ensurepath, then open a new terminal"
    if _UV_TOOL in sys.prefix:
        return "uv tool update-shell, then open a new terminal"
    return f'export PATH="{os.path.dirname(sys.executable)}:$PATH"'


def _pip(command: str) -> str:
    """Return the start of a command of pip. An environment that uv made has no pip."""
    python = shlex.quote(sys.executable)
    if find_spec("pip") is None:
        return f"uv pip {command} --python {python}"
    return f"{python} -m pip {command}"
