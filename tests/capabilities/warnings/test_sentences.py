"""Sentences about warnings."""

import pytest

from sm.capabilities.warnings.model import SessionWarning
from sm.capabilities.warnings.text.sentences import warning_notice
from sm.core.warnings import WarningKind
from tests.samples import AT, session

CHILD = session("aaaa2222", parent="aaaa1111")


@pytest.mark.parametrize(
    ("kind", "act", "commands"),
    [
        (WarningKind.LOOP, None, "look with: sm tail ID; stop with: sm pause ID"),
        (WarningKind.LOOP, "pause", "sm paused the session; look with: sm tail ID; go on with: sm resume ID"),
        (
            WarningKind.LOOP,
            "interrupt",
            "sm interrupted its turn; look with: sm tail ID; stop with: sm pause ID",
        ),
        (WarningKind.MEMORY, None, "look with: sm attach ID"),
        (
            WarningKind.MEMORY,
            "pause",
            "sm paused the session; look with: sm attach ID; go on with: sm resume ID",
        ),
        (WarningKind.UNANSWERED, None, "answer with: sm requests"),
    ],
)
def test_notice_of_a_warning_says_what_sm_did_and_names_the_command(
    kind: WarningKind, act: str | None, commands: str
) -> None:
    warning = SessionWarning(1, CHILD.id, kind, AT, 3, 3, "evidence")
    assert warning_notice(CHILD, warning, act).endswith(f': "evidence"; {commands.replace("ID", CHILD.id)}')
