"""docs/architecture.md matches the code: its picture is generated, and the files it names exist."""

import re
from pathlib import Path

import pytest

from tests.room_picture import BANDS, DOCUMENT, LEAVES, reduce_edges, rooms, written

TEXT = DOCUMENT.read_text(encoding="utf-8")
MODULES = sorted(set(re.findall(r"`((?:\w+/)+\w+\.py)`", TEXT)))


def test_architecture_document_contains_the_generated_picture() -> None:
    assert written(TEXT) == TEXT, "run: python -m tests.room_picture"


def test_room_picture_shows_every_room_once() -> None:
    names = [name for members in BANDS.values() for name in members]
    assert sorted([*names, *LEAVES]) == sorted(rooms())


def test_reduce_edges_omits_an_edge_when_a_longer_path_implies_it() -> None:
    assert reduce_edges({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == [("a", "b"), ("b", "c")]


@pytest.mark.parametrize("module", MODULES)
def test_architecture_document_names_only_modules_that_exist(module: str) -> None:
    assert (Path("src/sm") / module).exists() or Path(module).exists()


def test_reading_path_has_ten_files_of_about_four_thousand_lines() -> None:
    path = TEXT.partition("## Reading path")[2].partition("\n## ")[0]
    modules = re.findall(r"^\d+\. `([\w/]+\.py)`", path, re.MULTILINE)
    assert len(modules) == 10
    lines = sum(len((Path("src/sm") / module).read_text().splitlines()) for module in modules)
    assert 2_000 <= lines <= 5_000
