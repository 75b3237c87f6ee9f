"""The real Claude Code for tests: where it is, and a home and an environment in which it asks no model and nobody.

`./check` installs it (`setup_claude` in `scripts/setup.sh`).
"""

import json
import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.load import scaled
from tests.scripted_api import ScriptedApi

VERSION = "2.1.197"
BINARY = Path(__file__).parents[1] / "node_modules" / ".bin" / "claude"
KEY = "sk-ant-api03-none-of-any-account-0123456789"


@cache
def missing() -> str:
    """Why it cannot be run here; empty where it can."""
    if not BINARY.exists():
        return f"there is no claude {VERSION}: ./check installs it into node_modules"
    asked = subprocess.run(
        [BINARY, "--version"], capture_output=True, text=True, timeout=scaled(60), check=False
    )
    if asked.stdout.split(" ")[0] != VERSION:
        return f"claude {VERSION} is wanted, and `claude --version` says {asked.stdout or asked.stderr!r}"
    return ""


def binary() -> str:
    """The path of the program. Without it the test is skipped, but fails in CI: nothing may be lost there unseen."""
    reason = missing()
    if reason and os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    if reason:
        pytest.skip(reason)
    return str(BINARY)


def seed(home: Path, *, onboarded: bool = True, approved: bool = True, trusted: bool = True) -> Path:
    """Make a home whose owner has answered what claude asks at its first start, and return its configuration.

    Each answer can be left out, and then the dialog comes: the theme, the key, whether to trust `home` and all
    below it. One entry for the parent, because running claudes rewrite the file and lose what others add.
    """
    config = home / ".claude"
    config.mkdir(parents=True)
    answers: dict[str, object] = {}
    if onboarded:
        answers["hasCompletedOnboarding"] = True
    if approved:
        answers["customApiKeyResponses"] = {"approved": [KEY[-20:]], "rejected": []}
    if trusted:
        answers["projects"] = {str(home): {"hasTrustDialogAccepted": True}}
    (config / ".claude.json").write_text(json.dumps(answers))
    return config


def environment(home: Path, api: ScriptedApi) -> dict[str, str]:
    """All of the environment: nothing of the caller's, who may well be a claude himself, but the path."""
    return {
        "PATH": os.environ["PATH"],
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "CLAUDE_CODE_TMPDIR": str(home / ".claude" / "tmp"),  # else what tools print stays in /tmp
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": api.url,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
    }
