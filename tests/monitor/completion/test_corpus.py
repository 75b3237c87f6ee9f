"""The gates of the classifier on the labelled endings, and the shape of the corpus."""

from dataclasses import fields
from itertools import combinations

import pytest

from bench.completion import judge, score
from sm.monitor.completion import Ending, TurnFacts
from tests.monitor.completion.corpus import CORPUS, PARTS, endings


@pytest.mark.parametrize("part", PARTS)
def test_classifier_holds_its_gates_on_the_corpus(part: str) -> None:
    scored = score(judge(CORPUS / f"{part}.jsonl"))
    assert scored["precision"]["done"] >= 0.97
    assert scored["recall"]["done"] >= 0.80
    assert scored["precision"]["question"] >= 0.95


def test_corpus_is_split_by_task() -> None:
    tasks = [{ending["task"] for ending in endings(part)} for part in PARTS]
    assert not any(one & other for one, other in combinations(tasks, 2))


def test_corpus_holds_out_a_third_of_at_least_three_hundred_endings() -> None:
    train, held_out = (len(endings(part)) for part in PARTS)
    assert train + held_out >= 300
    assert held_out * 3 >= train + held_out


@pytest.mark.parametrize("part", PARTS)
def test_corpus_has_only_known_labels_and_facts(part: str) -> None:
    known = {field.name for field in fields(TurnFacts)}
    for ending in endings(part):
        assert set(ending) == {"text", "label", "task", "facts"}
        assert Ending(ending["label"])
        assert set(ending["facts"]) <= known
