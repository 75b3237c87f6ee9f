"""The claim of the process that makes a worktree."""

import threading
from pathlib import Path

import pytest

from sm.capabilities.worktrees.git.long_commands import Cancelled
from sm.capabilities.worktrees.making.claims import Claim
from sm.errors import ExternalError


def test_process_that_nobody_wants_any_more_does_not_begin_when_it_gets_the_claim(tmp_path: Path) -> None:
    cancelled = threading.Event()
    claim = Claim(str(tmp_path / "claim"))
    with claim.held(cancelled):
        pass
    cancelled.set()
    with pytest.raises(Cancelled), claim.held(cancelled):
        pytest.fail("it would remove what another process has made")
    with claim.held(threading.Event()):
        pass  # the lock is free again


def test_wait_for_an_earlier_process_ends_when_nobody_wants_the_result_any_more(tmp_path: Path) -> None:
    earlier, later = (Claim(str(tmp_path / "claim")) for _ in range(2))
    cancelled = threading.Event()
    cancelled.set()
    with earlier.held(threading.Event()), pytest.raises(Cancelled), later.held(cancelled, 0.0):
        pytest.fail("the earlier process still works")


def test_wait_for_an_earlier_process_has_a_limit(tmp_path: Path) -> None:
    earlier, later = (Claim(str(tmp_path / "claim")) for _ in range(2))
    with (
        earlier.held(threading.Event()),
        pytest.raises(ExternalError, match="an earlier process still works in it"),
        later.held(threading.Event(), 0.0),
    ):
        pytest.fail("the earlier process still works")
    with later.held(threading.Event(), 0.0):
        pass  # the lock is free
