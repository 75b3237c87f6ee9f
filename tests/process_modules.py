"""Tells by their text which test modules a run needs: to import the others takes most of a collection."""

import functools
import re
from pathlib import Path

TESTS = Path(__file__).parent
INTEGRATION = TESTS / "integration"
"""All its tests start processes, as tests/conftest.py checks."""
_DIRECTORIES = frozenset(["cli", "integration", "linux", "sandboxes", "terminals"])
"""Most of their modules start processes."""
_WORDS = re.compile(r"mark\.processes|ChildProcess|Typist|World\b|[a-z.]+instance import")


@functools.cache
def may_start_processes(module: Path) -> bool:
    """Tell whether a module may have tests with processes. tests/conftest.py checks each such test against it."""
    return (
        TESTS not in module.parents
        or module.relative_to(TESTS).parts[0] in _DIRECTORIES
        or _WORDS.search(module.read_text()) is not None
    )


def is_left_out(path: Path, marks: str) -> bool:
    """Tell whether `marks` (pytest's option -m) leaves out all tests of a module."""
    if marks == "not processes":
        return path == INTEGRATION
    kind = marks.partition(" ")[0]
    if kind not in ("browser", "processes") or TESTS not in path.parents or not path.match("test_*.py"):
        return False
    if kind == "browser":
        return "mark.browser" not in path.read_text()
    if path.match("test_claude_*.py") and "not full" in marks and "claude_core" not in path.read_text():
        return True
    return not may_start_processes(path)
