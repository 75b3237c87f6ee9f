"""Asks real programs, which stand in for claude, for their options."""

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sm.providers.base import ProgramFacts
from sm.providers.claude import program_help
from sm.providers.claude.program_help import ProgramHelp, find_installed

pytestmark = pytest.mark.processes

Install = Callable[[str], Path]

ANSWERS = """
echo "$1" >> "$HOME/asked"
case $1 in --version) echo 2.1.332;; --help) echo '  --model <model>';; esac
"""


@pytest.fixture
def install(tmp_path: Path) -> Install:
    def write(script: str) -> Path:
        program = tmp_path / "claude"
        replacement = tmp_path / "new"
        replacement.write_text(f"#!/bin/sh\n{script}")
        replacement.chmod(0o700)
        replacement.rename(program)  # another inode, as an update of claude makes
        return program

    return write


def environment(program: Path) -> dict[str, str]:
    return {"PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(program.parent), "SECRET": "x"}


def asked(program: Path) -> list[str]:
    return (program.parent / "asked").read_text().split()


async def test_program_is_asked_once_until_its_file_changes(install: Install) -> None:
    program, asking = install(ANSWERS), ProgramHelp()
    given = environment(program)
    expected = ProgramFacts("2.1.332\n", "  --model <model>\n")
    assert await asyncio.gather(*(asking.ask("claude", given) for _ in range(3))) == [expected] * 3
    assert await asking.ask(str(program), given) == expected
    assert asked(program) == ["--version", "--help"]
    install(ANSWERS.replace("2.1.332", "2.1.333"))
    assert (await asking.ask("claude", given)).version == "2.1.333\n"
    assert asked(program) == ["--version", "--help"] * 2


async def test_program_gets_no_variable_that_it_does_not_need(install: Install) -> None:
    program = install("env")
    assert "SECRET" not in (await ProgramHelp().ask("claude", environment(program))).help


@pytest.mark.parametrize("script", ["exit 1", "kill -9 $$", "[ $1 = --version ] && echo 1.2.3"])
async def test_answers_of_a_program_that_fails_are_unknown(install: Install, script: str) -> None:
    assert await ProgramHelp().ask("claude", environment(install(script))) == ProgramFacts()


async def test_program_that_hangs_delays_no_spawn_and_is_killed(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_help, "_WAITS_S", 0.0)
    monkeypatch.setattr(program_help, "_ANSWERS_WITHIN_S", 0.2)
    program, asking = install("exec sleep 1000"), ProgramHelp()
    given = environment(program)
    assert await asking.ask("claude", given) == ProgramFacts()
    (task,) = [task for task in asyncio.all_tasks() if task.get_name().startswith("ask ")]
    assert await task is None
    asked_again = await asking.ask("claude", given)
    assert asked_again == ProgramFacts()


@pytest.mark.parametrize("program", ["npx", "/nonexistent/claude", "claude", ""])
async def test_wrapper_and_missing_program_are_not_asked(tmp_path: Path, program: str) -> None:
    (tmp_path / "npx").write_text('#!/bin/sh\ntouch "$HOME/asked"\n')
    (tmp_path / "npx").chmod(0o700)
    given = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    assert await ProgramHelp().ask(program, given) == ProgramFacts()
    assert not (tmp_path / "asked").exists()


def test_another_program_behind_a_link_with_the_name_of_claude_is_not_taken_for_it(tmp_path: Path) -> None:
    link = tmp_path / "claude"
    link.symlink_to(shutil.which("sleep") or "/bin/sleep")
    assert find_installed("claude", environment(link)) is None
    link.unlink()
    link.write_text("#!/bin/sh\n")
    link.chmod(0o700)
    found = find_installed("claude", environment(link))
    assert found is not None
    assert (found.link, found.is_script) == (str(link), True)
