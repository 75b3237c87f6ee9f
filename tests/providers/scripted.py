"""Readers of a small agent CLI that exists only in tests: the simplest provider.

Each hook event, state file and transcript line is one JSON object, such as `{"event": "prompt", "text": "go"}`.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sm.core.models import Process
from sm.core.observation import Activity, Observation, Source
from sm.core.requests import Request
from sm.core.states import RequestKind
from sm.core.turns import TurnWork
from sm.core.usage import ActionLine, Todo
from sm.providers.readers import (
    AcceptedInput,
    Dialog,
    HookEvent,
    LastTurn,
    Readers,
    SetupDialog,
    SetupQuestion,
    StartProblem,
    TranscriptDelta,
    TranscriptEntry,
)

_NO_WORK = TurnWork()
_ACTIVITIES = {"idle": Activity.IDLE, "busy": Activity.BUSY, "asks": Activity.BLOCKED}


def _object(content: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


class ScriptedHooks:
    ending_event = "end"

    def event(self, payload: Mapping[str, Any], at: float, *, expects_turn: bool) -> HookEvent:
        name = _text(payload.get("event"))
        match name:
            case "prompt":
                observation = Observation(Source.HOOK, Activity.BUSY, at, "a turn began", opens=True)
                return HookEvent(
                    name, observation, accepted=AcceptedInput(_text(payload.get("text")), at, hook=name)
                )
            case "asks":
                observation = Observation(Source.HOOK, Activity.BLOCKED, at, "it asks")
                return HookEvent(name, observation, tool_digest=_text(payload.get("tool")))
            case "end":
                return HookEvent(name, ending="it was told to")
            case _:
                return HookEvent(name)

    def dialog(self, payload: Mapping[str, Any], *, cut: bool) -> Dialog | None:
        tool = _text(payload.get("tool"))
        if payload.get("event") != "asks" or not tool:
            return None
        return Dialog(RequestKind.PERMISSION, tool, {}, cut=cut, tool_digest=tool)

    def plan(self, tool: str, arguments: Mapping[str, Any]) -> str | None:
        return None

    def decision(self, request: Request, by: str) -> str | None:
        return None if request.answer is None else f"{'yes' if request.answer.approved else 'no'} from {by}"


class ScriptedState:
    def path(self, environment: Mapping[str, str], pid: int) -> str:
        return f"{environment['HOME']}/.scripted/{pid}"

    def state(self, content: bytes, process: Process) -> Observation | None:
        fields = self._of(content, process)
        activity = _ACTIVITIES.get(_text(fields.get("state")))
        return None if activity is None else Observation(Source.STATE_FILE, activity, 1.0, "it says so")

    def conversation(self, content: bytes, process: Process) -> str | None:
        return _text(self._of(content, process).get("conversation")) or None

    def _of(self, content: bytes, process: Process) -> Mapping[str, Any]:
        fields = _object(content)
        return fields if fields.get("pid") == process.pid else {}


class ScriptedTranscripts:
    def root(self, environment: Mapping[str, str]) -> str:
        return f"{environment['HOME']}/.scripted/transcripts"

    def path(self, environment: Mapping[str, str], working_dir: str, conversation: str) -> str:
        return f"{self.root(environment)}/{conversation}"

    def delta(
        self,
        lines: Sequence[bytes],
        *,
        sidechain: bool,
        todo: Sequence[Todo],
        failed: bool = False,
        work: TurnWork = _NO_WORK,
    ) -> TranscriptDelta:
        prompts = [_text(_object(line).get("prompt")) for line in lines]
        if sidechain:
            return TranscriptDelta(todo=tuple(todo), work=work)
        return TranscriptDelta(
            tuple(
                Observation(Source.TRANSCRIPT, Activity.BUSY, 1.0, "a turn began") for text in prompts if text
            ),
            todo=tuple(todo),
            accepted=tuple(AcceptedInput(text, 1.0) for text in prompts if text),
            work=work,
        )

    def entries(self, lines: Sequence[bytes]) -> Sequence[TranscriptEntry]:
        found = [fields for line in lines if _text((fields := _object(line)).get("id"))]
        return [
            TranscriptEntry(_text(e["id"]), _text(e.get("follows")) or None, _text(e.get("at")))
            for e in found
        ]

    def last_turn(self, lines: Sequence[bytes]) -> LastTurn | None:
        """The turn that a last line with an `answer` ends."""
        answer = _text(_object(lines[-1]).get("answer")) if lines else ""
        if not answer:
            return None
        end = Observation(Source.TRANSCRIPT, Activity.IDLE, 1.0, "a turn ended", answer=answer, finished=True)
        return LastTurn(end, 1.0, 0)

    def actions(self, lines: Sequence[bytes], count: int, working_dir: str) -> Sequence[ActionLine]:
        prompts = [_text(_object(line).get("prompt")) for line in lines]
        found = [ActionLine("2026-01-27T15:10:00.000Z", "prompt", text) for text in prompts if text]
        return found[-count:] if count else []


class ScriptedScreen:
    def title(self, glyph: str, at: float) -> Observation | None:
        return Observation(Source.TITLE, Activity.BUSY, at, "its title says so") if glyph == "*" else None

    def screen(self, lines: Sequence[str], at: float) -> Observation | None:
        activity = _ACTIVITIES.get(lines[-1]) if lines else None
        return None if activity is None else Observation(Source.SCREEN, activity, at, "its screen says so")

    def output(self, lines: Sequence[str]) -> Sequence[str]:
        return [line for line in lines if line not in _ACTIVITIES]

    def start_problem(self, lines: Sequence[str], working_dir: str) -> StartProblem | None:
        return StartProblem("it is not logged in", "log in") if list(lines[-1:]) == ["login"] else None

    def limit_dialog(self, lines: Sequence[str]) -> bool:
        return list(lines[-1:]) == ["limit reached"]

    def setup_dialog(self, lines: Sequence[str], directory: str) -> SetupDialog | None:
        if list(lines[-1:]) != ["trust?"]:
            return None
        return SetupDialog(SetupQuestion.TRUST, f"Trust {directory}?", "Enter")


READERS = Readers(ScriptedHooks(), ScriptedState(), ScriptedTranscripts(), ScriptedScreen())
