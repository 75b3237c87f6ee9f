import json

import pytest

from sm.capabilities.warnings.model import SessionWarning
from sm.capabilities.warnings.rules import (
    Anomaly,
    LoopLimits,
    Step,
    Stillness,
    find_burn,
    find_full_context,
    find_loop,
    find_memory,
    find_no_progress,
    find_silence,
    longest_call,
    loop_goes_on,
    next_step,
    p90,
)
from sm.core.tool_calls import CallEnd, CallItem, CallStart, TurnBreak
from sm.core.warnings import WarningKind
from sm.monitor.tool_calls import empty_calls, steps_of

LIMITS = LoopLimits(5, 3)
NEXT = iter(range(1_000_000))


def call(
    tool: str = "make", result: str = "ok", error: str | None = None, *, waits: bool = False, took_s: int = 1
) -> list[CallItem]:
    id = f"t{next(NEXT)}"
    begin, end = "2026-01-27T15:00:00.000Z", f"2026-01-27T15:{took_s // 60:02}:{took_s % 60:02}.000Z"
    return [CallStart(id, "Bash", tool, f"Bash: {tool}", begin, waits), CallEnd(id, result, error, end)]


def fail(tool: str = "make", error: str = "no rule", **more: bool) -> list[CallItem]:
    return call(tool, error, error, **more)


def found(*calls: list[CallItem]) -> Anomaly | None:
    items = [item for items in calls for item in items]
    # As after a restart of the daemon: the state is JSON.
    return find_loop(json.loads(json.dumps(steps_of(None, items)[-1].state)), LIMITS)


# Loops


@pytest.mark.parametrize(
    ("calls", "value"),
    [
        ([call()] * 0 + [call() for _ in range(5)], 5),
        ([call() for _ in range(7)], 7),
        ([fail() for _ in range(3)], 3),
        ([fail("make a"), fail("make b"), fail("make c")], 3),
        ([call(result="x"), *[call() for _ in range(5)]], 5),
        ([call("ls"), *[fail() for _ in range(3)]], 3),
        ([call(waits=True), *[fail() for _ in range(3)]], 3),
        ([call(took_s=29) for _ in range(5)], 5),
        ([[*fail()] for _ in range(3)], 3),
    ],
)
def test_loop_is_found(calls: list[list[CallItem]], value: int) -> None:
    anomaly = found(*calls)
    assert anomaly is not None
    assert anomaly.value == value


@pytest.mark.parametrize(
    "calls",
    [
        [call() for _ in range(4)],
        [fail() for _ in range(2)],
        [call(result=f"{n}") for n in range(9)],  # changing results
        [call(f"ls {n}") for n in range(9)],
        [fail(error=f"line {n}") for n in range(9)],
        [call(waits=True) for _ in range(9)],  # a poll that waits
        [fail(waits=True) for _ in range(9)],
        [call(took_s=30) for _ in range(9)],
        [*[call() for _ in range(4)], call("ls"), *[call() for _ in range(4)]],
        [fail(), fail(), call("edit"), fail(), fail()],
        [fail(), fail(), [TurnBreak()], fail(), fail()],
        [*[call() for _ in range(4)], [TurnBreak()], call()],
        [fail(), fail(), call()],
        [[CallEnd("unknown", "x", "error", "")] for _ in range(9)],
    ],
)
def test_loop_is_not_found(calls: list[list[CallItem]]) -> None:
    assert found(*calls) is None


def test_call_that_a_compaction_writes_again_counts_once() -> None:
    once = [item for _ in range(2) for item in fail()]
    assert found(once, once, once) is None
    assert found(once, once, fail()) is not None


def test_other_call_ends_a_loop() -> None:
    assert found(*[fail() for _ in range(3)], call("ls")) is None
    assert found(*[fail() for _ in range(3)], fail(error="other")) is None


def test_state_of_many_open_calls_is_bounded() -> None:
    items: list[CallItem] = [CallStart(f"o{n}", "Bash", "d", "Bash", "") for n in range(500)]
    ends: list[CallItem] = [CallEnd(f"o{n}", "r", None, "") for n in range(500)]
    assert list(steps_of(None, items)[-1].state["open"]) == [f"o{n}" for n in range(450, 500)]
    state = steps_of(None, [*items, *ends])[-1].state
    assert len(json.dumps(state)) < 2000
    assert state["seen"] == [f"o{n}" for n in range(480, 500)]


@pytest.mark.parametrize(
    ("items", "is_found"),
    [
        ([TurnBreak()], False),
        ([*call(), TurnBreak()], False),
        ([*fail(), TurnBreak()], False),
        ([*fail(), *fail(waits=True)], False),
        (call(took_s=30), False),  # neither failed nor short
        (call(), True),
        (fail(), True),
    ],
)
def test_one_call_is_a_loop_when_the_limit_is_one(items: list[CallItem], is_found: bool) -> None:
    assert (find_loop(steps_of(None, items)[-1].state, LoopLimits(1, 1)) is not None) is is_found
    assert find_loop(empty_calls(), LoopLimits(1, 1)) is None


def test_evidence_of_a_loop_names_the_call_and_its_error() -> None:
    assert found(*[fail() for _ in range(3)]) == Anomaly(3, 3, "Bash: make failed 3 times with: no rule")
    assert found(*[call() for _ in range(5)]) == Anomaly(
        5, 5, "Bash: make was called 5 times with the same result"
    )
    assert steps_of(None, call())[-1].state["error"] == ""


def warning(value: float = 3, limit: float = 3, *, told: bool = True) -> SessionWarning:
    return SessionWarning(1, "aaaa1111", WarningKind.LOOP, "", value, limit, "why", told=told)


@pytest.mark.parametrize(
    ("anomaly", "known", "goes_on", "step"),
    [
        (None, None, False, None),
        (Anomaly(3, 3, ""), None, False, Step.OPEN),
        (Anomaly(3, 3, ""), warning(), True, None),
        (Anomaly(3, 3, ""), warning(told=False), False, None),
        (Anomaly(3, 3, ""), warning(told=False), True, Step.TELL),
        (None, warning(told=False), True, Step.CLOSE),
        (None, warning(), False, Step.CLOSE),
    ],
)
def test_next_step(
    anomaly: Anomaly | None, known: SessionWarning | None, goes_on: bool, step: Step | None
) -> None:
    assert next_step(anomaly, known, goes_on=goes_on) is step


@pytest.mark.parametrize(("value", "goes_on"), [(3, False), (5, False), (6, True), (7, True)])
def test_loop_goes_on_after_as_many_calls_again(value: int, goes_on: bool) -> None:
    assert loop_goes_on(Anomaly(value, 3, ""), warning()) is goes_on


# Stillness


@pytest.mark.parametrize(
    ("still_s", "tool", "words"),
    [
        (1199, None, None),
        (1200, None, "no tool ended"),
        (3599, "Bash: make", None),  # one long tool
        (3600, "Bash: make", "Bash: make has been running for 1h"),
    ],
)
def test_no_progress(still_s: float, tool: str | None, words: str | None) -> None:
    anomaly = find_no_progress(still_s, tool, after_s=1200, tool_after_s=3600)
    assert (anomaly is None) == (words is None)
    assert anomaly is None or (words or "") in anomaly.evidence


@pytest.mark.parametrize(
    ("silent_s", "cpu", "is_found"),
    [(599, 100, False), (600, 49.9, False), (600, None, False), (600, 50, True), (9999, 100, True)],
)
def test_silence_needs_a_busy_process(silent_s: float, cpu: float | None, is_found: bool) -> None:
    assert (find_silence(silent_s, cpu, after_s=600, limit=50) is not None) is is_found


def test_stillness_counts_from_the_first_sign_and_begins_anew_with_each_change() -> None:
    stillness = Stillness()
    assert stillness.seconds("a", 100, 1000) == 100
    assert stillness.seconds("a", 130, 1030) == 130
    assert stillness.seconds("b", 5, 1060) == 0
    assert stillness.seconds("b", 35, 1090) == 30


@pytest.mark.parametrize("step_s", [-7200, 7200])
def test_stillness_ignores_a_step_of_the_system_clock(step_s: float) -> None:
    stillness = Stillness()
    assert stillness.seconds("a", 10, 1000) == 10
    assert stillness.seconds("a", 40 + step_s, 1030) == 40
    assert stillness.seconds("b", step_s, 1060) == 0


def test_stillness_of_a_sign_in_the_future_is_zero() -> None:
    assert Stillness().seconds("a", -7200, 1000) == 0


def test_longest_call_is_the_running_call_that_began_first() -> None:
    items: list[CallItem] = [
        CallStart("b", "Bash", "d", "Bash: b", "2026-01-27T15:00:02.000Z"),
        CallStart("a", "Bash", "d", "Bash: a", "2026-01-27T15:00:01.000Z"),
    ]
    state = steps_of(None, items)[-1].state
    assert longest_call(state) == ("Bash: a", "2026-01-27T15:00:01.000Z")
    assert longest_call(steps_of(state, [CallEnd("a", "r", None, "")])[-1].state) == (
        "Bash: b",
        "2026-01-27T15:00:02.000Z",
    )
    assert longest_call({}) is None
    untimed = steps_of(state, [CallStart("c", "Bash", "d", "Bash: c", "")])[-1].state
    assert longest_call(untimed) == ("Bash: a", "2026-01-27T15:00:01.000Z")


# Sizes


@pytest.mark.parametrize(
    ("percent", "is_found"), [(None, False), (0, False), (84, False), (85, True), (100, True)]
)
def test_full_context(percent: int | None, is_found: bool) -> None:
    assert (find_full_context(percent, 85) is not None) is is_found


@pytest.mark.parametrize(("mib", "is_found"), [(None, False), (0.0, False), (4096.0, False), (4096.1, True)])
def test_memory(mib: float | None, is_found: bool) -> None:
    assert (find_memory(mib, 4096) is not None) is is_found


@pytest.mark.parametrize(
    ("values", "result"),
    [
        ([], None),
        ([1, 2, 3, 4], None),  # too little history
        ([5, 4, 3, 2, 1], 5),
        (list(range(1, 11)), 9),
        (list(range(1, 101)), 90),
    ],
)
def test_p90(values: list[float], result: float | None) -> None:
    assert p90(values) == result


NOW = 10_000.0


def every(seconds: int, tokens: int, *, since_s: int, until_s: int = 0) -> list[tuple[float, int]]:
    """A message each `seconds`. `since_s`, `until_s`: the ages of the first and the last one."""
    return [(NOW - age, tokens) for age in range(since_s, until_s - 1, -seconds)]


STEADY = every(10, 850, since_s=600)  # 5,100 tokens a minute


@pytest.mark.parametrize(
    ("used", "usual", "is_found"),
    [
        (STEADY, 1000, True),
        (STEADY, None, False),
        (STEADY, 0, False),
        (every(10, 834, since_s=600), 1000, True),
        (every(10, 833, since_s=600), 1000, False),
        (every(10, 10, since_s=600), 1000, False),
        ([(NOW - 10, 10**6)], 1000, False),  # one large message
        ([(NOW - 200, 10**6), (NOW - 10, 10**6)], 1000, False),  # two
        ([(NOW - 400, 12_501), (NOW - 200, 10**6), (NOW - 10, 12_501)], 1000, True),
        ([(NOW - 400, 12_501), (NOW - 200, 10**6), (NOW - 10, 12_500)], 1000, False),
        ([(NOW - 400, 12_500), (NOW - 200, 10**6), (NOW - 10, 12_501)], 1000, False),
        (every(10, 9000, since_s=900, until_s=150), 1000, False),  # it was before
        ([(NOW + 5, 10**12)], 1000, False),  # a time in the future
        ([(NOW - 400, -(10**12)), (NOW - 200, -(10**12)), (NOW - 10, 10**6)], 1000, False),
        ([*STEADY, (NOW - 10, -(10**12))], 1000, True),
        (every(10, 1, since_s=600), 0.5, True),
        ([], -1, False),
        ([], 1000, False),
    ],
)
def test_burn(used: list[tuple[float, int]], usual: float | None, is_found: bool) -> None:
    anomaly = find_burn(used, usual, NOW, after_s=300, limit=5)
    assert (anomaly is not None) is is_found


@pytest.mark.parametrize(
    ("since_s", "is_found"), [(33, False), (45, False), (59, False), (60, True), (90, True), (900, True)]
)
def test_burn_has_lasted_for_all_of_its_time(since_s: int, is_found: bool) -> None:
    used = every(5, 500, since_s=since_s)  # twenty times the limit
    slow = every(5, 5, since_s=900)
    for before in ([], slow):
        anomaly = find_burn([*before, *used], 150, NOW, after_s=60, limit=2)
        assert (anomaly is not None) is is_found


def test_burn_names_the_rate_of_its_time() -> None:
    anomaly = find_burn(STEADY, 1000, NOW, after_s=300, limit=5)
    assert anomaly is not None
    assert (anomaly.value, anomaly.limit) == (5100, 5000)
    assert anomaly.evidence == "5,100 tokens a minute for 5min (usual for its type: 1,000)"
