"""`python -m bench starts`: measures the start time of the real Claude Code under sm, and its failures."""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from statistics import median, quantiles

from sm.client.http import Client, new_key
from sm.errors import SmError
from tests.claude_instance import ClaudeInstance
from tests.scripted_api import ScriptedApi

_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds since the request, or None if it was never reached."""

    running_s: float | None = None
    """The agent's process runs."""
    ready_s: float | None = None
    """The agent accepts input."""
    answered_s: float | None = None
    """The first turn, an answer of one word, is over."""
    failure: str | None = None


def start(client: Client, api: ScriptedApi, instance: ClaudeInstance, number: int) -> Start:
    """Start an agent with a prompt, measure until the end of its first turn, and kill the agent."""
    began = time.monotonic()
    found = Start()
    session_id = ""
    try:
        body = {
            "agent_type": "Plain",
            "prompt": f"start-{number}. [[text:hello]]",
            "cwd": str(instance.work),
            "environment": instance.env,
        }
        session_id = client.post("/v1/sessions", body, key=new_key())["session_id"]
        found = Start(time.monotonic() - began)
        ready = answered = None
        while answered is None:
            status = client.get(f"/v1/sessions/{session_id}")["status"]
            now = time.monotonic() - began
            if status in ("running", "idle") and ready is None:
                ready = now
            if status == "idle":
                answered = now
            elif status not in ("starting", "running"):
                return Start(found.running_s, ready, None, f"it is {status}")
            elif now > _WITHIN_S:
                return Start(found.running_s, ready, None, f"still {status} after {_WITHIN_S:g} s")
            time.sleep(0.01)
        asked = len(api.turns(f"start-{number}."))
        return Start(found.running_s, ready, answered, None if asked == 1 else f"asked {asked} times")
    except SmError as error:
        return Start(found.running_s, failure=error.message)
    finally:
        if session_id:
            client.post(f"/v1/sessions/{session_id}/kill", {"force": True}, key=new_key())


def measure(count: int, at_once: int) -> list[Start]:
    """Measure `count` starts, `at_once` of them at the same time."""
    with ScriptedApi() as api, ClaudeInstance(api) as instance:
        instance.sm("daemon", "start")

        def one(number: int) -> Start:
            return start(Client(str(instance.socket)), api, instance, number)

        with ThreadPoolExecutor(at_once) as pool:
            return list(pool.map(one, range(count)))


def main(arguments: Sequence[str]) -> int:
    """Return 0 when no start failed."""
    parser = argparse.ArgumentParser(
        prog="python -m bench starts", description="Measure starts of the real claude."
    )
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--at-once", type=int, nargs="*", default=[1, 3, 8])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    answers = {}
    if not options.json:
        print(
            "at once  starts  failed   process runs    takes input   first turn over   (seconds, p50 / p95)"
        )
    for at_once in options.at_once:
        print(f"{at_once} at a time ...", file=sys.stderr, flush=True)
        starts = measure(options.count, at_once)
        answers[at_once] = [asdict(each) for each in starts]
        if not options.json:
            failed = sum(each.failure is not None for each in starts)
            cells = [
                _cell([v for each in starts if (v := getattr(each, name)) is not None])
                for name in ("running_s", "ready_s", "answered_s")
            ]
            print(
                f"{at_once:>7}{len(starts):>8}{failed:>8}" + "".join(f"{cell:>16}" for cell in cells),
                flush=True,
            )
            for each in starts:
                if each.failure is not None:
                    print(f"  {each.failure}")
    if options.json:
        print(json.dumps(answers, indent=2))
    return int(any(each["failure"] for starts in answers.values() for each in starts))


def _cell(values: Sequence[float]) -> str:
    if len(values) < 2:
        return "-"
    return f"{median(values):.3f} / {quantiles(values, n=20)[-1]:.3f}"
