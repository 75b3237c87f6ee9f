"""scripts/setup.sh: output of foreign programs, and the link to sm."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

SCRIPT = Path(__file__).parents[1] / "scripts" / "setup.sh"


def shell(code: str, home: Path) -> str:
    """Run shell code after setup.sh, as quickstart does; stdin is no terminal."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home)}
    done = subprocess.run(
        ["sh", "-euc", f". {SCRIPT}\n{code}"],
        cwd=home,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


def test_quietly_prints_nothing_of_a_command_that_succeeds(tmp_path: Path) -> None:
    assert shell("quietly sh -c 'echo noise; echo more >&2'; echo after", tmp_path) == "after\n"


def test_quietly_names_the_file_with_the_output_of_a_command_that_fails(tmp_path: Path) -> None:
    out = shell("quietly sh -c 'echo noise; echo more >&2; exit 3' || echo code $?", tmp_path)
    (log,) = tmp_path.glob("sm-setup-*")
    assert out == f"-- the output of the failed command is in {log}\ncode 3\n"
    assert log.read_text().endswith("noise\nmore\n")


def test_offer_link_only_names_the_command_when_there_is_no_terminal(tmp_path: Path) -> None:
    out = shell("venv=.venv; offer_link", tmp_path)
    assert f"ln -s '{tmp_path}/.venv/bin/sm' ~/.local/bin/sm" in out
    assert not (tmp_path / ".local").exists()


def test_offer_link_keeps_another_program_and_accepts_its_own_link(tmp_path: Path) -> None:
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "sm").touch()
    place = tmp_path / ".local" / "bin" / "sm"
    place.parent.mkdir(parents=True)
    place.write_text("another")
    assert shell("venv=.venv; offer_link", tmp_path) == f"-- {place} is another program; it stays\n"
    place.unlink()
    place.symlink_to(tmp_path / ".venv" / "bin" / "sm")
    assert shell("venv=.venv; offer_link", tmp_path) == ""


def test_install_without_root_and_sudo_names_the_command_for_root(tmp_path: Path) -> None:
    code = """
        id() { echo 1000; }
        have() { [ "$1" = apt-get ]; }
        (install tmux git python) 2>&1 || echo code $?
    """
    assert shell(code, tmp_path) == (
        "error: installing system packages needs root, and there is no sudo\n"
        "hint: as root: apt-get update && apt-get install tmux git python3 python3-venv\n"
        "code 1\n"
    )


def test_find_system_python_ignores_a_python_that_comes_first_in_path(tmp_path: Path) -> None:
    (tmp_path / "python3").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "python3").chmod(0o755)
    found = shell(f"PATH={tmp_path}:$PATH; find_system_python", tmp_path).strip()
    assert found in ("", "/usr/bin/python3", "/usr/bin/python3.11")


def test_setup_venv_replaces_an_environment_of_another_version_for_the_checks(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    old = tmp_path / ".venv" / "bin" / "python"
    old.parent.mkdir(parents=True)
    old.write_text('#!/bin/sh\ncase "$2" in *platform*) echo Python 3.99.0 ;; esac\n')
    old.chmod(0o755)
    code = f"""
        python={sys.executable}
        quietly() {{ :; }}
        setup_venv dev
    """
    out = subprocess.run(
        ["sh", "-uc", f". {SCRIPT}\n{code}"], cwd=tmp_path, capture_output=True, text=True, check=False
    ).stdout
    version = platform.python_version()
    assert f"removing .venv, which has Python 3.99.0 and not Python {version}" in out
    assert not old.exists()
