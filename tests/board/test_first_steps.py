"""The first steps name commands that exist."""

import shlex

import click
import pytest

from sm.board import ACTIONS
from sm.board.first_steps import FIRST_STEPS, FirstStep
from sm.cli.group import sm


@pytest.mark.parametrize("step", FIRST_STEPS, ids=lambda step: step.command)
def test_first_step_is_a_command_with_the_arguments_that_it_takes(step: FirstStep) -> None:
    command: click.Command = sm
    program, *words = shlex.split(step.command)
    assert program == "sm"
    context = click.Context(command)
    while isinstance(command, click.Group):
        found = command.get_command(context, words.pop(0))
        assert found is not None
        command = found
    assert command.make_parser(context).parse_args(words)
    assert step.action == "" or not ACTIONS[step.action].needs_session
