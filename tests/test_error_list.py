"""The list of errors in docs/reference/errors.md is complete and current."""

from tests.error_list import DOCUMENT, document


def test_error_list_is_up_to_date() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == document(), "run: python -m tests.error_list"
