"""Compares what the daemons of the tests read of the real claude with tests/data/recordings, and writes it.

    SM_TEST_RECORD=DIR .venv/bin/python -m pytest tests/integration/test_claude_*.py
    .venv/bin/python -m tests.recordings DIR           # shows how the shapes differ; exit code 1 if they do
    .venv/bin/python -m tests.recordings DIR --write   # writes the new shapes

Below each name a recording has a line `PATH KINDS` for each path, such as `.last_assistant_message text`. A path with
`?` is not in each one.
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.claude_cli import VERSION

RECORDINGS = Path(__file__).parent / "data" / "recordings"
KINDS = ("hooks", "transcripts", "states", "screens", "titles")

Shape = Mapping[str, tuple[bool, frozenset[str]]]
"""By path: whether each one has it, and the kinds of values."""
Shapes = Mapping[str, Shape]


def read_observations(directory: Path) -> dict[str, Shapes]:
    """The shapes by kind and name, from what the daemons have recorded in `directory`."""
    found: dict[str, dict[str, list[list[tuple[str, str]]]]] = {kind: defaultdict(list) for kind in KINDS}
    for file in sorted(directory.glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            kind, name, lines = json.loads(line)
            found[kind][name].append([(path, value) for path, value in lines])
    return {
        kind: {name: merged(each) for name, each in sorted(shapes.items())} for kind, shapes in found.items()
    }


def merged(observations: Sequence[Iterable[tuple[str, str]]]) -> Shape:
    """One shape of several. A path may be absent only where what holds it is there, or an empty list."""
    kinds: dict[str, set[str]] = defaultdict(set)
    has: dict[str, int] = defaultdict(int)
    for lines in observations:
        for path, kind in lines:
            kinds[path].add(kind)
        for path in {path for path, _ in lines}:
            has[path] += 1
    return {
        path: (has[path] == has.get(_holder(path), len(observations)), frozenset(kinds[path]))
        for path in sorted(kinds)
    }


def _holder(path: str) -> str:
    """The path of the object or list that holds `path`."""
    return path[:-2] if path.endswith("[]") else path.rpartition(".")[0]


def text_of(shapes: Shapes) -> str:
    """The text of a recording."""
    lines = [f"# claude {VERSION}; written by: python -m tests.recordings"]
    for name, shape in shapes.items():
        lines += [name, *(f"  {line}" for line in _shown(shape))]
    return "\n".join(lines) + "\n"


def _shown(shape: Shape) -> Iterator[str]:
    for path, (always, kinds) in shape.items():
        yield f"{path or '.'}{'' if always else '?'} {' | '.join(sorted(kinds))}"


def shapes_of(text: str) -> Shapes:
    """The shapes of the text of a recording."""
    shapes: dict[str, dict[str, tuple[bool, frozenset[str]]]] = {}
    shape: dict[str, tuple[bool, frozenset[str]]] = {}
    for line in text.splitlines()[1:]:
        if not line.startswith("  "):
            shape = shapes[line] = {}
            continue
        shown, _, kinds = line[2:].partition(" ")
        path = shown.removesuffix("?")
        shape["" if path == "." else path] = (path == shown, frozenset(kinds.split(" | ")))
    return shapes


def differences(recorded: Shapes, seen: Shapes) -> Iterator[str]:
    """How `seen` differs, a line for each. What is optional in the recording may be missing."""
    for name in sorted(recorded.keys() | seen.keys()):
        if name not in seen:
            yield f"- {name}: never seen"
            continue
        if name not in recorded:
            yield f"+ {name}: {'; '.join(_shown(seen[name]))}"
            continue
        old, new = recorded[name], seen[name]
        for path in sorted(old.keys() | new.keys()):
            was_always, was = old.get(path, (False, frozenset()))
            is_always, now = new.get(path, (False, frozenset()))
            if path not in old:
                yield f"+ {name}: {path} {' | '.join(sorted(now))}"
            elif new_kinds := now - was:
                yield f"+ {name}: {path} {' | '.join(sorted(new_kinds))}; recorded: {' | '.join(sorted(was))}"
            elif was_always and not is_always and _holder(path) in new:
                yield f"- {name}: {path} is not in each one"


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 1 if a shape differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.recordings")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    code = 0
    for kind, seen in read_observations(options.directory).items():
        file = RECORDINGS / f"{kind}.txt"
        if options.write:
            RECORDINGS.mkdir(exist_ok=True)
            file.write_text(text_of(seen), encoding="utf-8")
            continue
        recorded = shapes_of(file.read_text(encoding="utf-8")) if file.exists() else {}
        for line in differences(recorded, seen):
            code = 1
            sys.stdout.write(f"{kind}: {line}\n")
    if code:
        sys.stdout.write(
            f"claude {VERSION} differs from tests/data/recordings. Change the readers where that matters, then write: "
            f"python -m tests.recordings {options.directory} --write\n"
        )
    return code


if __name__ == "__main__":
    sys.exit(main())
