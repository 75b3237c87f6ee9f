"""Class names in `src/sm` are unique."""

import ast
from collections import Counter
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src" / "sm"


def test_public_class_names_are_unique() -> None:
    names = Counter(
        node.name
        for path in SOURCES.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert not {name for name, uses in names.items() if uses > 1}
