"""Measures `sm top` as a person sees it: from a key, or from a change in the daemon, to what the terminal shows."""

import contextlib
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence

from bench.instance import Instance
from bench.row import Effort, Judged, Pairs, Row, timed_ms
from sm.client.http import session_path
from tests.instance import SM
from tests.person_terminal import PersonTerminal
from tests.waits import until

GUARD_S = 0.6
"""A key answers a request only half a second after the request appeared."""
_POLL_S = 0.0005
_SCHEDULED = 2
"""The kind of the clock of a process that has its processor time to the nanosecond."""
_AGAIN_S = 20.0
"""After this time a key is pressed again: on a busy machine it may come before the half second is over."""
# The least that a program with Textual does: the floor of the start.
_EMPTY = """
from textual.app import App
from textual.widgets import Static

class Empty(App):
    BINDINGS = [("q", "quit")]
    def compose(self):
        yield Static("first row")

Empty().run()
"""

# A session that makes each line of its input its note.
WRITER = """
import sys
from sm.client.http import Client
client = Client(sys.argv[1])
for line in sys.stdin:
    client.post("/v1/sessions/me/note", {"text": line.strip()})
"""


def measure(effort: Effort) -> Iterator[Row]:
    with Instance() as instance:
        sessions = instance.spawn_many(effort.sessions)
        yield from _start(instance, effort)
        yield _change(instance, sessions[0]["session_id"], max(2, effort.pairs))
        yield _answer(instance, max(1, effort.pairs // 4))
    with Instance(stored=effort.stored) as instance:
        yield from _keys(instance, effort)


def p95(times: Sequence[float]) -> float:
    return statistics.quantiles(times, n=20)[-1]


@contextlib.contextmanager
def _program(instance: Instance, argv: Sequence[str], painted: bytes) -> Iterator[PersonTerminal]:
    """Run a full-screen program on a terminal of 120x40 that `q` ends; yield it once it has printed `painted`."""
    with PersonTerminal(argv, instance.env, 120, 40) as person:
        try:
            until(lambda: painted in person.printed, painted.decode())
            yield person
        finally:
            person.press("q")


def _top(instance: Instance) -> contextlib.AbstractContextManager[PersonTerminal]:
    return _program(instance, [SM, "top"], b"Nothing needs you")


def _painted_ms(person: PersonTerminal, act: Callable[[], object], words: str) -> float:
    """The time from the act until the terminal shows the words."""
    seen, wanted = len(person.printed), words.encode()

    def act_and_wait() -> None:
        act()
        while wanted not in person.printed[seen:]:
            time.sleep(_POLL_S)

    return timed_ms(act_and_wait)


def _start(instance: Instance, effort: Effort) -> Iterator[Row]:
    """In turn with an empty program. The end of both is not measured."""
    row = next(iter(instance.client.get("/v1/sessions")))["session_id"].encode()

    def started(argv: Sequence[str], painted: bytes) -> tuple[float, float]:
        """The time until it is painted, and the processor time of the program until then, in milliseconds."""
        with PersonTerminal(argv, instance.env, 120, 40) as person:

            def wait() -> None:
                while painted not in person.printed:
                    time.sleep(_POLL_S)

            taken = timed_ms(wait)
            used = _processor_ms(person)
            person.press("q")
        return taken, used

    ours, floor = [SM, "top"], [sys.executable, "-c", _EMPTY]
    started(ours, row), started(floor, b"first row")
    pairs = [(started(ours, row), started(floor, b"first row")) for _ in range(max(1, effort.pairs))]
    for number, what in enumerate(
        (f"sm top, {effort.sessions} sessions: start to first row", "  processor time until then")
    ):
        measured = Pairs([a[number] for a, _ in pairs], [b[number] for _, b in pairs])
        yield measured.row(what, "an empty Textual app", Judged.RATIO, 1.3, 1.2)


def _processor_ms(person: PersonTerminal) -> float:
    """The processor time of all threads of the program so far (clock_getcpuclockid(3))."""
    return time.clock_gettime(~person.pid << 3 | _SCHEDULED) * 1000


def _change(instance: Instance, session_id: str, times_changed: int) -> Row:
    """A session at the top of the list changes its note at random moments."""
    choose = random.Random(1)
    times = []
    argv = (sys.executable, "-c", WRITER, instance.socket)
    env = instance.as_session(session_id)
    with (
        _top(instance) as person,
        subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, text=True, bufsize=1) as session,
    ):
        time.sleep(2)  # the start is not measured
        for number in range(times_changed):
            time.sleep(choose.uniform(0.3, 0.8))
            note = f"changed-{number}."
            times.append(_painted_ms(person, lambda: session.stdin.write(f"{note}\n"), note))  # type: ignore[union-attr]  # noqa: B023
    return Row("  change in the daemon to painted, p95", "ms", p95(times), gate=400, aim=300)


def _answer(instance: Instance, count: int) -> Row:
    """From the key to the end of the agent's `sm ask`, in turn with `sm answer`."""
    ours, floor = list[float](), list[float]()
    for _ in range(count):
        with asked(instance) as asker, _program(instance, [SM, "top"], b"Which colour?") as person:
            time.sleep(GUARD_S)
            ours.append(until_end_ms(lambda: person.press("1"), asker))
        with asked(instance) as asker:
            floor.append(answered_ms(instance, asker))
    return Pairs(ours, floor).row("  answer pressed to agent", "sm answer", Judged.ABOVE, 50, 10)


def answered_ms(instance: Instance, asker: subprocess.Popen[bytes]) -> float:
    """The time from the start of `sm answer` to the end of the agent's `sm ask`."""
    name = next(request["request_id"] for request in instance.client.get("/v1/requests"))
    return until_end_ms(lambda: instance.run(SM, "answer", name, "red"), asker)


def until_end_ms(act: Callable[[], object], asker: subprocess.Popen[bytes]) -> float:
    def act_and_wait() -> None:
        while True:
            act()
            with contextlib.suppress(subprocess.TimeoutExpired):
                asker.wait(_AGAIN_S)
                return

    return timed_ms(act_and_wait)


@contextlib.contextmanager
def asked(instance: Instance) -> Iterator[subprocess.Popen[bytes]]:
    """An agent's `sm ask` that waits for the answer to its open question."""
    session = instance.spawn()["session_id"]
    argv = (SM, "ask", "Which colour?", "--option", "red", "--option", "blue", "--wait", "600")
    env = instance.as_session(session)
    asker = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        until(lambda: instance.client.get("/v1/requests"), "the open question")
        yield asker
    finally:
        asker.kill()
        asker.wait()
        instance.client.post(session_path(session, "/kill"), {"force": True})


def _keys(instance: Instance, effort: Effort) -> Iterator[Row]:
    """The line of the cursor has one colour, so that its sign and its label come together."""
    listed = [row["label"] for row in instance.client.get("/v1/sessions")]
    count = max(2, effort.pairs)
    with _top(instance) as person:
        time.sleep(2)  # the start is not measured
        person.press("g")
        moved = []
        for number in range(count):
            time.sleep(0.2)
            key, place = ("j", number % 2 + 1) if number % 4 < 2 else ("k", 1 - number % 2)
            moved.append(_painted_ms(person, lambda: person.press(key), f"✓ {listed[place]} "))  # noqa: B023
        what = f"sm top, {effort.stored:,} sessions: key to moved cursor, p95"
        yield Row(what, "ms", p95(moved), gate=30, aim=16)
        person.press("/task-")
        typed, used = list[float](), list[float]()
        for number in range(count):
            digit = str(number % 10)
            for key, text in ((digit, f"task-{digit}"), ("\x7f", "task-")):
                time.sleep(0.2)
                before_ms = _processor_ms(person)
                typed.append(_painted_ms(person, lambda: person.press(key), f"filter: {text} "))  # noqa: B023
                used.append(_processor_ms(person) - before_ms)
        _ = _painted_ms(person, lambda: person.press("\r"), "q: quit")  # else the input gets the q
        yield Row("  filter typed, p95", "ms", p95(typed), gate=50, aim=30)
        yield Row("    processor time until then, p95", "ms", p95(used))
