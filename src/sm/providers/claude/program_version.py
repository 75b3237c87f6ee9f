"""Finds the version of an installed claude by its files, without running it."""

import json
import os
import shutil
from collections.abc import Mapping

from sm.linux.files import read_file
from sm.providers.claude.dialect import Known, current, version_in

_PACKAGE = "@anthropic-ai/claude-code"
_PACKAGE_MAX_BYTES = 64 * 1024


def installed_version(program: str, environment: Mapping[str, str]) -> tuple[int, ...] | None:
    """Return the version of the program that an agent with this environment starts. Returns None if it is unknown.

    npm keeps the program in a package with its version, and the installer of claude names the file by it.
    """
    path = shutil.which(program, path=environment.get("PATH"))
    if path is None:
        return None
    path = os.path.realpath(path)
    return version_in(os.path.basename(path)) or version_in(_package_version(path))


def is_versioned(path: str) -> bool:
    """Return whether the installer of claude put a program at this path, whose name is its version."""
    above, name = os.path.split(path)
    return version_in(name) is not None and above.endswith("/claude/versions")


def _package_version(path: str) -> str:
    above, package, _ = path.rpartition(f"/{_PACKAGE}/")
    if not package:
        return ""
    try:
        value = json.loads(read_file(f"{above}/{_PACKAGE}/package.json", _PACKAGE_MAX_BYTES).data)
    except (OSError, ValueError, RecursionError):
        return ""
    version = value.get("version") if isinstance(value, dict) else None
    return version if isinstance(version, str) else ""


def asks_per_repository(program: str, environment: Mapping[str, str]) -> bool:
    """Return whether this claude asks for trust in each git repository. A program of unknown version does."""
    known = Known(installed_version(program, environment))
    return current().choose("trust.per_repository", known).value is True
