"""Measures the processor time and memory that it takes to watch many sessions."""

import os
import time
from collections.abc import Iterator

from bench.instance import Instance
from bench.row import Effort, Row
from sm.client.http import Client

_SETTLE_S = 10.0
"""sm reads new agents more often for this time."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def measure(effort: Effort) -> Iterator[Row]:
    count = effort.sessions
    with Instance() as instance:
        bare_kb = memory_kb(instance.start_bare().pid)
        empty_kb = memory_kb(instance.daemon.pid)
        instance.spawn_many(count)
        full_kb = memory_kb(instance.daemon.pid)
        for what, which in (("RSS", "Rss"), ("PSS", "Pss")):
            bounds = (70.0, 50.0) if which == "Rss" else (None, None)
            yield Row(
                f"memory of the daemon ({what})",
                "MB",
                empty_kb[which] / 1024,
                bare_kb[which] / 1024,
                "bare aiohttp and aiosqlite",
                gate=bounds[0],
                aim=bounds[1],
            )
        per_session = (full_kb["Rss"] - empty_kb["Rss"]) / count
        yield Row(f"memory for each of {count} sessions (RSS)", "kB", per_session, gate=100, aim=30)

        daemon, tmux = instance.daemon.pid, int(instance.tmux("display-message", "-p", "#{pid}"))
        ttys = instance.tmux("list-panes", "-a", "-f", "#{@sm_session_id}", "-F", "#{pane_tty}").split()
        if len(ttys) != count:
            raise RuntimeError(f"{len(ttys)} terminals instead of {count}")
        idle = cpu_percent(effort.watch_s, [], daemon, tmux)
        printing = cpu_percent(effort.watch_s, ttys, daemon, tmux)
        instance.kill(instance.daemon)  # and with it the tmux client of sm
        (tmux_idle,) = cpu_percent(effort.watch_s / 2, [], tmux)
        (tmux_printing,) = cpu_percent(effort.watch_s / 2, ttys, tmux)
        for what, (by_daemon, by_tmux), alone in (
            ("idle", idle, tmux_idle),
            ("printing every second", printing, tmux_printing),
        ):
            yield Row(
                f"watching {count} sessions, {what}: CPU added, of a core",
                "%",
                by_daemon + max(0.0, by_tmux - alone),
                gate=1,
                aim=0.3,
            )
            yield Row("  by the daemon itself", "%", by_daemon)
            yield Row("  by tmux", "%", by_tmux, alone, "unwatched")
    yield from _claudes(effort)


def _claudes(effort: Effort) -> Iterator[Row]:
    """Watch idle agents that publish their state."""
    count = effort.sessions
    with Instance() as instance:
        instance.spawn_many(count, "Claude")
        client = Client(instance.socket)
        deadline = time.monotonic() + 60
        while sum(s["status"] == "idle" for s in client.get("/v1/sessions")) < count:
            if time.monotonic() > deadline:
                raise RuntimeError("not all agents are idle")
            time.sleep(0.1)
        settle()
        (by_daemon,) = cpu_percent(effort.watch_s, [], instance.daemon.pid)
        what = f"watching {count} claudes at rest (a stand-in): CPU of the daemon, of a core"
        yield Row(what, "%", by_daemon, gate=1, aim=0.3)


def settle() -> None:
    """Wait until sm reads the agents at the rate of agents at rest."""
    time.sleep(_SETTLE_S)


def memory_kb(pid: int) -> dict[str, int]:
    """The values of proc(5), smaps_rollup: each line is `Name: NUMBER kB`."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        lines = [line.split() for line in file.readlines()[1:]]
    return {line[0].rstrip(":"): int(line[1]) for line in lines}


def cpu_percent(seconds: float, ttys: list[str], *pids: int) -> tuple[float, ...]:
    """Measure the CPU use of each process, in per cent of a core, while each terminal prints a line every second."""
    # This process writes to the terminals, so that no agent uses CPU time for it.
    fds = [os.open(tty, os.O_WRONLY | os.O_NOCTTY) for tty in ttys]
    try:
        before = [_cpu_s(pid) for pid in pids]
        begin = time.monotonic()
        turn = 0
        while (passed := time.monotonic() - begin) < seconds:
            if fds:
                while turn <= passed * len(fds):
                    os.write(fds[turn % len(fds)], b"still at work\r\n")
                    turn += 1
            time.sleep(1 / len(fds) if fds else 0.1)
        passed = time.monotonic() - begin
        return tuple((_cpu_s(pid) - was) / passed * 100 for pid, was in zip(pids, before, strict=True))
    finally:
        for fd in fds:
            os.close(fd)


def _cpu_s(pid: int) -> float:
    """The sum of utime and stime (proc(5))."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        fields = file.read().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
