"""The documents: their links, the width of their lines, and the form of the glossary."""

import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import pytest

from sm.core.capability_parts import capability_parts
from sm.core.timers import TimerKind

DOCUMENTS = sorted([*Path().glob("*.md"), *Path("docs").rglob("*.md")])
WIDTH = {Path("README.md"): 100}
WIDTH_MAX = 120
GENERATED = {Path("docs/reference/errors.md")}


def prose(document: Path) -> Iterator[str]:
    """Every line outside of code blocks and tables."""
    is_code = False
    for line in document.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            is_code = not is_code
        elif not is_code and not line.startswith("|"):
            yield line


def anchors(document: Path) -> set[str]:
    """The fragments that GitHub gives to the headings of a document."""
    headings = [line.lstrip("# ") for line in prose(document) if line.startswith("#")]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_document_links_lead_to_existing_files_and_headings(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for target, fragment in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)", text):
        linked = document.parent / target if target else document
        assert linked.exists(), target
        assert not fragment or fragment in anchors(linked), f"{target}#{fragment}"


@pytest.mark.parametrize("document", [path for path in DOCUMENTS if path not in GENERATED], ids=str)
def test_document_lines_are_wrapped(document: Path) -> None:
    width = WIDTH.get(document, WIDTH_MAX)
    assert [line for line in prose(document) if len(line) > width] == []


def test_glossary_has_one_line_for_each_term_in_alphabetical_order() -> None:
    lines = [line for line in prose(Path("docs/glossary.md")) if line.startswith("- ")]
    terms = [re.fullmatch(r"- \*\*([\w -]+)\*\*: \S.*[^.]", line) for line in lines]
    names = [term[1] for term in terms if term is not None]
    assert len(names) == len(lines) > 0
    assert names == sorted(set(names), key=str.lower)


def test_sandbox_document_names_only_tests_that_exist() -> None:
    named = set(re.findall(r"`(test_\w+)`", Path("docs/sandbox.md").read_text(encoding="utf-8")))
    defined = {
        name
        for path in Path("tests").rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)\(", path.read_text(encoding="utf-8"))
    }
    assert named
    assert named - defined == set()


def timer_kinds_of_capabilities() -> list[StrEnum]:
    found = [
        value
        for part in capability_parts("model")
        for name, value in vars(part).items()
        if name.endswith("Timer")
    ]
    return [kind for kinds in found if issubclass(kinds, StrEnum) for kind in kinds]


def test_recovery_document_names_every_timer_queue_and_task_of_the_daemon() -> None:
    text = Path("docs/recovery.md").read_text(encoding="utf-8")
    kinds = [*TimerKind, *timer_kinds_of_capabilities()]
    assert [kind.value for kind in kinds if kind != "unknown" and f"`{kind}`" not in text] == []
    owners = set()
    for path in Path("src/sm").rglob("*.py"):
        if "cli" not in path.parts:
            owner = ""
            for line in path.read_text(encoding="utf-8").splitlines():
                owner = found[1] if (found := re.match(r"class (\w+)", line)) else owner
                if "asyncio.Queue(" in line:
                    owners.add(owner)
    assert {owner for owner in owners if f"`{owner}." not in text} == set()
    named = set(re.findall(r"`(test_\w+)`", text))
    tests = "".join(path.read_text(encoding="utf-8") for path in Path("tests").rglob("test_*.py"))
    assert {name for name in named if f"def {name}(" not in tests} == set()
    assert [file for file in re.findall(r"`(tests/[\w/]+\.py)`", text) if not Path(file).exists()] == []
