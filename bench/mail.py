"""Measures messages: until the text is in the terminal, ten senders at once, and the delay of other requests."""

import os
import select
import signal
import statistics
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from bench.instance import Connection, Instance, until
from bench.row import Effort, Judged, Pairs, Row, timed_ms
from bench.turns import read_turns

_SENDERS = 10
_RAW = "stty raw -echo; echo ready; exec cat > {fifo}"


def measure(effort: Effort) -> Iterator[Row]:
    with Instance() as instance:
        yield _visible(instance, effort.pairs)
    yield from _at_once(effort)


def _visible(instance: Instance, times: int) -> Row:
    """Time from a send until the agent reads the first byte from its terminal, compared with tmux alone."""
    ours_fifo, floor_fifo = (str(instance.home / name) for name in ("ours", "floor"))
    for path in (ours_fifo, floor_fifo):
        os.mkfifo(path)
    session = instance.spawn("Typed", _RAW.format(fifo=ours_fifo))
    argv = ("new-session", "-d", "-s", "raw", "sh", "-c", _RAW.format(fifo=floor_fifo))
    instance.tmux(*argv)
    connection = Connection(instance.socket)
    descriptors = [os.open(path, os.O_RDONLY) for path in (ours_fifo, floor_fifo)]

    def send(number: int) -> None:
        body = {"to": session["session_id"], "text": f"message {number}", "wait_s": 0}
        connection.raw("POST", "/v1/messages", body)
        _arrived(descriptors[0])

    def paste() -> None:
        command = (
            "set-buffer",
            "-b",
            "raw",
            "message",
            ";",
            "paste-buffer",
            "-p",
            "-d",
            "-b",
            "raw",
            "-t",
            "=raw:",
        )
        subprocess.run(("tmux", "-L", "bench", *command), env=instance.env, check=True)
        _arrived(descriptors[1])

    def none_is_open() -> bool:
        log = instance.client.get("/v1/messages", {"limit": 1})
        return not log or log[-1]["status"] not in ("queued", "delivering")

    ours, floor = [], []
    for number in range(times + 1):
        until(none_is_open, "the last message is finished")
        _drain(descriptors[0])
        ours.append(timed_ms(lambda: send(number)))  # noqa: B023 - called at once
        floor.append(timed_ms(paste))
        _drain(descriptors[1])
    connection.close()
    for descriptor in descriptors:
        os.close(descriptor)
    pairs = Pairs(ours[1:], floor[1:])
    return pairs.row("send: request to text in the terminal", "tmux paste-buffer", Judged.ABOVE, 20, 5)


def _arrived(descriptor: int) -> None:
    if not select.select([descriptor], [], [], 60)[0]:
        raise RuntimeError("no text arrived within 60 s")


def _drain(descriptor: int) -> None:
    # Longer than the pause of the daemon between two messages to one terminal, which must not be measured.
    while select.select([descriptor], [], [], 0.1)[0]:
        os.read(descriptor, 65536)


def _at_once(effort: Effort) -> Iterator[Row]:
    os.environ.pop("BENCH_TURNS", None)
    with _clocked() as instance:
        sessions = [s["session_id"] for s in instance.spawn_many(_SENDERS)]
        instance.daemon.send_signal(signal.SIGUSR2)
        with ThreadPoolExecutor(_SENDERS) as pool:
            begin = time.perf_counter()
            by_sender = list(
                pool.map(lambda n: _sender(instance, sessions, n, effort.pairs), range(_SENDERS))
            )
            took_s = time.perf_counter() - begin
        all_ms = sorted(ms for times in by_sender for ms in times)
        yield Row(f"send, {_SENDERS} at once: stored, p50", "ms", statistics.median(all_ms))
        yield Row(f"send, {_SENDERS} at once: stored, p99", "ms", all_ms[int(len(all_ms) * 0.99)])
        yield Row(f"send, {_SENDERS} at once: messages in a second", "", len(all_ms) / took_s)
        turns = read_turns(instance.env["BENCH_TURNS"])
        work_ms, longest_ms = turns.longest_worked_s * 1000, turns.longest_s * 1000
        yield Row("  work of the daemon in one turn of its loop meanwhile", "ms", work_ms, gate=20, aim=5)
        yield Row("  longest turn of the daemon's loop meanwhile", "ms", longest_ms, aim=20)


def _sender(instance: Instance, sessions: list[str], number: int, count: int) -> list[float]:
    connection = Connection(instance.socket)
    times = []
    for n in range(count):
        body = {"to": sessions[(number + n) % len(sessions)], "text": f"message {n} of {number}", "wait_s": 0}
        begin = time.perf_counter()
        connection.raw("POST", "/v1/messages", body)
        times.append((time.perf_counter() - begin) * 1000)
    connection.close()
    return times


def _clocked() -> Instance:
    instance = Instance(daemon="bench.turns")
    instance.env["BENCH_TURNS"] = str(instance.home / "turns")
    instance.env["PYTHONPATH"] = os.getcwd()
    return instance
