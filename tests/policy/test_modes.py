"""Tests of the mode of a session."""

from itertools import product

import pytest

from sm.core.models import Workspace
from sm.core.states import Mode
from sm.policy.modes import choose_mode, parse_mode
from tests.samples import AT

MODES = (Mode.AUTO, Mode.MANUAL, Mode.SUPERVISED)
MAYBE = (None, *MODES)


@pytest.mark.parametrize(("requested", "of_type", "of_workspace"), list(product(MAYBE, MAYBE, MAYBE)))
def test_first_setting_that_is_given_decides_the_mode(
    requested: Mode | None, of_type: Mode | None, of_workspace: Mode | None
) -> None:
    workspace = Workspace("shop", "/srv/shop", AT, lifecycle=of_workspace)
    settings = {
        "--lifecycle": requested,
        "agent type Engineer": of_type,
        "workspace shop": of_workspace,
        "child_agents.mode": Mode.AUTO,
    }
    source, mode = next((name, mode) for name, mode in settings.items() if mode is not None)
    choice = choose_mode(requested, "Engineer", of_type, workspace, Mode.AUTO)
    assert (choice.source, choice.mode) == (source, mode)


def test_session_without_a_workspace_has_the_configured_mode() -> None:
    choice = choose_mode(None, "Engineer", None, None, Mode.SUPERVISED)
    assert (choice.source, choice.mode) == ("child_agents.mode", Mode.SUPERVISED)


@pytest.mark.parametrize("mode", MODES)
def test_known_mode_is_parsed(mode: Mode) -> None:
    assert parse_mode(mode.value) is mode


@pytest.mark.parametrize("word", ["", "Auto", "autoo", "manual ", "x" * 500, "\x1b[1m"])
def test_unknown_mode_is_refused_with_the_known_ones(word: str) -> None:
    with pytest.raises(ValueError, match="use auto, manual or supervised") as caught:
        parse_mode(word)
    assert len(str(caught.value)) < 150
    assert "\x1b" not in str(caught.value)
