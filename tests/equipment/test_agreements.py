"""The file of the operator's agreements."""

from pathlib import Path

import pytest

from sm.core.items import ItemKind, ItemState, ProjectItem
from sm.equipment.agreements import Agreements


def item(name: str) -> ProjectItem:
    return ProjectItem(ItemKind.MCP_SERVER, name, "/srv/shop/.mcp.json", b"{}")


@pytest.mark.parametrize("damage", ["{", "[]", '{"version": 2, "agreed": {"a": "b"}}', ""])
def test_file_that_cannot_be_read_stays_under_another_name(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "agreements.json"
    path.write_text(damage)
    agreements = Agreements(str(path))
    agreements.agree([item("one")])
    assert agreements.states([item("one")]) == (ItemState.AGREED,)
    (kept,) = tmp_path.glob("agreements.json.*.damaged")
    assert kept.read_text() == damage


def test_second_agreement_keeps_the_first_one(tmp_path: Path) -> None:
    agreements = Agreements(str(tmp_path / "agreements.json"))
    agreements.agree([item("one")])
    agreements.agree([item("two")])
    assert agreements.states([item("one"), item("two")]) == (ItemState.AGREED, ItemState.AGREED)
    assert [p.name for p in tmp_path.iterdir()] == ["agreements.json"]
