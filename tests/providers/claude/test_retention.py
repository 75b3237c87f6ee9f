"""After how many days claude deletes transcripts, by its settings files."""

import json
from pathlib import Path

import pytest

from sm.providers.claude.setup import retention


def put(path: Path, days: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"cleanupPeriodDays": days}))
    return path


def test_later_settings_win(tmp_path: Path) -> None:
    environment, project = {"HOME": str(tmp_path)}, tmp_path / "shop"
    managed = tmp_path / "managed.json"

    def found() -> tuple[int, str | None]:
        kept = retention(environment, str(project), managed=str(managed))
        return kept.days, kept.source

    assert found() == (30, None)
    places = [
        tmp_path / ".claude" / "settings.json",
        project / ".claude" / "settings.json",
        project / ".claude" / "settings.local.json",
        managed,
    ]
    for days, place in enumerate(places, 7):
        put(place, days)
        assert found() == (days, str(place))


def test_settings_of_another_configuration_directory_count_for_it(tmp_path: Path) -> None:
    own = put(tmp_path / "other" / "settings.json", 9)
    environment = {"HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(tmp_path / "other")}
    assert retention(environment, str(tmp_path)).source == str(own)


@pytest.mark.parametrize("days", [0, -1, True, "7", None, 1.5])
def test_value_that_claude_refuses_is_not_used(tmp_path: Path, days: object) -> None:
    put(tmp_path / ".claude" / "settings.json", days)
    assert retention({"HOME": str(tmp_path)}, "/srv/shop").days == 30


def test_unreadable_settings_are_the_default(tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text("{")
    assert retention({"HOME": str(tmp_path)}, "/srv/shop").days == 30
