"""The claim of the process that makes a worktree."""

import threading
from pathlib import Path

import pytest

from sm.capabilities.worktrees.git.progress import Cancelled
from sm.capabilities.worktrees.making.claims import Claim


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
