"""What a command costs as a whole process, and how soon a follower sees an agent's report."""

import os
import select
import statistics
import subprocess
import time
from collections.abc import Iterator
from functools import partial

from bench.instance import PASS, SM, Instance, following
from bench.row import Effort, Judged, Row, alternate

_FLOOR_IS = "python -c pass"


def measure(effort: Effort) -> Iterator[Row]:
    with Instance(stored=effort.sessions) as instance:
        own = str(instance.home / "state/bin/sm")
        children = f"sm children of {effort.sessions}"
        for what, argv, gate, aim in (
            (children, (SM, "children"), 4.5, 4.0),
            (f"{children}, as agents call it", (own, "children"), None, None),
            ("sm status", (SM, "status"), 4.5, 4.0),
            ("sm version", (SM, "version"), 4.5, 4.0),
        ):
            pairs = alternate(effort.pairs, partial(instance.run, *argv), partial(instance.run, *PASS))
            yield pairs.row(what, _FLOOR_IS, Judged.RATIO, gate, aim)
        yield _report(instance, own, effort.pairs)


def _report(instance: Instance, own: str, times: int) -> Row:
    """An agent calls `sm checkpoint`; the clock stops when a waiting `sm events --follow` has printed it."""
    session = instance.spawn()
    environ = instance.env | {"SM_SESSION_ID": session["session_id"], "SM_SOCKET": instance.socket}
    seen_ms, done_ms = [], []
    with following((SM, "events", "--follow", "--json"), instance) as out:
        for number in range(times + 1):
            begin = time.perf_counter()
            child = subprocess.Popen(
                (own, "checkpoint", f"step {number}."), env=environ, stdout=subprocess.DEVNULL
            )
            pidfd = os.pidfd_open(child.pid)
            seen, done = _both(out, f"step {number}.".encode(), pidfd)
            os.close(pidfd)
            if child.wait() != 0:
                raise RuntimeError("sm checkpoint failed")
            if number:  # before the first one nobody knows whether the follower was waiting already
                seen_ms.append((seen - begin) * 1000)
                done_ms.append((done - begin) * 1000)
    return Row(
        "sm checkpoint -> seen by sm events --follow",
        "ms",
        statistics.median(seen_ms),
        statistics.median(done_ms),
        "sm checkpoint itself",
        judged=Judged.ABOVE,
        gate=20,
        aim=5,
    )


def _both(out: int, text: bytes, pidfd: int) -> tuple[float, float]:
    """When `text` came out of `out`, and when the process of `pidfd` ended."""
    seen = done = 0.0
    read = b""
    poll = select.poll()
    poll.register(out, select.POLLIN)
    poll.register(pidfd, select.POLLIN)
    while not (seen and done):
        ready = poll.poll(60_000)
        now = time.perf_counter()
        if not ready:
            raise RuntimeError("the follower did not see a checkpoint within 60 s")
        for fd, _ in ready:
            if fd == pidfd:
                done = now
                poll.unregister(pidfd)
            else:
                read += os.read(out, 65536)
                if text in read and not seen:
                    seen = now
    return seen, done
