"""How `python -m bench states` compares samples with the truth. The run itself starts real claudes."""

from bench.sequences import AROUND_S, COUNT, SESSIONS, UNKNOWN, Truth
from bench.states import accuracy, by_sequence, confusion, wrong

BEGAN = 1_000.0


def truth(*samples: tuple[float, str]) -> Truth:
    """A session that is idle for 10 s, unknown for 10 s, and then runs; sequences begin at 0 and 20 s."""
    changes = [(BEGAN, "idle"), (BEGAN + 10, UNKNOWN), (BEGAN + 20, "running")]
    steps = [(BEGAN, "first"), (BEGAN + 20, "second")]
    return Truth(changes, [(BEGAN + at, status, "why") for at, status in samples], steps)


def test_samples_near_a_change_and_in_an_unknown_state_do_not_count() -> None:
    found = truth((5, "idle"), (10 - AROUND_S / 2, "running"), (15, "idle"), (20.1, "idle"), (25, "running"))
    assert confusion([found]) == {("idle", "idle"): 1, ("running", "running"): 1}
    assert [*wrong([found])] == []


def test_wrong_samples_are_counted_for_their_sequence() -> None:
    found = truth((5, "idle"), (25, "idle"), (26, "idle"), (27, "running"), (28, "spawned"))
    shares = {name: accuracy(counts) for name, counts in by_sequence([found]).items()}
    assert shares == {"first": 1.0, "second": 0.25}
    assert [*wrong([found])] == [
        "second: running for 5.0 s, reported idle: why",
        "second: running for 8.0 s, reported spawned: why",
    ]


def test_script_has_at_least_48_sequences_with_names_of_their_own() -> None:
    names = [name for _, _, sequences in SESSIONS for name in sequences]
    assert len(names) == len({*names})
    assert COUNT >= 48
