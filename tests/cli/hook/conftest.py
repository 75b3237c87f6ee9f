"""Fixture of the hook."""

from pathlib import Path

import pytest

from tests.cli.conftest import Sm
from tests.cli.hook.test_emit import Hook


@pytest.fixture
def hook(run: Sm, state: Path) -> Hook:
    return Hook(run, state)
