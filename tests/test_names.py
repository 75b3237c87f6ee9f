"""Class names in `src/sm` are unique."""

import re
from collections import Counter
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src" / "sm"


def test_public_class_names_are_unique() -> None:
    names = Counter(
        name
        for path in SOURCES.rglob("*.py")
        for name in re.findall(r"^ *class ([A-Za-z]\w*)", path.read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert "Store" in names
    assert not {name for name, uses in names.items() if uses > 1}
