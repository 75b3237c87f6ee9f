"""Docstrings of the code begin with a verb or a noun, not with a clause, and say in words what a value means."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

FORBIDDEN = {"What", "Who", "Whoever", "Whether", "That", "It", "So", "Those", "Such"}
SUSPECT = re.compile(rf"""["']\s*(?:{"|".join(sorted(FORBIDDEN))})\b""")
"""Found in every file with such a docstring. Most files have nothing like it, and need not be parsed."""
SHORTHAND = re.compile(
    r"""\b(?:None|True|False)`?:[ ]+\S  # anywhere in a line
    |(?:^|["';.,(`])\s*`?(?:None|True|False|[Nn]ull|[Ee]mpty|Present)`?:\s  # as a label, perhaps at the end of a line
    """,
    re.MULTILINE | re.VERBOSE,
)
"""A value as a label before its meaning, where a few words make a sentence."""
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


def comments(source: str) -> Iterator[tuple[int, str]]:
    """The line and the text of every comment."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_docstring_and_no_comment_has_a_value_as_a_label(folder: str) -> None:
    refused = [
        f"{path}:{line}: {found[0]}{text[found.end() :][:60]}"
        for path in sorted(Path(folder).rglob("*.py"))
        if SHORTHAND.search(source := path.read_text(encoding="utf-8"))
        for line, text in (*docstrings(ast.parse(source)), *comments(source))
        if (
            found := SHORTHAND.search(text.partition("Returns:")[0])
        )  # that section has a line for each value
    ]
    assert refused == []


@pytest.mark.parametrize(
    "text",
    [
        "The slug; None: all.",
        "None: all.",
        "The box. False: it is closed.",
        "The mode; null: auto.",
        "A slug; None:\nall.",
    ],
)
def test_value_as_a_label_is_found(text: str) -> None:
    assert SHORTHAND.search(text)


@pytest.mark.parametrize(
    "text",
    [
        "The slug, or None for all.",
        "The fields are null: a command has none.",
        "`caller`: a person, or None.",
    ],
)
def test_value_in_a_sentence_is_no_label(text: str) -> None:
    assert not SHORTHAND.search(text)
