"""The output of git as files, hunks and lines: for any bytes that an agent has written."""

import io
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm.capabilities.reviews.shown_changes import shown_changes
from sm.core.patches import FilePatch, LineSign, PatchLine, read_patch, sections, unquoted
from sm.core.quotation import visible
from tests.git_repositories import git

TRICKS = (
    b"diff --git a/x b/x", b"@@ -1 +1 @@", b"@@ -1,9 +1,9 @@", b"-- a/x", b"++ b/x", b"\\ No newline at end of file",
    b"Binary files a/x and b/x differ", b"", b" ", b"\x1b[2J", b"\xff\r", b"* Unmerged path x",
)  # fmt: skip
"""Lines of files that could pass for others."""
LINES = st.lists(
    st.tuples(st.sampled_from(["+", "-", " "]), st.one_of(st.sampled_from(TRICKS), st.binary(max_size=8))),
    min_size=1,
    max_size=8,
).map(lambda lines: [(sign, text.replace(b"\n", b"")) for sign, text in lines])

CONTENT = st.lists(st.binary(max_size=30).map(lambda line: line.replace(b"\n", b"")), max_size=8)


def patch_of(path: bytes, hunk: list[tuple[str, bytes]]) -> bytes:
    counts = [sum(sign != other for sign, _ in hunk) for other in "+-"]
    head = b"diff --git a/%b b/%b\nindex 1..2 100644\n--- a/%b\n+++ b/%b\n" % (path, path, path, path)
    body = b"".join(sign.encode() + text + b"\n" for sign, text in hunk)
    return head + b"@@ -1,%d +1,%d @@\n" % tuple(counts) + body


def read(text: bytes) -> list[FilePatch]:
    return list(read_patch(_lines(text)))


def _lines(text: bytes) -> list[bytes]:
    return [line + b"\n" for line in text.removesuffix(b"\n").split(b"\n")]


@given(st.lists(LINES, min_size=1, max_size=3))
def test_lines_of_files_are_those_that_the_numbers_of_their_hunks_count(
    hunks: list[list[tuple[str, bytes]]],
) -> None:
    text = b"".join(patch_of(b"f%d" % number, hunk) for number, hunk in enumerate(hunks))
    files = read(text)
    assert [file.path for file in files] == [f"f{number}" for number in range(len(hunks))]
    for file, expected in zip(files, hunks, strict=True):
        (hunk,) = file.hunks
        found = [(line.sign.value, line.text) for line in hunk.lines]
        assert found == [(sign, raw.decode("utf-8", "replace")) for sign, raw in expected]
        assert [line.old for line in hunk.lines if line.old] == list(
            range(1, 1 + sum(sign != "+" for sign, _ in expected))
        )


@given(st.lists(st.one_of(st.sampled_from(TRICKS), st.binary(max_size=20)), max_size=20))
def test_any_lines_are_read(lines: list[bytes]) -> None:
    for file in read_patch(lines):
        assert file.path


def test_file_is_read_before_the_next_one_is_written() -> None:
    lines = iter([*_lines(patch_of(b"a", [("+", b"x")])), b"diff --git a/b b/b\n"])
    assert next(read_patch(lines)).path == "a"
    assert list(lines) == []


@pytest.mark.processes
@pytest.mark.parametrize(
    "name",
    [
        "a b", "é", " x ", '"q"', "t\tn\n", "\x1b[2J", "b/ b", os.fsdecode(b"\xff\x9b"), "a => b", "x b/x",
        '\n+++ b/y\n', "\\", '"', "a\r", "diff --git a/x b/x",
    ],
)  # fmt: skip
def test_names_changes_of_modes_and_renames_are_those_of_git(tmp_path: Path, name: str) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
    (tmp_path / name).write_text("".join(f"{number}\n" for number in range(9)))
    (tmp_path / f"{name}m").write_text("mode\n")
    (tmp_path / f"{name}e").write_text("")
    (tmp_path / f"{name}z").write_bytes(bytes(9))
    (tmp_path / f"{name}c").write_bytes(b"".join(b"%d\r\n" % number for number in range(9)))
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "x")
    (tmp_path / f"{name}m").chmod(0o755)
    (tmp_path / name).rename(tmp_path / f"{name}r")
    (tmp_path / f"{name}e").unlink()
    (tmp_path / f"{name}n").write_text("")
    (tmp_path / f"{name}z").write_bytes(bytes(10))
    (tmp_path / f"{name}c").unlink()
    (tmp_path / f"{name}d").write_bytes(b"".join(b"%d\r\n" % number for number in range(8)) + b"\r")
    git(tmp_path, "add", "-A")
    argv = [
        "git",
        "-C",
        str(tmp_path),
        "-c",
        "core.quotePath=false",
        "diff",
        "--cached",
        "-M",
        "--full-index",
    ]
    done = subprocess.run(argv, capture_output=True, check=True)
    found = {(file.old_path, file.new_path): file for file in read_patch(_lines(done.stdout))}
    assert (None, f"{name}n") in found or (f"{name}e", f"{name}n") in found
    assert found[f"{name}m", f"{name}m"].old_mode == "100644"
    assert found[f"{name}m", f"{name}m"].new_mode == "100755"
    assert found[name, f"{name}r"].similarity == "100%"
    binary = found[f"{name}z", f"{name}z"]
    assert binary.is_binary
    assert git(tmp_path, "cat-file", "-s", binary.old_object) == "9"
    edited = found[f"{name}c", f"{name}d"]
    assert [(line.sign.value, line.text) for line in edited.hunks[0].lines[-3:]] == [
        ("-", "8\r"),
        ("+", "\r"),
        ("\\", " No newline at end of file"),
    ]
    assert not any(file.notes for file in found.values())
    shown = shown_changes(done.stdout.decode("utf-8", "replace"))
    written = {str(file.written_path) for file in found.values()}
    expected = {path.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for path in written}
    assert {line.path for line in shown} == {visible(path) for path in expected}
    assert [unquoted(str(file.written_path)) for file in found.values()] == [f.path for f in found.values()]


def test_blank_of_an_empty_line_and_remarks_of_git_may_be_missing() -> None:
    text = (
        b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@ f()\n\n-a\n\\ No newline\n+b\n\\ No newline\n"
    )
    (file,) = read(text)
    (hunk,) = file.hunks
    assert hunk.lines == [
        PatchLine(LineSign.CONTEXT, "", 1, 1),
        PatchLine(LineSign.DELETED, "a", 2),
        PatchLine(LineSign.REMARK, " No newline"),
        PatchLine(LineSign.ADDED, "b", None, 2),
        PatchLine(LineSign.REMARK, " No newline"),
    ]


def test_line_about_a_conflict_is_a_note() -> None:
    first, second = read(b"* Unmerged path a.txt\n" + patch_of(b"b", [("+", b"x")]))
    assert (first.notes, first.old_path, second.path) == (["* Unmerged path a.txt"], None, "b")


@given(st.text())
def test_text_without_quotation_marks_is_a_path_as_it_is(text: str) -> None:
    assert unquoted(f"x{text}") == f"x{text}"


@given(st.lists(CONTENT, max_size=6))
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
