"""An archive only grows: what a second archive of a session keeps of the first one."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sm.capabilities.archives.files import copies, kept_transcripts, tar_files
from sm.capabilities.archives.files.older_archives import recover
from sm.capabilities.archives.files.writer import ArchiveContents, merge_rows, merge_usage, write_archive
from sm.linux.files import FilePart
from tests.archived import Archived

ID = "1a2b3c4d"
FIRST = "one\ntwo\nthree\n"
C = "conversation.jsonl"


@contextmanager
def opened(path: Path) -> Iterator[int | None]:
    if not path.exists():
        yield None
        return
    if path.read_text() == "unreadable":
        raise PermissionError(13, "Permission denied", path)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class Bench:
    def __init__(self, directory: Path) -> None:
        self.archives, self.live = directory / "archives", directory / "live"
        self.live.mkdir()

    def write(
        self, *, lines: list[str] | None = None, names: tuple[str, ...] | None = None, **texts: str | None
    ) -> int:
        """Write an archive of these transcripts. If None, the transcript is gone, but its place is known."""
        for stem, text in texts.items():
            path = self.live / f"{stem}.jsonl"
            path.unlink(missing_ok=True)
            if text is not None:
                path.write_text(text)
        transcripts = {f"{stem}.jsonl": partial(opened, self.live / f"{stem}.jsonl") for stem in texts}
        return write_archive(str(self.archives), ID, ArchiveContents({}, transcripts), lines)

    def files(self) -> dict[str, str]:
        return self.archive.texts(end=".jsonl")

    @property
    def archive(self) -> Archived:
        return Archived(self.archives / ID)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


STATES: dict[str, tuple[str | None, dict[str, str]]] = {
    "gone": (None, {"transcripts": FIRST}),
    "same": (FIRST, {"transcripts": FIRST}),
    "longer": (FIRST + "four\n", {"transcripts": FIRST + "four\n"}),
    "shorter": ("one\n", {"transcripts": FIRST}),
    "empty": ("", {"transcripts": FIRST}),
    "ends in a partial line": ("one\ntw", {"transcripts": FIRST}),
    "replaced by another": ("four\n", {"transcripts": "four\n", "transcripts-1": FIRST}),
    "first line changed": (
        "One\ntwo\nthree\nfour\n",
        {"transcripts": "One\ntwo\nthree\nfour\n", "transcripts-1": FIRST},
    ),
    "unreadable": ("unreadable", {"transcripts": FIRST}),
}


@pytest.mark.parametrize("state", STATES)
def test_second_archive_has_all_that_the_first_one_had_when_the_transcript_is(
    bench: Bench, state: str
) -> None:
    live, expected = STATES[state]
    bench.write(conversation=FIRST)
    for _ in range(3):
        bench.write(conversation=live)
        assert bench.files() == {f"{place}/{C}": text for place, text in expected.items()}
    assert [*bench.archives.iterdir()] == [bench.archive.path]


@pytest.mark.parametrize("second", [True, False])
def test_transcript_that_the_session_no_longer_names_stays(bench: Bench, second: bool) -> None:
    bench.write(conversation=FIRST)
    bench.write(other="new\n") if second else bench.write()
    assert bench.files()[f"transcripts/{C}"] == FIRST


def test_generations_are_numbered_and_go_when_the_transcript_begins_with_them(bench: Bench) -> None:
    for text in ("a\n", "b\n", "c\n"):
        bench.write(conversation=text)
    assert bench.files() == {
        f"transcripts/{C}": "c\n",
        f"transcripts-1/{C}": "a\n",
        f"transcripts-2/{C}": "b\n",
    }
    bench.write(conversation="a\nb\nc\n")  # as after a restore that joined two of them
    assert bench.files() == {
        f"transcripts/{C}": "a\nb\nc\n",
        f"transcripts-2/{C}": "b\n",
        f"transcripts-3/{C}": "c\n",
    }


def test_transcript_that_shrinks_while_it_is_copied_does_not_cost_the_earlier_copy(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.write(conversation=FIRST)
    copy = copies.copy

    def shrinks(source: FilePart, target: int, at: int) -> int:
        (bench.live / C).write_text("one")
        return copy(source, target, at)

    monkeypatch.setattr(tar_files, "copy", shrinks)
    bench.write(conversation=FIRST + "four\n")
    assert FIRST in bench.files().values()


def free(patch: pytest.MonkeyPatch, size: int) -> None:
    real = os.statvfs("/")
    patch.setattr(
        os, "statvfs", lambda path: os.statvfs_result([real[0], 1, *real[2:4], size * 4, *real[5:]])
    )


def test_archive_of_an_almost_full_disk_keeps_the_whole_one_before_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.write(conversation=FIRST)
    with monkeypatch.context() as patch:
        free(patch, 5)
        assert bench.write(conversation=FIRST + "four\n") == len(FIRST) + 5 - 5
        assert bench.files() == {f"transcripts/{C}": "four\n", f"transcripts-1/{C}": FIRST}
        free(patch, 0)
        bench.write(conversation=FIRST + "four\nfive\n")
        assert bench.files() == {f"transcripts/{C}": "four\n", f"transcripts-1/{C}": FIRST}
        cut = json.loads((bench.archive / "cut.json").read_text())
        assert cut == {f"transcripts/{C}": {"kept_bytes": 5, "bytes": len(FIRST) + 5}}
    bench.write(conversation=FIRST + "four\nfive\n")
    assert bench.files() == {f"transcripts/{C}": FIRST + "four\nfive\n"}
    assert not (bench.archive / "cut.json").exists()


def test_full_archive_keeps_what_it_has(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_transcripts, "_ARCHIVE_MAX_BYTES", 20)
    for number in range(6):
        bench.write(conversation=f"{FIRST}{number}\n" if number % 2 else f"{number}\n{FIRST}")
        assert sum(map(len, bench.files().values())) <= 2 * 20
        assert f"0\n{FIRST}" in bench.files().values()


def test_archive_that_is_written_again_takes_no_more_room(bench: Bench) -> None:
    bench.write(conversation=FIRST)
    before = bench.archive.path.read_bytes()
    for _ in range(2):
        bench.write(conversation=None)
        assert len(bench.archive.path.read_bytes()) == len(before)


class Killed(BaseException):
    """The end of the process: no handler of errors runs."""


CALLS = ("makedirs", "rename", "unlink", "rmdir", "fsync", "open", "sendfile", "pwrite", "ftruncate")


def killed_at(patch: pytest.MonkeyPatch, step: int) -> Callable[[], int]:
    """End the process before its call number `step` that changes the disk. Returns the counter."""
    count = 0

    def wrap(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            if count == step:
                raise Killed
            return real(*arguments, **options)

        return call

    for name in CALLS:
        patch.setattr(os, name, wrap(getattr(os, name)))
    return lambda: count


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("live", [FIRST + "four\n", "four\n", "one\n", None])
def test_conversation_survives_a_kill_at_each_step_of_the_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, live: str | None, older: bool
) -> None:
    step = 1
    while True:
        directory = tmp_path / str(step)
        directory.mkdir()
        bench = Bench(directory)
        bench.write(conversation=FIRST)
        if older:
            bench.archive.unpack()
        try:
            with monkeypatch.context() as patch:
                killed_at(patch, step)
                bench.write(conversation=live)
        except Killed:
            pass
        else:
            break
        # The transcript goes before the archive is written again.
        bench.write(conversation=None)
        assert any(text.startswith(FIRST) for text in bench.files().values()), step
        assert [*bench.archives.iterdir()] == [bench.archive.path]
        step += 1
    assert step > 10


def test_archive_of_an_earlier_version_is_taken_over(bench: Bench) -> None:
    for lines, text in ((["one"] * 3, "a\n"), (["two"] * 2, "b\n"), (["three"], "c\n")):
        bench.write(lines=lines, conversation=text)
    before = bench.archive.texts()
    assert len(before) == 6
    bench.archive.unpack()
    (bench.archives / f"{ID}.old").mkdir()
    write_archive(str(bench.archives), ID, ArchiveContents(), None)
    assert bench.archive.texts() == before
    assert [*bench.archives.iterdir()] == [bench.archive.path]


def test_file_whose_name_is_no_unicode_is_kept_and_given_back(bench: Bench) -> None:
    (bench.live / "\udcff.jsonl").write_text(FIRST)
    name = "projects/\udcff.jsonl"
    transcripts = {name: partial(opened, bench.live / "\udcff.jsonl")}
    for _ in range(2):
        write_archive(str(bench.archives), ID, ArchiveContents({}, transcripts), None)
        (kept,) = kept_transcripts.kept_transcripts(str(bench.archives / ID))
        with kept.open() as part:
            assert (kept.name, part.read(0, 100)) == (name, FIRST.encode())
        transcripts = {}


@pytest.mark.parametrize("cut", [600, 1200, -1024])
def test_damaged_archive_is_not_replaced(bench: Bench, cut: int) -> None:
    bench.write(conversation="one\n" * 1000)
    damaged = bench.archive.path.read_bytes()[:cut] if cut > 0 else b"no archive"
    bench.archive.path.write_bytes(damaged)
    for _ in range(2):
        with pytest.raises(OSError, match="the archive is damaged"):
            bench.write(conversation="two\n")
        (unreadable,) = kept_transcripts.kept_transcripts(str(bench.archives / ID))
        assert unreadable.name == ""
        with pytest.raises(OSError, match="the archive is damaged"), unreadable.open():
            pass
        assert kept_transcripts.has_only_copy(str(bench.archives / ID), {})
    assert bench.archive.path.read_bytes() == damaged
    assert [*bench.archives.iterdir()] == [bench.archive.path]


def test_recovery_prefers_the_complete_archive(tmp_path: Path) -> None:
    path = tmp_path / ID
    for end, text in ((".ready", "richer"), (".old", "poorer"), (".new", "half")):
        (tmp_path / f"{ID}{end}").mkdir()
        (tmp_path / f"{ID}{end}" / "f").write_text(text)
    recover(str(path))
    assert (path / "f").read_text() == "richer"
    assert [p.name for p in tmp_path.iterdir()] == [ID]


def test_rows_of_the_earlier_archive_that_the_database_lost_stay() -> None:
    earlier = [{"id": 1, "text": "a"}, {"id": 2, "text": "b"}]
    assert merge_rows(earlier, [{"id": 2, "text": "c"}, {"id": 3, "text": "d"}]) == [
        {"id": 1, "text": "a"},
        {"id": 2, "text": "c"},
        {"id": 3, "text": "d"},
    ]
    assert merge_rows(earlier, []) == earlier
    assert merge_rows([], earlier) == earlier


def test_sums_of_the_earlier_archive_stay_when_those_of_the_database_are_smaller() -> None:
    def usage(output: int, model: str = "m") -> dict[str, Any]:
        return {"message_id": "", "model": model, "at": "", "input": 5, "output": output}

    merged = merge_usage(
        {"models": [usage(9), usage(1, "n")], "tools": {"Bash": 3}},
        {"models": [usage(2)], "tools": {"Bash": 1, "Read": 1}},
    )
    assert merged == {"models": [usage(9), usage(1, "n")], "tools": {"Bash": 3, "Read": 1}}


def test_output_of_a_terminal_that_was_cleared_stays_beside_the_rest(bench: Bench) -> None:
    bench.write(lines=["one", "two", "three"])
    bench.write(lines=["bye"])
    texts = bench.archive.texts(end=".txt")
    assert texts == {"terminal.txt": "bye\n", "terminal-1.txt": "one\ntwo\nthree\n"}
