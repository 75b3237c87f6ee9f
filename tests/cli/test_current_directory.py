"""The current directory of a command, also when somebody has deleted it."""

import os
from pathlib import Path

import pytest

from sm.cli.options import absolute, current_directory
from sm.errors import UsageError


def test_typed_path_is_below_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    assert current_directory() == str(tmp_path)
    assert [absolute(path) for path in ("a/../b", "/x/./y", "~/z")] == [f"{tmp_path}/b", "/x/y", "/home/me/z"]


def test_deleted_current_directory_is_a_usage_error_and_full_paths_still_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    with monkeypatch.context() as inside:
        inside.chdir(tmp_path / "gone")
        os.rmdir(tmp_path / "gone")
        assert absolute("/x/y") == "/x/y"
        for refused in (current_directory, lambda: absolute("here")):
            with pytest.raises(UsageError, match="the current directory no longer exists"):
                refused()
