"""`sm config`: effective configuration, example and check."""

from pathlib import Path

import pytest

from sm.config import load
from tests.cli.conftest import Sm

WRITTEN = """
default_trust: direct
tmux: {socket_name: mine}
commands:
  Reviewer: {command: [python3, "rev iew.py"], env: {DEPTH: "2", UMLAUT: "ä\\u009b"}}
"""


@pytest.fixture
def written(home: Path) -> Path:
    path = home / "config.yaml"
    path.write_text(WRITTEN)
    return path


def test_config_path_prints_the_path_when_file_is_missing(run: Sm, home: Path) -> None:
    assert run("config", "--path").out == f"{home}/config.yaml\n"


def test_config_prints_a_file_that_loads_as_the_same_configuration(
    run: Sm, written: Path, home: Path
) -> None:
    out = run("config").out
    assert out.splitlines()[0] == f"# {written}"
    assert "history_limit: 50000" in out
    assert "\x9b" not in out
    again = home / "again.yaml"
    again.write_text(out)
    assert load(str(again)).config == load(str(written)).config


def test_config_prints_defaults_when_file_is_missing(run: Sm, home: Path) -> None:
    out = run("config").out
    assert f"# defaults ({home}/config.yaml does not exist)" in out
    assert "default_trust: sandboxed" in out


def test_config_check_accepts_the_example(run: Sm, home: Path) -> None:
    (home / "config.yaml").write_text(run("config", "--example").out)
    assert run("config", "--check").out == f"ok: {home}/config.yaml\n"


def test_config_check_lists_all_mistakes_with_line_and_column(run: Sm, home: Path) -> None:
    (home / "config.yaml").write_text("tmux: {width: wide}\ndefault_trsut: direct\n")
    done = run("config", "--check", code=2)
    assert "1:15" in done.err
    assert "2:1" in done.err
    assert "default_trust" in done.err, "the hint names the nearest key"
    assert done.out == ""
    assert run("config", code=2).err == done.err


def test_config_check_warns_about_keys_without_effect(run: Sm, home: Path) -> None:
    (home / "config.yaml").write_text("sandbox: {memory: 3g}\n")
    done = run("config", "--check")
    assert done.err.startswith("warning: ")
    assert "sandbox" in done.err


def test_config_refuses_two_modes_at_once(run: Sm) -> None:
    assert "cannot be used together" in run("config", "--path", "--example", code=2).err
