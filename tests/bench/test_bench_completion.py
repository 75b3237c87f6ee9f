"""`python -m bench completion`: scores of correctly and wrongly classified final messages."""

import json
from pathlib import Path

import pytest

from bench.__main__ import main

ENDINGS = (
    {"text": "Done. All tests passing.", "label": "done", "task": "Fix it", "facts": {"tools_used": 3}},
    {"text": "Which port should I use?", "label": "question", "task": "Set it up", "facts": {}},
    {"text": "Which host should I use?", "label": "progress", "task": "Set it up"},
)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Two correctly labelled endings, and a question that is labelled as progress."""
    path = tmp_path / "endings.jsonl"
    path.write_text("\n".join(json.dumps(ending) for ending in ENDINGS) + "\n", encoding="utf-8")
    return path


def test_completion_prints_scores_and_errors_as_json(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", "--corpus", str(corpus), "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "n": 3,
        "accuracy": 2 / 3,
        "precision": {"done": 1.0, "question": 0.5},
        "recall": {"done": 1.0, "progress": 0.0, "question": 1.0},
        "errors": [
            {
                "text": "Which host should I use?",
                "label": "progress",
                "predicted": "question",
                "rule": "question-mark",
            }
        ],
    }


def test_completion_prints_the_confusion_matrix_and_errors(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", "--corpus", str(corpus)]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "3 endings, accuracy 0.667"
    assert out[2].split() == [
        *("label", "done", "question", "progress", "failed", "blocked", "unclear"),
        *("precision", "recall"),
    ]
    assert out[3].split() == ["done", "1", "0", "0", "0", "0", "0", "1.000", "1.000"]
    assert out[5].split() == ["progress", "0", "1", "0", "0", "0", "0", "-", "0.000"]
    assert out[-2:] == [
        "progress, classified as question by question-mark:",
        "  Which host should I use?",
    ]


@pytest.mark.parametrize(
    "content", [None, "", "[]", '{"text": "x"}', '{"text": "x", "label": "done", "facts": {"y": 1}}']
)
def test_completion_refuses_a_missing_or_wrong_corpus(content: str | None, tmp_path: Path) -> None:
    path = tmp_path / "endings.jsonl"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(SystemExit) as refused:
        main(["completion", "--corpus", str(path)])
    assert refused.value.code == 2


def test_completion_requires_a_corpus() -> None:
    with pytest.raises(SystemExit) as refused:
        main(["completion"])
    assert refused.value.code == 2


def test_completion_puts_each_text_before_the_task(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["completion", "--corpus", str(corpus), "--json", "--before", "#9: ", "--before", "Ana: "]) == 1
    )
    assert json.loads(capsys.readouterr().out)["n"] == 6
