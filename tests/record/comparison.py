"""Shows how two recordings differ, by scene and kind, and each difference only once. Pure."""

import difflib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tests.record.placeholders import compact
from tests.record.recording import Scene
from tests.record.shapes import Lines, holder_of, hook_name, line_name, lines_of

_SHOWN_MAX = 12
"""Lines of one scene and kind."""
_WIDTH = 160


def differences(old: Mapping[str, Scene], new: Mapping[str, Scene]) -> Iterator[str]:
    """The lines of a report: first the shapes in all scenes, then what happens in each scene."""
    both = old.keys() & new.keys()
    yield from _shape_differences(
        _shapes([old[name] for name in both]), _shapes([new[name] for name in both])
    )
    shown: set[str] = set()
    for name in dict.fromkeys((*old, *new)):
        if name not in old or name not in new:
            yield f"{name}: {'only in the new recording' if name in new else 'no longer recorded'}"
            continue
        for kind, (before, after) in _texts(old[name], new[name]).items():
            changed = [line for line in _changed(before, after) if line not in shown]
            if changed:
                yield f"{name}: {kind}"
                shown.update(changed)
                yield from (f"  {line[:_WIDTH]}" for line in changed[:_SHOWN_MAX])
                if len(changed) > _SHOWN_MAX:
                    yield f"  ... and {len(changed) - _SHOWN_MAX} more lines"


def _changed(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    for line in (
        difflib.ndiff(before, after)
        if len(before) + len(after) < 400
        else difflib.unified_diff(before, after)
    ):
        if line[:2] in ("- ", "+ ") and line[2:].strip():
            yield line


def _texts(old: Scene, new: Scene) -> Mapping[str, tuple[Sequence[str], Sequence[str]]]:
    """The events, lines, requests and views of a scene as lines of text."""
    found: dict[str, tuple[Sequence[str], Sequence[str]]] = {
        "hooks": (_events(old), _events(new)),
        "transcripts": (_lines(old), _lines(new)),
        "requests": (_requests(old), _requests(new)),
    }
    for name in dict.fromkeys((*_views(old), *_views(new))):
        found[f"screen {name}"] = (_views(old).get(name, ()), _views(new).get(name, ()))
    return found


def _events(scene: Scene) -> list[str]:
    return [hook_name(hook) for hook in scene["hooks"]]


def _lines(scene: Scene) -> list[str]:
    return [f"{file['of']}: {line_name(line)}" for file in scene["transcripts"] for line in file["lines"]]


def _requests(scene: Scene) -> list[str]:
    found = []
    for request in scene["requests"]:
        about = {
            name: value for name, value in request.items() if name not in ("messages", "system", "tools")
        }
        found.append(compact(about))
        found += [f"system: {text}" for text in request.get("system", ())]
        found += [f"tool: {name}" for name in request.get("tools", ())]
        for message in request["messages"]:
            found += [f"{message['role']}: {' '.join(block.split())}" for block in message["content"]]
    return found


def _views(scene: Scene) -> dict[str, list[str]]:
    return {
        f"{view['name']} {view['size']}": [
            f"title: {view['title']}",
            f"state: {_published(view['state'])}",
            *view["screen"],
        ]
        for view in scene["views"]
    }


def _published(state: Mapping[str, Any] | None) -> str:
    return "none" if state is None else f"{state.get('status')} {state.get('waitingFor', '')}".strip()


_Shapes = Mapping[str, Mapping[str, frozenset[str]]]
"""By the name of a hook, line or state file: the kinds of values at each path."""


def _shapes(scenes: Iterable[Scene]) -> _Shapes:
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))

    def add(name: str, lines: Lines) -> None:
        for path, kind in lines:
            found[name][path].add(kind)

    for scene in scenes:
        for hook in scene["hooks"]:
            add(f"hook {hook_name(hook)}", lines_of(hook))
        for file in scene["transcripts"]:
            for line in file["lines"]:
                add(f"line {line_name(line)}", lines_of(line))
        for view in scene["views"]:
            if view["state"] is not None:
                add("state", lines_of(view["state"]))
    return {
        name: {path: frozenset(kinds) for path, kinds in shape.items()}
        for name, shape in sorted(found.items())
    }


def _shape_differences(old: _Shapes, new: _Shapes) -> Iterator[str]:
    """New and missing names and paths. A path that many have is told once, with their number."""
    for name in sorted(old.keys() | new.keys()):
        if name not in old:
            yield f"+ {name}"
        elif name not in new:
            yield f"- {name}"
    changed: dict[str, list[str]] = defaultdict(list)
    for name in sorted(old.keys() & new.keys()):
        before, after = old[name], new[name]
        for path in sorted(before.keys() | after.keys()):
            holder = holder_of(path)
            if (path in before) != (path in after) and (holder in before) != (holder in after):
                continue  # the difference of its holder tells it
            if path not in before:
                changed[f"+ {path} {' | '.join(sorted(after[path]))}"].append(name)
            elif path not in after:
                changed[f"- {path} {' | '.join(sorted(before[path]))}"].append(name)
            elif news := after[path] - before[path]:
                changed[f"+ {path} also {' | '.join(sorted(news))}"].append(name)
    for change, names in changed.items():
        more = f" and {len(names) - 2} more" if len(names) > 2 else ""
        yield f"{change}: {', '.join(names[:2])}{more}"
