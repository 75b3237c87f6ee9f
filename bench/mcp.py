"""Measures `sm mcp`, the calls of tools through it, and what MCP costs the daemon."""

import json
import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import TracebackType
from typing import Any, Self

from bench.instance import PASS, Connection, Instance, until
from bench.row import Effort, Judged, Pairs, Row, alternate, timed_ms
from bench.turns import read_turns
from bench.watching import memory_kb

_AGENT = "exec sleep 1000000"
_INTERPRETER = (sys.executable, "-IS", "-c", "import posix; posix.write(1, b'x'); posix.read(0, 1)")
_VERSION = "2025-11-25"


class Pump:
    """A process `sm mcp` after the handshake. Use it as a context manager."""

    def __init__(self, instance: Instance, session: str | None = None) -> None:
        environ = instance.env | {"SM_SOCKET": instance.socket}
        if session is not None:
            token = str(instance.home / f"state/launch/{session}.token")
            environ |= {"SM_SESSION_ID": session, "SM_TOKEN_FILE": token}
        self.process = subprocess.Popen(
            (str(instance.home / "state/bin/sm"), "mcp", "--operator"),
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        client = {"name": "bench", "version": "1"}
        self.ask("initialize", {"protocolVersion": _VERSION, "capabilities": {}, "clientInfo": client})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def ask(self, method: str, params: object) -> bytes:
        """The line with the answer. Raises RuntimeError for an error."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if b'"result"' not in line or b'"isError":true' in line:
            raise RuntimeError(f"{method}: {line.decode()[:1000]}")
        return line

    def call(self, tool: str, **arguments: Any) -> bytes:
        return self.ask("tools/call", {"name": tool, "arguments": arguments})


def measure(effort: Effort) -> Iterator[Row]:
    yield from _first_use()
    with Instance() as instance:
        session = instance.spawn()["session_id"]
        with Pump(instance, session):
            pass  # the first use of the SDK is a row of its own
        yield from _processes(instance, session, effort)
        with Pump(instance) as pump:
            yield from _calls(instance, pump, effort)


def _first_use() -> Iterator[Row]:
    """The stall of the daemon's event loop when the first client of the daemon makes it import the SDK."""
    instance = Instance(daemon="bench.turns")
    instance.env |= {"BENCH_TURNS": str(instance.home / "turns"), "PYTHONPATH": os.getcwd()}
    with instance:
        before_kb = memory_kb(instance.daemon.pid)["Rss"]
        instance.daemon.send_signal(signal.SIGUSR2)
        with Pump(instance) as pump:
            pump.ask("tools/list", {})
        turns = read_turns(instance.env["BENCH_TURNS"])
        what = "MCP, first use: work of the daemon in one turn of its loop"
        yield Row(what, "ms", turns.longest_worked_s * 1000, gate=20)
        yield Row("  longest turn of the daemon's loop", "ms", turns.longest_s * 1000, aim=20)
        added_mb = (memory_kb(instance.daemon.pid)["Rss"] - before_kb) / 1024
        yield Row("  memory that it adds to the daemon (RSS)", "MB", added_mb, gate=45)


def _processes(instance: Instance, session: str, effort: Effort) -> Iterator[Row]:
    """The start of a pump and its memory, and the memory of the daemon with many of them."""

    def start() -> None:
        with Pump(instance, session):
            pass

    pairs = alternate(effort.pairs, start, partial(instance.run, *PASS))
    yield pairs.row("sm mcp: start to its first answer and end", "python -c pass", Judged.RATIO, 1.6, 1.2)
    count = effort.pumps
    before_kb = memory_kb(instance.daemon.pid)["Rss"]
    pumps = [Pump(instance, session) for _ in range(count)]
    bare = [
        subprocess.Popen(_INTERPRETER, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(count)
    ]
    try:
        for process in bare:
            assert process.stdout is not None
            process.stdout.read(1)
        ours = statistics.median(memory_kb(pump.process.pid)["Pss"] for pump in pumps) / 1024
        floor = statistics.median(memory_kb(process.pid)["Pss"] for process in bare) / 1024
        floor_is = "the interpreter alone"
        yield Row("sm mcp: memory (PSS)", "MB", ours, floor, floor_is, None, Judged.ABOVE, gate=1.5)
        now_kb = memory_kb(instance.daemon.pid)["Rss"]
        yield Row(f"memory of the daemon with {count} of them (RSS)", "MB", now_kb / 1024, gate=110)
        yield Row("  for each of them", "kB", (now_kb - before_kb) / count, gate=100)
    finally:
        for process in bare:
            process.communicate()
        for pump in pumps:
            pump.__exit__(None, None, None)


def _calls(instance: Instance, pump: Pump, effort: Effort) -> Iterator[Row]:
    """Calls of tools over one pump, next to the same requests over HTTP."""
    connection = Connection(instance.socket)
    listed = pump.ask("tools/list", {})
    pairs = alternate(effort.pairs, lambda: pump.ask("tools/list", {}), lambda: pump.ask("ping", {}))
    yield pairs.row("tools/list", "a ping over the same pump", Judged.OURS, 3, None)
    yield Row("  its answer", "kB", len(listed) / 1000)

    def create() -> None:
        pump.call(
            "create_session",
            title="bench",
            agent_name="Sh",
            initial_message=_AGENT,
            working_dir=str(instance.home),
        )

    body = instance.spawn_request("Sh", _AGENT)

    def floor() -> None:
        connection.raw("POST", "/v1/sessions", body)

    times_of: dict[Callable[[], None], list[float]] = {create: [], floor: []}
    for _ in range(effort.pairs + 1):
        for act, taken in times_of.items():
            until(instance.has_spare, "the next tmux session is prepared")
            taken.append(timed_ms(act))
    pairs = Pairs(times_of[create][1:], times_of[floor][1:])
    yield pairs.row("create_session", "POST /v1/sessions", Judged.ABOVE, 5, None)

    recipient = instance.spawn("Sh", _AGENT)["session_id"]
    message = {"to": recipient, "text": "hello", "wait_s": 0}
    pairs = alternate(
        effort.pairs,
        lambda: pump.call("send_message", session_id=recipient, message="hello", wait_s=0),
        lambda: connection.raw("POST", "/v1/messages", message),
    )
    yield pairs.row("send_message", "POST /v1/messages", Judged.ABOVE, 5, None)

    live = len(instance.client.get("/v1/sessions"))
    instance.spawn_many(max(0, effort.sessions - live), "Sh", [_AGENT] * max(0, effort.sessions - live))
    pairs = alternate(
        effort.pairs,
        lambda: pump.call("list_workspace_sessions"),
        lambda: connection.raw("GET", "/v1/sessions"),
    )
    what = f"list_workspace_sessions of {effort.sessions}"
    yield pairs.row(what, "GET /v1/sessions", Judged.OURS, 10, None)
    connection.close()
