# ruff: noqa: RUF001  (claude's pointer looks like a greater-than sign, and is not one)
"""claude's input box: what its screens show of it, and what becomes of a text that is pasted there.

Source: captures of the real program, 2.1.197, with their styles, and what was measured on it.
"""

import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm.core.text import MESSAGE_MAX, accepted, letter
from sm.errors import InvalidText
from sm.providers.base import Box
from sm.providers.claude.composer import ClaudeComposer

DATA = Path(__file__).parents[2] / "data/screens/claude"
BOX = ClaudeComposer()
LETTER = letter("operator", 57, "run the tests")
LONG = letter("engineer-task1042 (1a2b3c4d)", 57, "\n".join(f"line {n}" for n in range(9)))

GREY, PLAIN = "\x1b[38;5;246m", "\x1b[39m"
RULE = f"\x1b[38;5;244m{'─' * 80}{PLAIN}"
FOOTER = f"  {GREY}?{PLAIN} {GREY}for{PLAIN} {GREY}shortcuts{PLAIN}"


def screen(inside: str, footer: str = FOOTER) -> list[str]:
    """As `tmux capture-pane -e` prints it: a style holds until the next one, over the ends of lines."""
    return ["● done", "", RULE, *f"❯\xa0{inside}".split("\n"), RULE, footer, ""]


def test_only_what_claude_has_drawn_may_be_drawn_anew() -> None:
    rule = "─" * 40
    assert BOX.box(["● so", rule, "  paste again to expand", "❯", rule, "  ⏵⏵ accept edits on", ""]).unknown
    assert not BOX.box(["my draft", "~", "~", "-- INSERT --"]).unknown
    assert not BOX.box(
        [rule, "❯ draft", rule, "  ? for shortcuts", "Claude Code has been suspended.", "$ "]
    ).unknown


def test_a_footer_that_has_the_keyboard_drops_what_is_pasted() -> None:
    rule = "─" * 40
    box = BOX.box(["● so", "", rule, "❯\xa0", rule, "  1 shell · Enter to view tasks"])
    assert box.closed == "its footer has the keyboard"


def test_two_folded_texts_of_as_many_lines_are_told_apart() -> None:
    letter = "[sm] from operator, message 5\na\nb\nc\nd"
    first, second = "[Pasted text #1 +4 lines]", "[Pasted text #2 +4 lines]"
    assert BOX.is_ours(second, letter, None)
    assert BOX.is_ours(second, letter, second)
    assert not BOX.is_ours(second, letter), "it may be anybody's"
    assert not BOX.is_ours(first, letter, second)
    assert BOX.is_ours(letter, letter, second)  # Escape has put it back


def test_a_box_in_shell_mode_takes_nothing() -> None:
    rule = "─" * 40
    for draft in ("! touch x", "!"):
        box = BOX.box([rule, draft, rule, "  ! for shell mode"])
        assert (box.closed, box.draft) == ("its input box is in shell mode", "")


@pytest.mark.parametrize(
    ("name", "box"),
    [
        ("idle-fresh-01", Box(None)),
        ("working-with-queued-01", Box(None)),
        ("stash-restored-02", Box(None, "my human draft")),
        ("sendfail-ctl-01", Box(None, "[Pasted text #12 +40 lines]")),
        ("mode-bang-01", Box("its input box is in shell mode")),
        ("menu-at-01", Box(None, "@R")),
        ("perm-bash-01", Box("it asks whether to run a command: touch x.txt; sleep 4")),
        ("ask-one-01", Box("it asks: Which database should we use?")),
        ("dialog-model-01", Box("the Select model dialog is open")),
    ],
)
def test_a_captured_screen_shows_the_box(name: str, box: Box) -> None:
    assert BOX.box((DATA / f"{name}.ansi").read_text(encoding="utf-8").split("\n")) == box


@pytest.mark.parametrize(
    ("inside", "draft"),
    [
        ("\x1b[7m \x1b[0m", ""),
        ("\x1b[7m", ""),
        ("my own draft\x1b[7m", "my own draft"),
        ("\x1b[7mm\x1b[0my own draft", "my own draft"),
        ("\x1b[7mr\x1b[0;2m\x1b[39m\x1b[49mun the tests now\x1b[0m", ""),
        ("\x1b[2mrun the tests now\x1b[0m", ""),
        ("\x1b[7mr\x1b[0;2mun the tests,\n  and tell me\x1b[22m", ""),
        ("/he\x1b[7ml\x1b[27;2mp\x1b[0m", "/he"),
        ("\x1b[38;5;2mgreen\x1b[39m \x1b[48;2;2;2;2mon grey\x1b[0m", "green on grey"),
        ("one\n  two\n\n    four\x1b[7m \x1b[0m", "one\ntwo\n\n  four"),
        ("\x1b]8;;https://example.org\x1b\\a link\x1b]8;;\x1b\\", "a link"),
    ],
)
def test_a_suggestion_is_no_draft(inside: str, draft: str) -> None:
    assert BOX.box(screen(inside)) == Box(None, draft)


def test_a_draft_that_was_put_aside_is_seen() -> None:
    footer = f"{FOOTER}     {GREY}● high · /effort ·{PLAIN} › {GREY}stashed"
    assert BOX.box(screen("\x1b[7m \x1b[0m", footer)).stashed
    assert not BOX.box(screen("it says › stashed\x1b[7m \x1b[0m")).stashed


@pytest.mark.parametrize(
    "lines", [[], ["$ "], ["\x1b[2m"], [RULE, "❯ half a screen"], ["❯ 1. Yes", "  2. No"]]
)
def test_where_no_box_is_known_nothing_is_typed(lines: list[str]) -> None:
    assert BOX.box(lines).closed


def test_a_rule_that_a_zero_width_joiner_has_cost_a_cell_is_one() -> None:
    lines = screen("\x1b[7m \x1b[0m")
    for rule in (2, 4):
        short = [*lines[:rule], lines[rule].replace("─", "", 1), *lines[rule + 1 :]]
        assert BOX.box(short) == Box(None)
        assert BOX.box([*lines[:rule], lines[rule].replace("─", "", 2), *lines[rule + 1 :]]).closed


def test_a_box_that_searches_or_wants_a_login_takes_no_prompt() -> None:
    assert BOX.box(screen("\x1b[7m \x1b[0m", "  search prompts: x")).closed
    assert BOX.box(screen("\x1b[7m \x1b[0m", "  Not logged in · Please run /login")).closed


# ------------------------------------------------------------------------------------------------- ours or not


def wrapped(text: str, columns: int) -> str:
    """`text` as the box shows it: wrapped at blanks where there are any."""
    rows = []
    for line in text.split("\n"):
        row = ""
        for word in re.findall(r"\S+\s*|\s+", line):
            if len(row) + len(word.rstrip()) > columns and row:
                rows.append(row.rstrip())
                row = ""
            row += word
            while len(row.rstrip()) > columns:
                rows.append(row[:columns])
                row = row[columns:]
        rows.append(row.rstrip())
    return "\n".join(rows)


@pytest.mark.parametrize("columns", [20, 38, 78])
@pytest.mark.parametrize(
    "text", ["run the tests", "a\tb  c\n", "日本語 é ｆ", "x" * 300, "done ✅ 👩‍👩‍👧‍👦 ok"]
)
def test_ours_is_known_however_it_is_wrapped(text: str, columns: int) -> None:
    whole = letter("engineer-task1042 (1a2b3c4d)", 57, text)
    draft = wrapped(whole.replace("\t", "    "), columns)
    assert BOX.is_ours(draft, whole)
    assert BOX.holds_ours(draft, whole)
    assert BOX.holds_ours(f"not yet\n{draft}", whole)
    for other in (f"not yet {draft}", f"{draft} wait", draft.rstrip()[:-1], draft.replace("57", "58")):
        assert not BOX.is_ours(other, whole)


def test_what_the_terminal_made_of_an_emoji_does_not_matter() -> None:
    """tmux 3.3a leaves off the last member of a family."""
    made = (DATA / "box-not-empty-01.ansi").read_text(encoding="utf-8").split("\n")
    assert BOX.is_ours(
        BOX.box(made).draft,
        "msg-0028-c1d3fcff héllo wörld 日本語テキスト 👩\u200d👩\u200d👧\u200d👧 🚀 é ｆｕｌｌ   end",
    )


@pytest.mark.parametrize(
    ("draft", "ours", "holds"),
    [
        ("[Pasted text #3 +9 lines]", True, True),
        ("  [Pasted text #30 +9 lines]\n", True, True),
        ("[Pasted text #3 +8 lines]", False, False),
        ("[Pasted text #3]", False, False),
        ("[Pasted text #3 +9 lines][Pasted text #4 +2 lines]", False, True),
        ("a draft [Pasted text #3 +9 lines]", False, True),
        ("", False, False),
        ("a draft", False, False),
        ("[sm] from operator, message 57", False, False),
        (wrapped(LONG, 38), True, True),
        (f"{wrapped(LONG, 38)}[Pasted text #3]", False, True),
        (wrapped(LONG, 38)[:60], False, True),
        ("[sm]", False, True),
        ("[s", False, False),
    ],
)
def test_a_folded_text_is_known_by_its_lines(draft: str, ours: bool, holds: bool) -> None:
    assert (BOX.is_ours(draft, LONG, None), BOX.holds_ours(draft, LONG)) == (ours, holds)


def test_message_5_is_not_message_57() -> None:
    assert not BOX.holds_ours(f"see {LETTER}", letter("operator", 5, "7 run"))
    assert BOX.holds_ours("see [sm] from operator, message 5\n7 run", letter("operator", 5, "7 run"))


def test_a_long_text_that_came_back_is_known_by_its_ends() -> None:
    whole = letter("operator", 57, "word " * 4_000)
    came_back = f"{whole[:500]}[...Truncated text #1 +0 lines...]{whole[-500:]}"
    assert BOX.is_ours(wrapped(came_back, 78), whole)
    assert not BOX.is_ours(f"a draft {came_back}", whole)
    assert not BOX.is_ours(f"{whole[:20]}[...Truncated text #1 +0 lines...]{whole[-500:]}", whole)
    assert not BOX.is_ours("[...Truncated text #1 +0 lines...]", whole)
    assert not BOX.is_ours(came_back, LETTER)


def tall(rows: list[str], footer: str = FOOTER) -> list[str]:
    """A draft of which only the end is on the screen."""
    return [*(f"  {row}" for row in rows), RULE, footer, ""]


def test_the_end_of_a_draft_that_is_taller_than_the_screen_is_read() -> None:
    whole = letter("operator", 57, "\n".join(f"line {n} of many" for n in range(300)))
    rows = whole.split("\n")[-37:]
    box = BOX.box(tall(rows))
    assert box == Box(None, "\n".join(("…", *rows)))
    assert BOX.is_ours(box.draft, whole)
    assert not BOX.is_ours(BOX.box(tall([*rows[:-1], "line 299 of mine"])).draft, whole)
    assert not BOX.is_ours(BOX.box(tall([*rows, "and mine"])).draft, whole)
    assert not BOX.is_ours("\n".join(rows), whole), "nothing of it is hidden, and its beginning is missing"
    assert not BOX.is_ours("…\nline 299 of many", whole)


def test_the_end_of_a_draft_in_a_low_pane_is_known() -> None:
    """As a phone shows it that attaches: 40 columns and 12 rows."""
    whole = letter("operator", 57, "word " * 120)
    rows = wrapped(whole, 36).split("\n")[-9:]
    assert BOX.is_ours(BOX.box(tall(rows)).draft, whole)
    assert not BOX.is_ours(BOX.box(tall([*rows[:-1], "word word word"])).draft, f"{whole} word work")
    assert not BOX.is_ours(BOX.box(tall(["wo rd"] * 9)).draft, whole), "too little to tell it from another"


@pytest.mark.parametrize(
    "lines",
    [
        tall([f"line {n}" for n in range(30)])[:-2],
        tall([f"line {n}" for n in range(30)], "  Esc to cancel · Tab to amend"),
        ["● done", *tall([f"line {n}" for n in range(30)])],
        tall(["line 1", "line 2"]),
        [*tall([f"line {n}" for n in range(15)])[:-2], *tall([f"line {n}" for n in range(15)])],
        tall([*(f"line {n}" for n in range(30)), "Do you want to proceed?", "❯ 1. Yes", "  2. No"]),
    ],
)
def test_what_only_resembles_a_tall_draft_takes_no_text(lines: list[str]) -> None:
    assert BOX.box(lines).closed


# ------------------------------------------------------------------------------------------------- what arrives

JS_BLANKS = " \n\t\v\f\r\xa0\u1680\u2000\u2003\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"


def arrives(pasted: str, *, queued: bool) -> str:
    """What claude makes of a paste, as it was measured in its hook, its transcript and its requests."""
    text = re.sub("\r\n?", "\n", pasted).replace("\t", "    ")
    text = unicodedata.normalize("NFC", text)
    folded = pasted.count("\n") >= 3 or len(pasted) > 800
    return text if folded and not queued else text.rstrip(JS_BLANKS)


LEGAL = st.text(max_size=200) | st.text(
    alphabet="ab[]#@/!\\ \t\n\u0301\u0323\u1100\u1161\u00a0\u2028\ufeff\u200d\u3000\u212b👩1", max_size=1_000
)


@given(LEGAL, st.booleans())
def test_what_arrives_is_the_same_as_what_was_sent(text: str, queued: bool) -> None:
    try:
        legal = accepted(text, "message", MESSAGE_MAX)
    except InvalidText:
        return
    sent = letter("operator", 57, legal)
    assert BOX.accepted_form(arrives(BOX.pasted(sent), queued=queued)) == BOX.accepted_form(sent)
    assert BOX.accepted_form(BOX.accepted_form(sent)) == BOX.accepted_form(sent)


@given(LEGAL)
def test_another_text_is_not_the_same(text: str) -> None:
    legal = re.sub("[\ud800-\udfff]", "", text)
    assert BOX.accepted_form(letter("operator", 57, f"{legal}x")) != BOX.accepted_form(
        letter("operator", 57, f"{legal}y")
    )


def test_a_blank_ends_a_text_so_that_no_list_opens_and_no_line_goes_on() -> None:
    for body in ("see @file", "see \\"):
        assert BOX.pasted(letter("operator", 57, body)).endswith(f"{body} ")


@pytest.mark.parametrize(
    "like", ["[Pasted text #2 +9 lines]", "[Image #1]", "[...Truncated text #1 +0 lines...]", "a\u200db"]
)
def test_what_would_be_changed_or_cost_the_box_its_shape_is_folded(like: str) -> None:
    """In a short text claude puts an earlier paste in the place of what looks like one."""
    sent = letter("operator", 57, f"see {like} there")
    pasted = BOX.pasted(sent)
    assert pasted.count("\n") >= 3
    assert pasted.startswith(f"{sent}\n")
    assert BOX.is_ours(f"[Pasted text #4 +{pasted.count(chr(10))} lines]", sent, None)
    assert BOX.accepted_form(arrives(pasted, queued=False)) == BOX.accepted_form(sent)


def test_a_text_that_nobody_sent_cannot_hold_up_the_daemon() -> None:
    """Putting marks in order takes the square of their number."""
    marks = "a" + "\u0301\u0323" * 100_000
    assert BOX.accepted_form(marks) == marks
