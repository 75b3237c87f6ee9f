"""Reading real transcript files, in the forms that agents write and in hostile forms."""

import os
import tracemalloc
from pathlib import Path

import pytest

from sm.core.usage import FilePosition
from sm.monitor.transcripts import FILES_MAX, LINE_MAX_BYTES, Root, files_of, read_last, read_new

LIMIT = 64 * 1024


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "5e55.jsonl"


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def all_of(path: Path, limit: int) -> list[bytes]:
    """Every line, with as many calls as necessary; each call except the last has `more` set."""
    found: list[bytes] = []
    position = None
    for _ in range(10_000):
        delta = read_new(str(path), position, limit)
        found += delta.lines
        position = delta.position
        if not delta.more:
            return found
    raise AssertionError("`more` was set ten thousand times")


def test_read_new_returns_only_complete_new_lines(path: Path) -> None:
    append(path, b"one\ntwo\nthr")
    first = read_new(str(path), None, LIMIT)
    assert first.lines == [b"one", b"two"]
    assert first.position == FilePosition(path.stat().st_ino, 8)
    assert (first.more, first.again) == (False, False)
    assert read_new(str(path), first.position, LIMIT).lines == []
    append(path, b"ee\n\nfour\n")
    second = read_new(str(path), first.position, LIMIT)
    assert second.lines == [b"three", b"four"]
    assert not second.again
    assert read_new(str(path), second.position, LIMIT) == ([], second.position, False, False)


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 7, 8, 9, 100])
def test_read_new_neither_splits_nor_loses_lines_at_any_limit(path: Path, limit: int) -> None:
    lines = [b"a" * n for n in (1, 7, 2, 30, 8, 1, 9)]
    append(path, b"\n".join(lines) + b"\nrest")
    assert all_of(path, limit) == lines


def test_read_new_starts_over_when_the_file_was_replaced(path: Path) -> None:
    append(path, b"old\n")
    old = read_new(str(path), None, LIMIT).position
    new = path.with_suffix(".new")
    append(new, b"new line\nother\n")
    new.rename(path)
    delta = read_new(str(path), old, LIMIT)
    assert delta.lines == [b"new line", b"other"]
    assert delta.again
    assert not read_new(str(path), delta.position, LIMIT).again


def test_read_new_starts_over_when_the_file_became_shorter(path: Path) -> None:
    append(path, b"one\ntwo\n")
    position = read_new(str(path), None, LIMIT).position
    path.write_bytes(b"three\n")
    delta = read_new(str(path), position, LIMIT)
    assert (delta.lines, delta.again) == ([b"three"], True)


def test_read_new_skips_a_partial_line_when_the_file_was_rewritten(path: Path) -> None:
    append(path, b"one\ntwo\n")
    position = read_new(str(path), None, LIMIT).position
    path.write_bytes(b"a longer line\nwhole\n")
    delta = read_new(str(path), position, LIMIT)
    assert (delta.lines, delta.more) == ([], True)
    assert read_new(str(path), delta.position, LIMIT).lines == [b"whole"]


def test_read_new_keeps_the_position_when_the_file_is_missing(path: Path) -> None:
    assert read_new(str(path), None, LIMIT) == ([], None, False, False)
    known = FilePosition(7, 9)
    assert read_new(str(path), known, LIMIT) == ([], known, False, False)
    assert read_last(str(path), 5, LIMIT) == []


def test_read_new_reports_no_repetition_when_the_earlier_file_was_empty(path: Path) -> None:
    path.touch()
    empty = read_new(str(path), None, LIMIT).position
    path.unlink()
    append(path, b"one\n")
    assert read_new(str(path), empty, LIMIT)[0::3] == ([b"one"], False)


def test_transcript_is_read_only_when_it_is_a_regular_file(path: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret\n")
    link, pipe, loop = tmp_path / "link.jsonl", tmp_path / "pipe.jsonl", tmp_path / "loop.jsonl"
    link.symlink_to(secret)
    loop.symlink_to(loop)
    os.mkfifo(pipe)
    strange = [link, pipe, loop, tmp_path, secret / "below", "a\0b", "x" * 5_000, "/dev/null"]
    known = FilePosition(7, 9)
    for irregular in strange:
        assert read_new(str(irregular), known, LIMIT) == ([], known, False, False)
        assert read_last(str(irregular), 5, LIMIT) == []


def test_read_new_follows_no_link_below_the_base_directory(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    (home / "projects" / "slug").mkdir(parents=True)
    elsewhere.mkdir()
    append(home / "projects" / "slug" / "a.jsonl", b"mine\n")
    append(elsewhere / "a.jsonl", b"secret\n")
    (home / "projects" / "sly").symlink_to(elsewhere)

    def lines(path: Path | str, below: Path | None) -> list[bytes]:
        return read_new(str(path), None, LIMIT, below=Root(str(below)) if below else None).lines

    descriptors = len(os.listdir("/proc/self/fd"))
    assert lines(home / "projects/slug/a.jsonl", home) == [b"mine"]
    assert lines(home / "projects/sly/a.jsonl", None) == [b"secret"]
    assert lines(home / "projects/sly/a.jsonl", home) == []
    assert lines(elsewhere / "a.jsonl", home) == []
    assert lines(f"{home}/../elsewhere/a.jsonl", home) == []
    assert lines(home, home) == lines(tmp_path, home) == lines("/", home) == []
    assert read_last(str(home / "projects/sly/a.jsonl"), 5, LIMIT, below=Root(str(home))) == []
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_read_new_follows_links_at_and_above_the_base_directory(tmp_path: Path) -> None:
    """`below` may be a link and may have links above it (dotfiles, another disk). Links inside are refused."""
    disk, real_home, home = tmp_path / "disk" / "p", tmp_path / "data" / "me", tmp_path / "home"
    (disk / "slug").mkdir(parents=True)
    real_home.mkdir(parents=True)
    home.symlink_to(real_home)
    (real_home / "projects").symlink_to(disk)
    append(disk / "slug" / "a.jsonl", b"mine\n")
    (disk / "sly").symlink_to(disk / "slug")
    below = home / "projects"
    descriptors = len(os.listdir("/proc/self/fd"))
    for base in (below, real_home / "projects", disk):
        path = str(base / "slug" / "a.jsonl")
        assert read_new(path, None, LIMIT, below=Root(str(below))).lines == [b"mine"], path
        assert read_last(path, 5, LIMIT, below=Root(str(below))) == [b"mine"]
        assert read_new(str(base / "sly" / "a.jsonl"), None, LIMIT, below=Root(str(below))).lines == []
    assert read_new(f"{disk}/../p/../../home/x", None, LIMIT, below=Root(str(below))).lines == []
    assert (
        read_new(str(disk / "slug" / "a.jsonl"), None, LIMIT, below=Root(str(tmp_path / "none"))).lines == []
    )
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_read_new_skips_a_line_longer_than_the_maximum(path: Path) -> None:
    longest = b"x" * LINE_MAX_BYTES
    append(path, b"before\n" + longest + b"\nbetween\n" + longest + b"y\nafter\n")
    for limit in (1000, LIMIT, LINE_MAX_BYTES, 10 * LINE_MAX_BYTES):
        assert [line[:9] for line in all_of(path, limit)] == [b"before", b"x" * 9, b"between", b"after"]


def test_read_new_takes_little_memory_while_a_huge_line_grows(path: Path) -> None:
    append(path, b"before\n")
    position = read_new(str(path), None, LIMIT).position
    tracemalloc.start()
    try:
        for _ in range(8):
            append(path, b"x" * (LINE_MAX_BYTES // 2))
            delta = read_new(str(path), position, LIMIT)
            while delta.more:
                delta = read_new(str(path), delta.position, LIMIT)
            position = delta.position
            assert delta.lines == []
        assert tracemalloc.get_traced_memory()[1] < 3 * LINE_MAX_BYTES
    finally:
        tracemalloc.stop()
    append(path, b'"}\nafter\n')
    found = []
    while True:
        delta = read_new(str(path), position, LIMIT)
        found += delta.lines
        position = delta.position
        if not delta.more:
            break
    assert found == [b"after"]


@pytest.mark.parametrize(
    ("lines", "limit", "expected"),
    [
        (2, 100, [b"two", b"three"]),
        (9, 100, [b"one", b"two", b"three"]),
        (9, 18, [b"one", b"two", b"three"]),
        (9, 17, [b"two", b"three"]),
        (9, 14, [b"two", b"three"]),
        (9, 13, [b"three"]),
        (9, 9, []),
        (9, 1, []),
        (0, 100, []),
    ],
)
def test_read_last_returns_only_complete_lines_within_its_limits(
    path: Path, lines: int, limit: int, expected: list[bytes]
) -> None:
    append(path, b"one\ntwo\nthree\nfour")
    assert read_last(str(path), lines, limit) == expected


def test_files_of_lists_the_transcripts_of_the_session_and_its_sub_agents(path: Path, tmp_path: Path) -> None:
    assert files_of(str(path)) == (str(path),)
    below = tmp_path / "5e55" / "subagents"
    deeper = below / "workflows" / "w1"
    too_deep = deeper / "more" / "and"
    too_deep.mkdir(parents=True)
    for file in (
        below / "agent-b.jsonl",
        below / "agent-a.jsonl",
        deeper / "agent-c.jsonl",
        below / "agent-a.meta.json",
        below / "notes.jsonl",
        too_deep / "agent-d.jsonl",
    ):
        append(file, b"{}\n")  # fmt: skip
    (below / "agent-link.jsonl").symlink_to(below / "agent-a.jsonl")
    (below / "linked").symlink_to(deeper)
    os.mkfifo(below / "agent-pipe.jsonl")
    expected = [below / "agent-a.jsonl", below / "agent-b.jsonl", deeper / "agent-c.jsonl"]
    assert files_of(str(path)) == (str(path), *map(str, expected))


def test_files_of_keeps_the_newest_files_when_there_are_too_many(path: Path, tmp_path: Path) -> None:
    below = tmp_path / "5e55" / "subagents"
    below.mkdir(parents=True)
    for n, name in enumerate("cab"):
        file = below / f"agent-{name}.jsonl"
        file.touch()
        os.utime(file, (n, n))
    assert [Path(f).name for f in files_of(str(path), most=3)] == [
        "5e55.jsonl",
        "agent-a.jsonl",
        "agent-b.jsonl",
    ]
    assert files_of(str(path), most=1) == (str(path),)
    assert FILES_MAX > 100


def test_files_of_ignores_sub_agents_behind_a_link(path: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "subagents").mkdir(parents=True)
    append(elsewhere / "subagents" / "agent-a.jsonl", b"{}\n")
    (tmp_path / "5e55").symlink_to(elsewhere)
    assert files_of(str(path)) == (str(path),)


# Containers


def test_no_link_in_the_home_directory_of_a_container_is_followed(tmp_path: Path) -> None:
    home, outside = tmp_path / "home", tmp_path / "outside"
    (home / ".claude/projects/x").mkdir(parents=True)
    outside.mkdir()
    path = home / ".claude/projects/x/a.jsonl"
    root = Root(str(home), contained=True)
    path.write_bytes(b"mine\n")
    assert read_new(str(path), None, LIMIT, below=root).lines == [b"mine"]
    (outside / "a.jsonl").write_bytes(b"theirs\n")
    for link in (path, path.parent, home / ".claude/projects", home / ".claude", home):
        if link == path:
            link.unlink()
            link.symlink_to(outside / "a.jsonl")
        else:
            link.rename(tmp_path / f"moved {link.name}")
            link.symlink_to(outside)
        assert read_new(str(path), None, LIMIT, below=root).lines == []
        assert read_last(str(path), 5, LIMIT, below=root) == []
    assert read_new(str(outside / "a.jsonl"), None, LIMIT, below=root).lines == []
