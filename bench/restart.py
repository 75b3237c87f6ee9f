"""Measures the time from SIGKILL until the daemon answers again, with every session recovered."""

from collections.abc import Iterator

from bench.instance import Instance
from bench.row import Effort, Judged, Pairs, Row, timed_ms

_FLOOR_IS = "bare aiohttp and aiosqlite"


def measure(effort: Effort) -> Iterator[Row]:
    with Instance() as instance:
        what = "start of an empty instance, to the first answer"
        yield _starts(instance, 0, effort.restarts).row(what, _FLOOR_IS, Judged.RATIO, 1.6, None)
        count = effort.restored
        instance.spawn_many(count)
        what = f"start after SIGKILL with {count} live sessions, to the first answer"
        yield _starts(instance, count, effort.restarts).row(what, _FLOOR_IS, Judged.RATIO, 3, 2)


def _starts(instance: Instance, live: int, restarts: int) -> Pairs:
    """Kill and start the daemon of an instance with `live` sessions, in turn with the empty server."""
    ours, floor = [], []
    for _ in range(restarts):
        instance.kill(instance.daemon)
        ours.append(timed_ms(instance.start_daemon))
        if instance.client.get("/v1/status")["sessions"] != ({"running": live} if live else {}):
            raise RuntimeError("not every session was recovered")
        floor.append(timed_ms(lambda: instance.kill(instance.start_bare())))
    return Pairs(ours, floor)
