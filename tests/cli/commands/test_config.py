"""`sm config` shows what is in effect, and where it came from."""

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


def test_the_path_is_told_whether_the_file_is_there_or_not(run: Sm, home: Path) -> None:
    assert run("config", "--path").out == f"{home}/config.yaml\n"


def test_what_is_in_effect_is_shown_as_a_file_that_says_the_same(run: Sm, written: Path, home: Path) -> None:
    out = run("config").out
    assert out.splitlines()[0] == f"# {written}"
    assert "history_limit: 50000" in out
    assert "\x9b" not in out
    again = home / "again.yaml"
    again.write_text(out)
    assert load(str(again)).config == load(str(written)).config


def test_without_a_file_the_defaults_are_shown(run: Sm, home: Path) -> None:
    out = run("config").out
    assert f"# {home}/config.yaml, which is not there" in out
    assert "default_trust: sandboxed" in out


def test_the_example_is_a_configuration_that_checks(run: Sm, home: Path) -> None:
    (home / "config.yaml").write_text(run("config", "--example").out)
    assert run("config", "--check").out == f"ok: {home}/config.yaml\n"


def test_every_mistake_is_told_at_once_with_its_place(run: Sm, home: Path) -> None:
    (home / "config.yaml").write_text("tmux: {width: wide}\ndefault_trsut: direct\n")
    done = run("config", "--check", code=2)
    assert "1:15" in done.err
    assert "2:1" in done.err
    assert "default_trust" in done.err, "the nearest key is offered"
    assert done.out == ""
    assert run("config", code=2).err == done.err


def test_what_has_no_effect_is_a_warning(run: Sm, home: Path) -> None:
    (home / "config.yaml").write_text("sandbox: {memory: 3g}\n")
    done = run("config", "--check")
    assert done.err.startswith("warning: ")
    assert "sandbox" in done.err


def test_one_question_at_a_time(run: Sm) -> None:
    assert "exclude each other" in run("config", "--path", "--example", code=2).err
