# ruff: noqa: RUF001  (claude's pointer looks like a greater-than sign, and is not one)
"""claude's input box: reading it from screens, and the changes that claude makes to pasted text.

Source: styled captures and measurements of the real program, 2.1.197.
"""

import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm.core.text import MESSAGE_MAX, render_message, validate_text
from sm.errors import InvalidText
from sm.providers.base import Box, PromptRefusal
from sm.providers.claude.box_reader import ClaudeBoxReader

DATA = Path(__file__).parents[2] / "data/screens/claude"
BOX = ClaudeBoxReader()
LETTER = render_message("operator", 57, "run the tests")
LONG = render_message("engineer-task1042 (1a2b3c4d)", 57, "\n".join(f"line {n}" for n in range(9)))

GREY, PLAIN = "\x1b[38;5;246m", "\x1b[39m"
RULE = f"\x1b[38;5;244m{'─' * 80}{PLAIN}"
FOOTER = f"  {GREY}?{PLAIN} {GREY}for{PLAIN} {GREY}shortcuts{PLAIN}"


def screen(inside: str, footer: str = FOOTER) -> list[str]:
    """A screen as from `tmux capture-pane -e`: a style applies until the next one, also over line ends."""
    return ["● done", "", RULE, *f"❯\xa0{inside}".split("\n"), RULE, footer, ""]


def test_box_is_unknown_only_when_claude_drew_the_screen() -> None:
    rule = "─" * 40
    assert BOX.box(["● so", rule, "  paste again to expand", "❯", rule, "  ⏵⏵ accept edits on", ""]).unknown
    assert not BOX.box(["my draft", "~", "~", "-- INSERT --"]).unknown
    assert not BOX.box(
        [rule, "❯ draft", rule, "  ? for shortcuts", "Claude Code has been suspended.", "$ "]
    ).unknown


def test_box_is_closed_when_the_footer_has_the_keyboard() -> None:
    rule = "─" * 40
    box = BOX.box(["● so", "", rule, "❯\xa0", rule, "  1 shell · Enter to view tasks"])
    assert box.closed == "the footer of claude has the keyboard focus"


def test_shows_message_distinguishes_folded_pastes_with_the_same_number_of_lines() -> None:
    letter = "[sm] from operator, message 5\na\nb\nc\nd"
    first, second = "[Pasted text #1 +4 lines]", "[Pasted text #2 +4 lines]"
    assert BOX.shows_message(second, letter, None)
    assert BOX.shows_message(second, letter, second)
    assert not BOX.shows_message(second, letter), "a person may have pasted it"
    assert not BOX.shows_message(first, letter, second)
    assert BOX.shows_message(letter, letter, second)  # Escape put the whole text back


def test_box_is_closed_in_shell_mode() -> None:
    rule = "─" * 40
    for draft in ("! touch x", "!"):
        box = BOX.box([rule, draft, rule, "  ! for shell mode"])
        assert (box.closed, box.draft) == ("the input box is in shell mode", "")


@pytest.mark.parametrize(
    ("name", "box"),
    [
        ("idle-fresh-01", Box(None)),
        ("working-with-queued-01", Box(None)),
        ("stash-restored-02", Box(None, "my human draft")),
        ("sendfail-ctl-01", Box(None, "[Pasted text #12 +40 lines]")),
        ("mode-bang-01", Box("the input box is in shell mode")),
        ("menu-at-01", Box(None, "@R")),
        ("perm-bash-01", Box("claude asks to run a command: touch x.txt; sleep 4")),
        ("ask-one-01", Box("claude asks: Which database should we use?")),
        ("dialog-model-01", Box("the Select model dialog is open")),
    ],
)
def test_box_is_read_from_captured_screens(name: str, box: Box) -> None:
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
def test_box_ignores_a_suggestion(inside: str, draft: str) -> None:
    assert BOX.box(screen(inside)) == Box(None, draft)


def test_box_reports_a_stashed_draft() -> None:
    footer = f"{FOOTER}     {GREY}● high · /effort ·{PLAIN} › {GREY}stashed"
    assert BOX.box(screen("\x1b[7m \x1b[0m", footer)).stashed
    assert not BOX.box(screen("it says › stashed\x1b[7m \x1b[0m")).stashed


@pytest.mark.parametrize(
    "lines", [[], ["$ "], ["\x1b[2m"], [RULE, "❯ half a screen"], ["❯ 1. Yes", "  2. No"]]
)
def test_box_is_closed_when_the_screen_has_no_box(lines: list[str]) -> None:
    assert BOX.box(lines).closed


def test_box_accepts_a_rule_that_is_one_cell_short() -> None:
    lines = screen("\x1b[7m \x1b[0m")
    for rule in (2, 4):
        short = [*lines[:rule], lines[rule].replace("─", "", 1), *lines[rule + 1 :]]
        assert BOX.box(short) == Box(None)
        assert BOX.box([*lines[:rule], lines[rule].replace("─", "", 2), *lines[rule + 1 :]]).closed


def test_box_is_closed_during_a_search_or_without_a_login() -> None:
    assert BOX.box(screen("\x1b[7m \x1b[0m", "  search prompts: x")).closed
    assert BOX.box(screen("\x1b[7m \x1b[0m", "  Not logged in · Please run /login")).closed


# -------------------------------------------------------------------------------------------- recognizing a message


def wrapped(text: str, columns: int) -> str:
    """`text` as the box shows it, wrapped at blanks if possible."""
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
def test_shows_message_recognizes_a_wrapped_message(text: str, columns: int) -> None:
    message = render_message("engineer-task1042 (1a2b3c4d)", 57, text)
    draft = wrapped(message.replace("\t", "    "), columns)
    assert BOX.shows_message(draft, message)
    assert BOX.contains_message(draft, message)
    assert BOX.contains_message(f"not yet\n{draft}", message)
    for other in (f"not yet {draft}", f"{draft} wait", draft.rstrip()[:-1], draft.replace("57", "58")):
        assert not BOX.shows_message(other, message)


def test_shows_message_ignores_emoji_that_the_terminal_shortened() -> None:
    """tmux 3.3a drops the last member of a family emoji."""
    captured = (DATA / "box-not-empty-01.ansi").read_text(encoding="utf-8").split("\n")
    assert BOX.shows_message(
        BOX.box(captured).draft,
        "msg-0028-c1d3fcff héllo wörld 日本語テキスト 👩\u200d👩\u200d👧\u200d👧 🚀 é ｆｕｌｌ   end",
    )


@pytest.mark.parametrize(
    ("draft", "shows", "contains"),
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
def test_folded_message_is_recognized_by_its_line_count(draft: str, shows: bool, contains: bool) -> None:
    assert (BOX.shows_message(draft, LONG, None), BOX.contains_message(draft, LONG)) == (shows, contains)


def test_contains_message_distinguishes_message_5_from_message_57() -> None:
    assert not BOX.contains_message(f"see {LETTER}", render_message("operator", 5, "7 run"))
    assert BOX.contains_message(
        "see [sm] from operator, message 5\n7 run", render_message("operator", 5, "7 run")
    )


def test_shows_message_recognizes_a_truncated_message_by_its_beginning_and_end() -> None:
    message = render_message("operator", 57, "word " * 4_000)
    returned = f"{message[:500]}[...Truncated text #1 +0 lines...]{message[-500:]}"
    assert BOX.shows_message(wrapped(returned, 78), message)
    assert not BOX.shows_message(f"a draft {returned}", message)
    assert not BOX.shows_message(f"{message[:20]}[...Truncated text #1 +0 lines...]{message[-500:]}", message)
    assert not BOX.shows_message("[...Truncated text #1 +0 lines...]", message)
    assert not BOX.shows_message(returned, LETTER)


def tall(rows: list[str], footer: str = FOOTER) -> list[str]:
    """A screen that shows only the end of a draft."""
    return [*(f"  {row}" for row in rows), RULE, footer, ""]


def test_box_reads_the_end_of_a_draft_taller_than_the_screen() -> None:
    message = render_message("operator", 57, "\n".join(f"line {n} of many" for n in range(300)))
    rows = message.split("\n")[-37:]
    box = BOX.box(tall(rows))
    assert box == Box(None, "\n".join(("…", *rows)))
    assert BOX.shows_message(box.draft, message)
    assert not BOX.shows_message(BOX.box(tall([*rows[:-1], "line 299 of mine"])).draft, message)
    assert not BOX.shows_message(BOX.box(tall([*rows, "and mine"])).draft, message)
    assert not BOX.shows_message("\n".join(rows), message), (
        "the screen hides nothing, but the beginning is missing"
    )
    assert not BOX.shows_message("…\nline 299 of many", message)


def test_box_reads_a_draft_whose_first_row_is_the_top_of_the_screen() -> None:
    message = render_message("operator", 57, "\n".join(f"line {n} of many" for n in range(36)))
    first, *rows = tall(message.split("\n"))
    box = BOX.box([f"❯ {first[2:]}", *rows])
    assert box.closed is None
    assert BOX.shows_message(box.draft, message)


def test_shows_message_recognizes_the_end_of_a_message_in_a_small_pane() -> None:
    """As on a phone: 40 columns and 12 rows."""
    message = render_message("operator", 57, "word " * 120)
    rows = wrapped(message, 36).split("\n")[-9:]
    assert BOX.shows_message(BOX.box(tall(rows)).draft, message)
    assert not BOX.shows_message(BOX.box(tall([*rows[:-1], "word word word"])).draft, f"{message} word work")
    assert not BOX.shows_message(BOX.box(tall(["wo rd"] * 9)).draft, message), (
        "too little text to recognize the message"
    )


@pytest.mark.parametrize(
    "lines",
    [
        tall([f"line {n}" for n in range(30)])[:-2],
        tall([f"line {n}" for n in range(30)], "  Esc to cancel · Tab to amend"),
        ["● done", *tall([f"line {n}" for n in range(30)])],
        tall(["line 1", "line 2"]),
        [RULE, *tall(["line 1", "line 2", "❯ 1. Yes", *(f"  {n}. No" for n in range(2, 12))])],
        tall([*(f"line {n}" for n in range(30)), "Do you want to proceed?", "❯ 1. Yes", "  2. No"]),
    ],
)
def test_box_is_closed_when_the_screen_only_resembles_a_tall_draft(lines: list[str]) -> None:
    assert BOX.box(lines).closed


# ------------------------------------------------------------------------------------------------ accepted text

JS_BLANKS = " \n\t\v\f\r\xa0\u1680\u2000\u2003\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"


def accepted_paste(groups: Sequence[Sequence[str]]) -> str:
    """The text that claude 2.1.197 accepts for pastes, as measured in its hook, transcript and requests."""
    text = "".join(piece for group in groups for piece in group)
    text = re.sub("\r\n?", "\n", text).replace("\t", "    ")
    return unicodedata.normalize("NFC", text).rstrip(JS_BLANKS)


LEGAL = st.text(max_size=200) | st.text(
    alphabet="ab[]#@/!\\ \t\n\u0301\u0323\u1100\u1161\u00a0\u2028\ufeff\u200d\u3000\u212b👩1", max_size=1_000
)


@given(LEGAL)
def test_accepted_form_of_an_arrived_message_equals_that_of_the_sent_one(text: str) -> None:
    try:
        legal = validate_text(text, "message", MESSAGE_MAX)
    except InvalidText:
        return
    sent = render_message("operator", 57, legal)
    assert BOX.accepted_form(accepted_paste(BOX.paste_groups(sent))) == BOX.accepted_form(sent)
    assert BOX.accepted_form(BOX.accepted_form(sent)) == BOX.accepted_form(sent)


@given(LEGAL)
def test_accepted_form_differs_for_different_messages(text: str) -> None:
    legal = re.sub("[\ud800-\udfff]", "", text)
    assert BOX.accepted_form(render_message("operator", 57, f"{legal}x")) != BOX.accepted_form(
        render_message("operator", 57, f"{legal}y")
    )


def test_accepted_form_is_fast_for_many_combining_marks() -> None:
    """Sorting combining marks takes quadratic time."""
    marks = "a" + "\u0301\u0323" * 100_000
    assert BOX.accepted_form(marks) == marks


@pytest.mark.parametrize(
    ("draft", "text", "shows"),
    [
        ("/compact  <optional custom summarization instructions>", "/compact", True),
        ("/context  [all]", "/context", True),
        ("/compact", "/compact", True),
        ("/compact keep it", "/compact", False),
        ("/compact  <optional custom summarization instructions> please", "/compact", False),
        ("/clear  [name]", "/compact", False),
        ("/context  [all]", "[sm] from operator, message 1\n/context", False),
    ],
)
def test_command_is_recognized_with_the_arguments_that_claude_suggests(
    draft: str, text: str, shows: bool
) -> None:
    assert ClaudeBoxReader().shows_message(draft, text) is shows


REFUSED = """\
──────────────────────────────────────────────────────────── plain-60040bf3 ─
❯
─────────────────────────────────────────────────────────────────────────────
  ⏸ manual mode on · esc to interrupt
                              UserPromptSubmit operation blocked by hook:
                              [python3 /srv/shop/refuses.py]: no such words

                              Original prompt: [sm] from operator, message 3
                              exit 2: one"""


@pytest.mark.parametrize(
    ("screen", "number", "refusal"),
    [
        (REFUSED, 3, PromptRefusal("no such words", is_named=True)),
        (REFUSED.replace("[python3 /srv/shop/refuses.py]: ", ""), 3, PromptRefusal("no such words", True)),
        (REFUSED.partition("\n\n")[0], 3, PromptRefusal("no such words", is_named=False)),
        (REFUSED, 33, None),
        (REFUSED.replace("message 3", "message 33"), 3, None),
        (f"{REFUSED}\n{'─' * 77}\n  ? for shortcuts", 3, None),
        ("", 3, None),
    ],
)
def test_refusal_is_read_beside_the_footer(screen: str, number: int, refusal: PromptRefusal | None) -> None:
    assert BOX.refusal(screen.split("\n"), f"[sm] from operator, message {number}\nexit 2: one") == refusal
