"""Writes golden files with what the readers of the product say about a recording. Pure, except for its files."""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from sm.core.models import Process
from sm.core.turns import TurnWork
from sm.core.usage import Todo
from sm.providers.base import Box
from sm.providers.claude.box_reader import ClaudeBoxReader
from sm.providers.claude.decisions import read_dialog
from sm.providers.claude.hooks import read_hook
from sm.providers.claude.screen import State, find_start_dialog, read_end, read_screen, read_title
from sm.providers.claude.state import ClaudeStateReader
from sm.providers.claude.transcript import ClaudeTranscriptReader
from sm.providers.readers import TranscriptDelta
from tests.record.placeholders import AT_MS, PID, STARTED, compact
from tests.record.recording import RECORDINGS, SAME, Scene, places, scene_in, versions

PROCESS = Process(PID, f"boot/{STARTED}")
AT = AT_MS / 1000
_TEXT_MAX = 120
_LEFT_OUT = frozenset(
    ["at", "key", "digest", "tool_digest", "transcript", "conversation", "turn", "source", "hint", "hook"]
)
"""Fields that only repeat the time, the recording, or another field."""


def shown(value: object) -> str:
    """A short text of a value: of a dataclass the fields that differ from their defaults."""
    if isinstance(value, Enum):
        return str(value.value)
    if is_dataclass(value) and not isinstance(value, type):
        parts = []
        for each in fields(value):
            inner = getattr(value, each.name)
            default = each.default_factory() if each.default_factory is not MISSING else each.default
            if each.name not in _LEFT_OUT and (default is MISSING or inner != default):
                parts.append(f"{each.name}={shown(inner)}")
        return f"{type(value).__name__}({', '.join(parts)})"
    if isinstance(value, str):
        return repr(value if len(value) <= _TEXT_MAX else value[:_TEXT_MAX] + "…")
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {shown(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(shown(inner) for inner in value) + "]"
    return repr(value)


def deltas(file: Mapping[str, Any]) -> list[TranscriptDelta]:
    """The deltas of each line of a transcript, one after the other."""
    reader, todo, failed, work = ClaudeTranscriptReader(), tuple[Todo, ...](), False, TurnWork()
    found = []
    for line in file["lines"]:
        is_agent = file["of"] == "agent"
        delta = reader.delta(
            [compact(line).encode()], sidechain=is_agent, todo=todo, failed=failed, work=work
        )
        todo, failed, work = delta.todo, delta.failed, delta.work
        found.append(delta)
    return found


def readings(scene: Scene) -> Iterator[str]:
    """Yield a line for each recorded thing about which a reader says something."""
    for hook in scene["hooks"]:
        yield f"hook {shown(read_hook(hook, AT, expects_turn=False))}"
        if (dialog := read_dialog(hook, cut=False)) is not None:
            yield f"  {shown(dialog)}"
    for number, file in enumerate(scene["transcripts"], 1):
        nothing = TranscriptDelta()
        for line, delta in zip(file["lines"], deltas(file), strict=True):
            if delta != nothing and (said := shown(_news(delta))) != "TranscriptDelta()":
                yield f"transcript {number} {file['of']}, {line.get('type')}: {said}"
        lines = [compact(line).encode() for line in file["lines"]]
        yield f"transcript {number} {file['of']}: {shown(ClaudeTranscriptReader().last_turn(lines))}"
    for view in scene["views"]:
        rows = view["screen"]
        content, box = read_screen(rows), ClaudeBoxReader().box(rows)
        yield f"view {view['name']} {view['size']}: {shown(content)}, title {shown(read_title(view['title']))}"
        if box.closed != content.what and box != Box(None, content.composer or ""):
            yield f"  {shown(box)}"
        if content.state is State.EXITED and (ended := read_end(rows)).obstacle is not None:
            yield f"  {shown(ended)}"
        if (dialog_at_start := find_start_dialog(rows)) is not None:
            yield f"  {shown(dialog_at_start)}"
        if view["state"] is not None:
            published = compact(view["state"]).encode()
            yield f"  {shown(ClaudeStateReader().state(published, PROCESS))}"


def _news(delta: TranscriptDelta) -> TranscriptDelta:
    """The delta without what it only carries on from the lines before."""
    return TranscriptDelta(
        delta.observations,
        delta.usage,
        delta.tools,
        (),
        delta.context_tokens,
        delta.accepted,
        delta.failed,
        None,
        delta.answer,
        (),
        delta.tools_ended,
        (),
    )


def golden_of(scene: Path) -> Path:
    """The golden file of a scene's file."""
    return scene.with_suffix(".txt")


def write_readings(directory: Path = RECORDINGS) -> None:
    """Write the golden files of all recordings, each beside its scene."""
    files = {file for version in versions(directory) for file in places(version, directory).values()}
    for version in versions(directory):
        for golden in set((directory / version).glob("*.txt")) - {golden_of(file) for file in files}:
            if golden.name != SAME:
                golden.unlink()
    for file in files:
        scene = scene_in(file.read_text(encoding="utf-8"))
        golden_of(file).write_text(text_of_readings(scene), encoding="utf-8")


def text_of_readings(scene: Scene) -> str:
    return "\n".join(readings(scene)) + "\n"
