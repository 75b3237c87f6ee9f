"""The choice of endings and the report of `python -m bench auto`. The run itself starts a hundred claudes."""

from collections import Counter
from pathlib import Path

import pytest

from bench import auto
from bench.auto import CORPUS, Outcome, ScriptedEnding, choose, read, score, table, write


def ending(label: str, text: str = "Text.") -> ScriptedEnding:
    return ScriptedEnding(text, label, "Fix it", {"tools_used": 1})


def test_choice_has_each_label_in_its_part_of_the_corpus() -> None:
    endings = read(CORPUS)
    chosen = choose(endings, 100, 16)
    assert len(chosen) == 100
    assert chosen == choose(endings, 100, 16)
    assert chosen != choose(endings, 100, 17)
    of_all, of_chosen = (Counter(e.label for e in some) for some in (endings, chosen))
    for label, count in of_all.items():
        assert abs(of_chosen[label] - 100 * count / len(endings)) < 1.5


def test_choice_from_a_small_corpus_is_the_corpus() -> None:
    endings = [ending("done"), ending("question")]
    assert sorted(e.label for e in choose(endings, 100, 1)) == ["done", "question"]


def test_endings_that_a_scripted_turn_cannot_reproduce_are_omitted(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(
        '{"text": "Done.", "label": "done", "task": "Fix it", "facts": {"tools_used": 2, "errors": 1}}\n'
        '{"text": "", "label": "unclear", "task": "Fix it", "facts": {}}\n'
        '{"text": "I wait.", "label": "progress", "task": "Fix it", "facts": {"live_children": 2}}\n'
    )
    assert [e.text for e in read(corpus)] == ["Done."]


OUTCOMES = [
    Outcome(ending("done"), "completed", "done-statement"),
    Outcome(ending("done", "I | did\n*it*."), "idle", "unsupported-report"),
    Outcome(ending("progress", "Part 1 is done."), "completed", "done-statement"),
    Outcome(ending("unclear"), "idle", "nothing-decides"),
]


def test_score_counts_right_actions_and_wrong_completions() -> None:
    scored = score(OUTCOMES)
    assert (scored["n"], scored["right"], scored["wrong_completions"]) == (4, 2, 1)
    assert [error["label"] for error in scored["errors"]] == ["done", "progress"]


def test_table_shows_wrong_completions_first_and_messages_as_one_cell() -> None:
    lines = table(OUTCOMES)
    assert lines[:3] == [
        "Mode auto was right about 2 of 4 endings.",
        "Sessions completed that are not done: 1.",
        "Sessions left idle that are done: 1 of 2.",
    ]
    assert "| done | **1** |  |  |  | 1 |" in lines
    assert lines[-2:] == [
        "| progress | completed | done-statement | Part 1 is done. |",
        "| done | idle | unsupported-report | I \\| did \\*it\\*. |",
    ]


def test_write_replaces_only_the_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = tmp_path / "benchmarks.md"
    document.write_text(f"before\n{auto.BEGIN}\nold\n{auto.END}\nafter\n")
    monkeypatch.setattr(auto, "DOCUMENT", document)
    write("new")
    assert document.read_text() == f"before\n{auto.BEGIN}\nnew\n{auto.END}\nafter\n"


def test_write_raises_when_the_document_has_no_place_for_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = tmp_path / "benchmarks.md"
    document.write_text("before\n")
    monkeypatch.setattr(auto, "DOCUMENT", document)
    with pytest.raises(ValueError, match="substring not found"):
        write("new")
    assert document.read_text() == "before\n"
