"""Fixtures of the pump."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Sm
from tests.cli.mcp.client import PumpClient


@pytest.fixture
def start(run: Sm, state: Path) -> Iterator[Callable[..., PumpClient]]:
    """Start `sm mcp` in a session, with options, and end it after the test."""
    token = state / "token"
    token.write_text("0" * 64)
    run.environ |= run.as_session(state) | {"SM_TOKEN_FILE": str(token)}
    started: list[PumpClient] = []

    def starter(*options: str, **settings: float) -> PumpClient:
        started.append(PumpClient(run.environ, options, settings))
        return started[-1]

    yield starter
    for client in started:
        client.kill()


@pytest.fixture
def pump(start: Callable[..., PumpClient]) -> PumpClient:
    return start()
