"""Docstrings below attributes are read from the source."""

from dataclasses import dataclass

from sm.core.attribute_docs import attribute_docs


@dataclass(frozen=True, slots=True)
class Documented:
    """A class."""

    first: int
    """One line."""
    second: str
    third: int = 3
    """Two
    lines."""


@dataclass(frozen=True, slots=True)
class Derived(Documented):
    fourth: int = 4
    """Its own."""


def test_attribute_docs_are_the_docstrings_below_attributes() -> None:
    assert attribute_docs(Documented) == {"first": "One line.", "third": "Two\nlines."}


def test_attribute_docs_leave_out_those_of_base_classes() -> None:
    assert attribute_docs(Derived) == {"fourth": "Its own."}
