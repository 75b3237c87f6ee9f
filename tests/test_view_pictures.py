"""The pictures of the live views: small, without anything from elsewhere, and in a page of the guide."""

import re
from pathlib import Path

import pytest

from tests.view_pictures import DIRECTORY

PICTURES = sorted(DIRECTORY.iterdir())
BYTES_MAX = 150_000
PAGES = [Path("README.md"), *Path("docs/guide").glob("*.md")]


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.name)
def test_picture_is_small_and_shown_in_a_page(picture: Path) -> None:
    assert picture.stat().st_size < BYTES_MAX
    assert any(f"img/{picture.name})" in page.read_text(encoding="utf-8") for page in PAGES)


@pytest.mark.parametrize(
    "picture", [path for path in PICTURES if path.suffix == ".svg"], ids=lambda p: p.name
)
def test_drawn_picture_loads_nothing(picture: Path) -> None:
    text = picture.read_text(encoding="utf-8")
    assert not re.search(r"@import|@font-face|href|<script|<image", text)
    assert set(re.findall(r"url\((.)", text)) == {"#"}
    assert "/tmp/sm-" not in text
