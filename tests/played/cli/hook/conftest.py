"""Fixtures of the hook."""

from pathlib import Path

import pytest

from tests.played.cli.command import Sm
from tests.played.cli.hook.command import Hook


@pytest.fixture
def hook(run: Sm, state: Path) -> Hook:
    return Hook(run, state)
