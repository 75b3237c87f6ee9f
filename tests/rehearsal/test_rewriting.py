# ruff: noqa: RUF001  (claude's pointer looks like a greater-than sign, and is not one)
"""The rewriting of what claude shows and reports."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sm.providers.claude.dialect import read
from tests.rehearsal.__main__ import DOCUMENT, HEAD, Played, rows_of, text_of
from tests.rehearsal.changes import CHANGES
from tests.rehearsal.rewriting import complete_part, rename_key, replace_value, rewrite_screen
from tests.rehearsal.wrapper import Mirror

DRAWN = "\x1b[2G\x1b[38;5;153m❯\x1b[4G\x1b[38;5;246m1.\x1b[7G\x1b[38;5;153mYes,\x1b[12GI\x1b[14Gtrust\x1b[39m\r\r\n"
"""A row as claude draws it: nearly each blank is a move of the cursor."""


def plain(output: str) -> str:
    """The first row of a terminal that gets this output, whose moves are all to the column right after a blank."""
    row = rewrite_screen(output, {}).split("\r")[0]
    for style in ("\x1b[38;5;153m", "\x1b[38;5;246m", "\x1b[39m"):
        row = row.replace(style, "")
    for column in range(2, 20):
        row = row.replace(f"\x1b[{column}G", " ")
    return row


def test_words_with_moves_for_blanks_are_replaced_and_keep_their_width() -> None:
    assert plain(DRAWN) == " ❯ 1. Yes, I trust"
    assert plain(rewrite_screen(DRAWN, {"Yes, I trust": "Sure, I'm ok"})) == " ❯ 1. Sure, I'm ok"
    assert plain(rewrite_screen(DRAWN, {"Yes, I trust": "Yes,thetrust"})) == " ❯ 1. Yes,thetrust"
    assert plain(rewrite_screen(DRAWN, {"1. Yes": "   Yes"})) == " ❯    Yes, I trust"


def test_earlier_words_count_before_later_ones() -> None:
    words = {"want to go?": "fly away no", "want to ": "go from "}
    assert rewrite_screen("want to go? want to stay?", words) == "fly away no go from stay?"


def test_nothing_is_replaced_across_rows_and_by_words_of_another_width() -> None:
    assert rewrite_screen("Yes,\r\nI trust", {"Yes, I": "No, no"}) == "Yes,\r\nI trust"
    with pytest.raises(ValueError, match="'Yes' is not as wide as 'No'"):
        rewrite_screen("", {"No": "Yes"})


def test_title_is_replaced_and_other_sequences_stay() -> None:
    output = "\x1b]0;✳ Claude Code\x07\x1b[?2004h\x1b]8;id=a;https://example.org\x07there\x1b]8;;\x07"
    changed = rewrite_screen(output, {"there": "THERE"}, CHANGES["title-bare"].title)
    assert changed == output.replace("✳ ", "").replace("there", "THERE")
    glyphs = CHANGES["title-glyphs"].title
    assert glyphs is not None
    assert [glyphs(title) for title in ("✳ A b", "⠂ A b", "Claude Code")] == ["◇ A b", "▸ A b", "Claude Code"]


@pytest.mark.parametrize("rest", ["\x1b", "\x1b[38;5", "\x1b]0;✳ Cla"])
def test_incomplete_sequence_is_kept_back(rest: str) -> None:
    assert complete_part(f"\x1b[39mdone{rest}") == ("\x1b[39mdone", rest)
    assert complete_part("\x1b[39mdone") == ("\x1b[39mdone", "")


def test_keys_and_values_deep_in_json_are_changed() -> None:
    value = {"a": [{"b": 1, "c": "x"}, 2], "b": 3}
    assert rename_key(value, "a.b", "z") == {"a": [{"z": 1, "c": "x"}, 2], "b": 3}
    assert rename_key(value, "b", "z") == {"a": [{"b": 1, "c": "x"}, 2], "z": 3}
    assert replace_value(value, "a.c", {"x": "y"}) == {"a": [{"b": 1, "c": "y"}, 2], "b": 3}


@pytest.mark.parametrize("name", CHANGES)
def test_data_that_mend_a_change_are_a_dialect(name: str, tmp_path: Path) -> None:
    mends = CHANGES[name].mends
    own = tmp_path / "claude.toml"
    own.write_text(mends or "")
    assert (read(str(own)).own_file is not None) and CHANGES[name].breaks


def line(kind: str, number: int) -> dict[str, Any]:
    return {"type": kind, "message": {"content": f"{number}"}}


def test_transcripts_are_copied_with_changes_also_by_the_next_relay(tmp_path: Path) -> None:
    given, own = tmp_path / "given", tmp_path / "own"
    (own / "projects" / "p").mkdir(parents=True)
    given.mkdir()
    source, target = (place / "projects" / "p" / "one.jsonl" for place in (own, given))
    change = CHANGES["transcript-types"]
    first, second = (Mirror(change, given, own, process) for process in (1, 2))
    source.write_text(f"{json.dumps(line('assistant', 1))}\n{json.dumps(line('user', 2))}\n" + '{"half')
    first.copy()
    second.copy()
    types = ["reasoning-graph", "model_turn", "reasoning-graph", "user"]
    assert [json.loads(text)["type"] for text in target.read_text().splitlines()] == types
    first.end()
    source.write_text(
        f"{json.dumps(line('assistant', 1))}\n{json.dumps(line('user', 2))}\n{json.dumps(line('x', 3))}\n"
    )
    second.copy()
    assert [json.loads(text)["type"] for text in target.read_text().splitlines()] == [
        *types,
        "reasoning-graph",
        "x",
    ]
    second.end()


def test_state_file_is_copied_with_changes_and_removed_at_the_end(tmp_path: Path) -> None:
    given, own = tmp_path / "given", tmp_path / "own"
    (own / "sessions").mkdir(parents=True)
    given.mkdir()
    mirror = Mirror(CHANGES["state-words"], given, own, 7)
    (own / "sessions" / "7.json").write_text('{"pid": 7, "status": "busy"}')
    mirror.copy()
    assert json.loads((given / "sessions" / "7.json").read_text()) == {"pid": 7, "phase": "working"}
    (own / "sessions" / "7.json").unlink()
    mirror.end()
    assert list((given / "sessions").iterdir()) == []


def test_document_is_written_by_its_generator() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    rows = rows_of(text)
    assert {*rows} == {*CHANGES}
    assert text_of(rows) == text, "run: python -m tests.rehearsal"
    assert text.startswith(HEAD)


def test_change_is_as_hoped_only_if_it_is_named_true_and_mended() -> None:
    change = CHANGES["hook-field"]
    broken = dict.fromkeys(change.breaks, "the request is about None")
    played = Played(change, "2.1.332", broken, {})
    assert played.is_as_hoped
    assert played.row[3:] == ("permission, question, plan", "the request is about None", "0", "yes")
    assert not replace(played, broken={}).is_as_hoped
    assert not replace(played, still_broken=broken).is_as_hoped
    false = replace(played, broken={**broken, "queue": "sm was wrong: it was called acknowledged"})
    assert (false.is_as_hoped, false.row[5]) == (False, "1")
