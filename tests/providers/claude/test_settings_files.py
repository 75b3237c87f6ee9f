"""The settings files of claude that turn off the hooks of sm."""

import json
from pathlib import Path

import pytest

from sm.providers.claude.settings_files import hooks_off

OFF, ON = {"disableAllHooks": True}, {"disableAllHooks": False}


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({}, None),
        ({"user": OFF}, ("user", "disableAllHooks")),
        ({"managed": OFF}, ("managed", "disableAllHooks")),
        ({"user": OFF, "managed": ON}, None),
        ({"user": ON, "managed": {"allowManagedHooksOnly": True}}, ("managed", "allowManagedHooksOnly")),
        ({"user": {"allowManagedHooksOnly": True}}, None),
        ({"managed": {"allowManagedHooksOnly": "yes", "disableAllHooks": 1}}, None),
    ],
)
def test_hooks_are_off_by_the_strongest_file(
    tmp_path: Path, files: dict[str, object], found: tuple[str, str] | None
) -> None:
    paths = {"user": tmp_path / "home" / ".claude" / "settings.json", "managed": tmp_path / "managed.json"}
    paths["user"].parent.mkdir(parents=True)
    for name, settings in files.items():
        paths[name].write_text(json.dumps(settings))
    off = hooks_off({"HOME": str(tmp_path / "home")}, str(tmp_path), managed=str(paths["managed"]))
    assert (off and (off.path, off.key)) == (found and (str(paths[found[0]]), found[1]))
