"""The mutants of `python -m tests.mutants` still fit the code."""

import pytest

from tests.mutants.catalog import MUTANTS, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_fits_the_code(mutant: Mutant) -> None:
    assert mutant.old != mutant.new
    assert mutant.is_applicable(), f"{mutant.path} has changed: adapt the mutant {mutant.name}"


def test_names_are_unique() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
