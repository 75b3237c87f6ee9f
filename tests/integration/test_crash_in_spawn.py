"""A daemon that dies anywhere inside a spawn: the client's own retry ends with exactly one agent."""

import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sm.client.http import Away, Client
from tests.instance import Instance, until
from tests.load import scaled

KILL_POINTS = 200
REPOSITORY = Path(__file__).parents[2]

# Both sides of every step, in the order in which a spawn takes them.
POINTS = [
    f"{place} {when} {number}"
    for place, number in (
        ("HostSandbox.prepare", 1),
        ("Store.transaction", 1),  # the session, its event and the order to start it
        ("Transaction.effect", 1),  # half-way through the same
        ("Tmux.open", 1),
        ("PaneCreator._make_session", 1),
        ("PaneCreator._start_agent", 1),
        ("Spawner.launching", 1),
        ("HostSandbox.wait_started", 1),
        ("Spawner.started", 1),
        ("Store.transaction", 3),
        ("Spawner.spawn", 1),  # after: only the answer is missing
    )
    for when in ("before", "after")
]


class Nursery:
    """One instance, and daemons for it that start quickly and die as told (daemon_nursery.py)."""

    def __init__(self) -> None:
        self.instance = Instance(
            '  Reader: {command: [sh, -c, "while read -r x; do echo $x >> typed; done"], prompt: tty}\n'
            "limits: {max_per_workspace: 10000}"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.daemon_nursery"],
            env={**self.instance.env, "PYTHONPATH": f"{REPOSITORY}/src:{REPOSITORY}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd="/",
        )
        self._daemon: int | None = None

    def start(self, point: str = "") -> None:
        """A daemon that serves, and dies at `point`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{point}\n".encode())
        self._process.stdin.flush()
        pid = int(self._process.stdout.readline())
        assert json.loads(self._process.stdout.readline()) == {"ready": True}
        self._daemon = os.pidfd_open(pid)

    def kill(self) -> None:
        """SIGKILL to the daemon that was started last; or see that it is dead."""
        assert self._daemon is not None
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._daemon, signal.SIGKILL)
        self.wait_dead()

    def wait_dead(self) -> None:
        assert self._daemon is not None
        poll = select.poll()
        poll.register(self._daemon, select.POLLIN)
        assert poll.poll(scaled() * 1000), "the daemon did not die"
        os.close(self._daemon)
        self._daemon = None

    def spawn(self, script: str, key: str) -> dict[str, Any]:
        """By a request of our own, which is repeated by hand."""
        body = {
            "agent_type": "Sh",
            "prompt": script,
            "cwd": str(self.instance.work),
            "environment": dict(os.environ),
        }
        session: dict[str, Any] = Client(str(self.instance.socket)).post("/v1/sessions", body, key=key)
        return session

    def end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if self._daemon is not None:
            self.kill()
        self._process.stdin.close()
        assert self._process.wait(scaled(20)) == 0
        self._process.stdout.close()
        self.instance.end()


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.end()


def starts(path: Path) -> list[int]:
    """The pids of all agents that were ever started with this file to write theirs to."""
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def agents_of(session_ids: set[str]) -> Counter[str]:
    """How many live processes are the agent of each of these sessions, by the kernel's own word."""
    found: Counter[str] = Counter()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            variables = Path(f"/proc/{name}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        found.update(v[14:].decode() for v in variables if v.startswith(b"SM_SESSION_ID="))
    return Counter({s: n for s, n in found.items() if s in session_ids})


def left_over(instance: Instance, known: set[str]) -> list[str]:
    """What a start that was cut short may have left in the state directory or in tmux."""
    launch = {p.name for p in (instance.state / "launch").iterdir()} - {f"{s}.token" for s in known}
    sessions = set(instance.tmux("list-sessions", "-F", "#{session_name}").split())
    # The session that stands ready for the next agent: the next daemon removes it.
    sessions = {name for name in sessions if not name.startswith("sm-spare-")}
    keeper = {name for name in sessions if name.startswith("sm-")}
    assert len(keeper) == 1
    return sorted(launch | (sessions - keeper - {f"command-{s}" for s in known}))


@pytest.mark.parametrize("point", POINTS)
def test_a_crash_at_any_step_gives_exactly_one_agent(nursery: Nursery, point: str) -> None:
    instance = nursery.instance
    nursery.start(point)
    wrote = instance.work / point.replace(" ", "-")
    name = point.replace(" ", "-").lower()
    session = instance.spawn("Sh", f'echo $$ >> "{wrote}"; exec sleep 1000', "--name", name)
    nursery.wait_dead()  # it did die, and `sm spawn` has started another and asked that again
    until(lambda: starts(wrote), "the agent runs")
    assert starts(wrote) == [session["pid"]]
    assert instance.session(session["session_id"])["status"] == "running"
    assert [e["type"] for e in instance.events(session["session_id"])] == ["spawned", "started"]
    live = {s["session_id"] for s in instance.json("all")}
    assert [s["friendly_name"] for s in instance.json("all")].count(f"sh-{name}") == 1
    assert agents_of(live) == Counter(dict.fromkeys(live, 1))
    instance.kill_daemon()
    assert left_over(instance, live) == []


@pytest.mark.parametrize(
    "point", ["Store.transaction after 1", "Tmux.open before 1", "Spawner.started before 1"]
)
def test_servers_of_a_crashed_start_are_still_given_and_are_not_in_the_database(
    nursery: Nursery, point: str
) -> None:
    instance = nursery.instance
    out = instance.work / f"servers-{point.replace(' ', '-')}"
    secret = "of-a-server-5f0c"
    server = {"command": "x", "env": {"KEY": secret}}
    (instance.home / ".claude.json").write_text(json.dumps({"mcpServers": {"mine": server}}))
    fake = instance.work / "fake"
    fake.write_text(
        'while [ "$1" != --mcp-config ]; do shift; done; cat "$2" > "$OUT.new"; mv "$OUT.new" "$OUT"; exec sleep 1000'
    )
    before = instance.config.read_text()
    env = f'claude: {{default_command: [sh, {fake}], env: {{OUT: "{out}"}}}}\n'
    instance.config.write_text(f"{before}{env}")
    try:
        nursery.start(point)
        session_id = instance.spawn("general-purpose", "x", "--trust", "direct")["session_id"]
        nursery.wait_dead()
        until(out.exists, "the agent has read its servers")
        assert json.loads(out.read_text())["mcpServers"]["mine"]["env"]["KEY"] == secret
        assert not any(secret.encode() in each.read_bytes() for each in instance.state.glob("sm.db*"))
        instance.sm("kill", session_id, "--force")
        instance.sm("rm", session_id)
        instance.kill_daemon()
    finally:
        instance.config.write_text(before)
        (instance.home / ".claude.json").unlink()


@pytest.mark.parametrize(
    ("point", "typed"), [("Tmux.type_line before 1", ""), ("Tmux.type_line after 1", "hello\n")]
)
def test_a_prompt_whose_typing_was_interrupted_is_not_typed_again(
    nursery: Nursery, point: str, typed: str
) -> None:
    instance = nursery.instance
    nursery.start(point)
    before = instance.json("status")["dead_letters"]
    session_id = instance.spawn("Reader", "hello")["session_id"]
    nursery.wait_dead()
    until(lambda: instance.json("status")["dead_letters"] == before + 1, "it is a dead letter")
    warnings = [e["message"] for e in instance.events(session_id, "--type", "warning")]
    assert len(warnings) == 1
    assert "look at its terminal" in warnings[0]
    # A second typing would stand before this one.
    instance.tmux("send-keys", "-t", f"=command-{session_id}:", "-l", "end")
    instance.tmux("send-keys", "-t", f"=command-{session_id}:", "Enter")
    out = instance.work / "typed"
    until(lambda: out.exists() and out.read_text().endswith("end\n"), "it has heard us")
    assert out.read_text() == f"{typed}end\n"
    out.unlink()
    instance.sm("kill", session_id, "--force")
    instance.kill_daemon()


@pytest.mark.timeout(300)  # two hundred starts of a daemon, half a second of a core each
def test_two_hundred_random_kills_give_one_agent_each(nursery: Nursery) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201 - shown when it fails, to run it again
    moment = random.Random(seed)
    instance = nursery.instance
    ids = []
    seen: Counter[str] = Counter()
    nursery.start()
    with ThreadPoolExecutor(1) as pool:
        for n in range(KILL_POINTS):
            script, key = f"echo $$ >> random-{n}; exec sleep 1000", f"random-{n}"
            asked = pool.submit(nursery.spawn, script, key)
            # Not to wait for anything: any moment will do. Half of them early, where most of the steps are.
            time.sleep(moment.uniform(0, 0.015 if n % 2 else 0.06))
            nursery.kill()
            try:
                seen["answered"] += bool(asked.result()["session_id"])
            except Away:
                seen["cut short"] += 1
            nursery.start()
            ids.append(nursery.spawn(script, key)["session_id"])
    print(dict(seen))  # noqa: T201 - what the moments hit
    listed = {s["session_id"]: s for s in instance.json("all")}
    assert len(set(ids)) == KILL_POINTS
    assert [listed[s]["status_reason"] for s in ids if listed[s]["status"] != "running"] == [], f"seed {seed}"
    for n, session_id in enumerate(ids):
        wrote = instance.work / f"random-{n}"
        until(lambda wrote=wrote: starts(wrote), "the agent runs")  # type: ignore[misc]  # a default binds the loop's value
        assert starts(wrote) == [listed[session_id]["pid"]], f"spawn {n} of seed {seed}"
    live = {s for s, session in listed.items() if session["status"] == "running"}
    assert agents_of(live) == Counter(dict.fromkeys(live, 1))
    events = Counter((e["session_id"], e["type"]) for e in instance.events())
    assert {events[s, t] for s in ids for t in ("spawned", "started")} == {1}
    nursery.kill()
    assert left_over(instance, set(listed)) == []
