"""Measures commands and hooks as whole processes, and the delay until a follower sees an agent's report."""

import json
import os
import select
import statistics
import subprocess
import time
from collections.abc import Iterator, Mapping
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
        yield from _hooks(instance, own, effort.pairs)


# An event that claude sends after each use of a tool.
_EVENT = json.dumps(
    {
        "session_id": "6f1d3c52-7a0b-4a57-9a51-0d6f4a8f5f10",
        "transcript_path": "/home/user/.claude/projects/-work/6f1d3c52-7a0b-4a57-9a51-0d6f4a8f5f10.jsonl",
        "cwd": "/work",
        "permission_mode": "default",
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "python -m pytest -q", "description": "Run the tests"},
        "tool_use_id": "toolu_01A09q90qw90lq917835lq9",
        "tool_response": {"stdout": "....................\n" * 100, "stderr": "", "interrupted": False},
        "duration_ms": 3100,
    }
).encode()


def _hooks(instance: Instance, own: str, times: int) -> Iterator[Row]:
    """Time of the whole hook process, for which the agent waits: with and without a daemon that answers."""
    session = instance.spawn()["session_id"]
    token = str(instance.home / f"state/launch/{session}.token")
    environ = instance.env | {"SM_SESSION_ID": session, "SM_TOKEN_FILE": token}
    away = str(instance.home / "away/run/sm.sock")
    for what, socket, gate, aim in (
        ("sm hook", instance.socket, 1.6, 1.2),
        ("sm hook, the daemon is away", away, None, None),
    ):
        hook = partial(_hook, own, environ | {"SM_SOCKET": socket})
        pairs = alternate(times, hook, partial(instance.run, *PASS))
        yield pairs.row(what, _FLOOR_IS, Judged.RATIO, gate, aim)
    if len(os.listdir(instance.home / f"away/spool/{session}")) != times + 1:
        raise RuntimeError("sm hook did not spool its events")


def _hook(own: str, environ: Mapping[str, str]) -> None:
    read, write = os.pipe()
    os.write(write, _EVENT)
    os.close(write)
    with open(read, "rb") as stdin:
        subprocess.run((own, "hook", "claude"), env=environ, stdin=stdin, check=True)


def _report(instance: Instance, own: str, times: int) -> Row:
    """Time from `sm checkpoint` of an agent until a running `sm events --follow` prints the checkpoint."""
    session = instance.spawn()
    session_id = session["session_id"]
    token = str(instance.home / f"state/launch/{session_id}.token")
    environ = instance.env | {
        "SM_SESSION_ID": session_id,
        "SM_SOCKET": instance.socket,
        "SM_TOKEN_FILE": token,
    }
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
            if number:  # the follower may not be ready for the first checkpoint
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
    """The times at which `text` was read from `out`, and at which the process of `pidfd` ended."""
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
