"""The complete permission matrix, written by hand, and visibility of sessions and workspaces."""

from dataclasses import replace

import pytest

from sm.core.models import OPERATOR, Caller, Session
from sm.core.states import CallerKind, TrustLevel
from sm.policy.access import Action, Position, Relation, may, may_at_all, relation, visible, visible_workspace
from tests.samples import session

SELF, BELOW, TEAM, FOREIGN = Position.SELF, Position.DESCENDANT, Position.TEAM, Position.FOREIGN
DIRECT, SANDBOXED = TrustLevel.DIRECT, TrustLevel.SANDBOXED

# One row per action. First column: is the operator allowed? Other columns: the targets allowed for a session, by the
# effective modes of caller and target (direct -> direct, direct -> sandboxed, and so on). The letters: s itself,
# d descendant, t team, f foreign; - is none.
TABLE = """
                    operator  d->d  d->s  s->d  s->s
SEE                 yes       sdt   sdt   s     sdt
SEND                yes       dt    dt    -     dt
SPAWN               yes       sd    sd    s     sd
REPORT              no        s     s     s     s
KILL                yes       d     d     -     d
READ                yes       d     d     -     d
ANSWER              yes       d     d     -     d
ANSWER_SETUP        yes       -     -     -     -
ARCHIVE             yes       d     d     -     d
REMOVE              yes       d     d     -     d
REPARENT            yes       d     d     -     d
ATTACH              yes       d     d     -     d
INTERRUPT           yes       d     d     -     d
RESTORE             yes       d     d     -     d
FORK                yes       d     d     -     d
SEE_WORKSPACE       yes       s     s     s     s
MANAGE_WORKSPACES   yes       -     -     -     -
MANAGE_SANDBOXES    yes       -     -     -     -
MANAGE_ACCOUNTS     yes       -     -     -     -
RESTORE_ALL         yes       -     -     -     -
ADOPT               yes       -     -     -     -
ADD_ARGUMENTS       yes       -     -     -     -
STOP_DAEMON         yes       -     -     -     -
"""
LETTERS = {SELF: "s", BELOW: "d", TEAM: "t", FOREIGN: "f"}
MODES = [(DIRECT, DIRECT), (DIRECT, SANDBOXED), (SANDBOXED, DIRECT), (SANDBOXED, SANDBOXED)]
ROWS = {words[0]: words[1:] for words in map(str.split, TABLE.strip().splitlines()[1:])}


def test_permission_table_has_a_row_for_every_action() -> None:
    assert sorted(ROWS) == sorted(action.name for action in Action)


@pytest.mark.parametrize("action", list(Action))
@pytest.mark.parametrize("position", list(Position))
@pytest.mark.parametrize(("mode", "target_mode"), MODES)
def test_session_may_do_exactly_the_actions_of_the_table(
    action: Action, position: Position, mode: TrustLevel, target_mode: TrustLevel
) -> None:
    allowed = LETTERS[position] in ROWS[action.name][1 + MODES.index((mode, target_mode))]
    assert may(Relation(CallerKind.SESSION, mode, position, target_mode), action) is allowed


@pytest.mark.parametrize("action", list(Action))
@pytest.mark.parametrize("position", list(Position))
@pytest.mark.parametrize(("mode", "target_mode"), MODES)
def test_operator_may_do_everything_except_report_for_a_session(
    action: Action, position: Position, mode: TrustLevel, target_mode: TrustLevel
) -> None:
    allowed = ROWS[action.name][0] == "yes"
    assert may(Relation(CallerKind.OPERATOR, mode, position, target_mode), action) is allowed


@pytest.mark.parametrize("action", list(Action))
def test_no_action_is_allowed_when_the_caller_may_not_see_the_target(action: Action) -> None:
    hidden = [
        Relation(CallerKind.SESSION, mode, position, target_mode)
        for position in Position
        for mode, target_mode in MODES
        if position is FOREIGN or (position is not SELF and (mode, target_mode) == (SANDBOXED, DIRECT))
    ]
    assert len(hidden) == 6
    assert not any(may(hidden_relation, action) for hidden_relation in hidden)


@pytest.mark.parametrize("action", list(Action))
def test_action_without_a_target_session_is_allowed_only_for_the_operator(action: Action) -> None:
    if ROWS[action.name][1:] == ["-"] * 4:
        assert may_at_all(OPERATOR, action)
    assert not may_at_all(Caller(CallerKind.SESSION, "aaaaaaaa"), action)


def _of(workspace: str | None, mode: TrustLevel, session_id: str = "bbbbbbbb") -> Session:
    # The requested trust level differs from the effective mode, because no rule may read it.
    requested = SANDBOXED if mode is DIRECT else DIRECT
    return replace(session(session_id), workspace=workspace, effective_mode=mode, trust_level=requested)


@pytest.mark.parametrize(
    ("caller_session", "target", "is_visible"),
    [
        ((None, "direct"), (None, "direct"), True),
        ((None, "direct"), (None, "sandboxed"), True),
        ((None, "sandboxed"), (None, "direct"), False),
        ((None, "sandboxed"), (None, "sandboxed"), True),
        (("team", "direct"), (None, "direct"), False),
        ((None, "direct"), ("team", "direct"), False),
        (("team", "direct"), ("team", "sandboxed"), True),
        (("team", "sandboxed"), ("team", "direct"), False),
        (("team", "sandboxed"), ("team", "sandboxed"), True),
        (("team", "direct"), ("other", "direct"), False),
        (("team", "sandboxed"), ("other", "sandboxed"), False),
    ],
)
def test_session_sees_its_workspace_and_only_sandboxed_sessions_when_sandboxed(
    caller_session: tuple[str | None, str], target: tuple[str | None, str], is_visible: bool
) -> None:
    viewer = _of(caller_session[0], TrustLevel(caller_session[1]), "aaaaaaaa")
    assert visible(viewer, _of(target[0], TrustLevel(target[1]))) is is_visible


def test_session_sees_itself_and_the_operator_sees_every_session() -> None:
    hidden = _of("team", DIRECT)
    assert visible(hidden, hidden)
    assert visible(None, hidden)


def test_relation_depends_on_workspace_effective_mode_and_tree() -> None:
    caller_session, target = _of("team", SANDBOXED, "aaaaaaaa"), _of("team", DIRECT)
    team_relation = relation(caller_session, target, is_descendant=False)
    assert team_relation == Relation(CallerKind.SESSION, SANDBOXED, TEAM, DIRECT)
    assert relation(caller_session, target, is_descendant=True).position is BELOW
    assert relation(caller_session, caller_session, is_descendant=False).position is SELF
    assert relation(None, target, is_descendant=False).kind is CallerKind.OPERATOR


def test_descendant_in_another_workspace_is_foreign() -> None:
    descendant = relation(_of("team", DIRECT, "aaaaaaaa"), _of("other", DIRECT), is_descendant=True)
    assert descendant.position is FOREIGN


def test_session_sees_only_its_own_workspace() -> None:
    for mode in TrustLevel:
        assert visible_workspace(_of("team", mode), "team")
        assert not visible_workspace(_of("team", mode), "other")
        assert not visible_workspace(_of(None, mode), "team")
    assert visible_workspace(None, "team")
