"""Measures how much slower sm gets as sessions accumulate: live ones first, then ended ones on top."""

import json
import os
import select
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.by_hand import ByHand
from bench.instance import Connection, Instance, until
from bench.row import Effort, Judged, Row, timed_ms

_READER = "stty raw -echo; echo ready; exec cat > {fifo}"
_KEPT = 50
"""The terminals of ended sessions that the daemon keeps (`child_agents.cleanup.keep_terminals`)."""
_SPAWN_BATCH = 100
_PAUSE_S = 0.1
_GATES = {"spawn": 1.5, "one": 1.5, "message": 1.2}
_WHAT = {
    "spawn": "spawn: request to agent running",
    "list": "list of all sessions",
    "one": "one session, by its name",
    "status": "status of the daemon",
    "message": "message: request to text in the terminal",
    "event": "event: committed until a follower has it",
    "start": "start after SIGKILL, to the first answer",
}


@dataclass(frozen=True, slots=True)
class Stage:
    """The sessions at the time of a measurement."""

    live: int
    ended: int

    @property
    def sessions(self) -> int:
        return self.live + self.ended

    def __str__(self) -> str:
        return f"{self.live} live" + (f" + {self.ended} ended" if self.ended else "")


def measure(effort: Effort) -> Iterator[Row]:
    stages = [Stage(live, 0) for live in effort.live]
    stages += [Stage(effort.live[-1], ended) for ended in effort.ended]
    with _Growing(Instance()) as growing:
        by_stage = [(stage, growing.measured(stage, effort)) for stage in stages]
    first_stage, first = by_stage[0]
    for name, what in _WHAT.items():
        for stage, times in by_stage:
            # A list may take as long for each session as the list of the first stage, and half as much again.
            gate = 1.5 * stage.sessions / first_stage.sessions if name == "list" else _GATES.get(name)
            yield Row(
                f"{what}, {stage}",
                "ms",
                times[name],
                times.get(f"{name} by hand", first[name]),
                "its tmux commands by hand" if f"{name} by hand" in times else str(first_stage),
                times[name] / first[name],
                Judged.RATIO,
                gate=None if stage is first_stage else gate,
            )


@dataclass(eq=False)
class _Growing:
    """An instance that gets more and more sessions. Use it as a context manager."""

    instance: Instance
    _live: list[str] = field(default_factory=list)
    """The names of the live sessions."""
    _ended: int = 0

    def __enter__(self) -> "_Growing":
        self.instance.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.instance.__exit__(*error)

    def measured(self, stage: Stage, effort: Effort) -> dict[str, float]:
        """Grow to the stage, and return the result of each measurement in milliseconds."""
        self._grow(stage)
        connection = Connection(self.instance.socket)
        name = self._live[len(self._live) // 2]
        times = {
            "list": self._get(connection, "/v1/sessions", effort.pairs),
            "one": self._get(connection, f"/v1/sessions/{name}", effort.pairs),
            "status": self._get(connection, "/v1/status", effort.pairs),
            **self._spawns(connection, effort.pairs),
            **self._messages(connection, effort.pairs),
            "event": self._events(connection, effort.pairs),
        }
        connection.close()
        times["start"] = self._starts(effort.restarts)
        return {name: _fast(each) for name, each in times.items()}

    # Growing

    def _grow(self, stage: Stage) -> None:
        spawned = self.instance.spawn_many(stage.live - len(self._live))
        self._live += [session["name"] for session in spawned]
        while self._ended < stage.ended:
            count = min(_SPAWN_BATCH, stage.ended - self._ended)
            ids = [s["session_id"] for s in self.instance.spawn_many(count, "Sh", ["exit 0"] * count)]
            self._wait_ended(ids)
            self._ended += count
        self._wait_quiet()

    def _wait_ended(self, ids: Sequence[str]) -> None:
        def has_exited(session: dict[str, Any]) -> bool:
            return session["exit_code"] is not None or session["exit_signal"] is not None

        get = self.instance.client.get
        for session_id in ids:
            until(lambda: has_exited(get(f"/v1/sessions/{session_id}")), "an agent has ended")  # noqa: B023

    def _wait_quiet(self) -> None:
        """Wait until the daemon has closed the terminals of ended sessions that it does not keep."""

        def closed() -> bool:
            dead = "#{&&:#{pane_dead},#{!=:#{@sm_agent},}}"
            return len(self.instance.tmux("list-panes", "-a", "-f", dead).splitlines()) <= _KEPT

        until(closed, f"at most {_KEPT} terminals of ended sessions are left")

    # Measurements

    def _get(self, connection: Connection, path: str, times: int) -> list[float]:
        return _timed(lambda: connection.raw("GET", path), times)

    def _spawns(self, connection: Connection, times: int) -> dict[str, list[float]]:
        """Each agent ends before the next one is spawned, and is removed with its terminal.

        Otherwise the daemon would keep these terminals, and a stage without ended sessions would have 50 of them.
        """
        request = self.instance.spawn_request()
        took, floor, ids = [], [], []
        with ByHand(self.instance) as hand:
            for _ in range(times + 1):
                until(self.instance.has_spare, "a spare session exists")
                answer: list[dict[str, Any]] = []
                took.append(timed_ms(lambda: answer.append(connection.ask("POST", "/v1/sessions", request))))  # noqa: B023
                ids.append(answer[0]["session_id"])
                connection.raw("POST", f"/v1/sessions/{ids[-1]}/kill", {"force": True})
                # The daemon ends the agent after its answer: that work must not overlap with the next spawn.
                self._wait_ended(ids[-1:])
                connection.raw("POST", f"/v1/sessions/{ids[-1]}/remove", {})
                until(self.instance.has_spare, "a spare session exists")
                prepared = hand.prepare()
                time.sleep(_PAUSE_S)
                floor.append(timed_ms(lambda: hand.start(prepared)))  # noqa: B023
                hand.remove(prepared)
        self._wait_quiet()
        return {"spawn": took[1:], "spawn by hand": floor[1:]}

    def _messages(self, connection: Connection, times: int) -> dict[str, list[float]]:
        fifo = str(self.instance.home / f"fifo{len(self._live)}-{self._ended}")
        os.mkfifo(fifo)
        reader = self.instance.spawn("Typed", _READER.format(fifo=fifo))
        descriptor = os.open(fifo, os.O_RDONLY)

        def arrived() -> None:
            if not select.select([descriptor], [], [], 60)[0]:
                raise RuntimeError("no text arrived within 60 s")

        def send() -> None:
            body = {"to": reader["session_id"], "text": "hello", "wait_s": 0}
            connection.raw("POST", "/v1/messages", body)
            arrived()

        def paste() -> None:
            hand.paste(f"command-{reader['session_id']}")
            arrived()

        took: list[float] = []
        floor: list[float] = []
        with ByHand(self.instance) as hand:
            for act, durations in ((send, took), (paste, floor)) * (times + 1):
                durations.append(timed_ms(act))
                # Longer than the pause of the daemon between two messages to one terminal.
                while select.select([descriptor], [], [], _PAUSE_S)[0]:
                    os.read(descriptor, 65536)
        os.close(descriptor)
        connection.raw("POST", f"/v1/sessions/{reader['session_id']}/kill", {"force": True})
        return {"message": took[1:], "message by hand": floor[1:]}

    def _events(self, connection: Connection, times: int) -> list[float]:
        """Archive and unarchive an ended session, and wait for the event."""
        (ended,) = self.instance.spawn_many(1, "Sh", ["exit 0"])
        self._wait_ended([ended["session_id"]])
        client = self.instance.client
        last = client.get("/v1/events", {"limit": 1})["last_seq"]
        stream = client.events("/v1/events/stream", {"since": last})
        actions = iter(["archive", "unarchive"] * times)

        def change() -> None:
            connection.raw("POST", f"/v1/sessions/{ended['session_id']}/{next(actions)}")
            while json.loads(next(stream)[1])["session_id"] != ended["session_id"]:
                pass

        return _timed(change, times)

    def _starts(self, times: int) -> list[float]:
        took = []
        for _ in range(times):
            self.instance.kill(self.instance.daemon)
            took.append(timed_ms(self.instance.start_daemon))
        live = self.instance.client.get("/v1/status")["sessions"]["running"]
        if live != len(self._live):
            raise RuntimeError(f"{live} live sessions, expected {len(self._live)}")
        return took


def _fast(times: Sequence[float]) -> float:
    """The time that a tenth of the repetitions did not exceed: other work on the machine only adds time.

    Stages are minutes apart, so unlike in other benchmarks a disturbance does not affect both numbers of a ratio.
    """
    return sorted(times)[len(times) // 10]


def _timed(act: Callable[[], object], times: int) -> list[float]:
    """The times of `times` calls, after one uncounted call."""
    act()
    return [timed_ms(act) for _ in range(times)]
