"""Measures the list API over one persistent connection."""

import statistics
from collections.abc import Iterator

from bench.instance import Connection, Instance
from bench.row import Effort, Row, timed_ms


def measure(effort: Effort) -> Iterator[Row]:
    with Instance() as instance:
        instance.spawn_many(effort.sessions)
        yield _list(instance, effort, effort.sessions, gate=2, aim=0.3)
    with Instance(stored=effort.stored) as instance:
        yield _list(instance, effort, effort.stored, gate=10, aim=3)


def _list(instance: Instance, effort: Effort, count: int, *, gate: float, aim: float) -> Row:
    connection = Connection(instance.socket)
    if len(connection.ask("GET", "/v1/sessions")) != count:
        raise RuntimeError(f"the daemon does not list {count} sessions")
    took = [timed_ms(lambda: connection.raw("GET", "/v1/sessions")) for _ in range(10 * effort.pairs)]
    connection.close()
    return Row(f"list API, {count} sessions, p50", "ms", statistics.median(took), gate=gate, aim=aim)
