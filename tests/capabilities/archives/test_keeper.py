"""Archives of ended sessions, on a real disk."""

import asyncio
import errno
import json
import os
import tarfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from sm.capabilities.archives.files import kept_transcripts
from sm.capabilities.archives.files.writer import ArchiveContents, write_archive
from sm.capabilities.archives.keeper import Archives
from sm.errors import LimitReached, StorageFull
from sm.terminals.base import Screen
from tests.archived import Archived

ID = "1a2b3c4d"
HOLE_BYTES = 64 * 2**20


class FixedScreen:
    async def capture(self, name: str, lines: int) -> list[str]:
        return [f"the output of {name}"]


class WaitingScreen:
    """Captures when the test says so."""

    def __init__(self) -> None:
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def capture(self, name: str, lines: int) -> list[str]:
        self.asked.set()
        await self.go.wait()
        return ["words"]


class FixedRecords:
    def __init__(self) -> None:
        self.contents: ArchiveContents | None = ArchiveContents()
        self.terminals = list[Sequence[str]]()

    async def collect(self, session_id: str) -> ArchiveContents | None:
        return self.contents

    async def add_terminal(self, session_id: str, lines: Sequence[str], since_s: float) -> None:
        self.terminals.append(lines)


@contextmanager
def opened(path: Path) -> Iterator[int | None]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def transcripts(directory: Path, **texts: str) -> ArchiveContents:
    for name, text in texts.items():
        (directory / name).write_text(text)
    return ArchiveContents(transcripts={name: partial(opened, directory / name) for name in texts})


def set_free_bytes(patch: pytest.MonkeyPatch, free: int) -> None:
    real = os.statvfs("/")
    # With blocks of one byte.
    patch.setattr(os, "statvfs", lambda path: os.statvfs_result([real[0], 1, *real[2:4], free, *real[5:]]))


@pytest.fixture
def archived(tmp_path: Path) -> Path:
    """The place of the archives."""
    (tmp_path / "archives").mkdir()
    return tmp_path / "archives"


async def test_keep_raises_storage_full_and_leaves_no_partial_file_when_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Archives(str(tmp_path), cast(Screen, FixedScreen()))

    def full(*paths: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", full)
        with pytest.raises(StorageFull):
            await kept.keep(ID, "command-1a2b3c4d", 0.0)
    assert list(tmp_path.iterdir()) == []
    assert kept.written_bytes == 0
    assert await kept.keep(ID, "command-1a2b3c4d", 0.0) is None
    assert (Archived(tmp_path / ID) / "terminal.txt").read_text() == "the output of command-1a2b3c4d\n"
    assert kept.written_bytes > 0


def test_earlier_archive_stays_when_the_new_one_cannot_take_its_place(
    archived: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_archive(str(archived), ID, ArchiveContents({"a.json": 1}), ["first"])

    def fails(source: str, target: str) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", fails)
        with pytest.raises(OSError, match="Input/output error"):
            write_archive(str(archived), ID, ArchiveContents({"b.json": 2}), ["second"])
    assert [*archived.iterdir()] == [archived / f"{ID}.tar"]
    assert sorted(Archived(archived / ID).files()) == ["a.json", "terminal.txt"]


@pytest.mark.parametrize("left", ["new", "old", "tar.new"])
def test_archive_follows_no_link_that_stands_in_its_place(archived: Path, tmp_path: Path, left: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").write_text("mine")
    for place in (archived / ID, archived / f"{ID}.{left}", archived / f"{ID}.tar"):
        place.symlink_to(elsewhere)
    write_archive(str(archived), ID, ArchiveContents({"a.json": 1}), ["words"])
    assert [p.name for p in elsewhere.iterdir()] == ["file"]
    assert [*archived.iterdir()] == [archived / f"{ID}.tar"]
    assert not (archived / f"{ID}.tar").is_symlink()


@pytest.mark.parametrize("end", ["", "/", "//", "/.", "/./"])
async def test_archive_is_not_written_to_a_directory_that_is_a_link(tmp_path: Path, end: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "archives").symlink_to(tmp_path / "elsewhere")
    archives = Archives(f"{tmp_path}/archives{end}", cast(Screen, FixedScreen()))
    assert (
        await archives.keep(ID, "command-1a2b3c4d", 0.0)
        == f"its archive could not be saved in {tmp_path}/archives: it is a link"
    )
    assert list((tmp_path / "elsewhere").iterdir()) == []


async def test_outputs_of_earlier_processes_stay_in_the_archive(archived: Path) -> None:
    archives = Archives(str(archived), cast(Screen, FixedScreen()))
    for number in range(8):
        began_s = 1_000_000.0 * (1 + number)
        for _ in range(2):  # as after a crash of the daemon
            assert await archives.keep(ID, f"process {number}", began_s) is None
            (Archived(archived / ID) / "terminal.txt").set_time(began_s + 1)
    outputs = Archived(archived / ID).texts()
    assert outputs == {
        "terminal.txt": "the output of process 7\n",
        **{f"terminal-{number}.txt": f"the output of process {number - 1}\n" for number in range(3, 8)},
    }
    assert [*archived.iterdir()] == [archived / f"{ID}.tar"]


async def test_output_stays_when_its_terminal_is_gone(archived: Path) -> None:
    (archived / f"{ID}.txt").write_text("of an older version\n")
    for _ in range(2):
        write_archive(str(archived), ID, ArchiveContents(), None, time.time() + 1000)
        assert (Archived(archived / ID) / "terminal.txt").read_text() == "of an older version\n"
    assert [*Archived(archived / ID).files()] == ["terminal.txt"]
    assert [*archived.iterdir()] == [archived / f"{ID}.tar"]


def test_transcripts_of_an_archive_share_a_limit_and_the_end_of_the_file_above_it_stays(
    tmp_path: Path, archived: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_transcripts, "_TRANSCRIPTS_MAX_BYTES", 10)
    contents = transcripts(tmp_path, newest="123456", before="abcdefgh", oldest="xyz", empty="")
    write_archive(str(archived), ID, contents, [])
    found = Archived(archived / ID).texts("transcripts/")
    assert found == {"newest": "123456", "before": "efgh", "oldest": "", "empty": ""}
    assert json.loads((Archived(archived / ID) / "cut.json").read_text()) == {
        "transcripts/before": {"bytes": 8, "kept_bytes": 4},
        "transcripts/oldest": {"bytes": 3, "kept_bytes": 0},
    }


def test_transcript_that_cannot_be_read_is_named_and_all_others_are_kept(
    tmp_path: Path, archived: Path
) -> None:
    def refused() -> AbstractContextManager[int | None]:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "hidden")

    readable = transcripts(tmp_path, readable="words")
    write_archive(
        str(archived), ID, ArchiveContents({}, {"hidden": refused, **readable.transcripts}), ["line"]
    )
    assert [*Archived(archived / ID).texts("transcripts/")] == ["readable"]
    assert (Archived(archived / ID) / "terminal.txt").read_text() == "line\n"
    assert json.loads((Archived(archived / ID) / "cut.json").read_text()) == {
        "transcripts/hidden": {"kept_bytes": 0, "error": "Permission denied"}
    }


def test_transcripts_of_an_archive_leave_most_of_the_free_space_free(
    tmp_path: Path, archived: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_free_bytes(monkeypatch, 12)
    write_archive(str(archived), ID, transcripts(tmp_path, only="abcdefgh"), [])
    assert (Archived(archived / ID) / "transcripts/only").read_text() == "fgh"


async def test_transcripts_cut_for_want_of_free_space_are_a_failure_and_the_archive_stays(
    tmp_path: Path, archived: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = FixedRecords()
    records.contents = transcripts(tmp_path, newest="abcdefgh", before="xyz")
    archives = Archives(str(archived), cast(Screen, FixedScreen()), records)
    with monkeypatch.context() as patch:
        set_free_bytes(patch, 36)
        assert await archives.keep(ID, "command-1a2b3c4d", 0.0) == (
            f"its archive in {archived} lacks 2 bytes of transcripts: free disk space is low"
        )
    assert archives.trouble is not None and "free disk space is low" in archives.trouble
    assert (Archived(archived / ID) / "transcripts/newest").read_text() == "abcdefgh"
    assert records.terminals == [["the output of command-1a2b3c4d"]]
    assert archives.written_bytes > 0
    assert await archives.keep(ID, "command-1a2b3c4d", 0.0) is None
    assert archives.trouble is None


async def test_transcripts_cut_at_the_limit_of_an_archive_are_no_failure(
    tmp_path: Path, archived: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_transcripts, "_TRANSCRIPTS_MAX_BYTES", 3)
    set_free_bytes(monkeypatch, 12)
    records = FixedRecords()
    records.contents = transcripts(tmp_path, only="abcdefgh")
    archives = Archives(str(archived), cast(Screen, FixedScreen()), records)
    assert await archives.keep(ID, "command-1a2b3c4d", 0.0) is None
    assert archives.trouble is None


def test_archive_that_was_not_cut_has_no_list_of_cuts(tmp_path: Path, archived: Path) -> None:
    write_archive(str(archived), ID, transcripts(tmp_path, whole="words"), [])
    assert not (Archived(archived / ID) / "cut.json").exists()


@pytest.mark.parametrize("ending", [b"the end", b""])
def test_holes_of_a_transcript_take_no_room_in_its_archive(
    tmp_path: Path, archived: Path, ending: bytes
) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.write(b"begin")
        file.seek(HOLE_BYTES)
        file.write(ending)
        file.truncate()
    contents = ArchiveContents(transcripts={"sparse": partial(opened, tmp_path / "sparse")})
    write_archive(str(archived), ID, contents, [])
    copy = Archived(archived / ID) / "transcripts/sparse"
    assert copy.read_bytes() == b"begin" + bytes(HOLE_BYTES - 5) + ending
    assert copy.archive.path.stat().st_blocks * 512 < 2**20
    (entry,) = Archives(str(archived), cast(Screen, FixedScreen())).entries()
    assert entry.size_bytes < 2**20


async def test_archive_of_a_session_that_is_removed_meanwhile_does_not_stay(archived: Path) -> None:
    screen, records = WaitingScreen(), FixedRecords()
    archives = Archives(str(archived), cast(Screen, screen), records)
    keeping = asyncio.create_task(archives.keep(ID, "command-1a2b3c4d", 0.0))
    await screen.asked.wait()
    records.contents = None
    removing = asyncio.create_task(archives.remove(ID))
    await asyncio.sleep(0)  # it begins
    screen.go.set()
    assert await keeping is None
    await removing
    assert list(archived.iterdir()) == []
    assert await archives.keep(ID, "command-1a2b3c4d", 0.0) is None
    assert list(archived.iterdir()) == []


@pytest.mark.parametrize(
    "place", [ID, f"{ID}.txt", f"{ID}.old", f"{ID}.deleted", f"{ID}.tar", f"{ID}.tar.deleted"]
)
async def test_remove_returns_the_reason_when_a_part_of_the_archive_is_left(
    archived: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    archives = Archives(str(archived), cast(Screen, FixedScreen()))
    if ".t" in place:
        (archived / place).write_text("of an older version")
    else:
        (archived / place).mkdir()
        (archived / place / "terminal.txt").write_text("words")

    def refused(path: str, **options: int | None) -> None:
        if str(path).endswith(".txt"):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        real(path, **options)

    real = os.unlink
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refused)
        assert await archives.remove(ID) == (
            f"its archive could not be deleted from {archived}: Read-only file system"
        )
    assert await archives.remove(ID) is None
    assert list(archived.iterdir()) == []
    assert await archives.remove(ID) is None


@pytest.mark.parametrize("directory", ["missing", "file/below"])
async def test_remove_has_nothing_to_do_without_an_archive(tmp_path: Path, directory: str) -> None:
    (tmp_path / "file").touch()
    assert await Archives(str(tmp_path / directory), cast(Screen, FixedScreen())).remove(ID) is None


async def test_archive_that_was_set_aside_is_listed_until_it_is_removed(archived: Path) -> None:
    archives = Archives(str(archived), cast(Screen, FixedScreen()))
    for _ in range(2):  # the second time over a leftover
        write_archive(str(archived), ID, ArchiveContents(), ["words"])
        (archived / f"{ID}.txt").write_text("of an older version")
        assert await archives.set_aside(ID) is None
        assert not archives.has(ID)
        assert [entry.session_id for entry in archives.entries()] == [ID]
    before = archives.entries()
    assert await archives.set_aside(ID) is None
    assert archives.entries() == before
    await archives.remove(ID)
    assert list(archived.iterdir()) == []


def test_third_export_at_the_same_time_is_refused(archived: Path) -> None:
    archives = Archives(str(archived), cast(Screen, FixedScreen()))
    with archives.export(), archives.export(), pytest.raises(LimitReached), archives.export():
        pass
    with archives.export(), archives.export():
        pass


async def test_output_of_a_process_that_still_runs_is_not_all_that_is_to_be_kept(archived: Path) -> None:
    records = FixedRecords()
    archives = Archives(str(archived), cast(Screen, FixedScreen()), records)
    for exit, is_kept in ((None, False), ({"code": 0, "signal": None}, True)):
        records.contents = ArchiveContents({"session.json": {"exit": exit}})
        assert await archives.keep(ID, "claude-1", time.time()) is None
        assert await archives.read(ID, 10, 0) == ["the output of claude-1"]
        assert await archives.is_kept(ID, 0) is is_kept
    Archived(archived / ID).change("session.json", b"{")
    assert await archives.is_kept(ID, 0)


def packed(archives: Archives) -> dict[str, tuple[bytes, float]]:
    """The contents and times of the files in an export."""
    with archives.packed(ID) as file, tarfile.open(fileobj=file, mode="r:gz") as tar:
        members = {member.name: (tar.extractfile(member), member.mtime) for member in tar.getmembers()}
        return {name: (content.read(), at_s) for name, (content, at_s) in members.items() if content}


async def test_archive_of_an_earlier_version_is_read_and_exported_as_the_present_one(
    archived: Path, tmp_path: Path
) -> None:
    records = FixedRecords()
    records.contents = replace(transcripts(tmp_path, one="words"), records={"session.json": {"exit": {}}})
    archives = Archives(str(archived), cast(Screen, FixedScreen()), records)
    assert await archives.keep(ID, "claude-1", 0.0) is None
    exported, times = packed(archives), (0.0, time.time() + 1000)
    assert {name.partition("/")[0] for name in exported} == {ID}

    async def read() -> list[object]:
        (copy,) = archives.transcripts(ID)
        with copy.open() as part:
            text = part.read(0, part.size)
        kept = [await archives.is_kept(ID, at_s) for at_s in times]
        return [text, kept, *[await archives.read(ID, 9, at_s) for at_s in times], archives.has(ID)]

    before = await read()
    assert before == [b"words", [True, False], ["the output of claude-1"], None, True]
    Archived(archived / ID).unpack()
    assert await read() == before
    assert {name: data for name, (data, _) in packed(archives).items()} == {
        name: data for name, (data, _) in exported.items()
    }
    assert await archives.remove(ID) is None
    assert list(archived.iterdir()) == []
