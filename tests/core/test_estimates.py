"""Estimates from completed sessions and from finished tasks."""

import pytest

from sm.core.estimates import SAMPLES_MIN, Basis, Sample, Spread, estimate_totals, spread

OPUS = "claude-opus-4-8"


def samples(*seconds: float, model: str | None = OPUS, cost_usd: float | None = 1.0) -> list[Sample]:
    return [Sample(model, s, int(10 * s), cost_usd) for s in seconds]


@pytest.mark.parametrize(
    ("numbers", "p50", "p90"),
    [
        ([7], 7, 7),
        ([2, 1], 1, 2),
        ([3, 1, 2], 2, 3),
        (range(1, 11), 5, 9),
        (range(1, 101), 50, 90),
        (range(1, 102), 51, 91),
    ],
)
def test_spread_takes_measured_numbers_by_nearest_rank(numbers: list[float], p50: float, p90: float) -> None:
    assert spread(list(numbers)) == Spread(p50, p90)


def test_spread_of_nothing_is_unknown() -> None:
    assert spread([]) is None


def test_estimate_needs_five_completed_sessions() -> None:
    assert estimate_totals(samples(1, 2, 3, 4), OPUS) is None
    found = estimate_totals(samples(1, 2, 3, 4, 50), OPUS)
    assert found is not None
    assert (found.seconds, found.tokens, found.samples) == (Spread(3, 50), Spread(30, 500), 5)
    assert found.basis is Basis.SESSIONS


def test_estimate_counts_only_sessions_of_the_model() -> None:
    others = samples(900, 900, model="claude-haiku-4-5")
    dated = samples(5, model=f"{OPUS}-20260101")
    assert estimate_totals([*samples(1, 2, 3, 4), *others], OPUS) is None
    found = estimate_totals([*samples(1, 2, 3, 4), *others, *dated], OPUS)
    assert found is not None
    assert found.seconds == Spread(3, 5)


def test_estimate_counts_the_newest_fifty_sessions_of_the_model() -> None:
    newer = samples(*[900.0] * 50, model="claude-haiku-4-5")
    found = estimate_totals([*newer, *samples(1, 2, 3, 4, 5)], OPUS)
    assert found is not None
    assert (found.seconds, found.samples) == (Spread(3, 5), 5)
    found = estimate_totals([*samples(*[2.0] * 50), *samples(*[900.0] * 60)], OPUS)
    assert found is not None
    assert (found.seconds, found.samples) == (Spread(2, 2), 50)


def test_estimate_of_sessions_that_used_nothing_is_zero() -> None:
    found = estimate_totals(samples(0, 0, 0, 0, 0, cost_usd=0.0), OPUS, tasks=(1, 5))
    assert found is not None
    assert (found.seconds, found.tokens, found.cost_usd) == (Spread(0, 0),) * 3
    assert found.basis is Basis.SESSIONS


def test_estimate_of_a_model_without_a_price_has_no_cost() -> None:
    found = estimate_totals([*samples(1, 2, 3, 4), *samples(5, 6, cost_usd=None)], OPUS)
    assert found is not None
    assert found.samples == 6
    assert found.tokens is not None
    assert found.cost_usd is None


def test_estimate_is_never_below_what_is_used() -> None:
    used = Sample(OPUS, 4, 1000, 0.5)
    found = estimate_totals(samples(1, 2, 3, 4, 5), OPUS, used)
    assert found is not None
    assert (found.seconds, found.tokens, found.cost_usd) == (
        Spread(4, 5),
        Spread(1000, 1000),
        Spread(1.0, 1.0),
    )


@pytest.mark.parametrize(
    ("tasks", "seconds", "tokens", "usd"),
    [((3, 5), 100, 200, 2.5), ((5, 5), 60, 120, 1.5), ((1, 1), 60, 120, 1.5), ((7, 5), 60, 120, 1.5)],
)
def test_finished_tasks_give_the_rate(
    tasks: tuple[int, int], seconds: float, tokens: int, usd: float
) -> None:
    found = estimate_totals(samples(*range(SAMPLES_MIN)), OPUS, Sample(OPUS, 60, 120, 1.5), tasks)
    assert found is not None
    assert (found.seconds, found.tokens, found.cost_usd) == (
        Spread(seconds, seconds),
        Spread(tokens, tokens),
        Spread(usd, usd),
    )
    assert (found.samples, found.basis) == (tasks[0], Basis.TASKS)


def test_unknown_amounts_have_no_estimate_from_tasks() -> None:
    found = estimate_totals([], OPUS, Sample(OPUS, 60, None, None), (1, 2))
    assert found is not None
    assert (found.seconds, found.tokens, found.cost_usd) == (Spread(120, 120), None, None)


def test_tasks_decide_nothing_before_one_is_finished() -> None:
    used = Sample(OPUS, 60, 120, None)
    assert estimate_totals([], OPUS, used, (0, 5)) is None
    found = estimate_totals(samples(1, 2, 3, 4, 5), OPUS, used, (0, 5))
    assert found is not None
    assert found.basis is Basis.SESSIONS
