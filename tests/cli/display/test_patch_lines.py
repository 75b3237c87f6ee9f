"""Changes on a terminal: numbers, syntax and changed words, and no control sequence of an agent."""

import re
import unicodedata
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.color import ColorSystem

from sm.board.choices import Theme
from sm.cli.display.pager import shows_colours
from sm.cli.display.patch_colours import coloured, theme_of_terminal
from sm.cli.display.patch_lines import PieceRole, Pieces, Sizes, file_lines, plain, size_text
from sm.cli.display.patch_syntax import Syntax, SyntaxReader
from sm.core.patches import FilePatch, Hunk, LineSign, PatchLine, read_patch

NAMES = st.one_of(
    st.none(), st.sampled_from(["a.py", "b.json", "c.md", "d.sh"]), st.text(min_size=1, max_size=9)
)
TEXTS = st.one_of(
    st.text(max_size=30),
    st.text(st.sampled_from("\x1b[]0;mJ\x07\x9b\u202e\t \r\x08'\"{}()/*#"), max_size=30),
    st.sampled_from(["def f(x):  # y", "\tif a == 'b':", '"""', "x" * 2_000]),
)
SIGNS = st.sampled_from(LineSign)


@st.composite
def patches(draw: st.DrawFn) -> FilePatch:
    lines, old, new = list[PatchLine](), 1, 1
    for sign, text in draw(st.lists(st.tuples(SIGNS, TEXTS), max_size=12)):
        has_old = sign in (LineSign.CONTEXT, LineSign.DELETED)
        has_new = sign in (LineSign.CONTEXT, LineSign.ADDED)
        lines.append(PatchLine(sign, text, old if has_old else None, new if has_new else None))
        old, new = old + has_old, new + has_new
    modes = st.sampled_from(["", "100644", "100755", "120000", "160000", "1\x1b"])
    return FilePatch(
        draw(NAMES), draw(NAMES), draw(modes), draw(modes), draw(st.sampled_from(["", "95%", "\x1b"])),
        is_binary=draw(st.booleans()), hunks=[Hunk(draw(TEXTS), lines)], notes=draw(st.lists(TEXTS, max_size=2)),
    )  # fmt: skip


def laid_out(file: FilePatch) -> list[Pieces]:
    return list(file_lines(file, Sizes(1, 2), 20, SyntaxReader()))


def text_of(pieces: Pieces) -> str:
    return "".join(text for text, _, _ in pieces)


@given(patches())
def test_any_change_is_safe_for_a_terminal(file: FilePatch) -> None:
    for pieces in laid_out(file):
        for character in text_of(pieces):
            assert character == " " or unicodedata.category(character)[0] not in "CZ"
        for theme in Theme:
            shown = coloured(pieces, theme, ColorSystem.TRUECOLOR)
            assert re.sub("\x1b\\[[0-9;]+m", "", shown) == text_of(pieces)


@given(patches())
def test_no_character_of_a_line_is_lost(file: FilePatch) -> None:
    lines = [line for line in file.hunks[0].lines if line.text.isascii() and line.text.isprintable()]
    shown = "\n".join(map(text_of, laid_out(file)))
    for line in lines:
        if len(line.text) < 1_000:
            assert f"│{line.sign if line.sign is not LineSign.REMARK else ''}{line.text}" in shown


@given(st.text())
def test_line_of_git_is_safe_for_a_terminal(text: str) -> None:
    assert not [c for c in plain(text) if c != "\t" and unicodedata.category(c)[0] == "C"]


def one_line(path: str, sign: LineSign, text: str) -> Pieces:
    (*_, pieces) = laid_out(FilePatch(path, path, hunks=[Hunk("@@", [PatchLine(sign, text, 1, 1)])]))
    return pieces


def test_syntax_is_that_of_the_name_of_the_file() -> None:
    found = [(text, syntax) for text, _, syntax in one_line("a/b.py", LineSign.ADDED, "def f(): return 'x'")]
    assert ("def", Syntax.KEYWORD) in found
    assert ("'x'", Syntax.STRING) in found
    assert {syntax for _, _, syntax in one_line("a/b", LineSign.ADDED, "def f(): return 'x'")} == {
        Syntax.NONE
    }
    makefile = one_line("a/Makefile", LineSign.ADDED, "# x")
    assert makefile[-1] == ("# x", PieceRole.ADDED, Syntax.COMMENT)


def test_text_over_several_lines_has_its_syntax_on_both_sides() -> None:
    lines = [
        PatchLine(LineSign.CONTEXT, '"""A', 1, 1),
        PatchLine(LineSign.DELETED, "def x():", 2),
        PatchLine(LineSign.ADDED, "def y():", None, 2),
        PatchLine(LineSign.CONTEXT, '"""', 3, 3),
    ]
    found = laid_out(FilePatch("a.py", "a.py", hunks=[Hunk("@@", lines)]))[3:]
    assert all(syntax is Syntax.STRING for pieces in found for _, role, syntax in pieces[2:])


def test_tabs_become_blanks_that_keep_the_columns() -> None:
    assert text_of(one_line("x", LineSign.CONTEXT, "\ta\t名\tb")) == "  1   1 │         a       名      b"


def test_long_line_is_cut() -> None:
    assert text_of(one_line("x.py", LineSign.ADDED, "x" * 1_500)).endswith("x… 500 more characters")


def test_syntax_takes_no_longer_than_its_budget() -> None:
    def clock() -> Iterator[float]:
        yield from (0.0, 3.0, 3.0, 7.0)
        raise AssertionError("no further block is read")

    ticks = clock()
    reader = SyntaxReader(5.0, lambda: next(ticks))
    words = [found is None for found in reader.words("a.py", ["x = 1"] * 800)]
    assert words == [False] * 400 + [True] * 400


def test_first_lines_come_before_the_last_hunk_is_laid_out() -> None:
    def hunks() -> Iterator[Hunk]:
        yield Hunk("@@ -1 +1 @@", [PatchLine(LineSign.ADDED, "x = 1", None, 1)])
        raise AssertionError("the second hunk is not needed yet")

    class Unread(list[Hunk]):
        def __iter__(self) -> Iterator[Hunk]:
            return hunks()

    file = FilePatch("a.py", "a.py")
    lines = file_lines(file, Sizes(), 9, SyntaxReader())
    assert text_of(next(lines)) == "a.py"
    file.hunks = Unread()
    assert [text_of(next(lines)) for _ in range(3)] == ["─" * 9, "@@ -1 +1 @@", "      1 │+x = 1"]


def test_ten_thousand_lines_are_laid_out_one_by_one() -> None:
    body = b"".join(b"-x = %d\n+x = %d  # y\n" % (number, number + 1) for number in range(5_000))
    head = b"diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1,5000 +1,5000 @@\n"
    lines = [line for file in read_patch((head + body).splitlines(keepends=True)) for line in laid_out(file)]
    assert len(lines) == 10_003


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (1 << 20, "1.0 MiB"),
        (5 << 40, "5120 GiB"),
    ],
)
def test_sizes_have_a_unit(size: int, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("background", "theme"),
    [
        ("", Theme.SYSTEM),
        ("15;0", Theme.DARK),
        ("0;default;15", Theme.LIGHT),
        ("0;x", Theme.SYSTEM),
        ("7;8", Theme.DARK),
    ],
)
def test_colours_are_made_for_the_background_of_the_terminal(background: str, theme: Theme) -> None:
    assert theme_of_terminal({"COLORFGBG": background}, ColorSystem.TRUECOLOR) is theme
    assert theme_of_terminal({"COLORFGBG": background}, ColorSystem.STANDARD) is Theme.SYSTEM


@pytest.mark.parametrize(
    ("pager", "plain_one"),
    [
        ("less", True),
        ("/usr/bin/less -S", True),
        ("cat", True),
        ("delta", False),
        ("vim -", False),
        ("'", False),
    ],
)
def test_pager_that_colours_by_itself_gets_no_colours(pager: str, plain_one: bool) -> None:
    assert shows_colours(pager) is plain_one
