"""The sums of sessions that are not in memory have what the caller sees."""

from dataclasses import replace

from sm.core.states import TrustLevel
from sm.core.tree_totals import Totals, TreePart
from sm.services.live_past import LivePast
from tests.samples import session

ONE = Totals(sessions=1)


def test_sums_have_the_sessions_that_the_caller_sees_by_their_nearest_ancestor_in_memory() -> None:
    past, direct = LivePast(), TrustLevel.DIRECT
    child = replace(session("child001", parent="top00001"), workspace="w", effective_mode=direct)
    inner = replace(session("inner001", parent="child001"), workspace="w", effective_mode=direct)
    hidden = replace(session("hidden01", parent="child001"), workspace="other", effective_mode=direct)
    for made in (inner, hidden, child, session("root0001")):
        past.put(made, TreePart(made.parent_id, ONE))
    assert past.sums(None) == {"top00001": Totals(sessions=3)}
    viewer = replace(session("viewer01"), workspace="w", effective_mode=direct)
    assert past.sums(viewer) == {"top00001": Totals(sessions=2)}
    before = past.number
    past.pop("inner001")
    past.pop("unknown1")
    assert past.number == before + 1
    assert past.sums(viewer) == {"top00001": ONE}
