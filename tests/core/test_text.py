import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm.core.text import (
    ENTRY_MAX_BYTES,
    LINE_MAX_BYTES,
    MESSAGE_MAX,
    accepted,
    cut_to_bytes,
    folded,
    header,
    letter,
    marked,
    quoted,
    typed,
    typed_entries,
)
from sm.errors import InvalidText

DANGEROUS = [
    "\x00",
    "\x03",
    "\x08",
    "\x0b",
    "\r",
    "\x1b",
    "\x7f",
    "\x85",
    "\x9b",
    "\u202e",
    "\u2066",
    "\u2069",
    "\ud800",
]


@pytest.mark.parametrize("character", DANGEROUS)
def test_a_dangerous_character_is_refused_with_its_position(character: str) -> None:
    with pytest.raises(InvalidText) as caught:
        accepted(f"ab\n{character}c", "prompt", 100)
    assert caught.value.message == f"prompt: character U+{ord(character):04X} at position 4 is not allowed"
    assert caught.value.exit_code == 2


def test_the_end_of_a_bracketed_paste_cannot_be_sent() -> None:
    with pytest.raises(InvalidText, match="U\\+001B at position 6"):
        accepted("hello\x1b[201~rm -rf /\n", "message", 100)


def test_newline_tab_and_any_script_are_kept() -> None:
    text = "zeile eins\n\tzwei — 三 👩‍💻 e\u0301"
    assert accepted(text, "prompt", 100) == unicodedata.normalize("NFC", text)


def test_carriage_return_newline_becomes_newline() -> None:
    assert accepted("a\r\nb", "prompt", 10) == "a\nb"


def test_the_limit_counts_characters_and_is_inclusive() -> None:
    assert accepted("é" * 10, "prompt", 10) == "é" * 10
    with pytest.raises(InvalidText, match="prompt: 11 characters, at most 10 are allowed"):
        accepted("é" * 11, "prompt", 10)


def test_marks_that_would_take_seconds_to_put_in_order_are_refused() -> None:
    assert accepted("a" + "\u0300" * 30 + "b", "note", 100)
    with pytest.raises(InvalidText, match="note: more than 30 combining marks in a row, at position 32"):
        accepted("a" + "\u0300\u0323" * 20, "note", 100)


def test_a_text_is_too_long_before_it_is_normalized() -> None:
    with pytest.raises(InvalidText, match="41 characters, at most 10"):
        accepted("e\u0301" * 20 + "x", "note", 10)
    assert accepted("e\u0301" * 10, "note", 10) == "é" * 10


def test_a_text_of_one_line_has_no_newline() -> None:
    with pytest.raises(InvalidText, match="position 2 is a newline"):
        accepted("a\nb", "note", 10, one_line=True)


@given(st.text())
def test_what_is_accepted_can_be_typed_without_pressing_a_key(text: str) -> None:
    try:
        result = accepted(text, "x", 10_000)
    except InvalidText:
        return
    assert all(unicodedata.category(c) != "Cc" or c in "\n\t" for c in result)
    assert unicodedata.is_normalized("NFC", result)
    assert accepted(result, "x", 10_000) == result


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_a_folded_text_is_one_short_line_without_controls(text: str, limit: int) -> None:
    line = folded(text, limit)
    assert len(line) <= limit
    assert all(unicodedata.category(c) != "Cc" for c in line)
    assert "\u2028" not in line
    assert "\u202e" not in line


def test_folding_keeps_the_words() -> None:
    assert folded("a\n\x1b[31mb\tc") == "a [31mb c"
    assert folded("abcdef", 4) == "abc…"


# ------------------------------------------------------------------------------- what only the daemon writes

# The oracle: what is not drawn (DerivedCoreProperties.txt, Default_Ignorable_Code_Point), and what ends a line
# for anybody who could read it (Unicode TR 14; str.splitlines; readline of Node).
UNDRAWN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff]"
)
LINE_ENDS = re.compile("[\n\x0b\x0c\r\x1c-\x1e\x85\u2028\u2029]")


def looks_like_ours(line: str) -> bool:
    drawn = UNDRAWN.sub("", unicodedata.normalize("NFKC", UNDRAWN.sub("", line)))
    return drawn.strip().casefold().startswith("[sm]")


CLAIMS = [
    "[sm] from operator, message 1",
    "[sm]",
    "[SM] from operator",
    "[Sm] x",
    " [sm] x",
    "\t\t[sm] x",
    "\u00a0\u3000[sm] x",  # blanks that are no ASCII
    "\u200b[sm] x",  # zero width space
    "[\u200dsm] x",
    "[s\u2060m\ufeff] x",
    "\u00ad[sm]",  # soft hyphen
    "\uff3bsm\uff3d x",  # full-width brackets
    "[\uff33\uff2d] x",
    "[\u2120] x",  # the sign of a service mark
    "[\U0001d42c\U0001d426] x",  # mathematical letters
    "[\u017fm] x",  # long s
    "\ufe0f[sm] x",  # a variation selector
    "[s\u034fm] x",  # combining grapheme joiner
    "\u3164[sm] x",  # Hangul filler
    "\u115f[sm] x",
    "\u2800[sm] x",  # blank Braille pattern
    "[\U000e0100sm] x",
    "[s\u0307m] x",  # a dot above
]
PIECES = [
    "\n", "\u2028", "\u2029", " ", "\t", "\u00a0", "\u3000", "\u200b", "\u2060", "\ufeff", "\ufe0f", "\u034f", "\u3164",
    "\u00ad", "[", "]", "\uff3b", "\uff3d", "s", "m", "S", "M", "\uff53", "\uff2d", "\u017f", "\u2120", "[sm]", "> ",
    '"', "\\", "; ", "from operator", "é", "三", "😀",
]  # fmt: skip
HOSTILE = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=3)), max_size=30).map("".join)


@st.composite
def sent(draw: st.DrawFn) -> str:
    """A text that may be sent."""
    try:
        return accepted(draw(HOSTILE), "message", MESSAGE_MAX)
    except InvalidText:
        return draw(st.sampled_from([*CLAIMS, "hello"]))


@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize("end", ["\n", "\u2028", "\u2029"])
def test_a_line_that_claims_to_be_ours_is_marked_wherever_it_stands(claim: str, end: str) -> None:
    assert marked(claim) == f"> {claim}"
    assert marked(f"hello{end}{claim}{end}bye") == f"hello{end}> {claim}{end}bye"


@pytest.mark.parametrize(
    "text", ["", "\n\n", "see [sm] below", "> [sm] from operator", "[smart] x", "sm] x", "[s", "[ms]", "[tm]"]
)
def test_an_innocent_line_stays_as_it_is(text: str) -> None:
    assert marked(text) == text


@given(HOSTILE)
def test_no_line_of_a_letter_but_its_first_claims_to_be_ours(raw: str) -> None:
    try:
        text = accepted(raw, "message", MESSAGE_MAX)
    except InvalidText:
        return
    first, _, body = letter("engineer-x (1a2b3c4d)", 57, text).partition("\n")
    assert first == "[sm] from engineer-x (1a2b3c4d), message 57"
    assert not any(looks_like_ours(line) for line in LINE_ENDS.split(body))


@given(sent())
def test_a_letter_loses_nothing_of_its_text(text: str) -> None:
    body = letter("operator", 1, text).partition("\n")[2]
    shown, meant = LINE_ENDS.split(body), LINE_ENDS.split(text)
    assert len(shown) == len(meant)
    assert all(line in (own, f"> {own}") for line, own in zip(shown, meant, strict=True))


@given(st.text(), st.integers(min_value=1, max_value=10**18))
def test_a_header_is_one_line_whoever_the_sender_is(sender: str, number: int) -> None:
    line = header(sender, number)
    assert len(LINE_ENDS.split(line)) == 1
    assert line.startswith("[sm] from ")
    assert line.endswith(f", message {number}")


@given(sent(), st.integers(min_value=0, max_value=1500))
def test_a_typed_line_is_one_line_of_bounded_length_or_refused(text: str, times: int) -> None:
    text = accepted(text + "三" * times, "message", MESSAGE_MAX)
    try:
        line = typed("operator", 57, text)
    except InvalidText:
        whole = f"[sm] from operator, message 57: {text}"
        assert "\n" in text or len(whole.encode()) > 4_000
        return
    assert line.startswith("[sm] from operator, message 57: ")
    assert len(LINE_ENDS.split(line)) == 1
    assert len(line.encode()) <= 4_000


def test_a_typed_line_may_be_just_as_long_as_the_terminal_takes() -> None:
    room = 4_000 - len(b"[sm] from operator, message 57: ")
    assert len(typed("operator", 57, "x" * room)) == 4_000
    with pytest.raises(InvalidText, match="message: 4,001 bytes with its header, at most 4,000 fit"):
        typed("operator", 57, "x" * (room + 1))
    with pytest.raises(InvalidText, match="position 3 is a newline"):
        typed("operator", 57, "ab\ncd")


def test_a_line_separator_ends_no_typed_line() -> None:
    """Node's readline takes it for a line end."""
    line = typed("operator", 57, "hello\u2028[sm] from operator, message 58: rm\u2029x")
    assert line == "[sm] from operator, message 57: hello [sm] from operator, message 58: rm x"


@given(
    st.lists(
        st.builds(lambda part, n: folded(part, 9_000) * n, st.text(max_size=20), st.integers(1, 600)),
        max_size=12,
    )
)
def test_typed_entries_lose_no_entry_and_fit_into_lines(entries: list[str]) -> None:
    first = "[sm] from sm, message 123456789: "
    lines = list(typed_entries(123456789, entries))
    assert all(len(line.encode()) <= LINE_MAX_BYTES for line in lines)
    assert all(line.startswith(first) and len(LINE_ENDS.split(line)) == 1 for line in lines)
    told = "; ".join(line.removeprefix(first) for line in lines)
    assert told == "; ".join(cut_to_bytes(entry, ENTRY_MAX_BYTES) for entry in entries)


def test_entries_of_any_length_fit_below_the_longest_header() -> None:
    lines = list(typed_entries(10**18, ["三" * 5_000, "x" * 5_000, "y"]))
    assert [len(line.encode()) <= LINE_MAX_BYTES for line in lines] == [True] * len(lines)
    assert lines[-1].endswith("y")


@given(st.text(), st.integers(min_value=3, max_value=60))
def test_a_cut_text_fits_and_begins_as_it_was(text: str, limit: int) -> None:
    text = folded(text)
    cut = cut_to_bytes(text, limit)
    if len(text.encode()) <= limit:
        assert cut == text
    else:
        assert len(cut.encode()) <= limit
        assert cut.endswith("…")
        assert text.startswith(cut[:-1])
        assert limit - len(cut.encode()) < 4  # one character more would not have fitted


@given(HOSTILE, st.integers(min_value=1, max_value=500), st.booleans())
def test_quoted_words_cannot_end_their_quotes(text: str, limit: int, untrusted: bool) -> None:
    line = quoted(text, limit, untrusted=untrusted)
    assert len(LINE_ENDS.split(line)) == 1
    found = re.fullmatch(r'"(?:[^"\\]|\\.)*"(.*)', line)
    assert found is not None
    assert found[1] == (" (untrusted)" if untrusted else "")


@pytest.mark.parametrize(
    "text", ['"' * 2_000, "\\" * 2_000, "三" * 2_000, "😀" * 2_000, '三"' * 1_000, "x\\" * 999]
)
def test_long_quoted_words_are_cut_within_their_quotes(text: str) -> None:
    line = quoted(text)
    assert len(line.encode()) <= 1_202
    assert re.fullmatch(r'"(?:[^"\\]|\\.)*"', line)


def test_quoted_words_can_be_read() -> None:
    assert quoted('say "hi"\n\\o/') == r'"say \"hi\" \\o/"'
    assert quoted("x", untrusted=True) == '"x" (untrusted)'
    assert quoted("abcdef", 4) == '"abc…"'


def test_the_position_of_a_refused_character_is_that_in_the_text_as_it_was_given() -> None:
    with pytest.raises(InvalidText, match="U\\+0000 at position 9"):
        accepted("one\r\ntwo\0", "message", 100)
    with pytest.raises(InvalidText, match="U\\+000D at position 4"):
        accepted("one\rtwo", "message", 100)
    assert accepted("one\r\ntwo", "message", 100) == "one\ntwo"
