"""Follows the tool calls of an agent, one by one, with a small state. Pure.

The daemon stores the state with the read position of the transcript.
"""

from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from sm.core.timestamps import epoch_s
from sm.core.tool_calls import CallEnd, CallItem, CallStart, CallStep, TurnBreak

LONG_CALL_S = 30.0
"""A successful call that takes this long waits for something: its repetition is no loop."""
_OPEN_MAX = 50
_SEEN_MAX = 20


def empty_calls() -> dict[str, Any]:
    """The state of an agent that has called no tool. It is JSON, because it is stored."""
    return {"open": {}, "seen": [], "same": [None, 0], "failed": [None, 0], "shown": "", "error": ""}


def follow(state: Mapping[str, Any], item: CallItem) -> dict[str, Any]:
    """The state after `item`. A call counts once, although a compaction writes its lines again."""
    after = {**empty_calls(), **state}
    match item:
        case CallStart():
            if item.id not in after["seen"]:
                begun = [item.name, item.digest, item.shown, item.at, item.waits]
                after["open"] = dict([*after["open"].items(), (item.id, begun)][-_OPEN_MAX:])
                if not item.is_own:
                    after["worked_at"] = max(str(after.get("worked_at", "")), item.at)
        case CallEnd():
            if item.id in after["open"]:
                opened = dict(after["open"])
                name, digest, shown, at, waits = opened.pop(item.id)
                after |= {"open": opened, "seen": [*after["seen"], item.id][-_SEEN_MAX:]}
                after |= _counted(after, name, digest, shown, item, took_s=_took_s(at, item.at), waits=waits)
        case TurnBreak():
            after |= {"open": {}, "same": [None, 0], "failed": [None, 0]}
        case _:
            assert_never(item)
    return after


def steps_of(state: Mapping[str, Any] | None, items: Sequence[CallItem]) -> list[CallStep]:
    """The states after each of `items`."""
    steps, now = list[CallStep](), dict(state or {})
    for item in items:
        now = follow(now, item)
        steps.append(CallStep("" if isinstance(item, TurnBreak) else item.at, now))
    return steps


def _counted(
    state: Mapping[str, Any],
    name: str,
    digest: str,
    shown: str,
    end: CallEnd,
    *,
    took_s: float,
    waits: bool,
) -> dict[str, Any]:
    if waits:
        return {"same": [None, 0], "failed": [None, 0]}
    is_long = took_s >= LONG_CALL_S
    same = None if is_long else f"{digest}/{end.digest}"
    failed = None if end.error is None else f"{name}/{end.digest}"
    return {
        "same": _row(state["same"], same),
        "failed": _row(state["failed"], failed),
        "shown": shown,
        "error": end.error or "",
    }


def _row(before: Sequence[Any], key: str | None) -> list[Any]:
    if key is None:
        return [None, 0]
    return [key, before[1] + 1 if before[0] == key else 1]


def _took_s(begin: str, end: str) -> float:
    try:
        return epoch_s(end) - epoch_s(begin)
    except ValueError:
        return 0.0
