"""The changes of a session file by file: git's list of files, the sections of its output, and their limits."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm.capabilities.worktrees.file_patches import ChangedFile, joined, listed_files, sections

BLOB, OTHER, NONE = "a" * 40, "b" * 40, "0" * 40
LINES = st.lists(st.binary(max_size=30).map(lambda line: line.replace(b"\n", b"")), max_size=8)


def changed(status: str = "M") -> ChangedFile:
    return ChangedFile(status, b"f", b"f", "100644", "100644", BLOB, OTHER, 1, 1)


def test_list_of_files_has_renames_binaries_and_names_of_any_kind() -> None:
    raw = [
        f":100644 100644 {BLOB} {OTHER} M".encode(), b"a\nb\xff",
        f":100644 100755 {BLOB} {OTHER} R097".encode(), b"old", b":new",
        f":000000 100644 {NONE} {OTHER} A".encode(), b"logo.png",
        f":160000 160000 {BLOB} {OTHER} M".encode(), b"module",
        b"1\t2\ta\nb\xff",
        b"3\t0\t", b"old", b":new",
        b"-\t-\tlogo.png",
        b"1\t1\tmodule",
    ]  # fmt: skip
    files = listed_files(b"\0".join(raw) + b"\0")
    assert [(f.status, f.old_path, f.path, f.added, f.deleted) for f in files] == [
        ("M", b"a\nb\xff", b"a\nb\xff", 1, 2),
        ("R", b"old", b":new", 3, 0),
        ("A", b"logo.png", b"logo.png", None, None),
        ("M", b"module", b"module", 1, 1),
    ]
    assert [file.blobs for file in files] == [(BLOB, OTHER), (BLOB, OTHER), ("", OTHER), ("", "")]
    assert listed_files(b"") == []


@given(st.lists(LINES, max_size=6))
def test_sections_end_where_git_begins_a_file_whatever_lines_say(files: list[list[bytes]]) -> None:
    hostile = [b"diff --git a/x b/x", b"@@ -1 +1 @@", b"\rdiff --git a/x b/x"]
    texts = [
        b"diff --git a/f b/f\n" + b"".join(b"+" + line + b"\n" for line in [*lines, *hostile])
        for lines in files
    ]
    found = list(sections(io.BytesIO(b"".join(texts)), 10_000))
    assert [(patch.text, patch.is_cut) for patch in found] == [(text, False) for text in texts]


@pytest.mark.parametrize("line", [b"+x\n" * 100, b"+" + b"x" * 200_000 + b"\n"], ids=["lines", "one line"])
def test_section_above_the_limit_is_cut_and_the_next_one_is_whole(line: bytes) -> None:
    first, second = b"diff --git a/f b/f\n" + line, b"diff --git a/g b/g\n+y\n"
    cut, whole = sections(io.BytesIO(first + second), 200)
    assert cut.is_cut
    assert first.startswith(cut.text)
    assert (whole.text, whole.is_cut) == (second, False)


def test_file_of_another_type_has_two_sections() -> None:
    texts = [f"diff --git a/{n} b/{n}\n".encode() for n in range(4)]
    found = joined(sections(io.BytesIO(b"".join(texts)), 100), [changed(), changed("T"), changed()])
    assert [patch.text for patch in found] == [texts[0], texts[1] + texts[2], texts[3]]


def test_files_behind_the_end_of_the_output_have_no_section() -> None:
    found = joined(sections(io.BytesIO(b"diff --git a/f b/f\n"), 100), [changed(), changed()])
    assert len(list(found)) == 1
