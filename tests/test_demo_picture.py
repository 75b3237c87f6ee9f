"""The picture of the README shows what `sm` prints today."""

from tests.demo_picture import PICTURE, draw, stable_text
from tests.typist import Typist  # noqa: F401  the mark of tests that start processes


def test_picture_of_the_readme_is_up_to_date() -> None:
    committed = stable_text(PICTURE.read_text(encoding="utf-8"))
    assert "$ sm answer r1 blue" in committed
    assert committed == stable_text(draw()), "run: python -m tests.demo_picture"
