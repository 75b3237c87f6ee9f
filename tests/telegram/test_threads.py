"""The thread that shows a session."""

from dataclasses import replace

import pytest

from sm.core.models import BridgeUser, Session
from sm.core.states import BridgeLevel
from sm.telegram.threads import Thread, thread_owner, with_name
from tests.samples import session

ROOT = session("aaaa1111")
CHILD = session("bbbb1111", parent=ROOT.id)
GRANDCHILD = session("cccc1111", parent=CHILD.id)
SESSIONS = {s.id: s for s in (ROOT, CHILD, GRANDCHILD)}
PAIRED = BridgeUser("telegram:6", BridgeLevel.DIRECT)


@pytest.mark.parametrize(
    ("shown", "followed", "owner"),
    [
        (GRANDCHILD, [], ROOT),
        (ROOT, [], ROOT),
        (GRANDCHILD, [CHILD.id], CHILD),
        (CHILD, [CHILD.id], CHILD),
        (GRANDCHILD, list(SESSIONS), GRANDCHILD),
    ],
)
def test_session_is_shown_with_its_nearest_followed_ancestor_or_its_root(
    shown: Session, followed: list[str], owner: Session
) -> None:
    assert thread_owner(shown, SESSIONS, followed) is owner


def test_paired_user_sees_no_thread_of_a_hidden_ancestor() -> None:
    own = replace(CHILD, paired_user=PAIRED.name)
    below = replace(GRANDCHILD, paired_user=PAIRED.name)
    sessions = SESSIONS | {own.id: own, below.id: below}
    assert thread_owner(below, sessions, (), PAIRED) is own


def test_report_of_a_descendant_has_its_name_in_front_in_a_topic_only() -> None:
    topic, private = Thread(-5, ROOT, None), Thread(6, ROOT, PAIRED)
    assert with_name("tests pass", CHILD, topic) == "engineer-bbbb1111: tests pass"
    assert with_name("engineer-bbbb1111 was killed", CHILD, topic) == "engineer-bbbb1111 was killed"
    assert with_name("tests pass", ROOT, topic) == "tests pass"
    assert with_name("tests pass", CHILD, private) == "tests pass"
