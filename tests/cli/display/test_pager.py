"""The pager: its variables, and its end before the last line."""

import itertools
import os
from pathlib import Path

import pytest

from sm.cli.display.pager import paged, pager_of

pytestmark = pytest.mark.processes  # a pager


def test_pager_that_ends_early_ends_the_lines(tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    with paged(f'head -n 2 > {shown}; echo "$LESS" >> {shown}', {**os.environ, "LESS": "-iS"}) as write:
        write(f"line {number}" for number in itertools.count())
    assert shown.read_text() == "line 0\nline 1\n-R -iS\n"


def test_pager_gets_each_character_and_the_options_of_git(tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    environ = {"PATH": os.environ["PATH"], "PAGER": f'cat > {shown}; echo "$LESS" >> {shown}'}
    with paged(pager_of(environ), environ) as write:
        write(["\x1b[32mü\x1b[0m", ""])
    assert shown.read_text() == "\x1b[32mü\x1b[0m\n\nFRX\n"


@pytest.mark.parametrize("pager", ["cat", " "])
def test_no_pager_writes_to_stdout(capfd: pytest.CaptureFixture[str], pager: str) -> None:
    with paged(pager, {}) as write:
        write(["\x1b[32ma\x1b[0m"])
    assert capfd.readouterr().out == "\x1b[32ma\x1b[0m\n"


def test_error_of_the_lines_comes_after_the_pager(tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    with pytest.raises(ZeroDivisionError), paged(f"cat > {shown}", dict(os.environ)) as write:
        write(str(1 // number) for number in (1, 0))
    assert shown.read_text() == "1\n"
