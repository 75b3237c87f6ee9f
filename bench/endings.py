"""Measures how soon a finished turn completes its session, and the processor time that sessions at rest take."""

import json
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench.instance import CONVERSATION, SM, Instance, until
from bench.row import Effort, Judged, Row
from bench.watching import cpu_percent, settle
from tests.integration.played_claude import BOX

_QUIET_S = 0.5
_DONE = "Done. All 26 tests pass."
_UNCLEAR = "Reading the files."
_STAND_IN = f"#!/bin/sh\nstty raw -echo\n{BOX}exec sleep 1000000\n"
"""Shows an empty input box, without which sm completes nothing. In line mode, it would count as suspended."""
_CONFIG = """
child_agents: {auto_complete: {enabled: %s, completion_quiet_s: %g, idle_timeout: 100000}}
daemon: {ignore_evidence: [screen, title]}
"""


class Turns:
    """Plays the hooks of claude, with the real `sm hook`."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance

    def hook(self, session_id: str, event: str, **more: object) -> None:
        payload = {"hook_event_name": event, "session_id": CONVERSATION, "cwd": str(self._instance.home)}
        token = self._instance.home / "state/launch" / f"{session_id}.token"
        identity = {
            "SM_SESSION_ID": session_id,
            "SM_SOCKET": self._instance.socket,
            "SM_TOKEN_FILE": str(token),
        }
        subprocess.run(
            [SM, "hook", "claude"],
            env={**self._instance.env, **identity},
            input=json.dumps(payload | more).encode(),
            stdout=subprocess.DEVNULL,
            check=True,
        )

    def start(self) -> str:
        """Start an agent that is ready for its first turn; return the session's id."""
        session_id: str = self._instance.spawn("Claude", "work")["session_id"]
        self.hook(session_id, "SessionStart", source="startup")
        return session_id

    def begin(self, session_id: str, number: int) -> None:
        self.hook(session_id, "UserPromptSubmit", prompt="go on", prompt_id=f"p{number}")

    def end(self, session_id: str, text: str, **more: object) -> None:
        self.hook(session_id, "Stop", last_assistant_message=text, **more)


def measure(effort: Effort) -> Iterator[Row]:
    with Instance(config=_CONFIG % ("true", _QUIET_S), stand_in=_STAND_IN) as instance:
        yield _completion(instance, effort.pairs)
    yield from _rest(effort)


def _completion(instance: Instance, times: int) -> Row:
    """From the start of the Stop hook until a stream of events reports the completion."""
    turns, took_ms = Turns(instance), []
    session_id = turns.start()
    last = instance.client.get("/v1/events", {"limit": 1})["last_seq"]
    stream = instance.client.events("/v1/events/stream", {"since": last})
    for number in range(times + 1):
        turns.begin(session_id, number)  # it reopens the session that the turn before completed
        began = time.perf_counter()
        turns.end(session_id, _DONE)
        while json.loads(next(stream)[1])["type"] != "completed":
            pass
        took_ms.append((time.perf_counter() - began) * 1000)
    took_ms = sorted(took_ms[1:])
    return Row(
        "end of a turn -> completed, p50",
        "ms",
        took_ms[len(took_ms) // 2],
        _QUIET_S * 1000,
        "the quiet window",
        judged=Judged.ABOVE,
        gate=250,
        aim=100,
    )


def _rest(effort: Effort) -> Iterator[Row]:
    """Sessions at rest with and without the detection, in two daemons at the same time."""
    count = effort.sessions
    for what, text, more, gate in (
        ("after a turn that is not done", _UNCLEAR, {}, 0.1),
        (
            "that wait to be completed",
            _DONE,
            {"background_tasks": [{"type": "shell", "status": "running"}]},
            0.1,
        ),
    ):
        with (
            Instance(config=_CONFIG % ("true", _QUIET_S), stand_in=_STAND_IN) as ours,
            Instance(config=_CONFIG % ("false", _QUIET_S), stand_in=_STAND_IN) as without,
        ):
            for instance in (ours, without):
                _end_turns(instance, count, text, more)
            settle()
            found, floor = cpu_percent(effort.watch_s, [], ours.daemon.pid, without.daemon.pid)
        yield Row(
            f"{count} sessions at rest {what}: CPU of the daemon, of a core",
            "%",
            found,
            floor,
            "without the detection",
            judged=Judged.ABOVE,
            gate=gate,
            aim=0.05,
        )


def _end_turns(instance: Instance, count: int, text: str, more: dict[str, Any]) -> None:
    """Start `count` agents, and end a turn of each with this text."""
    turns = Turns(instance)

    def one(number: int) -> None:
        session_id = turns.start()
        turns.begin(session_id, number)
        turns.end(session_id, text, **more)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(one, range(count)))
    until(lambda: _resting(instance) == count, "all agents rest")


def _resting(instance: Instance) -> int:
    return sum(session["status"] == "idle" for session in instance.client.get("/v1/sessions"))
