"""docs/architecture.md names what is there: its picture is generated, and the files of its tables exist."""

import re
from pathlib import Path

import pytest

from tests.room_picture import BANDS, DOCUMENT, LEAVES, reduced, rooms, written

TEXT = DOCUMENT.read_text(encoding="utf-8")
MODULES = sorted(set(re.findall(r"`((?:\w+/)+\w+\.py)`", TEXT)))


def test_the_picture_is_the_generated_one() -> None:
    assert written(TEXT) == TEXT, "run: python -m tests.room_picture"


def test_the_picture_has_every_room_once() -> None:
    shown = [name for members in BANDS.values() for name in members]
    assert sorted([*shown, *LEAVES]) == sorted(rooms())


def test_reduced_leaves_out_what_a_longer_path_implies() -> None:
    assert reduced({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == [("a", "b"), ("b", "c")]


@pytest.mark.parametrize("module", MODULES)
def test_every_module_that_the_document_names_exists(module: str) -> None:
    assert (Path("src/sm") / module).exists() or Path(module).exists()


def test_the_reading_path_has_ten_files_of_about_four_thousand_lines() -> None:
    path = TEXT.partition("## Reading path")[2].partition("\n## ")[0]
    modules = re.findall(r"^\d+\. `([\w/]+\.py)`", path, re.MULTILINE)
    assert len(modules) == 10
    lines = sum(len((Path("src/sm") / module).read_text().splitlines()) for module in modules)
    assert 2_000 <= lines <= 5_000
