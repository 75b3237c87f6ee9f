"""Measures the list API with the sums of each session and its descendants, next to the same list without."""

from collections.abc import Iterator

from bench.instance import Connection, Instance
from bench.row import Effort, Judged, Row, alternate

_GATE = 1.5


def measure(effort: Effort) -> Iterator[Row]:
    with Instance() as instance:
        instance.spawn_many(effort.sessions)
        connection = Connection(instance.socket)
        listed = connection.ask("GET", "/v1/sessions?sums=1")
        if len(listed) != effort.sessions or any("sums" not in session for session in listed):
            raise RuntimeError(f"the daemon does not list {effort.sessions} sessions with their sums")
        pairs = alternate(
            10 * effort.pairs,
            lambda: connection.raw("GET", "/v1/sessions?sums=1"),
            lambda: connection.raw("GET", "/v1/sessions"),
        )
        connection.close()
        what = f"list API with sums, {effort.sessions} sessions"
        yield pairs.row(what, "the same list without sums", Judged.RATIO, _GATE, _GATE)
