"""docs/security.md says what is: its table is that of policy.py, and the tests that it names are there."""

import re

import pytest

from tests.policy_table import DOCUMENT, written

TEXT = DOCUMENT.read_text(encoding="utf-8")
NAMED = re.findall(r"`(test_\w+)`(?: in `(tests/[\w/]+\.py)`)?", TEXT)


def test_the_documented_table_is_the_generated_one() -> None:
    assert written(TEXT) == TEXT, "run: python -m tests.policy_table"


def test_it_begins_with_what_it_protects_against_and_what_not() -> None:
    paragraphs = TEXT.split("\n\n")
    assert paragraphs[0].startswith("# ")
    assert "accidents" in paragraphs[1]
    assert "the boundary is the sandbox" in paragraphs[1].replace("\n", " ")


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:tests|src)/[\w/.]+)`", TEXT))))
def test_every_file_that_it_names_is_there(path: str) -> None:
    assert (DOCUMENT.parent.parent / path).exists()


@pytest.mark.parametrize("name", sorted({name for name, _ in NAMED}))
def test_every_test_that_it_names_is_there(name: str) -> None:
    tests = (DOCUMENT.parent.parent / "tests").rglob("test_*.py")
    assert any(re.search(rf"\bdef {name}\(", each.read_text(encoding="utf-8")) for each in tests)
