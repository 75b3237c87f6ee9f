"""A configuration with many mistakes."""

from pathlib import Path
from unittest.mock import patch

import pytest

from sm.config import load, loading
from sm.errors import ConfigError


@pytest.mark.parametrize(
    ("mistakes", "end"),
    [(20, "20:1: k19: unknown key"), (21, "and 1 more mistake"), (500, "and 480 more mistakes")],
)
def test_load_names_the_first_twenty_mistakes_and_counts_the_rest(
    tmp_path: Path, mistakes: int, end: str
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("".join(f"k{n}: 1\n" for n in range(mistakes)))
    with (
        patch.object(loading, "sentence", wraps=loading.sentence) as sentence,
        pytest.raises(ConfigError) as raised,
    ):
        load(str(path))
    lines = raised.value.message.splitlines()
    assert lines[:20] == [f"{path}:{n + 1}:1: k{n}: unknown key" for n in range(20)]
    assert lines[-1].removeprefix(f"{path}:") == end
    assert sentence.call_count == 20  # each sentence searches all keys for a similar one
