"""Names without their agent type."""

import pytest

from sm.board.short_names import short_name
from tests.board.samples import row


@pytest.mark.parametrize(
    ("label", "agent_type", "expected"),
    [
        ("general-purpose-writer", "general-purpose", "writer"),
        ("engineer-login", "Engineer", "login"),
        ("engineer-login (1a2b3c4d)", "Engineer", "login (1a2b3c4d)"),
        ("engineer-engineer-login", "Engineer", "engineer-login"),
        ("engineer-1a2b3c4d", "Engineer", "engineer-1a2b3c4d"),
        ("engineer-", "Engineer", "engineer-"),
        ("engineer", "Engineer", "engineer"),
        ("engineers-login", "Engineer", "engineers-login"),
        ("my-engineer-login", "Engineer", "my-engineer-login"),
        ("login", "Engineer", "login"),
    ],
)
def test_short_name_leaves_out_the_agent_type(label: str, agent_type: str, expected: str) -> None:
    assert short_name(row(label=label, agent_type=agent_type)) == expected


def test_short_name_is_the_whole_label_when_another_session_has_the_rest_as_its_label() -> None:
    mine = row(label="engineer-login")
    assert short_name(mine, {"engineer-login", "login"}) == "engineer-login"
    assert short_name(mine, {"engineer-login", "tester-login"}) == "login"


def test_labels_that_differ_stay_different_beside_their_type() -> None:
    found = [
        row(label=label, agent_type=kind)
        for label, kind in (
            ("engineer-login", "Engineer"),
            ("tester-login", "Tester"),
            ("login", "Engineer"),
            ("engineer-engineer-login", "Engineer"),
        )
    ]
    labels = {entry.label for entry in found}
    names = {(entry.agent_type, short_name(entry, labels)) for entry in found}
    assert len(names) == len(found)
