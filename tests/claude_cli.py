"""The real Claude Code for tests: its path, and a home and an environment in which it reaches no real model.

`./check` installs Claude Code (`setup_claude` in `scripts/setup.sh`).
"""

import json
import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

from sm.providers.claude.check.play import KEY, QUIET, locations, seed
from tests.scripted_api import ScriptedApi

__all__ = [
    "BINARY",
    "KEY",
    "OLDEST",
    "VERSION",
    "answer_first_questions",
    "binary",
    "directory_on_path",
    "environment",
    "missing",
    "seed",
    "version",
]

VERSION = "2.1.332"
OLDEST = "2.1.197"
"""The oldest version that `sm` supports, as in `scripts/setup.sh`."""
OTHER_PROGRAM = "SM_TEST_CLAUDE"
"""The variable that names another claude than that of `./check`, of any version."""
BINARY = Path(os.environ.get(OTHER_PROGRAM) or Path(__file__).parents[1] / "node_modules" / ".bin" / "claude")


@cache
def missing() -> str:
    """The reason why Claude Code cannot run here; empty if it can."""
    if not BINARY.exists():
        return f"claude {VERSION} is not installed: ./check installs it into node_modules"
    if OTHER_PROGRAM not in os.environ and version() != VERSION:
        return f"claude {VERSION} is required, but the version of {BINARY} is {version()!r}"
    return ""


@cache
def version() -> str:
    """The version of the program that tests run; empty if it names none."""
    said = subprocess.run([BINARY, "--version"], capture_output=True, text=True, check=False).stdout
    return said.partition(" ")[0]


def binary() -> str:
    """The path of the program. Skips the test if the program is missing; in CI, fails it."""
    reason = missing()
    if reason and os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    if reason:
        pytest.skip(reason)
    return str(BINARY)


def directory_on_path(home: Path) -> Path:
    """Make a directory for the PATH of a user in which the program has its usual name, and not that of its package."""
    programs = home / ".programs"
    programs.mkdir(exist_ok=True)
    link = programs / "claude"
    if not link.is_symlink():
        link.symlink_to(binary())
    return programs


def answer_first_questions(home: Path) -> None:
    """Write the answers that `sm spawn` looks for, for a user whose stand-in for claude asks nothing."""
    answers = {"hasCompletedOnboarding": True, "projects": {"/": {"hasTrustDialogAccepted": True}}}
    (home / ".claude.json").write_text(json.dumps(answers))
    (home / ".claude").mkdir(exist_ok=True)
    (home / ".claude" / "settings.json").write_text('{"env": {"ANTHROPIC_AUTH_TOKEN": "none"}}')


def environment(home: Path, api: ScriptedApi) -> dict[str, str]:
    """The whole environment. Only PATH comes from the caller, which may itself run inside a claude."""
    return {
        "PATH": os.environ["PATH"],
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        **locations(home, api.url),
        **QUIET,
    }
