"""The complete permission matrix, written by hand, and visibility of sessions and workspaces."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm.core.models import OPERATOR, BridgeUser, Caller, Session
from sm.core.states import BridgeLevel, CallerKind, TrustLevel
from sm.operations.access_rules import Audience
from sm.policy.relations import (
    Position,
    Relation,
    is_unrestricted,
    may,
    may_at_all,
    paired_user,
    relation,
    spawn_workspace,
    visible,
    visible_workspace,
)
from tests.policy_table import audiences, kernel_declarations
from tests.samples import session

ACTIONS = list(audiences().values())
SELF, BELOW, TEAM, FOREIGN = Position.SELF, Position.DESCENDANT, Position.TEAM, Position.FOREIGN
DIRECT, SANDBOXED = TrustLevel.DIRECT, TrustLevel.SANDBOXED

# One row per audience. First columns: are the operator and the owners in chats allowed? Other columns: the targets
# allowed for a session, by the effective modes of caller and target (direct -> direct, direct -> sandboxed, and so on).
# The letters: s itself, d descendant, t team, f foreign; - is none. For a paired user the letters d hold, but in the
# rows with an x.
TABLE = """
                    operator  owner  d->d  d->s  s->d  s->s
SEE                 yes       yes    sdt   sdt   s     sdt
ME                  no        no     s     s     s     s
READ_ALSO_ITSELF    yes       yes    sd    sd    s     sd
SEE_REQUESTS        yes       yes    sd    sd    s     sd
ARCHIVES            yes       no     -     -     -     -
SEND                yes       yes    dt    dt    -     dt
SPAWN               yes       yes    sd    sd    s     sd
REPORT              no        no     s     s     s     s
KILL                yes       yes    d     d     -     d
READ                yes       yes    d     d     -     d
EXPORT              yes       no     -     -     -     -
COMMAND             yes       yes    -     -     -     -
COMPACT             yes       yes    d     d     -     d
ANSWER              yes       yes    d     d     -     d
ANSWER_SETUP        yes       no     -     -     -     -
ARCHIVE             yes       yes    d     d     -     d
REMOVE              yes       yes    d     d     -     d
MARK_SEEN           yes       yes    -     -     -     -
REPARENT            yes       yes    d     d     -     d
RENAME              yes       yes    d     d     -     d
ATTACH              yes       no     d     d     -     d    x
INTERRUPT           yes       yes    d     d     -     d
PAUSE               yes       yes    d     d     -     d
LOWER_BUDGET        yes       yes    sd    sd    s     sd
RAISE_BUDGET        yes       yes    d     d     -     d
RESTORE             yes       yes    d     d     -     d
FORK                yes       yes    d     d     -     d
SEE_WORKSPACE       yes       yes    s     s     s     s
MANAGE_WORKSPACES   yes       no     -     -     -     -
MANAGE_SANDBOXES    yes       yes    -     -     -     -
MANAGE_ACCOUNTS     yes       no     -     -     -     -
MANAGE_DAILY_BUDGET yes       yes    -     -     -     -
PAIR                yes       yes    -     -     -     -
MANAGE_BOT          yes       yes    -     -     -     -
MUTE_GROUP          yes       yes    -     -     -     -
RESTORE_ALL         yes       no     -     -     -     -
ADOPT               yes       no     -     -     -     -
ADD_ARGUMENTS       yes       no     -     -     -     -
ATTACH_FILES        yes       no     -     -     -     -
READ_CONFIG         yes       no     -     -     -     -
SEE_CHOICES         yes       no     -     -     -     -
ALLOW_ALWAYS        yes       no     -     -     -     -
UNDO_RULE           yes       no     -     -     -     -
STOP_DAEMON         yes       no     -     -     -     -
"""
LETTERS = {SELF: "s", BELOW: "d", TEAM: "t", FOREIGN: "f"}
MODES = [(DIRECT, DIRECT), (DIRECT, SANDBOXED), (SANDBOXED, DIRECT), (SANDBOXED, SANDBOXED)]
ROWS = {words[0]: words[1:] for words in map(str.split, TABLE.strip().splitlines()[1:])}


def row_of(audience: Audience) -> list[str]:
    """Its row; an audience of a capability may have that of another one with the same members."""
    same = (other for other in ACTIONS if other.members == audience.members and other.name.upper() in ROWS)
    return ROWS.get(audience.name.upper()) or ROWS[next(same).name.upper()]


def test_permission_table_has_a_row_for_every_audience_of_the_kernel() -> None:
    assert ROWS.keys() <= {name.upper() for name in audiences()}
    assert ROWS.keys() >= {name.upper() for name in audiences(kernel_declarations())}


def permitted(
    caller: CallerKind, action: Audience, positions: Iterable[Position] = Position, *, owner: bool = False
) -> dict[tuple[Position, TrustLevel, TrustLevel], bool]:
    """By the position of the target and both modes, whether the caller may do it."""
    return {
        (position, mode, target_mode): may(Relation(caller, mode, position, target_mode, owner=owner), action)
        for position in positions
        for mode, target_mode in MODES
    }


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.name)
def test_session_may_do_exactly_the_actions_of_the_table(action: Audience) -> None:
    assert permitted(CallerKind.SESSION, action) == {
        (position, *modes): LETTERS[position] in row_of(action)[2 + column]
        for position in Position
        for column, modes in enumerate(MODES)
    }


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.name)
def test_operator_may_do_everything_except_report_for_a_session(action: Audience) -> None:
    found = permitted(CallerKind.OPERATOR, action)
    assert found == dict.fromkeys(found, row_of(action)[0] == "yes")


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.name)
def test_no_action_is_allowed_when_the_caller_may_not_see_the_target(action: Audience) -> None:
    hidden = [
        Relation(CallerKind.SESSION, mode, position, target_mode)
        for position in Position
        for mode, target_mode in MODES
        if position is FOREIGN or (position is not SELF and (mode, target_mode) == (SANDBOXED, DIRECT))
    ]
    assert len(hidden) == 6
    assert not any(may(hidden_relation, action) for hidden_relation in hidden)


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.name)
def test_action_without_a_target_session_is_allowed_only_for_the_operator(action: Audience) -> None:
    if row_of(action)[2:] == ["-"] * 4:
        assert may_at_all(OPERATOR, action)
        assert may_at_all(_user(BridgeLevel.OWNER), action) is (row_of(action)[1] == "yes")
    for caller in (
        Caller(CallerKind.SESSION, "aaaaaaaa"),
        *map(_user, (BridgeLevel.DIRECT, BridgeLevel.SANDBOXED)),
    ):
        assert not may_at_all(caller, action)


# Bridges: people in chat networks

LEVELS = list(BridgeLevel)
PAIRED = [BridgeLevel.DIRECT, BridgeLevel.SANDBOXED]


def _user(level: BridgeLevel, workspace: str | None = None) -> Caller:
    return Caller(CallerKind.BRIDGE, user=BridgeUser("telegram:4711", level, workspace))


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.name)
def test_owner_may_do_exactly_the_actions_of_the_table(action: Audience) -> None:
    found = permitted(CallerKind.BRIDGE, action, owner=True)
    assert found == dict.fromkeys(found, row_of(action)[1] == "yes")


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.name)
def test_paired_user_may_do_exactly_the_actions_of_the_table(action: Audience) -> None:
    row = row_of(action)
    assert permitted(CallerKind.BRIDGE, action, [BELOW, FOREIGN]) == {
        (position, *modes): LETTERS[position] in row[2 + column] and row[-1] != "x"
        for position in (BELOW, FOREIGN)
        for column, modes in enumerate(MODES)
    }


_sessions = st.builds(
    lambda workspace, mode, paired, parent: replace(
        session("bbbbbbbb", parent=parent), workspace=workspace, effective_mode=mode, paired_user=paired
    ),
    st.sampled_from([None, "team", "other"]),
    st.sampled_from(TrustLevel),
    st.sampled_from([None, "telegram:4711", "telegram:4712", "matrix:4711"]),
    st.sampled_from([None, "aaaaaaaa"]),
)
_workspaces = st.sampled_from([None, "team"])


@given(_sessions, st.sampled_from(LEVELS), _workspaces, st.sampled_from(ACTIONS), st.booleans())
def test_person_in_a_chat_may_do_nothing_that_the_operator_may_not(
    target: Session, level: BridgeLevel, workspace: str | None, action: Audience, below: bool
) -> None:
    user = BridgeUser("telegram:4711", level, workspace)
    allowed = may(relation(user, target, is_descendant=below), action)
    owner = may(relation(replace(user, level=BridgeLevel.OWNER), target, is_descendant=below), action)
    assert not allowed or owner
    assert not owner or may(Relation(CallerKind.OPERATOR), action)


@given(_sessions, st.sampled_from(PAIRED), _workspaces, st.sampled_from(ACTIONS))
def test_paired_user_may_do_nothing_to_a_session_that_is_hidden(
    target: Session, level: BridgeLevel, workspace: str | None, action: Audience
) -> None:
    user = BridgeUser("telegram:4711", level, workspace)
    if not visible(user, target):
        assert not may(relation(user, target, is_descendant=True), action)


@given(_sessions, st.sampled_from(PAIRED), _workspaces)
def test_paired_user_sees_only_own_sessions_or_those_of_the_workspace(
    target: Session, level: BridgeLevel, workspace: str | None
) -> None:
    user = BridgeUser("telegram:4711", level, workspace)
    own = target.workspace == workspace and (workspace is not None or target.paired_user == user.name)
    fits = level is BridgeLevel.DIRECT or target.effective_mode is SANDBOXED
    assert visible(user, target) is (own and fits)


@given(_sessions, _workspaces, st.sampled_from(ACTIONS))
def test_user_paired_as_sandboxed_may_do_nothing_that_one_paired_as_direct_may_not(
    target: Session, workspace: str | None, action: Audience
) -> None:
    sandboxed = BridgeUser("telegram:4711", BridgeLevel.SANDBOXED, workspace)
    direct = replace(sandboxed, level=BridgeLevel.DIRECT)
    if may(relation(sandboxed, target, is_descendant=False), action):
        assert may(relation(direct, target, is_descendant=False), action)


@given(_sessions, st.sampled_from(PAIRED), _workspaces, st.sampled_from(ACTIONS))
def test_paired_user_may_do_nothing_that_a_session_above_the_target_may_not(
    target: Session, level: BridgeLevel, workspace: str | None, action: Audience
) -> None:
    found = relation(BridgeUser("telegram:4711", level, workspace), target, is_descendant=False)
    if may(found, action):
        assert may(replace(found, kind=CallerKind.SESSION), action)


@pytest.mark.parametrize("requested", [None, "-", "team", "other"])
@pytest.mark.parametrize("workspace", [None, "team"])
@pytest.mark.parametrize("level", PAIRED)
def test_paired_user_starts_sessions_only_where_the_user_is_paired(
    level: BridgeLevel, workspace: str | None, requested: str | None
) -> None:
    own = workspace or "-"
    if requested in (None, own):
        assert spawn_workspace(_user(level, workspace), requested) == own
    else:
        with pytest.raises(ValueError, match=requested):
            spawn_workspace(_user(level, workspace), requested)


@pytest.mark.parametrize(
    "caller", [OPERATOR, Caller(CallerKind.SESSION, "aaaaaaaa"), _user(BridgeLevel.OWNER)]
)
def test_other_callers_choose_the_workspace(caller: Caller) -> None:
    assert spawn_workspace(caller, "other") == "other"
    assert paired_user(caller, None) is None


def test_session_belongs_to_the_paired_user_of_its_parent_or_to_the_paired_caller() -> None:
    caller, parent = _user(BridgeLevel.DIRECT), replace(session("aaaaaaaa"), paired_user="telegram:1")
    assert paired_user(caller, None) == "telegram:4711"
    assert paired_user(caller, parent) == "telegram:1"
    assert paired_user(OPERATOR, parent) == "telegram:1"


def test_operator_and_owners_are_bound_by_no_limit_of_a_caller() -> None:
    assert is_unrestricted(OPERATOR)
    assert is_unrestricted(_user(BridgeLevel.OWNER))
    assert not is_unrestricted(Caller(CallerKind.SESSION, "aaaaaaaa"))
    assert not any(is_unrestricted(_user(level)) for level in PAIRED)


def test_person_in_a_chat_sees_the_workspace_of_the_pairing() -> None:
    assert visible_workspace(BridgeUser("telegram:1", BridgeLevel.OWNER), "team")
    for level in PAIRED:
        assert visible_workspace(BridgeUser("telegram:1", level, "team"), "team")
        assert not visible_workspace(BridgeUser("telegram:1", level, "team"), "other")
        assert not visible_workspace(BridgeUser("telegram:1", level), "team")


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
