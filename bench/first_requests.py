"""`python -m bench first-requests`: counts the agents that have the tools of sm in their first request.

Starts the real claude with a prompt, one agent after the other, while busy processes load the machine. An agent type
without the MCP server of sm is the floor of the time.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from statistics import median

from sm.client.http import Client, new_key
from tests.claude_cli import BINARY
from tests.claude_instance import ClaudeInstance, calling_session
from tests.scripted_api import Request, ScriptedApi

_BARE = "    Bare: {mcp: false}"
_OWN = "mcp__sm__"
_SPIN = "while True: pass"


@dataclass(frozen=True, slots=True)
class First:
    """The first request of one agent."""

    has_tools: bool
    seconds: float
    """From the request for the spawn to the agent's first request."""
    is_known: bool
    """`sm why` says that the request had no tools."""


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Load the machine with processes that compute."""
    running = [subprocess.Popen([sys.executable, "-c", _SPIN]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def first_request(api: ScriptedApi, instance: ClaudeInstance, agent_type: str) -> First:
    """Start an agent with a prompt, wait for its first request, and kill the agent."""
    client, began = Client(str(instance.socket)), time.monotonic()
    body = {
        "agent_type": agent_type,
        "prompt": "Say hello. [[text:hello]]",
        "cwd": str(instance.work),
        "environment": instance.env,
    }
    session_id = client.post("/v1/sessions", body, key=new_key())["session_id"]

    def sent() -> Request | None:
        return next((turn for turn in api.turns() if calling_session(turn) == session_id), None)

    request = api.wait_for(sent, f"the first request of {session_id}")
    seconds = time.monotonic() - began
    facts = client.get(f"/v1/sessions/{session_id}/why")["facts"]
    client.post(f"/v1/sessions/{session_id}/kill", {"force": True}, key=new_key())
    is_known = any("had no tools of sm" in fact for fact in facts)
    return First(any(name.startswith(_OWN) for name in request.tools), seconds, is_known)


def measure(count: int, processes: int, claude: str) -> tuple[list[First], list[First]]:
    """The first requests of `count` agents with the tools of sm, and of as many without, in turns."""
    with ScriptedApi() as api, ClaudeInstance(api, program=claude, more=_BARE) as instance:
        instance.sm("daemon", "start")
        first_request(api, instance, "Plain")  # loads the files of claude
        with busy(processes):
            pairs = [
                (first_request(api, instance, "Plain"), first_request(api, instance, "Bare"))
                for _ in range(count)
            ]
    return [own for own, _ in pairs], [bare for _, bare in pairs]


def main(arguments: Sequence[str]) -> int:
    """Return 0 when all agents had the tools at loads of 4 processes and less."""
    parser = argparse.ArgumentParser(
        prog="python -m bench first-requests", description="Count first requests with the tools of sm."
    )
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--load", type=int, nargs="*", default=[0, 4, 12], metavar="PROCESSES")
    parser.add_argument("--claude", default=str(BINARY), help="another claude to measure")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    version = subprocess.run([options.claude, "--version"], capture_output=True, text=True, check=True)
    answers, missed = {}, 0
    if not options.json:
        print(f"claude {version.stdout.strip()}, {os.cpu_count()} cores")
        print("busy   load  with tools  known without   first request p50 / max   without MCP (seconds)")
    for processes in options.load:
        own, bare = measure(options.count, processes, options.claude)
        load = os.getloadavg()[0]
        answers[processes] = {"load": load, "own": [*map(asdict, own)], "bare": [*map(asdict, bare)]}
        having = sum(first.has_tools for first in own)
        missed += len(own) - having if processes <= 4 else 0
        known = sum(first.is_known and not first.has_tools for first in own)
        if not options.json:
            print(
                f"{processes:>4}{load:>7.1f}{f'{having} of {len(own)}':>12}{f'{known} of {len(own) - having}':>15}"
                f"{_cell(own):>26}{_cell(bare):>22}",
                flush=True,
            )
    if options.json:
        print(json.dumps(answers, indent=2))
    return int(missed > 0)


def _cell(firsts: Sequence[First]) -> str:
    times = [first.seconds for first in firsts]
    return f"{median(times):.2f} / {max(times):.2f}"
