"""Which terminals of ended sessions are closed."""

from dataclasses import replace

import pytest

from sm.config.model import KeepTerminals
from sm.core.models import Exit, Session
from sm.core.statuses import Status
from sm.sessions.cleanup import expired
from sm.terminals.base import Pane
from tests.samples import session

NOW_S = 1_800_000_000.0
HOUR_S = 3600
DAY = KeepTerminals(last=50, hours=24)


def ended(number: int) -> Session:
    return replace(session(f"{number:08x}", status=Status.COMPLETED), exit=Exit(0))


def pane(of: Session, *, hours: float, **more: object) -> Pane:
    """The terminal of a process that ended `hours` ago."""
    at = int(NOW_S - hours * HOUR_S)
    made = Pane(of.id, of.terminal, "%1", 17, "/dev/pts/1", True, Exit(0), at, dead_since_s=at)
    return replace(made, **more)  # type: ignore[arg-type]  # fields of Pane


def close(keep: KeepTerminals, *terminals: tuple[Session, Pane]) -> list[str]:
    sessions, panes = {s.id: s for s, _ in terminals}, {s.id: p for s, p in terminals}
    return [s.id for s in expired(sessions, panes, keep, NOW_S)]


def test_all_but_the_last_terminals_expire_oldest_first() -> None:
    sessions = [ended(number) for number in range(5)]
    # Not in the order of their start: the first one ended last.
    terminals = [(s, pane(s, hours=number)) for number, s in enumerate(sessions)]
    expected = [s.id for s in (sessions[4], sessions[3], sessions[2])]
    assert close(KeepTerminals(last=2, hours=24), *terminals) == expected
    assert close(KeepTerminals(last=5, hours=24), *terminals) == []
    assert len(close(KeepTerminals(last=0, hours=24), *terminals)) == 5


def test_terminal_expires_when_its_hours_are_over() -> None:
    young, old = ended(1), ended(2)
    assert close(DAY, (young, pane(young, hours=23.9)), (old, pane(old, hours=24.1))) == [old.id]


@pytest.mark.parametrize(
    "more", [{"dead": False, "dead_since_s": None}, {"foreign": True}, {"viewed": True}], ids=str
)
def test_terminal_stays_while_a_person_uses_it(more: dict[str, object]) -> None:
    used = ended(1)
    assert close(KeepTerminals(last=0, hours=0), (used, pane(used, hours=100, **more))) == []


@pytest.mark.parametrize("status", [Status.RUNNING, Status.COMPLETED])
def test_terminal_stays_until_the_end_of_its_process_is_recorded(status: Status) -> None:
    running = session("aaaa1111", status=status)
    assert close(KeepTerminals(last=0, hours=0), (running, pane(running, hours=100))) == []


def test_terminal_of_an_unknown_session_stays() -> None:
    unknown = ended(1)
    assert expired({}, {unknown.id: pane(unknown, hours=100)}, DAY, NOW_S) == []


def test_last_activity_counts_as_the_end_when_tmux_does_not_know_the_end() -> None:
    old, young = ended(1), replace(ended(2), started_at="2027-01-15T07:59:00.000Z")
    terminals = [(s, pane(s, hours=25, dead_since_s=None)) for s in (old, young)]
    assert close(DAY, *terminals) == [old.id]
