"""Measures what a long history costs: 20 live sessions on top of many old ones, beside the same without any."""

import os
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from bench.instance import SM, Connection, Instance
from bench.row import Effort, Judged, Pairs, Row, alternate, timed_ms
from bench.turns import read_turns
from bench.watching import memory_kb

_LIVE = 20
_GATE = 1.2
_FLOOR_IS = "no old sessions"
_LISTS: Sequence[Sequence[str]] = (("children",), ("children", "--recursive"))
_REPORTS: Sequence[Sequence[str]] = (("usage",), ("digest", "--since", "8h"))
_PATHS = ("/v1/sessions", "/v1/sessions?sums=1", "/v1/overview", "/v1/overview/rest", "/v1/status")


def measure(effort: Effort) -> Iterator[Row]:
    with ExitStack() as stack:
        old, new = (stack.enter_context(_instance(count)) for count in (effort.history, 0))
        for instance in (old, new):
            instance.spawn_many(_LIVE)
        starts = _starts(old, new, effort.restarts)
        yield _row(starts, f"start with {effort.history:,} old sessions, to the first answer")
        for instance in (old, new):
            instance.daemon.send_signal(signal.SIGUSR2)
        yield from _lists(old, new, 3 * effort.pairs)
        yield _row(
            alternate(effort.pairs, lambda: _first_bytes(old), lambda: _first_bytes(new)),
            "first bytes of a view",
        )
        yield _sizes("  their size", "kB", _first_bytes(old) / 1000, _first_bytes(new) / 1000)
        for words in _LISTS:
            yield _command(old, new, words, effort.pairs)
        yield _memory("memory of the daemon (RSS)", old, new)
        for words in _REPORTS:
            yield _command(old, new, words, effort.pairs)
        yield _memory("  after a report of usage", old, new)
        ours, floor = (read_turns(i.env["BENCH_TURNS"]).longest_worked_s * 1000 for i in (old, new))
        yield Row("longest work in one turn of the loop meanwhile", "ms", ours, floor, _FLOOR_IS, gate=20)


def _memory(what: str, old: Instance, new: Instance) -> Row:
    ours, floor = (memory_kb(instance.daemon.pid)["Rss"] / 1024 for instance in (old, new))
    return Row(what, "MB", ours, floor, _FLOOR_IS, judged=Judged.ABOVE, gate=10)


def _instance(history: int) -> Instance:
    instance = Instance(history=history, daemon="bench.turns")
    instance.env["BENCH_TURNS"] = str(instance.home / "turns")
    instance.env["PYTHONPATH"] = os.getcwd()
    return instance


def _row(pairs: Pairs, what: str) -> Row:
    return pairs.row(what, _FLOOR_IS, Judged.RATIO, _GATE, 1.0)


def _sizes(what: str, unit: str, ours: float, floor: float) -> Row:
    return Row(what, unit, ours, floor, _FLOOR_IS, ours / floor, Judged.RATIO, gate=_GATE)


def _starts(old: Instance, new: Instance, times: int) -> Pairs:
    def start(instance: Instance) -> float:
        instance.kill(instance.daemon)
        return timed_ms(instance.start_daemon)

    pairs = [(start(old), start(new)) for _ in range(times)]
    return Pairs([a for a, _ in pairs], [b for _, b in pairs])


def _lists(old: Instance, new: Instance, times: int) -> Iterator[Row]:
    ours, floor = Connection(old.socket), Connection(new.socket)
    for path in _PATHS:
        pairs = alternate(times, lambda: ours.raw("GET", path), lambda: floor.raw("GET", path))  # noqa: B023 - called at once
        yield _row(pairs, f"GET {path}, p50")
    size, floor_size = (len(connection.raw("GET", "/v1/sessions")) / 1000 for connection in (ours, floor))
    yield _sizes("  size of the list", "kB", size, floor_size)
    ours.close()
    floor.close()


def _command(old: Instance, new: Instance, words: Sequence[str], times: int) -> Row:
    pairs = alternate(times, lambda: old.run(SM, *words), lambda: new.run(SM, *words))
    return _row(pairs, f"sm {' '.join(words)}")


def _first_bytes(instance: Instance) -> int:
    """Open a view, and return the size of what it gets first."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(instance.socket)
        connection.sendall(b"GET /v1/live HTTP/1.1\r\nHost: sm\r\nSM-Protocol: 1\r\n\r\n")
        read = b""
        while b'"more":false' not in read:
            read += connection.recv(1 << 20)
    return len(read)
