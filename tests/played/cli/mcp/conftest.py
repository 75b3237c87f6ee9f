"""Fixtures of the played pump."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sm.cli.mcp import link
from sm.cli.mcp import pump as pump_module
from tests.played.cli.command import Sm
from tests.played.cli.mcp.client import PumpClient
from tests.sim.pump import PumpProcess, played_pumps


@pytest.fixture
def start(run: Sm, state: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., PumpClient]:
    """Start `sm mcp` in a session, with options, and constants of its modules in place of theirs."""
    token = state / "token"
    token.write_text("0" * 64)
    run.environ |= run.as_session(state) | {"SM_TOKEN_FILE": str(token)}
    run.instance.enter(played_pumps(run.instance.loop))

    def starter(*options: str, **settings: float) -> PumpClient:
        for name, value in settings.items():
            monkeypatch.setattr(link if hasattr(link, name) else pump_module, name, value)
        parent = run.instance.world.shell.pid
        return PumpClient(PumpProcess(run.instance, run.environ, parent, *options))

    return starter


@pytest.fixture
def pump(start: Callable[..., PumpClient]) -> PumpClient:
    return start()
