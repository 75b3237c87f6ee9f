"""Measures how long a request about another session waits while the daemon reads a large transcript."""

import json
import os
import re
import signal
import statistics
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.instance import CONVERSATION, Connection, Instance, until
from bench.row import Effort, Row, timed_ms
from bench.turns import read_turns

_AT = "2026-01-27T15:10:00.000Z"
_PAUSE_S = 0.002
_QUIET = "nothing is read"
_LINES: Mapping[str, Mapping[str, object]] = {
    "short lines": {"type": "user", "timestamp": _AT, "parentUuid": "a", "message": {"content": "x"}},
    "usual lines": {
        "type": "assistant",
        "timestamp": _AT,
        "message": {
            "id": "msg_%d",
            "model": "claude-opus-4-8",
            "content": [
                {"type": "tool_use", "id": "toolu_%d", "name": "Bash", "input": {"command": "x" * 1500}}
            ],
            "usage": {"input_tokens": 1, "output_tokens": 1},
        },
    },
}


def measure(effort: Effort) -> Iterator[Row]:
    for shape, line in _LINES.items():
        instance = Instance(daemon="bench.turns")
        instance.env |= {"BENCH_TURNS": str(instance.home / "turns"), "PYTHONPATH": os.getcwd()}
        with instance:
            yield from _read(instance, shape, json.dumps(line, separators=(",", ":")), effort.transcript_mb)


def _read(instance: Instance, shape: str, line: str, size_mb: int) -> Iterator[Row]:
    """Time requests before and while the daemon reads a transcript of `size_mb`."""
    other = instance.spawn()["session_id"]
    reader = instance.spawn("Claude")["session_id"]
    until(lambda: instance.client.get(f"/v1/sessions/{reader}")["status"] == "idle", "the agent is idle")
    connection = Connection(instance.socket)
    path = f"/v1/sessions/{other}"
    quiet = [timed_ms(lambda: connection.raw("GET", path)) for _ in range(300)]
    before_kb = _peak_kb(instance.daemon.pid)
    waits = []
    _write(instance.home, line, size_mb)
    instance.daemon.send_signal(signal.SIGUSR2)
    while not _is_read(connection, reader):
        for _ in range(20):
            waits.append(timed_ms(lambda: connection.raw("GET", path)))
            time.sleep(_PAUSE_S)
    connection.close()
    turns = read_turns(instance.env["BENCH_TURNS"])
    what = f"a transcript of {size_mb} MB ({shape}) is read: work in one turn of the loop"
    yield Row(what, "ms", turns.longest_worked_s * 1000, gate=20, aim=10)
    yield Row("  longest turn of the loop", "ms", turns.longest_s * 1000, aim=20)
    yield Row(
        "  a request about another session, p50",
        "ms",
        statistics.median(waits),
        statistics.median(quiet),
        _QUIET,
    )
    yield Row("  the longest wait of such a request", "ms", max(waits), max(quiet), _QUIET)
    yield Row("  memory added to the daemon (peak)", "MB", (_peak_kb(instance.daemon.pid) - before_kb) / 1024)


def _write(home: Path, line: str, size_mb: int) -> None:
    """Write the transcript under another name, so that the daemon finds all of it at once."""
    directory = home / ".claude/projects" / re.sub("[^A-Za-z0-9]", "-", os.path.realpath(home))
    directory.mkdir(parents=True)
    counted = line.count("%d")
    with open(directory / "new", "w", encoding="ascii") as file:
        file.writelines(
            (line % ((number,) * counted) if counted else line) + "\n"
            for number in range(size_mb * 1_000_000 // (len(line) + 1))
        )
        file.write(
            json.dumps(
                {
                    "type": "system",
                    "subtype": "compact_boundary",
                    "timestamp": _AT,
                    "compactMetadata": {"trigger": "auto", "preTokens": 2, "postTokens": 4242},
                }
            )
            + "\n"
        )
    os.rename(directory / "new", directory / f"{CONVERSATION}.jsonl")


def _is_read(connection: Connection, session_id: str) -> bool:
    return bool(connection.ask("GET", f"/v1/sessions/{session_id}/progress")["context_tokens"] == 4242)


def _peak_kb(pid: int) -> int:
    """The largest resident size so far (proc(5), VmHWM)."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        return next(int(text.split()[1]) for text in file if text.startswith("VmHWM:"))
