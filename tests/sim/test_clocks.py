"""The clocks that the modules of sm get in a simulation."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import sm.core
from tests.sim.world import simulation

pytestmark = pytest.mark.simulation
_NAMES = ("late_dependency", "late_clock")


@pytest.fixture
def late_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module that imports the clock after the last module that was not loaded."""
    (tmp_path / "late_dependency.py").write_text("")
    (tmp_path / "late_clock.py").write_text("import sm.core.late_dependency\nimport time\n")
    monkeypatch.setattr(sm.core, "__path__", [*sm.core.__path__, str(tmp_path)])
    yield "sm.core.late_clock"
    for name in _NAMES:
        del sys.modules[f"sm.core.{name}"]
        delattr(sm.core, name)


async def test_module_gets_the_clock_that_it_imports_last(late_clock: str) -> None:
    async with simulation(starts=False) as world:
        module = importlib.import_module(late_clock)
        assert module.time.time() == world.clocks.wall()
