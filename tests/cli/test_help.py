"""`sm --help`, usage errors, and what the table of commands promises."""

import json
import re
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest

import sm.cli
from sm.cli import COMMANDS, group
from sm.errors import PlatformUnsupported
from tests.cli.conftest import Sm

NAMES = [name for _, name, _ in COMMANDS]


def commands() -> list[tuple[str, click.Command]]:
    """Every command with the words that call it, those of groups too."""
    found: list[tuple[str, click.Command]] = []
    for name in NAMES:
        command = import_module(f"sm.cli.commands.{name}").command
        found.append((name, command))
        if isinstance(command, click.Group):
            found += [(f"{name} {sub}", inner) for sub, inner in command.commands.items()]
    return found


@pytest.mark.parametrize(("section", "name", "line"), COMMANDS)
def test_the_table_says_what_the_command_says(section: str, name: str, line: str) -> None:
    command = import_module(f"sm.cli.commands.{name}").command
    assert command.help.partition("\n")[0] == line


def test_every_module_with_a_command_is_in_the_table() -> None:
    folder = Path(sm.cli.__file__).parent / "commands"
    has_command = re.compile(r"^(@click\.|command = )", re.MULTILINE)
    modules = {path.stem for path in folder.glob("*.py") if has_command.search(path.read_text())}
    assert modules == set(NAMES)


@pytest.mark.parametrize(("words", "command"), commands())
def test_every_help_shows_one_real_example(words: str, command: click.Command) -> None:
    assert command.help is not None
    assert command.help.count("Example:") == 1
    assert f"sm {words}" in command.help or isinstance(command, click.Group)


def test_the_help_has_five_sections_and_every_command(run: Sm) -> None:
    shown = run("--help").out
    assert len({section for section, _, _ in COMMANDS}) == 5
    for section, name, line in COMMANDS:
        assert f"\n{section}:\n" in shown
        assert f"\n  {name} " in shown
        assert line in shown
    assert run().out == shown
    assert run("-h").out == shown
    assert run("help").out == shown


@pytest.mark.parametrize(("words", "_"), commands())
def test_every_command_has_help(words: str, _: click.Command, run: Sm) -> None:
    assert run(*words.split(), "--help").out.startswith(f"Usage: sm {words} ")


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        ("status", "[OPTIONS] [ID]"),
        ("log", "[OPTIONS] [ID]"),
        ("reparent", "[OPTIONS] ID [PARENT]"),
        ("requests", "[OPTIONS] [REQUEST|ID]"),
        ("why", "[OPTIONS] REQUEST|ID"),
        ("kill", "[OPTIONS] ID..."),
    ],
)
def test_the_usage_says_what_may_be_left_out(words: str, usage: str, run: Sm) -> None:
    assert run(words, "--help").out.startswith(f"Usage: sm {words} {usage}\n")


def test_help_of_a_command_can_be_asked_as_a_command(run: Sm) -> None:
    assert run("help", "spawn").out == run("spawn", "--help").out


def test_the_version_is_told_in_both_ways(run: Sm) -> None:
    assert run("version").out == run("--version").out == f"sm {sm.__version__}\n"


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        ("spwan", "there is no command 'spwan'; did you mean spawn?", "sm --help"),
        ("daemon stauts", "stauts", "sm daemon --help"),
        ("spawn Engineer --modle opus", "--model", "sm spawn --help"),
        ("spawn", "missing argument 'AGENT_TYPE'", "sm spawn --help"),
        ("kill", "missing argument", "sm kill --help"),
        ("children --status runing", "'runing' is not one of", "sm children --help"),
        ("events --type chekpoint", "'chekpoint' is not one of", "sm events --help"),
        ("output x --lines many", "'many' is not a valid integer", "sm output --help"),
        ("version now", "unexpected extra argument", "sm version --help"),
        ("--wrong", "--wrong", "sm --help"),
    ],
)
def test_a_usage_error_ends_with_2_and_says_what_to_type(
    run: Sm, words: str, message: str, hint: str
) -> None:
    done = run(*words.split(), code=2)
    assert done.out == ""
    first, second = done.err.splitlines()
    assert first.startswith("sm: ")
    assert message in first
    assert second == f"hint: {hint}"


def test_errors_are_json_when_json_was_asked_for(run: Sm) -> None:
    done = run("children", "--status", "x", "--json", code=2)
    error = json.loads(done.err)["error"]
    assert error["code"] == "usage"
    assert "is not one of" in error["message"]
    assert error["hint"] == "sm children --help"
    assert run("checkpoint", "x", "--", "--json", code=2).err.startswith("sm: ")


def test_elsewhere_than_on_linux_every_command_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "plan9")
    with pytest.raises(PlatformUnsupported, match="not on plan9"):
        group.run(["version"])


def test_a_relative_sm_home_is_refused_and_not_ignored(run: Sm) -> None:
    assert "SM_HOME must be an absolute path" in run("status", code=2, environ={"SM_HOME": "here"}).err
