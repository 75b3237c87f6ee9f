from dataclasses import replace

import pytest

from sm.core.models import Session
from sm.core.states import TrustLevel
from sm.core.statuses import Status
from sm.errors import NotFound
from sm.policy.relations import Position
from sm.sessions.tree import SessionTree, matches
from tests.samples import session

ROOT, CHILD, GRANDCHILD, OTHER = (
    session("aaaa1111"),
    session("aaaa2222", parent="aaaa1111"),
    session("bbbb3333", parent="aaaa2222"),
    session("cccc4444"),
)


def session_tree(*sessions: Session) -> SessionTree:
    return SessionTree({s.id: s for s in sessions or (ROOT, CHILD, GRANDCHILD, OTHER)})


@pytest.mark.parametrize(
    ("caller_session", "target", "position"),
    [
        (ROOT, ROOT, Position.SELF),
        (ROOT, CHILD, Position.DESCENDANT),
        (ROOT, GRANDCHILD, Position.DESCENDANT),
        (ROOT, OTHER, Position.TEAM),
        (CHILD, ROOT, Position.TEAM),
        (GRANDCHILD, CHILD, Position.TEAM),
    ],
)
def test_relation_follows_the_tree_downwards_only(
    caller_session: Session, target: Session, position: Position
) -> None:
    assert session_tree().relation(caller_session, target).position is position


def test_tree_search_ends_when_parents_form_a_cycle() -> None:
    ring = session_tree(replace(ROOT, parent_id=GRANDCHILD.id), CHILD, GRANDCHILD, OTHER)
    assert ring.relation(OTHER, CHILD).position is Position.TEAM
    assert [s.id for s in ring.descendants(CHILD.id)][:2] == [GRANDCHILD.id, ROOT.id]


def test_descendants_are_sorted_nearest_first() -> None:
    assert [s.id for s in session_tree().descendants(ROOT.id)] == [CHILD.id, GRANDCHILD.id]


@pytest.mark.parametrize(
    "reference", ["aaaa2222", "AAAA2222", "aaaa2", "engineer-aaaa2222", "engineer-task1"]
)
def test_find_accepts_id_prefix_name_and_friendly_name(reference: str) -> None:
    named = replace(CHILD, friendly_name="engineer-task1")
    assert session_tree(ROOT, named, OTHER).find(None, reference) is named


def test_find_returns_newest_session_when_friendly_names_are_equal() -> None:
    old, new = replace(CHILD, friendly_name="engineer-x"), replace(OTHER, friendly_name="engineer-x")
    assert session_tree(old, new).find(None, "engineer-x") == new


def test_find_returns_live_session_when_friendly_names_are_equal() -> None:
    living = replace(CHILD, friendly_name="engineer-x")
    ended = replace(OTHER, friendly_name="engineer-x", status=Status.KILLED)
    assert session_tree(living, ended).find(None, "engineer-x") == living


def test_find_prefers_name_over_equal_friendly_name() -> None:
    impostor = replace(OTHER, friendly_name=CHILD.name)
    assert session_tree(CHILD, impostor).find(None, CHILD.name) is CHILD


def test_find_refuses_very_long_reference_with_a_short_message() -> None:
    with pytest.raises(NotFound) as caught:
        session_tree().find(None, "a" * 1_000_000)
    assert len(caught.value.message) < 200
    assert caught.value.hint == "list sessions: sm all"


def test_find_lists_candidates_when_prefix_is_ambiguous() -> None:
    with pytest.raises(NotFound) as caught:
        session_tree().find(None, "aaaa")
    assert caught.value.hint == "use a longer prefix of one of: aaaa1111, aaaa2222"


@pytest.mark.parametrize("reference", ["aaa", "", "zzzz", "engineer", "\x1b[2J"])
def test_find_raises_not_found_without_control_characters_in_the_message(reference: str) -> None:
    with pytest.raises(NotFound) as caught:
        session_tree(ROOT).find(None, reference)
    assert "\x1b" not in caught.value.message


def test_find_gives_the_same_error_for_missing_and_forbidden_sessions() -> None:
    caller_session = replace(OTHER, effective_mode=TrustLevel.SANDBOXED)
    sessions = session_tree(ROOT, caller_session)
    messages = []
    for reference in (ROOT.id, "dddd5555"):
        with pytest.raises(NotFound) as caught:
            sessions.find(caller_session, reference)
        messages.append((caught.value.message.replace(reference, "ID"), caught.value.hint))
    assert messages[0] == messages[1]


def test_find_hints_at_the_nearest_name_when_reference_has_a_typo() -> None:
    with pytest.raises(NotFound) as caught:
        session_tree(replace(ROOT, friendly_name="engineer-task1")).find(None, "enginer-task1")
    assert caught.value.hint == "did you mean engineer-task1?"


def test_find_checks_only_the_sessions_that_the_reference_names(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = [replace(session(f"{n:08x}"), friendly_name=f"engineer-task{n}") for n in range(1000)]
    tree, checked = session_tree(*sessions), list[str]()

    def visible(caller_session: Session | None, target: Session) -> bool:
        checked.append(target.id)
        return True

    monkeypatch.setattr("sm.sessions.tree.visible", visible)
    for reference in ("00000007", "engineer-00000007", "engineer-task7", "task7", "0000000a"):
        tree.find(None, reference)
    assert len(checked) <= 10


def test_hint_for_a_typo_compares_a_bounded_number_of_names(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0

    def close_matches(word: str, names: list[str], n: int) -> list[str]:
        nonlocal compared
        compared = len(names)
        return []

    monkeypatch.setattr("sm.sessions.tree.get_close_matches", close_matches)
    with pytest.raises(NotFound):
        session_tree(*(session(f"{n:08x}") for n in range(5000))).find(None, "no-such-session")
    assert 0 < compared <= 600


DESCRIBED = replace(
    session("1a2b3c4d", status=Status.COMPLETED),
    name="engineer-1a2b3c4d",
    friendly_name="engineer-login",
    title="Fix the Straße sign-in",
    note="reading tests",
    working_dir="/srv/Shop",
    completion_message="All GREEN",
    model="opus",
    parent_id="ffff0000",
    terminal="command-xyz",
    status_reason="because",
)


@pytest.mark.parametrize(
    "words",
    [
        "1a2b", "engineer-1a2b3c4d", "login", "straße", "STRASSE", "Engineer", "reading", "/srv/shop", "green",
        "completed", "green LOGIN", "tests  fix\tsrv", "", "   ",
    ],
)  # fmt: skip
def test_search_matches_words_of_names_title_note_directory_and_result(words: str) -> None:
    assert matches(DESCRIBED, words)


@pytest.mark.parametrize(
    "words", ["logout", "login logout", "opus", "ffff0000", "xyz", "because", "None", "4dengineer", "fix-the"]
)
def test_search_does_not_match_other_words(words: str) -> None:
    assert not matches(DESCRIBED, words)


def test_search_matches_id_when_session_has_no_title_or_note() -> None:
    assert matches(session("1a2b3c4d"), "1A2B3C4D")
    assert not matches(session("1a2b3c4d"), "title")


def test_find_accepts_friendly_name_without_agent_type() -> None:
    engineer = replace(CHILD, agent_type="Engineer", friendly_name="engineer-login")
    assert session_tree(ROOT, engineer).find(None, "Login") == engineer
    architect = replace(OTHER, agent_type="Architect", friendly_name="architect-login")
    with pytest.raises(NotFound, match="ambiguous session name login: 2 sessions match") as refused:
        session_tree(ROOT, engineer, architect).find(None, "login")
    assert refused.value.hint == "use the full name: engineer-login, architect-login"
    ended = replace(architect, status=Status.KILLED)
    assert session_tree(ROOT, engineer, ended).find(None, "login") == engineer
