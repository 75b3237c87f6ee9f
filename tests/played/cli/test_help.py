"""`sm --help`, usage errors, and the table of commands."""

import json
import re
import sys
from importlib import import_module
from inspect import cleandoc
from pathlib import Path

import click
import pytest

import sm.cli
from sm.cli import group
from sm.cli.group import COMMANDS, COMMON, INTERNAL, MODULES, load_command
from sm.errors import PlatformUnsupported
from tests.fixtures import context_fixture
from tests.played.cli.command import Sm, empty_home

NAMES = [name for _, name, _ in COMMANDS]


instance = context_fixture("module", empty_home)
"""One for all tests: help changes nothing."""


def commands() -> list[tuple[str, click.Command]]:
    """Every command with its name, including the commands of groups."""
    named: list[tuple[str, click.Command]] = []
    for name in [*NAMES, *INTERNAL]:
        command = load_command(name)
        named.append((name, command))
        if isinstance(command, click.Group):
            named += [(f"{name} {sub}", inner) for sub, inner in command.commands.items()]
    return named


def test_command_table_has_the_first_help_line_of_each_command() -> None:
    lines = {name: (load_command(name).help or "").partition("\n")[0] for _, name, _ in COMMANDS}
    assert lines == {name: line for _, name, line in COMMANDS}


def test_command_table_contains_every_command_module() -> None:
    folder = Path(sm.cli.__file__).parent / "commands"
    has_command = re.compile(r"^(@click\.|(\w+_)?command = )", re.MULTILINE)
    modules = {path.stem for path in folder.glob("*.py") if has_command.search(path.read_text())}
    assert modules == {MODULES.get(name, name) for name in (*NAMES, *INTERNAL)}


@pytest.mark.parametrize("module", sorted(set(MODULES.values())))
def test_command_table_contains_every_command_of_a_shared_module(module: str) -> None:
    found = vars(import_module(f"sm.cli.commands.{module}"))
    names = {name for name, value in found.items() if isinstance(value, click.Command)} - {"command", "sm"}
    assert names == {f"{name}_command" for name, place in MODULES.items() if place == module}


def test_help_of_every_command_shows_an_example() -> None:
    for words, command in commands():
        assert command.help is not None, words
        head, examples, shown = cleandoc(command.help).partition("\nExamples:\n")
        assert examples, words
        assert "Example" not in head, words
        assert f"sm {words}" in shown or isinstance(command, click.Group), words


def test_the_help_has_five_sections_and_every_command(run: Sm) -> None:
    shown = f"\n{run('help', '--all').out}"
    assert len({section for section, _, _ in COMMANDS}) == 5
    for section, name, line in COMMANDS:
        assert f"\n{section}:\n" in shown
        assert f"\n  {name} " in shown
        assert line in shown


def test_sm_help_shows_common_commands_and_mentions_help_all(run: Sm) -> None:
    shown = run("--help").out
    listed = [name for name in NAMES if f"\n  {name} " in shown]
    assert listed == [name for name in NAMES if name in COMMON]
    assert len(listed) == len(COMMON) <= 16
    assert shown.endswith('\nRun "sm help --all" for all commands.\n')
    assert run().out == run("-h").out == run("help").out == shown


@pytest.mark.parametrize("name", sorted(INTERNAL))
def test_internal_command_runs_but_is_not_listed(run: Sm, name: str) -> None:
    for words in (["--help"], ["help", "--all"]):
        assert not re.search(rf"\b{name}\b", run(*words).out)
    assert run("help", name).out.startswith(f"Usage: sm {name} ")
    assert "did you mean" not in run(f"{name}k", code=2).err


@pytest.mark.parametrize(("words", "_"), commands())
def test_every_command_has_help(words: str, _: click.Command, run: Sm) -> None:
    shown = run(*words.split(), "--help").out
    assert shown.startswith(f"Usage: sm {words} ")
    assert [line for line in shown.splitlines() if len(line) > 80] == []
    assert run("help", *words.split()).out == shown


def test_first_line_of_help_is_short_and_begins_with_a_verb() -> None:
    for words, command in commands():
        line = (command.help or "").partition("\n")[0]
        assert len(line) <= 60, words
        assert re.fullmatch(r"[A-Z][a-z]+,? .*\.", line), words
        verb = line.partition(" ")[0].rstrip(",").lower()
        assert not verb.endswith(("ing", "ed", "s")), f"{words}: an imperative"


def test_every_option_has_help() -> None:
    options = [
        (words, p) for words, command in commands() for p in command.params if isinstance(p, click.Option)
    ]
    assert options
    assert [f"{words} --{option.name}" for words, option in options if not option.help] == []


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        ("status", "[OPTIONS] [SESSION]"),
        ("log", "[OPTIONS] [SESSION]"),
        ("reparent", "[OPTIONS] SESSION [PARENT]"),
        ("requests", "[OPTIONS] [REQUEST|SESSION]"),
        ("why", "[OPTIONS] REQUEST|SESSION"),
        ("kill", "[OPTIONS] [SESSION]..."),
        ("attach", "[OPTIONS] [SESSION]"),
        ("archive", "[OPTIONS] SESSION..."),
    ],
)
def test_usage_line_marks_optional_arguments(words: str, usage: str, run: Sm) -> None:
    assert run(words, "--help").out.startswith(f"Usage: sm {words} {usage}\n")


def test_help_command_prints_the_help_of_a_command(run: Sm) -> None:
    assert run("help", "spawn").out == run("spawn", "--help").out


def test_help_of_unknown_command_fails_like_the_command(run: Sm) -> None:
    error = run("spwan", code=2).err
    assert "did you mean spawn?" in error
    assert run("help", "spwan", code=2).err == error
    assert run("help", "daemon", "stauts", code=2).err == run("daemon", "stauts", code=2).err
    assert "sm spawn has no subcommands" in run("help", "spawn", "x", code=2).err
    assert "--all and COMMAND cannot be used together" in run("help", "--all", "spawn", code=2).err


def test_version_command_and_option_print_the_same(run: Sm) -> None:
    assert run("version").out == run("--version").out == run("-V").out == f"sm {sm.__version__}\n"


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        ("spwan", "unknown command 'spwan'; did you mean spawn?", "sm --help"),
        ("daemon stauts", "unknown command 'stauts'; did you mean daemon status?", "sm daemon --help"),
        (
            "config set default_trust direct",
            "unknown command 'set'; did you mean config edit?",
            "sm config --help",
        ),
        (
            "spawn Engineer fix the login",
            "the text must be one argument",
            "quote the text: sm spawn Engineer 'fix the login'",
        ),
        (
            "ask which? red blue",
            "the text must be one argument",
            "quote the text: sm ask 'which? red blue'",
        ),
        ("sessions", "unknown command 'sessions'; did you mean ls or all?", "sm --help"),
        ("tree", "unknown command 'tree'; did you mean all?", "sm --help"),
        ("message a b", "unknown command 'message'; did you mean send?", "sm --help"),
        ("get a", "unknown command 'get'; did you mean status?", "sm --help"),
        ("cleanup", "unknown command 'cleanup'; did you mean prune?", "sm --help"),
        ("config show", "unknown command 'show'; did you mean config?", "sm config --help"),
        (
            "budget a usd=5 tokens=2M",
            "to change a budget, use --set or --add",
            "sm budget a --set usd=5,tokens=2M",
        ),
        ("config get", "unknown command 'get'; did you mean config?", "sm config --help"),
        ("workspace ls", "unknown command 'ls'; did you mean workspace list?", "sm workspace --help"),
        ("sandbox exec shop", "unknown command 'exec'; did you mean sandbox shell?", "sm sandbox --help"),
        ("daemon install", "unknown command 'install'; did you mean service install?", "sm daemon --help"),
        ("service frob", "unknown command 'frob'", "sm service --help"),
        ("ls login", "unexpected extra argument (login)", "sm status login"),
        ("prune 1d", "unexpected extra argument (1d)", "sm prune --older-than 1d"),
        ("spawn Engineer --modle opus", "--model", "sm spawn --help"),
        ("spawn", "missing argument 'AGENT_TYPE'", "sm spawn --help"),
        ("archive", "missing argument", "sm archive --help"),
        ("stop", "unknown command 'stop'; did you mean interrupt or kill?", "sm --help"),
        ("watch", "unknown command 'watch'; did you mean top or ls --watch or events --follow?", "sm --help"),
        ("start", "unknown command 'start'; did you mean spawn or daemon start?", "sm --help"),
        ("create Engineer", "unknown command 'create'; did you mean spawn or workspace create?", "sm --help"),
        ("restart", "unknown command 'restart'; did you mean restore or daemon restart?", "sm --help"),
        (
            "worktrees",
            "unknown command 'worktrees'; did you mean worktree ls or spawn --worktree?",
            "sm --help",
        ),
        ("exec x ls", "unknown command 'exec'; did you mean attach or send?", "sm --help"),
        ("login", "unknown command 'login'; did you mean doctor or sandbox login?", "sm --help"),
        ("inspect login", "unknown command 'inspect'; did you mean status?", "sm --help"),
        ("reply r1 yes", "unknown command 'reply'; did you mean answer or send?", "sm --help"),
        ("tell login x", "unknown command 'tell'; did you mean send?", "sm --help"),
        ("pause", "give either SESSION or --all", "list sessions: sm ls -a"),
        ("resume x --account y", "--account takes no sessions", "sm resume --account y"),
        ("completion", "Choose from: bash, zsh, fish", "sm completion --help"),
        ("children --status runing", "'runing' is not one of", "sm children --help"),
        ("events --type chekpoint", "'chekpoint' is not one of", "sm events --help"),
        ("output x --lines many", "'many' is not a valid integer", "sm output --help"),
        ("version now", "unexpected extra argument", "sm version --help"),
        ("--wrong", "--wrong", "sm --help"),
    ],
)
def test_usage_error_exits_2_with_a_hint(run: Sm, words: str, message: str, hint: str) -> None:
    done = run(*words.split(), code=2)
    assert done.out == ""
    first, second = done.err.splitlines()
    assert first.startswith("sm: ")
    assert message in first
    assert second == f"hint: {hint}"


def test_errors_are_json_when_json_option_is_given(run: Sm) -> None:
    done = run("children", "--status", "x", "--json", code=2)
    error = json.loads(done.err)["error"]
    assert error["code"] == "usage"
    assert "is not one of" in error["message"]
    assert error["hint"] == "sm children --help"
    assert run("checkpoint", "x", "--", "--json", code=2).err.startswith("sm: ")


def test_command_is_refused_when_platform_is_not_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "plan9")
    with pytest.raises(PlatformUnsupported, match="not on plan9"):
        group.run(["version"])


def test_command_refuses_a_relative_sm_home(run: Sm) -> None:
    assert "SM_HOME must be an absolute path" in run("status", code=2, environ={"SM_HOME": "here"}).err


@pytest.mark.parametrize(
    ("alias", "command"),
    [("new", "spawn"), ("run", "spawn"), ("show", "status"), ("logs", "tail"), ("messages", "log")],
)
def test_word_of_another_tool_is_an_alias_and_not_listed(run: Sm, alias: str, command: str) -> None:
    assert run(alias, "--help").out == run("help", alias).out == run(command, "--help").out
    assert f"\n  {alias} " not in run("help", "--all").out
