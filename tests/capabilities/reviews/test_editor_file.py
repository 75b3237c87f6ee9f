"""Comments in the file of an editor: any comments on any changes come back as they were written."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm.capabilities.reviews.alignment import aligned
from sm.capabilities.reviews.editor_file import EditorFile, Written, editor_file
from sm.capabilities.reviews.model import Comment, CommentPlace, Side
from sm.capabilities.reviews.rules import trimmed
from sm.capabilities.reviews.shown_changes import ShownLine, paths_of, shown_changes
from sm.core.text import validate_text

TRICKS = (
    "diff --git a/x b/x", "@@ -1 +1 @@", "@@ -1,9 +1,9 @@ def f():", "-- a/x", "++ b/x", "\\ No newline at end of file",
    "> x", ">", "@3 x", "\\> x", "\\\\@3 x", "", " ", "}", "\t}", "x\r", "\x1b[2J", "\u202e", "vim: set x:", "e\u0301",
)  # fmt: skip
"""Lines of files that could pass for others."""
CONTENT = st.one_of(st.sampled_from(TRICKS), st.text(st.characters(exclude_characters="\n"), max_size=12))
SIGNS = st.lists(st.tuples(st.sampled_from("+- "), CONTENT), min_size=1, max_size=8)
COMMENT_LINE = st.one_of(
    st.sampled_from([trick for trick in TRICKS if trick.isprintable()]),
    st.text(st.characters(exclude_categories=["C", "Z"]), max_size=12),
)
TEXTS = st.lists(COMMENT_LINE, min_size=1, max_size=4).map(trimmed).filter(bool).map("\n".join)


@dataclass(frozen=True)
class Changes:
    """The output of `git diff`, and what each line of it is: (path, number before, number after)."""

    diff: str
    lines: list[tuple[str, int | None, int | None]]


@st.composite
def changes(draw: st.DrawFn) -> Changes:
    diff, lines = list[str](), list[tuple[str, int | None, int | None]]()
    for path in draw(st.lists(st.sampled_from(["a.py", "b c.py", '"\\n"', "ä"]), min_size=1, unique=True)):
        named = [f'"{prefix}/{path[1:]}' if path[0] == '"' else f"{prefix}/{path}" for prefix in "ab"]
        header = [f"diff --git {named[0]} {named[1]}", "index 1..2 100644"]
        hunks = draw(st.lists(SIGNS, max_size=3))
        if hunks:
            header += [f"--- {named[0]}", f"+++ {named[1]}\t"]
        diff += header
        lines += [(path, None, None)] * len(header)
        old = new = draw(st.integers(1, 5))
        for hunk in hunks:
            counts = [sum(sign != other for sign, _ in hunk) for other in "+-"]
            diff.append(f"@@ -{old},{counts[0]} +{new},{counts[1]} @@ {draw(st.sampled_from(TRICKS))}")
            lines.append((path, None, None))
            for sign, content in hunk:
                diff.append(sign + content)
                lines.append((path, None if sign == "+" else old, None if sign == "-" else new))
                old, new = old + (sign != "+"), new + (sign != "-")
            if draw(st.booleans()):
                diff.append("\\ No newline at end of file")
                lines.append((path, None, None))
            old, new = old + 3, new + 3
    return Changes("".join(f"{line}\n" for line in diff), lines)


@given(changes())
def test_lines_of_changes_have_the_numbers_of_their_files(changes: Changes) -> None:
    shown = shown_changes(changes.diff)
    assert [(line.path, line.old, line.new) for line in shown] == changes.lines
    assert all("\x1b" not in line.text and "\u202e" not in line.text for line in shown)


def comment(place: CommentPlace, quote: str, text: str, id: int = 1) -> Comment:
    return Comment(id, "1a2b3c4d", "operator", 0, 0, place, quote, text)


def place_in(draw: st.DrawFn, file: EditorFile, index: int) -> CommentPlace:
    """The place of a line, or of a range that ends with it."""
    line = file.lines[index]
    place = line.place
    if place.last is None or not draw(st.booleans()):
        return place
    same = [other for other in file.lines[: index + 1] if other.hunk == line.hunk]
    numbers = [n for other in same if (n := other.number(place.side)) is not None]
    return replace(place, first=draw(st.sampled_from(numbers)))


@st.composite
def commented(draw: st.DrawFn) -> tuple[EditorFile, dict[int, Comment]]:
    file = editor_file("engineer-login", "since it began", draw(changes()).diff)
    anchors = {line.place.anchor: i for i, line in enumerate(file.lines) if not line.is_remark}
    chosen = draw(st.lists(st.sampled_from(sorted(anchors.values())), unique=True))
    drafts = [
        comment(place_in(draw, file, index), file.lines[index].quote, draw(TEXTS), number)
        for number, index in enumerate(chosen, 1)
    ]
    placed, left = file.placed(drafts)
    assert left == []
    return file, placed


@given(commented())
def test_comments_come_back_from_the_file_as_they_were_written(
    given: tuple[EditorFile, dict[int, Comment]],
) -> None:
    file, placed = given
    read = file.read(file.write(placed))
    expected = [Written(c.place, c.quote, c.text) for _, c in sorted(placed.items())]
    assert (read.comments, read.changed) == (expected, [])


@given(commented(), st.data())
def test_comments_stay_at_their_lines_when_a_person_deletes_others(
    given: tuple[EditorFile, dict[int, Comment]], data: st.DataObject
) -> None:
    file, placed = given
    unique = EditorFile([replace(line, text=f"{line.text} {i}") for i, line in enumerate(file.lines)])
    placed = {
        i: replace(c, quote=unique.lines[i].quote, place=unique.lines[i].place) for i, c in placed.items()
    }
    lines = unique.write(placed).split("\n")
    gone = data.draw(st.sets(st.integers(0, len(unique.lines) - 1))) - placed.keys()
    deleted = {f"> {unique.lines[i].text}" for i in gone}
    read = unique.read("\n".join(line for line in lines if line not in deleted))
    assert read.comments == [Written(c.place, c.quote, c.text) for _, c in sorted(placed.items())]


LINES = st.lists(st.sampled_from("abcdefg"), max_size=12)


@given(LINES, LINES)
def test_alignment_rises_and_pairs_a_changed_line_only_in_its_own_place(
    original: list[str], edited: list[str]
) -> None:
    found = aligned(original, edited)
    known = [index for index in found if index is not None]
    assert known == sorted(set(known))
    assert len(found) == len(edited)
    if original == edited:
        assert found == list(range(len(original)))


@given(LINES, st.data())
def test_alignment_finds_every_line_that_was_not_deleted(original: list[str], data: st.DataObject) -> None:
    kept = sorted(data.draw(st.sets(st.integers(0, len(original) - 1)) if original else st.just(set[int]())))
    found = aligned(original, [original[i] for i in kept])
    matched = [i for i in found if i is not None]
    if len(set(original)) == len(original):
        assert matched == kept


def test_alignment_of_many_equal_lines_is_quick() -> None:
    original = ["}"] * 20_000 + ["end"] * 20_000
    assert aligned(original, ["x"] + ["}"] * 10_000 + ["y"] + ["end"] * 5_000)[1] == 0


DIFF = """\
diff --git a/api/a.py b/api/a.py
index 1234567..89abcde 100644
--- a/api/a.py
+++ b/api/a.py
@@ -1,4 +1,4 @@ import x
 one
-two
+TWO
 three
 four
diff --git a/old.py b/new name.py
similarity index 90%
rename from old.py
rename to new name.py
diff --git a/logo.png b/logo.png
index 1..2 100644
Binary files a/logo.png and b/logo.png differ
"""
FILE = editor_file("engineer-login", "since it began", DIFF)


def typed(*changes: tuple[str, str]) -> str:
    """The file with text below the first line of each name."""
    text = FILE.write({})
    for line, words in changes:
        assert f"{line}\n" in text
        text = text.replace(f"{line}\n", f"{line}\n{words}\n", 1)
    return text


def test_file_explains_itself_and_leaves_no_line_of_an_agent_where_an_editor_looks_for_settings() -> None:
    text = FILE.write({})
    assert all(line.startswith(">") for line in text.splitlines())
    assert "The changes of engineer-login since it began: 3 files." in text
    own = {f"> {line}" for line in DIFF.splitlines()}
    lines = text.splitlines()
    assert own.isdisjoint({*lines[:10], *lines[-10:]})
    assert FILE.read(text).comments == []


def test_file_has_no_words_by_which_emacs_finds_settings() -> None:
    settings = ["# Local Variables:", "# eval: (x)", "# End:", "// local variable\u017f:"]
    diff = "\n".join(["diff --git a/x b/x", "@@ -0,0 +1,4 @@", *(f"+{line}" for line in settings)])
    file = editor_file("x", "y", diff)
    text = file.write({})
    assert "local variables:" not in text.casefold()
    (found,) = file.read(
        text.replace("> +# Local Variables<U+003A>\n", "> +# Local Variables<U+003A>\nwhy?\n")
    ).comments
    assert (found.quote, found.text) == ("+# Local Variables:", "why?")


@pytest.mark.parametrize(
    ("below", "words", "place", "text"),
    [
        ("> +TWO", "why?", CommentPlace("api/a.py", Side.NEW, 2, 2), "why?"),
        ("> -two", "why?", CommentPlace("api/a.py", Side.OLD, 2, 2), "why?"),
        ("> +TWO", "\n\nwhy?\n\nsay\n", CommentPlace("api/a.py", Side.NEW, 2, 2), "why?\n\nsay"),
        ("> +TWO", "@3 why?", CommentPlace("api/a.py", Side.NEW, 1, 2), "why?"),
        ("> -two", "@2\nwhy?", CommentPlace("api/a.py", Side.OLD, 1, 2), "why?"),
        ("> -two", "@99 why?", CommentPlace("api/a.py", Side.OLD, 1, 2), "why?"),
        ("> +TWO", "@3", CommentPlace("api/a.py", Side.NEW, 2, 2), "@3"),
        ("> +TWO", "@0 why?", CommentPlace("api/a.py", Side.NEW, 2, 2), "@0 why?"),
        ("> +TWO", "@ada why?", CommentPlace("api/a.py", Side.NEW, 2, 2), "@ada why?"),
        ("> +TWO", "\\@3 why?\n\\> so\n\\x", CommentPlace("api/a.py", Side.NEW, 2, 2), "@3 why?\n> so\n\\x"),
        ("> +++ b/api/a.py", "@3 why?", CommentPlace("api/a.py"), "@3 why?"),
        ("> @@ -1,4 +1,4 @@ import x", "why?", CommentPlace("api/a.py"), "why?"),
        ("> rename to new name.py", "why?", CommentPlace("new name.py"), "why?"),
        ("> index 1..2 100644", "why?", CommentPlace("logo.png"), "why?"),
        (">", "# why?", CommentPlace(), "# why?"),
        ("> The changes end here.", "why?", CommentPlace(), "why?"),
    ],
)  # fmt: skip
def test_comment_is_about_the_line_above_it(below: str, words: str, place: CommentPlace, text: str) -> None:
    (found,) = FILE.read(typed((below, words))).comments
    assert (found.place, found.text) == (place, text)


def test_comments_about_one_file_are_one() -> None:
    read = FILE.read(
        typed(("> --- a/api/a.py", "one"), ("> @@ -1,4 +1,4 @@ import x", "two"), ("> +TWO", "three"))
    )
    assert [(c.place.last, c.text) for c in read.comments] == [(None, "one\n\ntwo"), (2, "three")]


def test_changed_line_is_reported_and_keeps_the_place_of_its_comment() -> None:
    read = FILE.read(typed(("> +TWO", "why?")).replace("> +TWO", "> +TWO!"))
    assert read.changed == ["> +TWO!"]
    assert [c.place for c in read.comments] == [CommentPlace("api/a.py", Side.NEW, 2, 2)]


def test_file_of_an_editor_that_trims_lines_and_ends_them_as_windows_does_is_read() -> None:
    text = typed(("> +TWO", "why?")).replace("\n", " \r\n")
    trimmed = "\n".join(line.rstrip() for line in text.split("\n"))
    for each in (text.replace(" \r", "\r"), trimmed):
        assert [c.text.strip() for c in FILE.read(each).comments] == ["why?"]


def test_empty_file_has_no_comments() -> None:
    assert FILE.read("").comments == []
    assert [(c.place, c.text) for c in FILE.read("all is well\n").comments] == [
        (CommentPlace(), "all is well")
    ]


def test_draft_follows_its_line() -> None:
    moved = editor_file("x", "y", DIFF.replace("@@ -1,4 +1,4 @@ import x", "@@ -11,4 +11,4 @@"))
    draft = comment(CommentPlace("api/a.py", Side.NEW, 1, 2), "+TWO", "why?")
    placed, left = moved.placed([draft])
    assert left == []
    assert moved.read(moved.write(placed)).comments == [
        Written(CommentPlace("api/a.py", Side.NEW, 11, 12), "+TWO", "why?")
    ]


def test_draft_whose_place_is_gone_or_taken_is_left() -> None:
    gone = comment(CommentPlace("api/a.py", Side.NEW, 2, 2), "+other", "x", 1)
    of_file = comment(CommentPlace("gone.py"), "", "x", 2)
    one = comment(CommentPlace("api/a.py", Side.NEW, 1, 1), " one", "x", 3)
    same = comment(CommentPlace("api/a.py", Side.OLD, 1, 1), " one", "x", 4)
    placed, left = FILE.placed([gone, of_file, one, same])
    assert ([c.id for c in placed.values()], [c.id for c in left]) == ([3], [1, 2, 4])


@pytest.mark.parametrize(("length", "last"), [(399, "x"), (400, "x"), (401, "…"), (5000, "…")])
def test_quote_of_a_long_line_is_cut(length: int, last: str) -> None:
    (line,) = shown_changes(f"diff --git a/x b/x\n@@ -1 +1,2 @@\n+{'x' * (length - 1)}\n")[2:]
    assert (len(line.quote), line.quote[-1]) == (min(length, 400), last)
    assert ShownLine("x").quote == ""


def test_quote_is_a_text_with_which_the_daemon_changes_nothing() -> None:
    """The file is read again with the same quote, so a draft is found at its line."""
    (line,) = shown_changes(f"diff --git a/x b/x\n@@ -1 +1,2 @@\n+e\u0301{'a' + chr(0x301) * 40}\n")[2:]
    assert validate_text(line.quote, "quote", 400, one_line=True) == line.quote


def test_path_is_no_longer_than_the_daemon_takes() -> None:
    (line,) = shown_changes(f"diff --git a/x b/x\nnew file mode 1\n+++ b/{'x' * 5000}\n")[2:]
    assert len(str(line.path)) == 4096


def test_no_changes_have_no_lines() -> None:
    assert (shown_changes(""), paths_of([])) == ([], [])


TWO_FILES = """\
diff --git a/a.py b/a.py
--- a/a.py
+++ b/a.py
@@ -1 +1,2 @@
 one
+same
@@ -9 +10,2 @@
 nine
+ten
diff --git a/b.py b/b.py
--- a/b.py
+++ b/b.py
@@ -40 +40,2 @@
 forty
+same
\\ No newline at end of file
"""


def read_of(*lines: str) -> list[tuple[CommentPlace, str]]:
    """The comments in the file of TWO_FILES, in which the first of the lines is followed by the others."""
    text = editor_file("x", "y", TWO_FILES).write({})
    assert f"> {lines[0]}\n" in text
    edited = text.replace(f"> {lines[0]}\n", "\n".join([f"> {lines[0]}", *lines[1:], ""]))
    return [(c.place, c.text) for c in editor_file("x", "y", TWO_FILES).read(edited).comments]


def test_draft_does_not_move_to_another_file_with_the_same_line() -> None:
    file = editor_file("x", "y", TWO_FILES)
    draft = comment(CommentPlace("b.py", Side.NEW, 2, 2), "+same", "why?")
    ((index, _),) = file.placed([draft])[0].items()
    assert (file.lines[index].path, file.lines[index].new) == ("b.py", 41)


def test_draft_about_a_file_is_below_its_header_and_above_its_hunks() -> None:
    file = editor_file("x", "y", TWO_FILES)
    placed, _ = file.placed([comment(CommentPlace("a.py"), "", "why?")])
    assert [file.lines[index].text for index in placed] == ["+++ b/a.py"]


def test_comment_below_a_remark_of_git_is_about_the_line_above_the_remark() -> None:
    place = CommentPlace("b.py", Side.NEW, 41, 41)
    assert read_of("\\ No newline at end of file", "why?") == [(place, "why?")]


def test_range_ends_at_the_beginning_of_its_hunk() -> None:
    assert read_of("+ten", "@99 why?") == [(CommentPlace("a.py", Side.NEW, 10, 11), "why?")]


def test_comment_below_a_line_that_a_person_has_added_is_about_the_line_above_it() -> None:
    place = CommentPlace("a.py", Side.NEW, 11, 11)
    assert read_of("+ten", "> of a person", "why?") == [(place, "why?")]
