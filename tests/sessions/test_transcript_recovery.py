"""The transcript of a new process, for each state of the old one. docs/lifecycle.md has the table."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from sm.capabilities.archives.files.kept_transcripts import kept_transcripts
from sm.linux.placed_files import PlacedFile
from sm.providers.claude.transcript import ClaudeTranscriptReader
from sm.sessions.transcript_recovery import Recovery, has_copy, recovery_of

READER = ClaudeTranscriptReader()
CONVERSATION = "5e55aaaa-0000-4000-8000-000000000001"


def line(number: int, follows: int | None) -> str:
    entry = {
        "type": "user",
        "uuid": f"u{number}",
        "parentUuid": None if follows is None else f"u{follows}",
        "timestamp": f"2026-11-28T10:00:0{number}.000Z",
    }
    return json.dumps(entry) + "\n"


ONE, TWO, THREE, FOUR = line(1, None), line(2, 1), line(3, 2), line(4, 3)
WHOLE = ONE + TWO + THREE
OTHER = line(8, None) + line(9, 8)
PLAN, MANUAL = (
    json.dumps({"type": "permission-mode", "permissionMode": m}) + "\n" for m in ("plan", "manual")
)
MODES = PLAN + ONE + MANUAL + TWO + PLAN + THREE
"""claude writes some lines again, and the last one of a kind counts."""
GARBAGE = "\0\0\0\n"
LOST = "the conversation before {} is lost: its transcript begins there"


class Bench:
    def __init__(self, directory: Path) -> None:
        self.archive, self.root = directory / "archive", directory / "projects"
        self.place = PlacedFile(str(self.root), ("-srv-shop", f"{CONVERSATION}.jsonl"), follow=True)
        self.path = Path(self.place.path)

    def put(self, text: str | None) -> None:
        if text is not None:
            self.path.parent.mkdir(parents=True)
            self.path.write_text(text)

    def put_archived(self, *texts: str | None) -> None:
        """The transcripts in the archive, the newest first."""
        for number, text in enumerate(texts):
            place = self.archive / (f"transcripts-{len(texts) - number}" if number else "transcripts")
            if text is not None:
                place.mkdir(parents=True)
                (place / self.path.name).write_text(text)

    def recovery(self, *, living: bool = False, elsewhere: Sequence[str] = ()) -> Recovery:
        return recovery_of(
            self.place, CONVERSATION, READER, kept_transcripts(str(self.archive)), elsewhere, living=living
        )

    def text(self) -> str | None:
        return self.path.read_text() if self.path.exists() else None


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


MORE = "its archive has 3 more entries; sm export writes them to a file"
STATES: dict[str, tuple[str | None, tuple[str | None, ...], str | None, str | None]] = {
    # state of the transcript: (the transcript, the archive, what the process gets, what is lost)
    "there, no archive": (WHOLE, (), WHOLE, None),
    "there, as in the archive": (WHOLE, (WHOLE,), WHOLE, None),
    "longer than the archive": (WHOLE + FOUR, (WHOLE,), WHOLE + FOUR, None),
    "gone": (None, (WHOLE,), WHOLE, None),
    "empty": ("", (WHOLE,), WHOLE, None),
    "shorter than the archive": (ONE, (WHOLE,), WHOLE, None),
    "ends in a partial line, archive has the line": (ONE + TWO[:20], (WHOLE,), WHOLE, None),
    "ends in a partial line, no archive": (ONE + TWO[:20], (), ONE + TWO[:20], None),
    "begins in the middle, archive has the beginning": (FOUR, (WHOLE,), WHOLE + FOUR, None),
    "begins in the middle, the beginning is an earlier archive": (FOUR, (FOUR, WHOLE), WHOLE + FOUR, None),
    "gone, archived in two parts": (None, (FOUR, WHOLE), WHOLE + FOUR, None),
    "begins in the middle, no archive": (FOUR, (), FOUR, LOST.format("2026-11-28T10:00:04.000Z")),
    "begins in the middle, archive too": (
        None,
        (THREE + FOUR,),
        THREE + FOUR,
        LOST.format("2026-11-28T10:00:03.000Z"),
    ),
    "gone, lines come again": (None, (MODES,), MODES, None),
    "shorter than the archive, lines come again": (PLAN + ONE, (MODES,), MODES, None),
    "gone, archived in two parts, lines come again": (
        None,
        (FOUR + MANUAL, MODES),
        MODES + FOUR + MANUAL,
        None,
    ),
    "gone, archived in two parts, the later one begins with a mode": (
        None,
        (MANUAL + FOUR, MODES),
        MODES + MANUAL + FOUR,
        None,
    ),
    "gone, archived twice, lines come again": (None, (MODES + FOUR + PLAN, MODES), MODES + FOUR + PLAN, None),
    "replaced by another": (OTHER, (WHOLE,), OTHER, MORE),
    "damaged": (GARBAGE, (WHOLE,), WHOLE, None),
    "damaged, no archive": (GARBAGE, (), GARBAGE, None),
    "gone, archive ends in a partial line": (None, (ONE + TWO + THREE[:9],), ONE + TWO, None),
}


@pytest.mark.parametrize("state", STATES)
def test_new_process_gets_the_richest_transcript_when_it_is(bench: Bench, state: str) -> None:
    live, archived, expected, loss = STATES[state]
    bench.put(live)
    bench.put_archived(*archived)
    found = bench.recovery()
    assert bench.text() == live  # nothing is written by looking
    found.carry_out()
    assert (bench.text(), found.loss, found.refusal) == (expected, loss, None)
    again = bench.recovery()
    assert again.pieces is None
    assert os.listdir(bench.path.parent)[:1] and not any(
        n.startswith(".") for n in os.listdir(bench.path.parent)
    )


REFUSALS: dict[str, tuple[str | None, tuple[str | None, ...], str]] = {
    "gone, no archive": (None, (), "is gone, and no archive has it"),
    "empty, no archive": ("", (), "is empty, and no archive has it"),
    "gone, archive damaged": (None, (GARBAGE,), "is gone, and its archive has no readable entry of it"),
    "gone, archive empty": (None, ("",), "is gone, and its archive has no readable entry of it"),
}


@pytest.mark.parametrize("state", REFUSALS)
def test_conversation_without_a_readable_entry_is_refused_and_nothing_is_written_when_it_is(
    bench: Bench, state: str
) -> None:
    live, archived, reason = REFUSALS[state]
    bench.put(live)
    bench.put_archived(*archived)
    found = bench.recovery()
    found.carry_out()
    assert found.refusal == f"the transcript {bench.path} {reason}"
    assert bench.text() == live


def test_archive_that_cannot_be_read_is_named(bench: Bench) -> None:
    bench.put_archived(WHOLE)
    archived = bench.archive / "transcripts" / bench.path.name
    refused = bench.recovery
    real = os.open

    def opens(path: str, *arguments: int, **options: int) -> int:
        if str(path) == str(archived):
            raise OSError(5, "Input/output error", path)
        return real(path, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", opens)
        assert refused().refusal == (
            f"the transcript {bench.path} is gone, and its archive cannot be read (Input/output error)"
        )


@pytest.mark.parametrize("there", ["link", "directory"])
def test_something_else_in_the_place_of_the_transcript_is_left_alone(
    bench: Bench, tmp_path: Path, there: str
) -> None:
    bench.put_archived(WHOLE)
    bench.path.parent.mkdir(parents=True)
    (tmp_path / "target").write_text("mine")
    if there == "link":
        bench.path.symlink_to(tmp_path / "target")
    else:
        bench.path.mkdir()
    found = bench.recovery()
    found.carry_out()
    assert found.loss is not None and "cannot be compared with its archive" in found.loss
    assert (tmp_path / "target").read_text() == "mine"


def test_link_in_the_way_to_the_transcript_is_not_followed(bench: Bench, tmp_path: Path) -> None:
    bench.put_archived(WHOLE)
    bench.root.mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (bench.root / "-srv-shop").symlink_to(elsewhere)
    found = bench.recovery()
    found.carry_out()
    assert found.loss is not None
    assert "cannot be compared" in found.loss
    assert os.listdir(elsewhere) == []


def test_transcript_in_another_directory_is_copied(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "old.jsonl").write_text(WHOLE)
    found = bench.recovery(elsewhere=[str(tmp_path / "old.jsonl")])
    found.carry_out()
    assert bench.text() == (tmp_path / "old.jsonl").read_text() == WHOLE


def test_damaged_transcript_stays_under_another_name(bench: Bench) -> None:
    bench.put(GARBAGE)
    bench.put_archived(WHOLE)
    bench.recovery().carry_out()
    (aside,) = (p for p in bench.path.parent.iterdir() if p != bench.path)
    assert aside.read_text() == GARBAGE
    assert aside.name.endswith(".damaged")


@pytest.mark.parametrize("live", [FOUR, ONE, GARBAGE])
def test_transcript_of_a_live_process_is_not_replaced_and_the_loss_is_said(bench: Bench, live: str) -> None:
    bench.put(live)
    bench.put_archived(WHOLE)
    found = bench.recovery(living=True)
    found.carry_out()
    assert bench.text() == live
    assert found.loss is not None


def test_missing_transcript_of_a_live_process_comes_back(bench: Bench) -> None:
    bench.put_archived(WHOLE)
    bench.recovery(living=True).carry_out()
    assert bench.text() == WHOLE


@pytest.mark.parametrize("live", [None, ONE])
def test_transcript_that_changed_after_the_look_is_not_overwritten(bench: Bench, live: str | None) -> None:
    bench.put(live)
    bench.put_archived(WHOLE)
    found = bench.recovery()
    bench.path.parent.mkdir(parents=True, exist_ok=True)
    bench.path.write_text(WHOLE + FOUR)
    with pytest.raises(OSError, match="meanwhile"):
        found.carry_out()
    assert bench.text() == WHOLE + FOUR
    assert [p.name for p in bench.path.parent.iterdir()] == [bench.path.name]


def test_old_transcript_gets_a_new_time_because_claude_deletes_old_ones_at_its_start(bench: Bench) -> None:
    bench.put(WHOLE)
    os.utime(bench.path, (1, 1))
    recovery_of(bench.place, CONVERSATION, READER, [], now_s=10 * 86_400.0).carry_out()
    assert bench.path.stat().st_mtime > 1
    assert bench.text() == WHOLE


LARGE: dict[str, tuple[str | None, tuple[str | None, ...], int, str, str | None]] = {
    # state of the transcript: (the transcript, the archive, the bytes that its newest lacks, what comes back, the loss)
    "gone": (None, (WHOLE,), 0, WHOLE, None),
    "empty": ("", (WHOLE,), 0, WHOLE, None),
    "gone, with an earlier copy that is small": (None, (WHOLE, ONE), 0, WHOLE, None),
    "gone, with a newer copy that is small": (None, (FOUR, WHOLE), 0, WHOLE + FOUR, None),
    "gone, archived without its beginning": (
        None,
        (ONE[50:] + TWO + THREE,),
        50,
        TWO + THREE,
        "the first 50 bytes of the conversation are lost: its archive has only the rest",
    ),
    "gone, archived without its last line end": (None, (WHOLE[:-1],), 0, WHOLE, None),
}


@pytest.mark.parametrize("state", LARGE)
def test_transcript_that_is_too_large_to_compare_comes_back_when_it_is(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    monkeypatch.setattr("sm.sessions.transcript_recovery._COMPARED_MAX_BYTES", len(ONE) + 1)
    monkeypatch.setattr("sm.sessions.transcript_recovery._PIECE_BYTES", 10)
    live, archived, lacks, expected, loss = LARGE[state]
    bench.put(live)
    bench.put_archived(*archived)
    if lacks:
        kept = len(archived[0] or "")
        cuts = {f"transcripts/{bench.path.name}": {"kept_bytes": kept, "bytes": kept + lacks}}
        (bench.archive / "cut.json").write_text(json.dumps(cuts))
    found = bench.recovery()
    found.carry_out()
    assert (bench.text(), found.loss, found.refusal) == (expected, loss, None)


def test_copy_of_a_large_transcript_is_found(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sm.sessions.transcript_recovery._COMPARED_MAX_BYTES", 10)
    bench.put_archived(WHOLE)
    assert has_copy(CONVERSATION, kept_transcripts(str(bench.archive)))
    assert not has_copy("other", kept_transcripts(str(bench.archive)))
