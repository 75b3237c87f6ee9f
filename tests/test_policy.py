"""The whole matrix of who may do what, and who sees whom."""

from dataclasses import replace

import pytest

from sm.models import OPERATOR, Caller, CallerKind, Session, TrustLevel
from sm.policy import Action, Relation, may, visible
from tests.samples import session

SESSION = Caller(CallerKind.SESSION, "aaaaaaaa")
SELF, BELOW, OTHER = Relation.SELF, Relation.DESCENDANT, Relation.OTHER

ALLOWED_TO_A_SESSION = {
    Action.SEE: {SELF, BELOW, OTHER},
    Action.SPAWN: {SELF, BELOW},
    Action.KILL: {BELOW},
    Action.READ: {BELOW},
    Action.ATTACH: {BELOW},
    Action.REPORT: {SELF},
    Action.SEND: {BELOW, OTHER},
    Action.ANSWER: {BELOW},
    Action.ARCHIVE: {BELOW},
    Action.REMOVE: {BELOW},
    Action.REPARENT: {BELOW},
    Action.INTERRUPT: {BELOW},
    Action.RESTORE: {BELOW},
    Action.FORK: {BELOW},
    Action.ADOPT: set(),
    Action.ADD_ARGUMENTS: set(),
    Action.STOP_DAEMON: set(),
}


@pytest.mark.parametrize("action", list(Action))
@pytest.mark.parametrize("relation", list(Relation))
def test_a_session_may_do_what_the_design_says(action: Action, relation: Relation) -> None:
    assert may(SESSION, action, relation) is (relation in ALLOWED_TO_A_SESSION[action])


@pytest.mark.parametrize("action", list(Action))
def test_the_operator_may_do_everything_but_speak_for_a_session(action: Action) -> None:
    assert may(OPERATOR, action) is (action is not Action.REPORT)


def _of(workspace: str | None, mode: TrustLevel) -> Session:
    return replace(session("bbbbbbbb"), workspace=workspace, effective_mode=mode)


@pytest.mark.parametrize(
    ("viewer", "target", "seen"),
    [
        ((None, "direct"), (None, "direct"), True),
        ((None, "direct"), (None, "sandboxed"), True),
        ((None, "sandboxed"), (None, "direct"), False),
        ((None, "sandboxed"), (None, "sandboxed"), True),
        (("team", "direct"), (None, "direct"), False),
        ((None, "direct"), ("team", "direct"), False),
        (("team", "direct"), ("team", "sandboxed"), True),
        (("team", "direct"), ("other", "direct"), False),
    ],
)
def test_a_session_sees_its_workspace_and_a_sandboxed_one_only_its_equals(
    viewer: tuple[str | None, str], target: tuple[str | None, str], seen: bool
) -> None:
    looking = replace(_of(viewer[0], TrustLevel(viewer[1])), id="aaaaaaaa")
    assert visible(looking, _of(target[0], TrustLevel(target[1]))) is seen


def test_everybody_sees_itself_and_the_operator_sees_all() -> None:
    hidden = _of("team", TrustLevel.DIRECT)
    assert visible(hidden, hidden)
    assert visible(None, hidden)
