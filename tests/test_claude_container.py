"""The list of tests of the real claude that do not run in a container."""

from pathlib import Path

import pytest

from tests.claude_container import NOT_INSIDE

INTEGRATION = Path(__file__).parent / "integration"


@pytest.mark.parametrize("name", NOT_INSIDE)
def test_not_inside_names_a_file_or_a_test_that_exists(name: str) -> None:
    if name.endswith(".py"):
        assert (INTEGRATION / name).exists()
    else:
        assert any(f"def {name}(" in path.read_text() for path in INTEGRATION.glob("test_claude_*.py"))
