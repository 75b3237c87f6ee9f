"""The recordings of the real claude: their files, their placeholders, and how they differ."""

import re
from functools import cache
from pathlib import Path

import pytest

from tests.claude_cli import VERSION
from tests.record.catalogue import SCENES
from tests.record.comparison import differences
from tests.record.placeholders import AT_MS, HOME, PID, Placeholders
from tests.record.readings import golden_of, text_of_readings
from tests.record.recording import KINDS, RECORDINGS, Scene, places, read, scene_in, store, text_of, versions
from tests.record.shapes import lines_of, merged

TOTAL_MAX_BYTES = 1_500_000
STOP = {"hook_event_name": "Stop", "session_id": "0b0e7c1e", "tasks": [{"status": "running", "n": 1}]}
BARE = {"hook_event_name": "Stop", "session_id": "0b0e7c1f", "tasks": []}
EMPTY: Scene = {kind: [] for kind in KINDS}


@cache
def recorded(version: str) -> dict[str, Scene]:
    return read(version)


def test_recordings_are_of_the_pin_and_of_three_newer_versions_and_small() -> None:
    assert VERSION in versions()
    assert len(versions()) >= 4
    assert sum(file.stat().st_size for file in RECORDINGS.rglob("*") if file.is_file()) < TOTAL_MAX_BYTES


@pytest.mark.parametrize("version", versions())
def test_recording_has_every_scene_and_its_golden_file(version: str) -> None:
    files = places(version)
    assert set(files) == set(SCENES)
    for name, file in files.items():
        assert text_of_readings(recorded(version)[name]) == golden_of(file).read_text(encoding="utf-8"), (
            f"the readers say something else about {name} of {version}; "
            "if that is right: python -m tests.record --read"
        )


@pytest.mark.parametrize("version", versions())
def test_recording_has_nothing_of_the_machine_that_made_it(version: str) -> None:
    for name, scene in recorded(version).items():
        text = text_of(scene)
        assert not re.search(r"/tmp/record-|-tmp-record-|\broot@|/wt/|node_modules", text), name
        assert version not in text, name
        assert not re.search(r"(?<![a-z]-)20(?!26-01-01)\d\d-\d\d-\d\dT", text), name


@pytest.mark.parametrize("name", ["permission", "clear", "start", "unknown-option"])
def test_scene_survives_its_text(name: str) -> None:
    scene = recorded(VERSION)[name]
    assert scene_in(text_of(scene)) == scene


def test_scene_of_an_older_version_is_stored_only_if_it_differs(tmp_path: Path) -> None:
    other: Scene = {**EMPTY, "said": ["another"]}
    recordings = {"2.1.9": {"start": EMPTY, "exit": other}, "2.1.10": {"start": EMPTY, "exit": EMPTY}}
    store(recordings, tmp_path)
    assert {version: read(version, tmp_path) for version in versions(tmp_path)} == recordings
    assert versions(tmp_path) == ["2.1.9", "2.1.10"]
    assert sorted(file.name for file in (tmp_path / "2.1.9").iterdir()) == ["exit.json", "same.txt"]
    store({**recordings, "2.1.10": {"start": other, "exit": other}}, tmp_path)
    assert read("2.1.9", tmp_path) == recordings["2.1.9"]


def test_placeholder_has_the_form_and_the_length_of_its_value() -> None:
    places = Placeholders("/opt/claude", "2.1.332", [777], "2026-11-29")
    root = "/tmp/record-0a1b2c3d"
    assert len(root) == len(HOME)
    seen = {
        "session_id": "ab86cf2d-a10b-45c0-adeb-b5454f15fe59",
        "cwd": f"{root}/app",
        "transcript_path": "/x/-tmp-record-0a1b2c3d-app/ab86cf2d-a10b-45c0-adeb-b5454f15fe59.jsonl",
        "pid": 777,
        "version": "2.1.332",
        "updatedAt": 1795953923153,
        "durationMs": 48,
        "tool_use_id": "toolu_18ec82945b5ebcee000200",
    }
    assert places.value(seen) == {
        "session_id": "00000000-0000-4000-8000-000000000001",
        "cwd": f"{HOME}/app",
        "transcript_path": "/x/-home-ann-recordings-app/00000000-0000-4000-8000-000000000001.jsonl",
        "pid": PID,
        "version": "0.0.0",
        "updatedAt": AT_MS,
        "durationMs": 1,
        "tool_use_id": "toolu_00000001",
    }
    assert places.rows(
        [
            "✶ Synthesizing… (40s · ↓ 16 tokens)",
            "✻ Brewed for 12s · done 12:05 PM",
            "✻ Brewed for 12s · done 9:41 AM",
        ]
    ) == [
        "✻ Working… (0s · ↓ 1 tokens)",
        "✻ Worked for 0s · done 9:00 PM",
        "✻ Worked for 0s · done 9:00 PM",
    ]


def test_shape_has_no_text_but_the_words_of_claude() -> None:
    assert sorted(lines_of({**STOP, "files": {"/tmp/a b": True}})) == [
        ("", "object"),
        (".files", "object"),
        (".files.*", "true or false"),
        (".hook_event_name", "`Stop`"),
        (".session_id", "text"),
        (".tasks", "list"),
        (".tasks[]", "object"),
        (".tasks[].n", "number"),
        (".tasks[].status", "`running`"),
    ]


def test_path_is_optional_only_where_its_holder_lacks_it() -> None:
    shape = merged([lines_of(STOP), lines_of(BARE)])
    assert shape[".session_id"] == (True, frozenset({"text"}))
    assert shape[".tasks[]"] == (False, frozenset({"object"}))
    assert shape[".tasks[].n"] == (True, frozenset({"number"}))


def test_difference_of_two_recordings_is_told_once() -> None:
    view = {"name": "idle", "size": "80x24", "title": "x", "state": None, "screen": ["one", "two"]}
    old = {"start": {**EMPTY, "hooks": [STOP], "views": [view]}, "gone": EMPTY}
    new_view = {**view, "screen": ["one", "three"]}
    hooks = [{**STOP, "extra": 1}, {"hook_event_name": "SessionEnd"}]
    new = {"start": {**EMPTY, "hooks": hooks, "views": [new_view, {**new_view, "name": "later"}]}}
    assert list(differences(old, new)) == [
        "+ hook SessionEnd",
        "+ .extra number: hook Stop",
        "start: hooks",
        "  + SessionEnd",
        "start: screen idle 80x24",
        "  - two",
        "  + three",
        "start: screen later 80x24",
        "  + title: x",
        "  + state: none",
        "  + one",
        "gone: no longer recorded",
    ]
    assert list(differences(old, old)) == []
