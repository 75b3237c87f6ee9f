import pytest

from sm.capabilities.files.model import OperatorFile
from sm.capabilities.files.rules import own_lines, size_words
from tests.samples import AT


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (1, "1 byte"),
        (999, "999 bytes"),
        (1_000, "1 kB"),
        (12_345, "12 kB"),
        (999_499, "999 kB"),
        (999_500, "1.0 MB"),
        (10_485_760, "10.5 MB"),
    ],
)
def test_size_is_worded_in_the_unit_that_fits(size: int, words: str) -> None:
    assert size_words(size) == words


def test_lines_number_the_files_and_name_their_places() -> None:
    files = [OperatorFile(f"f-{n}", f"{n} b.png", 12_345, "image/png", AT) for n in (7, 8)]
    assert own_lines("/d/aaaa1111.files", files) == (
        "[sm] file 1: /d/aaaa1111.files/f-7/7 b.png (image/png, 12 kB)",
        "[sm] file 2: /d/aaaa1111.files/f-8/8 b.png (image/png, 12 kB)",
    )
