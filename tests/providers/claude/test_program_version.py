"""The version of an installed claude, found without running it."""

import json
from pathlib import Path

import pytest

from sm.providers.claude.readiness import installed_version


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(0o700)
    return path


def version(directory: Path) -> tuple[int, ...] | None:
    return installed_version("claude", {"PATH": str(directory)})


def test_version_is_the_name_of_the_file_that_the_installer_of_claude_wrote(tmp_path: Path) -> None:
    program = executable(tmp_path / "share" / "claude" / "versions" / "2.1.332")
    (tmp_path / "claude").symlink_to(program)
    assert version(tmp_path) == (2, 1, 332)


@pytest.mark.parametrize(
    ("package", "expected"),
    [
        ({"version": "2.1.197"}, (2, 1, 197)),
        ({"version": "2.1.400-beta"}, None),
        ({"version": 2}, None),
        (["2.1.197"], None),
    ],
)
def test_version_is_that_of_the_package_around_the_program(
    tmp_path: Path, package: object, expected: tuple[int, ...] | None
) -> None:
    place = tmp_path / "node_modules" / "@anthropic-ai" / "claude-code"
    (tmp_path / "claude").symlink_to(executable(place / "bin" / "claude.exe"))
    assert version(tmp_path) is None
    (place / "package.json").write_text(json.dumps(package))
    assert version(tmp_path) == expected


def test_version_of_another_program_is_unknown(tmp_path: Path) -> None:
    assert version(tmp_path) is None
    executable(tmp_path / "claude")
    assert version(tmp_path) is None
