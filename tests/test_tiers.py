"""The marks that decide which tests `./check` runs."""

import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]


def test_contributing_lists_each_test_of_the_real_claude_that_check_runs() -> None:
    marked = {
        name
        for file in (REPOSITORY / "tests" / "integration").glob("test_claude_*.py")
        for name in re.findall(
            r"^@pytest.mark.claude_core\n(?:.+\n)*?(?:async )?def (\w+)", file.read_text(), re.MULTILINE
        )
    }
    listed = re.findall(r"^\| `(test_\w+)` \|", (REPOSITORY / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    assert len(listed) >= 20
    assert sorted(marked) == sorted(listed)
