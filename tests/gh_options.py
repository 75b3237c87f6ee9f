"""Writes the options and JSON fields of gh, which the double of gh checks: python -m tests.gh_options PROGRAM.

tests/data/gh.json has those of the oldest gh that sm supports. A newer one has more of them.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PATH = Path(__file__).parent / "data" / "gh.json"
COMMANDS = ("pr list", "pr view", "pr create", "repo view", "run view", "api")
"""The commands that sm may run."""
_OPTION = re.compile(r"^ +(?:-\w, )?--([a-z-]+)(?: (?!  )\S+)?(?= )", re.MULTILINE)


def known() -> Mapping[str, Any]:
    """The options and fields of the oldest gh that sm supports, as `options_of`."""
    found: Mapping[str, Any] = json.loads(PATH.read_text())
    return found


def options_of(program: str) -> Mapping[str, Any]:
    """The version of a gh, and the options and JSON fields of each command."""
    found = _words(program, "version").split()[2]
    return {"version": found, "commands": {command: _command(program, command) for command in COMMANDS}}


def _command(program: str, command: str) -> Mapping[str, Any]:
    options = sorted(set(_OPTION.findall(_words(program, *command.split(), "--help"))))
    fields: list[str] = []
    if "json" in options:
        # Without a value, gh lists the fields. It asks nobody: it only wants a token.
        _, _, listed = _words(program, *command.split(), "--json").partition(":\n")
        fields = listed.split()
    return {"options": options, "fields": sorted(fields)}


def _words(program: str, *arguments: str) -> str:
    with tempfile.TemporaryDirectory() as home:
        env = {"GH_TOKEN": "none", "HOME": home, "PATH": "/usr/bin:/bin", "NO_COLOR": "1"}
        done = subprocess.run(
            [program, *arguments], env=env, cwd="/", capture_output=True, text=True, check=False
        )
    return f"{done.stdout}{done.stderr}"


if __name__ == "__main__":
    PATH.write_text(f"{json.dumps(options_of(sys.argv[1]), indent=1)}\n")
