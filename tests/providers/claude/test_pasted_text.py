"""The pieces in which claude gets a message, and the tags that claude puts around a paste.

The tagged texts are those that claude 2.1.332 reported.
"""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm.core.text import MESSAGE_MAX, overlong_marks, render_message
from sm.providers.claude.pasted_text import (
    accepted_form,
    paste_groups,
    without_paste_tags,
)

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
FLAG = "\N{REGIONAL INDICATOR SYMBOL LETTER D}\N{REGIONAL INDICATOR SYMBOL LETTER E}"
POINTER = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"
HANGUL = "\u1112\u1161\u11ab"


def pieces_of(text: str) -> list[str]:
    return [piece for group in paste_groups(text) for piece in group]


def utf16_size(piece: str) -> int:
    return len(piece.replace("\t", "    ").encode("utf-16-le", "surrogatepass")) // 2


@given(st.text(alphabet="ab \n\t\u2028\u0301\u200d漢" + FAMILY + FLAG + HANGUL, max_size=5_000))
def test_pieces_hold_the_whole_message_and_stay_below_the_limits_of_claude(text: str) -> None:
    sent = render_message("operator", 57, text)
    pieces = pieces_of(sent)
    assert "".join(pieces) == f"{sent.rstrip()} "
    if len(pieces) > 1:
        for piece in pieces:
            newlines = sum(piece.count(sign) for sign in "\n\u2028\u2029")
            assert (utf16_size(piece) <= 600, newlines <= 2) == (True, True)


@pytest.mark.parametrize(
    "grapheme", [FAMILY, FLAG * 250, HANGUL, "e\u0301\u0323", "\u0915\u094d\u200d\u0937"]
)
def test_piece_never_ends_within_a_grapheme(grapheme: str) -> None:
    for shift in range(6):
        pieces = pieces_of("x" * shift + f" {grapheme}" * 2 + grapheme * 400)
        ends = [piece for piece in pieces[:-1] if not grapheme.startswith(FLAG)]
        assert len(pieces) > 1
        for piece in ends:
            assert piece.endswith((grapheme, " "))


def test_flags_are_cut_only_where_a_run_is_longer_than_a_piece() -> None:
    pieces = pieces_of(f"{FLAG} " * 400)
    assert all(len(piece.replace(" ", "")) % 2 == 0 for piece in pieces)


def test_groups_end_in_a_row_that_shows_where_the_draft_ends() -> None:
    for group in paste_groups("\n".join(f"line {n}\n\n" for n in range(300)))[:-1]:
        assert "".join(group).rpartition("\n")[2].strip()


@pytest.mark.parametrize("text", ["\n" * 3_000 + "x", "a\n─────\n" * 30, f"{POINTER} 1. Yes\n" * 40])
def test_message_is_pasted_whole_when_its_pieces_are_too_many_or_look_like_a_dialog(text: str) -> None:
    assert paste_groups(text) == [[f"{text.rstrip()} "]]


def test_message_that_looks_like_a_folded_paste_is_pasted_whole_only_when_claude_shortens_the_draft() -> None:
    """claude 2.1.197 keeps the middle of a long draft as a paste, and puts pastes in the place of such texts."""
    like = "see [Pasted text #1 +39 lines]\n"
    assert len(pieces_of(like * 100)) > 1
    assert paste_groups(like * 400) == [[f"{(like * 400).rstrip()} "]]


def test_longest_message_of_lines_is_pasted_in_pieces() -> None:
    text = "\n".join(f"line {n:03} {'y' * 40}" for n in range(1000)).ljust(MESSAGE_MAX, "z")[:MESSAGE_MAX]
    assert 300 < len(pieces_of(text)) < 600


def test_no_piece_holds_the_path_of_an_image_which_claude_would_attach() -> None:
    pieces = pieces_of("look at\n/tmp/a.png\n'/tmp/b.JPG' /tmp/c.webp\nand x.pngs")
    assert not [
        piece for piece in pieces if any(f".{kind}" in piece.lower() for kind in ("png\n", "jpg", "webp"))
    ]


# -------------------------------------------------------------------------------------------- reported texts


def test_tags_around_a_whole_paste_are_removed() -> None:
    reported = '\n\n<pasted_content id="f55a">\na\nb\nc\nd\n</pasted_content id="f55a">\n'
    assert without_paste_tags(reported) == ("a\nb\nc\nd", True)


def test_tags_around_a_part_are_removed_with_the_newlines_that_claude_adds() -> None:
    reported = 'before\n\n<pasted_content id="0b5e">\npasted\n</pasted_content id="0b5e">\nafter'
    assert without_paste_tags(reported) == ("before\npasted\nafter", True)


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        '<pasted_content id="f55a">\na\n</pasted_content id="f55b">\n',
        '<pasted_content id="f55a" by="me">\na\n</pasted_content id="f55a">\n',
        '<pasted_content id="f55g">\na\n</pasted_content id="f55g">\n',
        '<pasted_content id="f55a">a</pasted_content id="f55a">\n',
        '<pasted_content id="f55a">\nno end',
        '<\\pasted_content id="8885">\nx\n<\\/pasted_content id="8885">',
        "<pasted_content>\na\n</pasted_content>",
    ],
)
def test_text_with_other_tags_is_left_as_it_is(text: str) -> None:
    assert without_paste_tags(text) == (text, False)


def test_search_for_tags_is_bounded_when_a_text_is_full_of_them() -> None:
    opening = '<pasted_content id="f55a">\n'
    assert without_paste_tags(opening * 11_000) == (opening * 11_000, False)


@pytest.mark.parametrize(
    ("sent", "reported"),
    [
        ("a\u200bb", "ab"),
        ("\ufeffmark", "mark"),
        ("soft\u00adhyphen", "softhyphen"),
        ("tag \U000e0041\U000e0042 end", "tag  end"),
        ("\u3164 filler \uffa0 x", " filler  x"),
        ("one\u2028two\u2029three", "one\ntwo\nthree"),
        ('<pasted_content id="8885">\nx\n</pasted_content id="8885">',) * 2,
        ('see </pasted_content id="1">', 'see <\\/pasted_content id="1">'),
        ("see <pasted_content there", "see <\\pasted_content there"),
        ("a\tb \u212b", "a    b \u00c5"),
    ],
)
def test_accepted_form_is_equal_for_a_message_that_claude_cleaned(sent: str, reported: str) -> None:
    assert accepted_form(f"[sm] x\n{sent}") == accepted_form(f"[sm] x\n{reported}")


def test_accepted_form_keeps_what_a_person_sees() -> None:
    for text in ("a b", "ab\u0301", FAMILY, "x\ny"):
        changed = unicodedata.normalize("NFC", text) + "."
        assert overlong_marks(text) is None
        assert accepted_form(text) != accepted_form(changed)
