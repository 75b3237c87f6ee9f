"""No code raises inside `except*`: Python before 3.11.4 wraps `raise ... from None` there in another group."""

import ast
from pathlib import Path


def raises_inside_except_star(source: str) -> list[int]:
    """The lines with a `raise` in a handler of `except*`; a function that is defined there does not count."""
    lines: list[int] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.TryStar):
            pending: list[ast.AST] = [statement for handler in node.handlers for statement in handler.body]
            while pending:
                inner = pending.pop()
                if isinstance(inner, ast.Raise):
                    lines.append(inner.lineno)
                if not isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                    pending.extend(ast.iter_child_nodes(inner))
    return lines


def test_raises_inside_except_star_finds_a_nested_raise() -> None:
    source = "try:\n    f()\nexcept* OSError as group:\n    if group:\n        raise ValueError from None\n"
    assert raises_inside_except_star(source) == [5]


def test_no_module_raises_inside_except_star() -> None:
    found = {
        str(path): lines
        for path in Path("src/sm").rglob("*.py")
        if "except*" in (source := path.read_text(encoding="utf-8"))
        and (lines := raises_inside_except_star(source))
    }
    assert found == {}
