"""`sm top`: the rule of a request is shown before it is written."""

from collections.abc import Iterator

import pytest

from tests.cli.tui.view import top
from tests.integration.played_claude import Stage

LINE = '- {"agent_type": "Plain", "allow": "Bash(npm test)"}'


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        yield stage


async def test_rule_is_shown_and_written_after_a_yes(stage: Stage) -> None:
    dialog = stage.agent().open_dialog("Bash", {"command": "npm test"})
    rules = stage.config.parent / "rules.yaml"
    async with top(stage) as view:
        await view.select_request(dialog.name)
        await view.press("L")
        await view.shows(LINE)
        await view.shows("Always allow this to every session of type Plain?")
        await view.press("escape")
        await view.hides(LINE)
        assert not rules.exists()
        await view.press("L", "y")
        await view.until(rules.exists, "the rule is written")
    assert rules.read_text().splitlines()[1:] == [LINE]
