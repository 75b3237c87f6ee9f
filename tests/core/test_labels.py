"""Names of sessions in texts for people and in commands."""

from dataclasses import replace

from sm.core.labels import label, label_of, name_to_type, short_label
from tests.samples import session

UNNAMED = session("1a2b3c4d")
NAMED = replace(UNNAMED, friendly_name="engineer-login")
SHARED = replace(NAMED, shares_name=True)


def test_label_is_the_friendly_name_and_adds_the_id_only_when_the_name_is_shared() -> None:
    assert [label(s) for s in (UNNAMED, NAMED, SHARED)] == [
        "engineer-1a2b3c4d",
        "engineer-login",
        "engineer-login (1a2b3c4d)",
    ]


def test_short_label_is_the_id_when_there_is_no_friendly_name() -> None:
    assert [short_label(s) for s in (UNNAMED, NAMED, SHARED)] == ["1a2b3c4d", label(NAMED), label(SHARED)]


def test_name_to_type_is_the_id_unless_the_friendly_name_is_unique() -> None:
    assert [name_to_type(s) for s in (UNNAMED, NAMED, SHARED)] == ["1a2b3c4d", "engineer-login", "1a2b3c4d"]


def test_label_of_a_party_without_a_session_is_its_word() -> None:
    assert label_of("operator", None) == "operator"
    assert label_of("1a2b3c4d", NAMED) == "engineer-login"


def test_labels_are_one_line_without_control_characters() -> None:
    evil = replace(UNNAMED, friendly_name="x\x1b[2J\ny", name="x\x1b[2J\ny")
    for shown in (evil, replace(evil, friendly_name=None), replace(evil, shares_name=True)):
        assert all(name(shown).isprintable() for name in (label, short_label, name_to_type))
