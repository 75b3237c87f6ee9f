"""A home and an environment in which Claude Code asks nothing at its start and reaches no real model."""

import json
from collections.abc import Mapping
from pathlib import Path

KEY = "sk-ant-api03-none-of-any-account-0123456789"
"""An API key of nobody."""

QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
}
"""Variables with which Claude Code calls nobody but its model."""


def seed(
    home: Path,
    place: Path | None = None,
    /,
    *,
    onboarded: bool = True,
    approved: bool = True,
    trusted: bool = True,
) -> Path:
    """Make a home with the answers to claude's first-start dialogs, and return its configuration directory.

    A False argument leaves an answer out, so that claude opens the dialog: the theme, the API key, trust in `home`
    and everything below, or in `place`. Trust is one entry for the parent directory, because running claudes rewrite
    the file and would drop entries added later.
    """
    config = home / ".claude"
    config.mkdir(parents=True)
    answers: dict[str, object] = {}
    if onboarded:
        answers["hasCompletedOnboarding"] = True
    if approved:
        answers["customApiKeyResponses"] = {"approved": [KEY[-20:]], "rejected": []}
    if trusted:
        answers["projects"] = {str(place or home): {"hasTrustDialogAccepted": True}}
    (config / ".claude.json").write_text(json.dumps(answers))
    return config


def locations(home: Path, url: str) -> Mapping[str, str]:
    """The variables that send claude to this home and to the API at this address."""
    return {
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "CLAUDE_CODE_TMPDIR": str(home / ".claude" / "tmp"),  # otherwise the output of tools stays in /tmp
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": url,
    }
