"""The words of stars in lists. Standard library alone."""

from collections.abc import Mapping
from typing import Any


def _mark(star: Mapping[str, Any]) -> str:
    return f"★ {star['reason']}".strip()


MARKS = {"star": _mark}
"""The words of the fields of a session that stars add."""
