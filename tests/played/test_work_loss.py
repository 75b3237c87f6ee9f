"""Random sequences of work and of commands that remove and merge it, with SIGKILL in between, lose nothing.

`python -m tests.work_loss --seed N --trace` plays one of them again.
"""

import pytest

from sm.capabilities.worktrees import unsaved_work
from tests.work_loss.__main__ import outcome, report, shortest
from tests.work_loss.acts import Act
from tests.work_loss.sequences import Script, script

pytestmark = pytest.mark.processes  # git

_TOGETHER = 2
_CORE = range(1, 21, _TOGETHER)
_ALL = range(1, 2001, 100)
_HIDDEN = Script(
    (
        Act("spawn", (30, 0, 1)),
        Act("commit", (0, 0, 0)),
        Act("hidden edit", (1, 0, 0)),
        Act("person: commit", (2, 0, 0)),
        Act("merge", (0, 0, 8)),
        Act("rm", (0, 1, 0)),
    ),
    has_submodule=False,
    fills=False,
)


def play_all(seeds: range) -> None:
    for seed in seeds:
        wanted = script(seed)
        found = outcome(wanted)
        assert not found.lost, report(seed, wanted)


@pytest.mark.parametrize("first", _CORE)
def test_random_sequences_lose_no_commit_and_no_change(first: int) -> None:
    play_all(range(first, first + _TOGETHER))


@pytest.mark.full
@pytest.mark.parametrize("first", _ALL)
def test_two_thousand_random_sequences_lose_no_commit_and_no_change(first: int) -> None:
    play_all(range(first, first + _ALL.step))


def test_loss_is_found_and_its_sequence_is_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    assert outcome(_HIDDEN).lost == []
    monkeypatch.setattr(unsaved_work, "hidden_changes", lambda path: [])
    (lost,) = outcome(_HIDDEN).lost
    assert lost == "change w0002x of ['app/.sm/worktrees/a/f1'] and commits []"
    short = shortest(_HIDDEN)
    assert [act.kind for act in short.acts] == ["spawn", "hidden edit", "rm"]
    assert script(7) == script(7)
