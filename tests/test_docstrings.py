"""Docstrings of the code begin with a verb or a noun, not with a clause."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

FORBIDDEN = {"What", "Who", "Whoever", "Whether", "That", "It", "So", "Those", "Such"}
SUSPECT = re.compile(rf"""["']\s*(?:{"|".join(sorted(FORBIDDEN))})\b""")
"""Found in every file with such a docstring. Most files have nothing like it, and need not be parsed."""
FOLDERS = ("src", "tests", "bench")


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The line and the text of every docstring of modules, classes, functions and attributes."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for statement in node.body:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                yield statement.lineno, str(statement.value.value)


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_docstring_begins_with_a_clause(folder: str) -> None:
    refused = [
        f"{path}:{line}: {text[:60]}"
        for path in sorted(Path(folder).rglob("*.py"))
        if SUSPECT.search(source := path.read_text(encoding="utf-8"))
        for line, text in docstrings(ast.parse(source))
        if text.split(maxsplit=1)[0].rstrip(",:") in FORBIDDEN
    ]
    assert refused == []
