"""Makes what a played claude writes from the recordings of the real one: every key that the real one always writes."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import cache
from typing import Any

from tests.record import recording
from tests.record.shapes import Lines, Shape, hook_name, line_name, lines_of, merged

VERSION = "2.1.197"
"""The version of the played claude."""
_SCREENS = recording.RECORDINGS.parent / "screens" / "claude"
_DEFAULTS: Mapping[str, object] = {"text": "", "number": 0, "true or false": False, "null": None}


class NotRecorded(AssertionError):
    """A played claude writes a key that the real one never wrote."""


def recorded(kind: str, name: str, values: Mapping[str, object]) -> dict[str, Any]:
    """An object of the recording `kind` with these values. The other keys have neutral values.

    Raises NotRecorded for a key that the real claude does not write.
    """
    made, keys = _template(kind, name)
    if not keys.issuperset(values):
        raise NotRecorded(f"{kind} {name} has no {sorted(set(values) - keys)}")
    return {**deepcopy(made), **values}


@cache
def screen(name: str) -> tuple[str, ...]:
    """The lines of a recorded screen."""
    return tuple((_SCREENS / f"{name}.txt").read_text(encoding="utf-8").rstrip("\n").split("\n"))


@cache
def shapes(kind: str) -> Mapping[str, Shape]:
    """The shapes of all hooks, transcripts (lines) or states in the recording, by name."""
    found: dict[str, list[Lines]] = defaultdict(list)
    for name, value in _values(kind):
        found[name].append(lines_of(value))
    return {name: merged(lines) for name, lines in found.items()}


def _values(kind: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for scene in recording.read(VERSION).values():
        match kind:
            case "hooks":
                yield from ((hook_name(hook), hook) for hook in scene["hooks"])
            case "transcripts":
                yield from (
                    (line_name(line), line) for file in scene["transcripts"] for line in file["lines"]
                )
            case _:
                states = [view["state"] for view in scene["views"] if view["state"] is not None]
                yield from ((state["status"], state) for state in states)


@cache
def _template(kind: str, name: str) -> tuple[dict[str, Any], frozenset[str]]:
    shape = shapes(kind)[name]
    keys = frozenset(path[1:] for path in shape if path.startswith(".") and not set(".[") & set(path[1:]))
    made = _value(shape, "")
    assert isinstance(made, dict)
    return made, keys


def _value(shape: Shape, path: str) -> object:
    kinds = sorted(shape[path][1])
    kind = next((k for k in kinds if k not in ("null", "list")), kinds[0])
    if kind == "object":
        return {
            inner.rpartition(".")[2]: _value(shape, inner)
            for inner, (always, _) in shape.items()
            if always and _holds(path, inner)
        }
    if kind == "list":
        return [_value(shape, f"{path}[]")] if shape.get(f"{path}[]", (False,))[0] else []
    return kind.strip("`") if kind.startswith("`") else _DEFAULTS[kind]


def _holds(path: str, inner: str) -> bool:
    """True if `inner` is a key of the object at `path`."""
    head, _, key = inner.rpartition(".")
    return inner != path and head == path and not key.endswith("[]") and key != "*"
