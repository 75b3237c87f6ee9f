"""Each status with each signal, checked against the design instead of the transition table."""

import subprocess
import sys
from pathlib import Path

import pytest

from sm.core.lifecycle import TRANSITIONS, decide, diagram, has_reached, is_ended, is_live
from sm.core.models import Signal
from sm.core.states import EventType, SignalKind
from sm.core.statuses import ENDED, ENDED_OF_ANY_KIND, LIVE, Status
from sm.errors import IllegalTransition

AT = "2026-01-27T15:10:00.000Z"
KNOWN = list(Status)

# One row for each status, one column for each signal that can move it; all other signals change nothing.
ENDINGS = {
    SignalKind.REPORTED_COMPLETED: Status.COMPLETED,
    SignalKind.REPORTED_ERROR: Status.ERROR,
    SignalKind.REPORTED_ABANDONED: Status.ABANDONED,
    SignalKind.EXITED: Status.COMPLETED,
    SignalKind.CRASHED: Status.ERROR,
    SignalKind.TERMINAL_LOST: Status.ERROR,
    SignalKind.KILLED: Status.KILLED,
    SignalKind.PARENT_ENDED: Status.ABANDONED,
}
AGAIN = {SignalKind.RESTART_PLANNED: Status.STARTING}
BACK = {SignalKind.REOPENED: Status.RUNNING, SignalKind.RESTARTED: Status.STARTING}
EXPECTED: dict[Status, dict[SignalKind, Status]] = {
    Status.SPAWNED: {
        SignalKind.LAUNCHING: Status.STARTING,
        SignalKind.STARTED: Status.RUNNING,
        SignalKind.START_FAILED: Status.ERROR,
        **ENDINGS,
    },
    Status.STARTING: {
        SignalKind.STARTED: Status.RUNNING,
        SignalKind.START_FAILED: Status.ERROR,
        SignalKind.ASKED: Status.WAITING_INPUT,
        **ENDINGS,
        **AGAIN,
    },
    Status.RUNNING: {
        SignalKind.WENT_IDLE: Status.IDLE,
        SignalKind.ASKED: Status.WAITING_INPUT,
        **ENDINGS,
        **AGAIN,
    },
    Status.IDLE: {
        SignalKind.BUSY: Status.RUNNING,
        SignalKind.ASKED: Status.WAITING_INPUT,
        SignalKind.DETECTED_COMPLETED: Status.COMPLETED,
        **ENDINGS,
        **AGAIN,
    },
    Status.WAITING_INPUT: {
        SignalKind.STARTED: Status.RUNNING,
        SignalKind.BUSY: Status.RUNNING,
        SignalKind.WENT_IDLE: Status.IDLE,
        **ENDINGS,
        **AGAIN,
    },
    Status.COMPLETED: BACK,
    Status.ERROR: BACK,
    Status.ABANDONED: BACK,
    Status.KILLED: BACK,
}
REQUESTS = {
    SignalKind.REPORTED_COMPLETED,
    SignalKind.REPORTED_ERROR,
    SignalKind.REPORTED_ABANDONED,
    SignalKind.REOPENED,
    SignalKind.RESTARTED,
}


def signal(kind: SignalKind) -> Signal:
    return Signal(kind, "test", "because", AT)


@pytest.mark.parametrize("status", KNOWN)
@pytest.mark.parametrize("kind", list(SignalKind))
def test_lifecycle_moves_each_status_as_designed_for_each_signal(status: Status, kind: SignalKind) -> None:
    expected = EXPECTED[status].get(kind)
    if expected is None and kind in REQUESTS:
        with pytest.raises(IllegalTransition) as caught:
            decide(status, signal(kind))
        assert status in caught.value.message
        return
    decision = decide(status, signal(kind))
    if expected is None:
        assert decision is None
    else:
        assert decision is not None
        assert (decision.before, decision.after) == (status, expected)
        assert decision.signal.reason == "because"


def test_every_status_is_either_live_or_ended() -> None:
    assert [*LIVE, *ENDED] == KNOWN
    assert all(is_live(s) != is_ended(s) for s in KNOWN)


def test_unknown_status_is_neither_live_nor_ended_and_ignores_signals() -> None:
    unknown = Status("hibernating")
    assert not is_live(unknown)
    assert not is_ended(unknown)
    assert decide(unknown, signal(SignalKind.CRASHED)) is None


@pytest.mark.parametrize(
    ("status", "kind", "event"),
    [
        (Status.SPAWNED, SignalKind.LAUNCHING, None),
        (Status.STARTING, SignalKind.STARTED, EventType.STARTED),
        (Status.IDLE, SignalKind.BUSY, EventType.RUNNING),
        (Status.RUNNING, SignalKind.WENT_IDLE, EventType.IDLE),
        (Status.RUNNING, SignalKind.ASKED, EventType.WAITING_INPUT),
        (Status.RUNNING, SignalKind.CRASHED, EventType.ERROR),
        (Status.RUNNING, SignalKind.PARENT_ENDED, EventType.ABANDONED),
        (Status.IDLE, SignalKind.KILLED, EventType.KILLED),
        (Status.KILLED, SignalKind.RESTARTED, EventType.REOPENED),
        (Status.ERROR, SignalKind.REOPENED, EventType.REOPENED),
    ],
)
def test_status_change_emits_the_event_of_the_new_status(
    status: Status, kind: SignalKind, event: EventType | None
) -> None:
    decision = decide(status, signal(kind))
    assert decision is not None
    assert decision.event is event


ENDED_NAMES = {"completed", "error", "abandoned", "killed"}


@pytest.mark.parametrize("status", [*KNOWN, Status("hibernating")])
def test_wait_ends_when_status_is_reached_or_can_no_longer_be_reached(status: Status) -> None:
    for until in (*(s.value for s in KNOWN), ENDED_OF_ANY_KIND, "hibernating"):
        if status.value in ENDED_NAMES:
            expected: bool | None = until in (status.value, "ended")
        else:
            expected = True if until == status.value else None
        assert has_reached(status, until) is expected, until


def test_diagram_shows_exactly_the_transitions() -> None:
    drawn = set()
    for line in diagram().splitlines()[2:]:
        pair, kinds = line.strip().split(": ")
        before, after = pair.split(" --> ")
        drawn |= {(before, kind, after) for kind in kinds.split(", ")}
    assert drawn == {(b.value, k.value, a.value) for (b, k), a in TRANSITIONS.items()}


@pytest.mark.processes
def test_documented_diagram_equals_the_generated_diagram() -> None:
    documented = Path("docs/lifecycle.md").read_text(encoding="utf-8")
    printed = subprocess.run(
        [sys.executable, "-m", "sm.core.lifecycle"],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": "src"},
    ).stdout
    assert f"```mermaid\n{printed}```\n" in documented
