"""Crashes of the daemon at any step of a spawn: the retry of the client leaves exactly one agent."""

import os
import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sm.client.http import Client, DaemonAway
from tests.fixtures import context_fixture
from tests.instance import Instance, until

LONG = os.environ.get("SM_LONG") == "1"
QUARTER = 50 if LONG else 15

# One of each kind of act, and in `./check --full` those around each of them. tests/played/test_crash_in_spawn.py has
# every step.
POINTS = [
    "Store.transaction after 1",
    "PaneCreator._make_session after 1",
    "PaneCreator._start_agent after 1",
]
OTHER_POINTS = [
    "Tmux.open after 1",
    "PaneCreator._make_session before 1",
    "PaneCreator._start_agent before 1",
    "Spawner.spawn after 1",  # only the response is lost
]


class Stage(Instance):
    """An instance whose daemons can be started with a crash point (crash_point.py)."""

    def __init__(self) -> None:
        super().__init__(
            '  Reader: {command: [sh, -c, "while read -r x; do echo $x >> typed; done"], prompt: tty}\n'
            "limits: {max_per_workspace: 10000}"
        )

    def request(self, script: str, key: str) -> dict[str, Any]:
        """Spawn by an HTTP request that the client does not retry."""
        body = {"agent_type": "Sh", "prompt": script, "cwd": str(self.work), "environment": dict(os.environ)}
        session: dict[str, Any] = Client(str(self.socket)).post("/v1/sessions", body, key=key)
        return session


stage = context_fixture("module", Stage)


def starts(path: Path) -> list[int]:
    """The pids that all agents of this spawn have written to the file."""
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def agents_of(session_ids: set[str]) -> Counter[str]:
    """Count the live processes of each session by their environment in /proc."""
    counts: Counter[str] = Counter()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            variables = Path(f"/proc/{name}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        counts.update(v[14:].decode() for v in variables if v.startswith(b"SM_SESSION_ID="))
    return Counter({s: n for s, n in counts.items() if s in session_ids})


def left_over(instance: Instance, known: set[str]) -> list[str]:
    """Files and tmux sessions that an interrupted start has left."""
    launch = {p.name for p in (instance.state / "launch").iterdir()} - {f"{s}.token" for s in known}
    sessions = set(instance.tmux("list-sessions", "-F", "#{session_name}").split())
    # The prepared tmux session for the next agent: the next daemon removes it.
    sessions = {name for name in sessions if not name.startswith("sm-spare-")}
    keeper = {name for name in sessions if name.startswith("sm-")}
    assert len(keeper) == 1
    return sorted(launch | (sessions - keeper - {f"command-{s}" for s in known}))


@pytest.mark.parametrize(
    "point", [*POINTS, *(pytest.param(point, marks=pytest.mark.full) for point in OTHER_POINTS)]
)
def test_spawn_starts_exactly_one_agent_when_the_daemon_crashes_at_any_step(stage: Stage, point: str) -> None:
    daemon = stage.start_daemon(point)
    pid_file = stage.work / point.replace(" ", "-")
    name = point.replace(" ", "-").lower()
    session = stage.spawn("Sh", f'echo $$ >> "{pid_file}"; exec sleep 1000', "--name", name)
    daemon.wait()  # the daemon died, and `sm spawn` started another one and retried
    until(lambda: starts(pid_file), "the agent runs")
    assert starts(pid_file) == [session["pid"]]
    assert stage.session(session["session_id"])["status"] == "running"
    assert [e["type"] for e in stage.events(session["session_id"])] == ["spawned", "started"]
    live = {s["session_id"] for s in stage.json("all")}
    assert [s["friendly_name"] for s in stage.json("all")].count(f"sh-{name}") == 1
    assert agents_of(live) == Counter(dict.fromkeys(live, 1))
    stage.kill_daemon()
    assert left_over(stage, live) == []


@pytest.mark.parametrize("quarter", range(4 if LONG else 1))
def test_spawn_starts_exactly_one_agent_when_the_daemon_is_killed_at_random(
    stage: Stage, quarter: int
) -> None:
    """A SIGKILL comes at any instruction, 200 times with SM_LONG=1. A simulation drops the daemon at each step."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201 - shown when it fails, to run it again
    rng = random.Random(seed)
    ids = []
    outcomes: Counter[str] = Counter()
    daemon = stage.start_daemon()
    with ThreadPoolExecutor(1) as pool:
        for n in range(QUARTER):
            key = f"random-{quarter}-{n}"
            script = f"echo $$ >> {key}; exec sleep 1000"
            future = pool.submit(stage.request, script, key)
            # No synchronisation: any moment will do. Half of the kills come early, where most of the steps are.
            time.sleep(rng.uniform(0, 0.015 if n % 2 else 0.06))
            daemon.kill()
            try:
                outcomes["answered"] += bool(future.result()["session_id"])
            except DaemonAway:
                outcomes["cut short"] += 1
            daemon = stage.start_daemon()
            ids.append(stage.request(script, key)["session_id"])
    print(dict(outcomes))  # noqa: T201 - how many requests were cut short
    listed = {s["session_id"]: s for s in stage.json("all")}
    assert len(set(ids)) == QUARTER
    assert [listed[s]["status_reason"] for s in ids if listed[s]["status"] != "running"] == [], f"seed {seed}"
    for n, session_id in enumerate(ids):
        pid_file = stage.work / f"random-{quarter}-{n}"
        until(lambda pid_file=pid_file: starts(pid_file), "the agent runs")  # type: ignore[misc]  # a default binds the loop's value
        assert starts(pid_file) == [listed[session_id]["pid"]], f"spawn {n} of seed {seed}"
    live = {s for s, session in listed.items() if session["status"] == "running"}
    assert agents_of(live) == Counter(dict.fromkeys(live, 1))
    events = Counter((e["session_id"], e["type"]) for e in stage.events())
    assert {events[s, t] for s in ids for t in ("spawned", "started")} == {1}
    daemon.kill()
    assert left_over(stage, set(listed)) == []
