"""The document of checked versions is what its generator writes."""

from tests.claude_versions import BROKEN, DOCUMENT, HELD, contracts, rows_of, text_of


def test_document_of_versions_is_written_by_its_generator() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    rows = rows_of(text)
    assert len(rows) >= 2
    assert text_of(rows) == text, "run: python -m tests.claude_versions"


def test_table_of_versions_is_read_as_it_was_written() -> None:
    first, *others = contracts()
    marks = {first: BROKEN, **dict.fromkeys(others, HELD)}
    rows = {"2.1.99": ("2026-11-28", marks), "2.1.332": ("2026-11-29", dict.fromkeys(contracts(), HELD))}
    assert rows_of(text_of(rows)) == rows
    assert list(rows_of(text_of(rows))) == ["2.1.332", "2.1.99"]
    assert rows_of("") == {}
