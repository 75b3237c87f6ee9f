"""Abilities of a version of claude, by its own answers."""

import pytest

from sm.errors import UsageError
from sm.providers.base import ProgramFacts
from sm.providers.claude.abilities import Abilities, abilities_of
from sm.providers.claude.options import merge_options
from tests.claude_help import VERSIONS, program_facts


@pytest.mark.parametrize("version", VERSIONS)
def test_abilities_have_the_version_the_options_and_the_modes_of_a_program(version: str) -> None:
    found = abilities_of(program_facts(version))
    assert found.known.version == tuple(map(int, version.split(".")))
    assert {"--model", "--settings", "--permission-mode", "--append-system-prompt"} <= found.options
    word = "default" if version == "2.1.197" else "manual"
    assert found.modes == {"plan", "dontAsk", word, "acceptEdits", "auto", "bypassPermissions"}
    for mode in ("plan", "dontAsk", "default", "acceptEdits", "auto", "bypassPermissions"):
        assert found.knows_mode(mode)
    assert not found.knows_mode("wild")


@pytest.mark.parametrize("help", ["", "no options", "  --permission-mode <mode>  (choices: )", "\0" * 99])
def test_program_without_answers_gets_only_what_every_version_accepts(help: str) -> None:
    found = abilities_of(ProgramFacts("", help))
    assert (found.known.version, found.own_options, found.mode_word("default")) == (None, (), "default")
    assert found.knows_mode("plan")


def test_abilities_ignore_options_in_the_text_of_another_option() -> None:
    found = abilities_of(ProgramFacts("9.9.9", "  --print   as --system-prompt-snapshot\n   see --other\n"))
    assert found.options == {"--print"}


def test_program_of_the_newest_version_is_not_started_with_options_that_leave_the_terminal() -> None:
    listed = abilities_of(program_facts("2.1.332")).options
    for option in ("--cloud", "--desktop", "--environment", "--teleport", "--bg", "--worktree"):
        assert option in listed
        with pytest.raises(UsageError, match="cannot be used with sm"):
            merge_options([(None, (option,))])


def test_abilities_of_a_program_that_was_not_asked_refuse_messages() -> None:
    assert Abilities().own_settings(may_message=False)["crossSessionInbound"] == "refuse"
