"""The list of tests of the real claude that do not run in a container."""

import re
from pathlib import Path

import pytest

from tests.claude_container import ALWAYS_INSIDE, NOT_INSIDE

INTEGRATION = Path(__file__).parent / "integration"


@pytest.mark.parametrize("name", [name for names in NOT_INSIDE.values() for name in names])
def test_not_inside_names_a_test_that_exists(name: str) -> None:
    assert any(f"def {name}(" in path.read_text() for path in INTEGRATION.glob("test_claude_*.py"))


@pytest.mark.parametrize("reason", [reason for reason in NOT_INSIDE if "test_" in reason])
def test_reason_names_a_test_that_exists(reason: str) -> None:
    [name] = re.findall(r"\btest_\w+", reason)
    assert any(f"def {name}(" in path.read_text() for path in INTEGRATION.parent.rglob("test_*.py"))


def test_file_that_always_runs_inside_exists() -> None:
    assert (INTEGRATION / ALWAYS_INSIDE).exists()
