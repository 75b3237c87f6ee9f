"""The changes of a session file by file: git's list of files, and the sections of each."""

import io

from sm.capabilities.worktrees.file_patches import ChangedFile, joined, listed_files
from sm.core.patches import sections

BLOB, OTHER, NONE = "a" * 40, "b" * 40, "0" * 40


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


def test_file_of_another_type_has_two_sections() -> None:
    texts = [f"diff --git a/{n} b/{n}\n".encode() for n in range(4)]
    found = joined(sections(io.BytesIO(b"".join(texts)), 100), [changed(), changed("T"), changed()])
    assert [patch.text for patch in found] == [texts[0], texts[1] + texts[2], texts[3]]


def test_files_behind_the_end_of_the_output_have_no_section() -> None:
    found = joined(sections(io.BytesIO(b"diff --git a/f b/f\n"), 100), [changed(), changed()])
    assert len(list(found)) == 1
