"""Fixtures of the pump."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Sm
from tests.cli.mcp.client import PumpClient


@pytest.fixture
def pump(run: Sm, state: Path) -> Iterator[PumpClient]:
    """The process `sm mcp` in a session, which ends after the test."""
    token = state / "token"
    token.write_text("0" * 64)
    client = PumpClient(run.environ | run.as_session(state) | {"SM_TOKEN_FILE": str(token)})
    yield client
    client.kill()
