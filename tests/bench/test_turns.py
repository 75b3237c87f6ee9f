"""The clock in the event loop of a measured daemon, with a simulated time."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.turns import ClockedLoop, Clocks, Turns, read_turns


class Machine:
    """Simulates the clocks of a machine."""

    def __init__(self) -> None:
        self.clocks = Clocks(100.0, 5.0, 2.0)

    def advance(self, now_s: float, worked_s: float, waited_s: float) -> None:
        before = self.clocks
        self.clocks = Clocks(before.now_s + now_s, before.worked_s + worked_s, before.waited_s + waited_s)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Machine]:
    machine = Machine()
    monkeypatch.setattr("bench.turns.read_clocks", lambda schedule: machine.clocks)
    monkeypatch.setenv("BENCH_TURNS", str(tmp_path / "turns"))
    before = signal.getsignal(signal.SIGUSR2)
    yield machine
    signal.signal(signal.SIGUSR2, before)


@pytest.mark.parametrize(
    ("turns", "longest"),
    [
        ([(0.050, 0.001, 0.0)], Turns(0.050, 0.001)),  # a thread of the daemon had no core
        ([(0.050, 0.045, 0.040)], Turns(0.050, 0.010)),  # the loop had no core, another thread had one
        ([(0.004, 0.004, 0.0), (0.002, 0.002, 0.0)], Turns(0.004, 0.004)),
        ([(0.050, 0.001, 0.049), (0.030, 0.030, 0.0)], Turns(0.050, 0.030)),
        ([(0.010, 0.016, 0.0)], Turns(0.010, 0.010)),  # two threads worked at the same time
    ],
)
def test_clocked_loop_separates_work_from_waiting_for_a_core(
    machine: Machine, tmp_path: Path, turns: list[tuple[float, float, float]], longest: Turns
) -> None:
    loop = ClockedLoop()
    for turn in turns:
        loop.call_soon(machine.advance, *turn)
        loop.call_soon(loop.stop)
        loop.run_forever()
        loop.call_soon(loop.stop)  # the next turn begins
        loop.run_forever()
    loop.close()
    assert read_turns(str(tmp_path / "turns")) == pytest.approx(longest)
