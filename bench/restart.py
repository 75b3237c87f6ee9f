"""Measures the time from SIGKILL until the daemon answers again, with every session recovered."""

from collections.abc import Iterator

from bench.instance import Instance
from bench.row import Effort, Judged, Pairs, Row, timed_ms


def measure(effort: Effort) -> Iterator[Row]:
    count = effort.restored
    with Instance() as instance:
        instance.spawn_many(count)
        ours, floor = [], []
        for _ in range(effort.restarts):
            instance.kill(instance.daemon)
            ours.append(timed_ms(instance.start_daemon))
            if instance.client.get("/v1/status")["sessions"] != {"running": count}:
                raise RuntimeError("not every session was recovered")
            floor.append(timed_ms(lambda: instance.kill(instance.start_bare())))
        what = f"start after SIGKILL with {count} live sessions, to the first answer"
        yield Pairs(ours, floor).row(what, "bare aiohttp and aiosqlite", Judged.OURS, 1000, 300)
