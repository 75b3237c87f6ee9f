"""Finds the id of a request whose line is too long to keep. `sm mcp` loads this module for such a line only."""

import re

from sm.cli.mcp.message import valid_id
from sm.wire import decode

_SCALAR = rb'(?:"(?:[^"\\]|\\.)*"|-?[\d.eE+-]+|true|false|null)'
_ID = rb'"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+)'
_MEMBER = rb'"\w+"\s*:\s*' + _SCALAR
_FIRST = re.compile(rb"\s*\{\s*(?:" + _MEMBER + rb"\s*,\s*)*?" + _ID + rb"\s*[,}]")
"""The id among the first members, which are no objects."""
_LAST = re.compile(rb"[,{]\s*" + _ID + rb"\s*(?:,\s*" + _MEMBER + rb"\s*)*\}\s*\Z")
"""The id among the last members. One brace follows, so that it belongs to no inner object."""


def find_id(head: bytes, tail: bytes) -> str | int | None:
    """The id of the request of which `head` and `tail` are the ends. None without one, or with its id elsewhere."""
    found = _FIRST.match(head) or _LAST.search(tail)
    if found is None:
        return None
    try:
        return valid_id(decode(found[1].decode()))
    except ValueError:
        return None
