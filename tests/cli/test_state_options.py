"""Options for a status or an event type offer every value."""

import click
import pytest

from sm.cli.commands import events, lists, wait
from sm.core.states import EventType
from sm.core.statuses import Status

STATUSES = [status.value for status in Status]


@pytest.mark.parametrize(
    ("command", "option", "offered"),
    [
        (lists.all_command, "status", [*STATUSES, "all"]),
        (lists.children_command, "status", [*STATUSES, "all"]),
        (wait.command, "until", ["ended", *STATUSES]),
        (events.command, "kind", [kind.value for kind in EventType]),
    ],
)
def test_option_offers_every_value(command: click.Command, option: str, offered: list[str]) -> None:
    (kind,) = (parameter.type for parameter in command.params if parameter.name == option)
    assert isinstance(kind, click.Choice)
    assert list(kind.choices) == offered
