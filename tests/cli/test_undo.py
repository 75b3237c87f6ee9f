"""The key that takes an action back."""

import os
import pty
import sys
from collections.abc import Iterator

import pytest

from sm.cli.commands.archive import wants_undo


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The side of a terminal at which keys arrive. Its other side is stdin."""
    parent, child = pty.openpty()
    with os.fdopen(child, closefd=False) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield parent
    os.close(parent)
    os.close(child)


@pytest.mark.parametrize(("key", "taken_back"), [(b"u", True), (b"U", True), (b"x", False), (b"\n", False)])
def test_key_typed_before_the_wait_begins_counts(keyboard: int, key: bytes, taken_back: bool) -> None:
    os.write(keyboard, key)
    os.read(keyboard, 10)  # its echo: the key has arrived
    assert wants_undo() is taken_back


def test_no_key_takes_nothing_back_and_later_keys_stay_for_the_shell(keyboard: int) -> None:
    assert wants_undo(0.0) is False
    os.write(keyboard, b"xls\n")
    assert wants_undo() is False
    assert sys.stdin.readline() == "ls\n"
