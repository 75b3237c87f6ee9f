"""Reads versions of Claude Code. Pure."""

import re

_VERSION = re.compile(r"(?<![\w.-])(\d{1,6})\.(\d{1,6})\.(\d{1,6})(?![\w.-])", re.ASCII)


def version_in(text: str) -> tuple[int, ...] | None:
    """Return the first version in a text, such as the output of --version. Returns None without one."""
    found = _VERSION.search(text)
    return None if found is None else tuple(map(int, found.groups()))
