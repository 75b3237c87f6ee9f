"""Measures the start of an agent, and the report of its end."""

import json
import os
import select
import signal
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from bench.instance import Connection, Instance, until
from bench.row import Effort, Judged, Pairs, Row, timed_ms


def measure(effort: Effort) -> Iterator[Row]:
    with Instance() as instance:
        yield _spawn(instance, effort.pairs)
        yield _death(instance, effort.pairs)
        yield _exit_codes(instance, effort.sessions)


def _spawn(instance: Instance, times: int) -> Row:
    connection = Connection(instance.socket)
    request = instance.spawn_request()
    ours, floor = [], []
    for number in range(times + 1):
        ours.append(timed_ms(lambda: connection.raw("POST", "/v1/sessions", request)))
        # After its answer the daemon makes a spare session, which would disturb the floor.
        until(instance.has_spare, "a spare session exists")
        name = f"raw{number}"
        argv = ("tmux", "-L", "bench", "new-session", "-d", "-s", name, "sleep", "1000000")
        floor.append(timed_ms(partial(subprocess.run, argv, env=instance.env, check=True)))
        instance.tmux("list-sessions")
    connection.close()
    pairs = Pairs(ours[1:], floor[1:])
    return pairs.row("spawn: request to agent running", "tmux new-session -d", Judged.RATIO, 2.5, 2)


def _death(instance: Instance, times: int) -> Row:
    pairs = deaths(instance, times, instance.spawn)
    ours, floor = statistics.median(pairs.ours), statistics.median(pairs.floor)
    return Row("an agent dies -> event with its exit code", "ms", ours, floor, "its pidfd", gate=50, aim=10)


def deaths(instance: Instance, times: int, spawn: Callable[[], dict[str, Any]]) -> Pairs:
    """Measure the time from SIGKILL to an agent until an event stream reports its end and the signal."""
    last = instance.client.get("/v1/events", {"limit": 1})["last_seq"]
    stream = instance.client.events("/v1/events/stream", {"since": last})
    ours, floor = [], []
    for _ in range(times):
        session = spawn()
        while _next(stream)["type"] != "started":
            pass
        pidfd = os.pidfd_open(session["pid"])
        begin = time.perf_counter()
        os.kill(session["pid"], signal.SIGKILL)
        select.select([pidfd], [], [])
        floor.append((time.perf_counter() - begin) * 1000)
        event = _next(stream)
        ours.append((time.perf_counter() - begin) * 1000)
        os.close(pidfd)
        reported = (event["type"], event["session_id"], event["metadata"].get("exit_signal"))
        if reported != ("error", session["session_id"], signal.SIGKILL):
            raise RuntimeError(f"the stream reported another event than the end: {event}")
    return Pairs(ours, floor)


def _next(stream: Iterator[tuple[int, str]]) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(next(stream)[1])
    return event


def _exit_codes(instance: Instance, count: int) -> Row:
    """Agents that exit at once, each with a different code."""
    wanted = {
        session["session_id"]: number
        for number, session in enumerate(
            instance.spawn_many(count, "Sh", [f"exit {number}" for number in range(count)])
        )
    }
    found: dict[str, Any] = {}

    def all_known() -> bool:
        sessions = instance.client.get("/v1/sessions")
        found.update({s["session_id"]: s for s in sessions if s["session_id"] in wanted})
        return all(s["status"] in ("completed", "error") for s in found.values())

    until(all_known, f"{count} agents have ended")
    lost = sum(found[session_id]["exit_code"] != code for session_id, code in wanted.items())
    return Row(f"exit codes lost of {count}", "", lost, gate=0, aim=0)
