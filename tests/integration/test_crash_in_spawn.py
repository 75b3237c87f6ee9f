"""A daemon that dies anywhere inside a spawn: the client's own retry ends with exactly one agent."""

import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sm.client.http import Away, Client
from tests.instance import Instance, until

QUARTER = 50

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


class Stage(Instance):
    """An instance for many daemons, each of which may be told where to die (crash_point.py)."""

    def __init__(self) -> None:
        super().__init__(
            '  Reader: {command: [sh, -c, "while read -r x; do echo $x >> typed; done"], prompt: tty}\n'
            "limits: {max_per_workspace: 10000}"
        )

    def request(self, script: str, key: str) -> dict[str, Any]:
        """Start an agent by a request of our own, which is repeated by hand."""
        body = {"agent_type": "Sh", "prompt": script, "cwd": str(self.work), "environment": dict(os.environ)}
        session: dict[str, Any] = Client(str(self.socket)).post("/v1/sessions", body, key=key)
        return session


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as made:
        yield made


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
def test_a_crash_at_any_step_gives_exactly_one_agent(stage: Stage, point: str) -> None:
    daemon = stage.start_daemon(point)
    wrote = stage.work / point.replace(" ", "-")
    name = point.replace(" ", "-").lower()
    session = stage.spawn("Sh", f'echo $$ >> "{wrote}"; exec sleep 1000', "--name", name)
    daemon.wait()  # it did die, and `sm spawn` has started another and asked that again
    until(lambda: starts(wrote), "the agent runs")
    assert starts(wrote) == [session["pid"]]
    assert stage.session(session["session_id"])["status"] == "running"
    assert [e["type"] for e in stage.events(session["session_id"])] == ["spawned", "started"]
    live = {s["session_id"] for s in stage.json("all")}
    assert [s["friendly_name"] for s in stage.json("all")].count(f"sh-{name}") == 1
    assert agents_of(live) == Counter(dict.fromkeys(live, 1))
    stage.kill_daemon()
    assert left_over(stage, live) == []


@pytest.mark.parametrize(
    "point", ["Store.transaction after 1", "Tmux.open before 1", "Spawner.started before 1"]
)
def test_servers_of_a_crashed_start_are_still_given_and_are_not_in_the_database(
    stage: Stage, point: str
) -> None:
    out = stage.work / f"servers-{point.replace(' ', '-')}"
    secret = "of-a-server-5f0c"
    server = {"command": "x", "env": {"KEY": secret}}
    (stage.home / ".claude.json").write_text(json.dumps({"mcpServers": {"mine": server}}))
    fake = stage.work / "fake"
    fake.write_text(
        'while [ "$1" != --mcp-config ]; do shift; done; cat "$2" > "$OUT.new"; mv "$OUT.new" "$OUT"; exec sleep 1000'
    )
    before = stage.config.read_text()
    env = f'claude: {{default_command: [sh, {fake}], env: {{OUT: "{out}"}}}}\n'
    stage.config.write_text(f"{before}{env}")
    try:
        daemon = stage.start_daemon(point)
        session_id = stage.spawn("general-purpose", "x", "--trust", "direct")["session_id"]
        daemon.wait()
        until(out.exists, "the agent has read its servers")
        assert json.loads(out.read_text())["mcpServers"]["mine"]["env"]["KEY"] == secret
        assert not any(secret.encode() in each.read_bytes() for each in stage.state.glob("sm.db*"))
        stage.sm("kill", session_id, "--force")
        stage.sm("rm", session_id)
        stage.kill_daemon()
    finally:
        stage.config.write_text(before)
        (stage.home / ".claude.json").unlink()


@pytest.mark.parametrize(
    ("point", "typed"), [("Tmux.type_line before 1", ""), ("Tmux.type_line after 1", "hello\n")]
)
def test_a_prompt_whose_typing_was_interrupted_is_not_typed_again(
    stage: Stage, point: str, typed: str
) -> None:
    daemon = stage.start_daemon(point)
    before = stage.json("status")["dead_letters"]
    session_id = stage.spawn("Reader", "hello")["session_id"]
    daemon.wait()
    until(lambda: stage.json("status")["dead_letters"] == before + 1, "it is a dead letter")
    warnings = [e["message"] for e in stage.events(session_id, "--type", "warning")]
    assert len(warnings) == 1
    assert "look at its terminal" in warnings[0]
    # A second typing would stand before this one.
    stage.tmux("send-keys", "-t", f"=command-{session_id}:", "-l", "end")
    stage.tmux("send-keys", "-t", f"=command-{session_id}:", "Enter")
    out = stage.work / "typed"
    until(lambda: out.exists() and out.read_text().endswith("end\n"), "it has heard us")
    assert out.read_text() == f"{typed}end\n"
    out.unlink()
    stage.sm("kill", session_id, "--force")
    stage.kill_daemon()


@pytest.mark.parametrize("quarter", range(4))
def test_two_hundred_random_kills_give_one_agent_each(stage: Stage, quarter: int) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201 - shown when it fails, to run it again
    moment = random.Random(seed)
    ids = []
    seen: Counter[str] = Counter()
    daemon = stage.start_daemon()
    with ThreadPoolExecutor(1) as pool:
        for n in range(QUARTER):
            key = f"random-{quarter}-{n}"
            script = f"echo $$ >> {key}; exec sleep 1000"
            asked = pool.submit(stage.request, script, key)
            # Not to wait for anything: any moment will do. Half of them early, where most of the steps are.
            time.sleep(moment.uniform(0, 0.015 if n % 2 else 0.06))
            daemon.kill()
            try:
                seen["answered"] += bool(asked.result()["session_id"])
            except Away:
                seen["cut short"] += 1
            daemon = stage.start_daemon()
            ids.append(stage.request(script, key)["session_id"])
    print(dict(seen))  # noqa: T201 - what the moments hit
    listed = {s["session_id"]: s for s in stage.json("all")}
    assert len(set(ids)) == QUARTER
    assert [listed[s]["status_reason"] for s in ids if listed[s]["status"] != "running"] == [], f"seed {seed}"
    for n, session_id in enumerate(ids):
        wrote = stage.work / f"random-{quarter}-{n}"
        until(lambda wrote=wrote: starts(wrote), "the agent runs")  # type: ignore[misc]  # a default binds the loop's value
        assert starts(wrote) == [listed[session_id]["pid"]], f"spawn {n} of seed {seed}"
    live = {s for s, session in listed.items() if session["status"] == "running"}
    assert agents_of(live) == Counter(dict.fromkeys(live, 1))
    events = Counter((e["session_id"], e["type"]) for e in stage.events())
    assert {events[s, t] for s in ids for t in ("spawned", "started")} == {1}
    daemon.kill()
    assert left_over(stage, set(listed)) == []
