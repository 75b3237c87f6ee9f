"""Changed releases of the real Claude Code, of which `sm check claude` names what they break."""

import pytest

from tests import claude_cli
from tests.rehearsal.__main__ import play
from tests.rehearsal.changes import CHANGES


@pytest.mark.processes
@pytest.mark.parametrize(
    ("name", "contract"),
    [
        pytest.param("trust-words", "dialogs", id="screen"),
        pytest.param("hook-field", "permission", id="hooks"),
    ],
)
def test_check_names_what_a_release_breaks_and_data_mend_it(name: str, contract: str) -> None:
    played = play(CHANGES[name], claude_cli.binary(), [contract])
    assert list(played.broken) == [contract]
    assert played.still_broken == {}
    assert played.false_claims == []
