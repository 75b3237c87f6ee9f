"""docs/security.md matches the code: its tables are generated, and the files and tests it names exist."""

import re

from tests.policy_table import DOCUMENT, written

TEXT = DOCUMENT.read_text(encoding="utf-8")
NAMED = re.findall(r"`(test_\w+)`(?: in `(tests/[\w/]+\.py)`)?", TEXT)


def test_security_document_contains_the_generated_tables() -> None:
    assert written(TEXT) == TEXT, "run: python -m tests.policy_table"


def test_security_document_begins_with_its_scope_and_boundary() -> None:
    paragraphs = TEXT.split("\n\n")
    assert paragraphs[0].startswith("# ")
    assert "accidents" in paragraphs[1]
    assert "the boundary is the sandbox" in paragraphs[1].replace("\n", " ")


def test_security_document_names_only_files_that_exist() -> None:
    paths = set(re.findall(r"`((?:tests|src)/[\w/.]+)`", TEXT))
    assert paths
    assert [path for path in sorted(paths) if not (DOCUMENT.parent.parent / path).exists()] == []


def test_security_document_names_only_tests_that_exist() -> None:
    tests = (DOCUMENT.parent.parent / "tests").rglob("test_*.py")
    defined = {name for path in tests for name in re.findall(r"\bdef (test_\w+)\(", path.read_text("utf-8"))}
    named = {name for name, _ in NAMED}
    assert named
    assert named - defined == set()
