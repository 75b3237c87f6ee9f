"""Measures the processor time that live views add to the daemon, and the time and memory that they take."""

import contextlib
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.instance import Instance
from bench.row import Effort, Judged, Row
from bench.watching import memory_kb
from sm.board import Board, Sort
from tests.board.samples import row_data, update
from tests.instance import SM
from tests.person_terminal import PersonTerminal
from tests.waits import until

CHANGES_PER_S = 20
_ROUNDS = 3
_LISTED = 10_000
_REPEATED = 5
_FURTHER = 4
"""Views that are opened after the first one."""
# A session that changes its note at a fixed rate over one connection.
_NOTES = """
import json, os, socket, sys, time
path, period_s, begin = sys.argv[1], float(sys.argv[2]), time.monotonic()
token = open(os.environ["SM_TOKEN_FILE"]).read().strip()
connection = socket.socket(socket.AF_UNIX)
connection.connect(path)
for number in range(10**9):
    time.sleep(max(0.0, begin + number * period_s - time.monotonic()))
    body = json.dumps({"text": f"note {number}"})
    connection.sendall(
        f"POST /v1/sessions/me/note HTTP/1.1\\r\\nHost: sm\\r\\nSM-Protocol: 1\\r\\nAuthorization: Bearer {token}\\r\\n"
        f"Idempotency-Key: {os.urandom(8).hex()}\\r\\nContent-Length: {len(body)}\\r\\n\\r\\n{body}".encode()
    )
    if not connection.recv(65536).startswith(b"HTTP/1.1 200"):
        sys.exit(1)
"""
# A view that reads and discards the stream, and counts its bytes into a file when it ends.
_READER = """
import signal, socket, sys
read = 0
def end(number, frame):
    with open(sys.argv[2], "w") as file:
        file.write(str(read))
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
connection.sendall(b"GET /v1/live HTTP/1.1\\r\\nHost: sm\\r\\nSM-Protocol: 1\\r\\n\\r\\n")
print("ready", flush=True)
while data := connection.recv(1 << 20):
    read += len(data)
"""


def measure(effort: Effort) -> Iterator[Row]:
    count, seconds = effort.sessions, effort.watch_s
    with Instance() as instance, contextlib.ExitStack() as ended:
        sessions = instance.spawn_many(count)
        pid, spawned_s = instance.daemon.pid, time.monotonic()
        resting = _Rounds(instance, pid, seconds, 1)
        with _top(instance) as top:
            time.sleep(max(0.0, spawned_s + effort.rested_s - time.monotonic()))
            top_rests, top_pss = cpu_percent(top, seconds), memory_kb(top)["Pss"] / 1000
        ended.enter_context(changing_notes(instance, sessions))
        changing = _Rounds(instance, pid, seconds, _ROUNDS)
        with _top(instance) as top:
            top_works = cpu_percent(top, seconds)
    what = f"{count} sessions, {CHANGES_PER_S} changes a second: CPU of the daemon, of a core"
    yield changing.row(f"{what}, with a view", gate=1, aim=0.5)
    yield Row("  added by each further view", "%", changing.further, gate=0.3, aim=0.1)
    yield Row("  kB to a view in a second", "", changing.bytes_per_s / 1000)
    yield resting.row(f"{count} sessions at rest: with a view")
    yield Row("  added by each further view", "%", resting.further)
    yield Row(
        f"sm top, {count} sessions, {CHANGES_PER_S} changes a second: CPU", "%", top_works, gate=3, aim=1.5
    )
    yield Row("  CPU at rest", "%", top_rests, gate=0.5, aim=0.3)
    yield Row("  memory (PSS)", "MB", top_pss, gate=45, aim=30)
    yield from _lists()


def _lists() -> Iterator[Row]:
    """The list of live views, without drawing it. Changes come four times a second, so a bound is a part of that."""
    choose = random.Random(1)
    parents = [f"{n - choose.randint(1, 20):08x}" if n % 21 else None for n in range(_LISTED)]
    rows = [row_data(f"{n:08x}", note="a note", parent_session_id=parents[n]) for n in range(_LISTED)]
    board = Board()
    board.apply(update(rows, snapshot=True), 0.0)
    what = f"list of {_LISTED:,} sessions"
    yield Row(
        f"{what}: order taken anew", "ms", _ms(lambda: board.sort_by(Sort.TREE, 0.0)), gate=400, aim=150
    )
    yield Row("  filter typed", "ms", _ms(lambda: board.filter_by("note 99", 0.0)), gate=100, aim=50)
    board.filter_by("", 0.0)

    def change() -> None:
        board.apply(update([{**row, "note": "another"} for row in rows[:CHANGES_PER_S]]), 0.0)
        board.refresh(0.0, rests=True)

    yield Row(f"  {CHANGES_PER_S} changed rows", "ms", _ms(change), gate=10, aim=2)


def _ms(action: Callable[[], None]) -> float:
    times = []
    for _ in range(_REPEATED):
        begin = time.thread_time()
        action()
        times.append(time.thread_time() - begin)
    return statistics.median(times) * 1000


class _Rounds:
    """Measures in turn without a view, with one, and with several, so that a change of the load affects all three.

    The values are medians of the differences within a round.
    """

    def __init__(self, instance: Instance, pid: int, seconds: float, rounds: int) -> None:
        without, first, further = list[float](), list[float](), list[float]()
        for _ in range(rounds):
            without.append(cpu_percent(pid, seconds))
            with _views(instance, 1) as sizes:
                one = cpu_percent(pid, seconds)
            with _views(instance, 1 + _FURTHER):
                several = cpu_percent(pid, seconds)
            self.bytes_per_s = sizes[0] / seconds
            first.append(one - without[-1])
            further.append((several - one) / _FURTHER)
        self.without = statistics.median(without)
        self.first = statistics.median(first)
        self.further = statistics.median(further)

    def row(self, what: str, *, gate: float | None = None, aim: float | None = None) -> Row:
        ours = self.without + self.first
        return Row(what, "%", ours, self.without, "without", judged=Judged.ABOVE, gate=gate, aim=aim)


def cpu_percent(pid: int, seconds: float) -> float:
    """The processor time of all threads, in per cent of a core."""
    before, begin = _cpu_s(pid), time.monotonic()
    time.sleep(seconds)
    return (_cpu_s(pid) - before) / (time.monotonic() - begin) * 100


def _cpu_s(pid: int) -> float:
    """To the nanosecond (proc(5), schedstat), because a view costs less than a tick of the clock."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


@contextlib.contextmanager
def _top(instance: Instance) -> Iterator[int]:
    """The pid of `sm top` on a screen of 120x40, once it has drawn the list."""
    with PersonTerminal([SM, "top"], {**instance.env, "TERM": "xterm-256color"}, 120, 40) as person:
        until(lambda: b"Nothing needs you" in person.printed, "the list")
        time.sleep(2)  # the start is not measured
        yield person.pid
        person.press("q")


@contextlib.contextmanager
def changing_notes(instance: Instance, sessions: Sequence[Mapping[str, Any]]) -> Iterator[None]:
    """Let the first sessions change their notes, each once a second, from a process of its own."""
    processes = []
    try:
        for session in sessions[:CHANGES_PER_S]:
            env = instance.as_session(session["session_id"])
            argv = (sys.executable, "-S", "-c", _NOTES, instance.socket, "1.0")
            processes.append(subprocess.Popen(argv, env=env))
        yield
        if any(process.poll() is not None for process in processes):
            raise RuntimeError("a session could not change its note")
    finally:
        for process in processes:
            process.kill()
            process.wait()


@contextlib.contextmanager
def _views(instance: Instance, count: int) -> Iterator[list[int]]:
    """Run readers of the live rows. The list gets the number of bytes that each one has read, at the end."""
    sizes: list[int] = []
    files = [instance.home / f"view-{number}" for number in range(count)]
    processes = []
    try:
        for file in files:
            argv = (sys.executable, "-S", "-c", _READER, instance.socket, str(file))
            process = subprocess.Popen(argv, env=instance.env, stdout=subprocess.PIPE)
            processes.append(process)
            assert process.stdout is not None
            process.stdout.readline()
        time.sleep(1)  # the snapshot is not measured
        yield sizes
    finally:
        for process, file in zip(processes, files, strict=False):
            process.terminate()
            process.communicate()
            sizes.append(int(file.read_text()))
