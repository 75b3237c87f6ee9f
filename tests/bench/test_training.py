"""The training of the model that judges final messages."""

import json
from pathlib import Path

from bench.training import Example, examples, judge, table, train, validate
from sm.capabilities.completion.rules.linear_model import BIAS, MESSAGE, QUESTION, SENTENCE, model

ENDINGS = [
    ("Added the flag. All tests pass.", "done"),
    ("Added the button. All tests pass.", "done"),
    ("Added the flag. The docs are missing.", "progress"),
    ("Added the button. The docs are missing.", "progress"),
]


def learned(directory: Path) -> list[Example]:
    corpus = directory / "corpus.jsonl"
    lines = [
        json.dumps({"text": text, "label": label, "task": f"Task {number}", "facts": {"tools_used": 1}})
        for number, (text, label) in enumerate(ENDINGS * 5)
    ]
    corpus.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return examples(corpus)


def test_training_is_deterministic(tmp_path: Path) -> None:
    found = learned(tmp_path)
    assert table(train(found)) == table(train(found))


def test_trained_model_separates_messages_by_one_sentence(tmp_path: Path) -> None:
    found = learned(tmp_path)
    trained = train(found)
    assert all((judge(trained, example) > 0.5) is example.done for example in found)


def test_validation_judges_every_example_by_a_model_that_has_not_seen_its_task(tmp_path: Path) -> None:
    found = learned(tmp_path)
    judged = validate(found, 4)
    assert len(judged) == len(found)
    assert all(0 < value < 1 for value in judged)


def test_shipped_weights_have_all_parts() -> None:
    shipped = model()
    for part in (MESSAGE, SENTENCE, QUESTION):
        weights = shipped.columns[part]
        assert weights[shipped.rows[BIAS]] is not None
        assert sum(weight is not None for weight in weights) > 1_000
