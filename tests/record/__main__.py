"""Records versions of Claude Code, and compares recordings.

    .venv/bin/python -m tests.record --claude 2.1.332          # a version of npm, `newest`, or a path
    .venv/bin/python -m tests.record --diff 2.1.197 2.1.332    # exit code 1 if they differ
    .venv/bin/python -m tests.record --read                    # writes the golden files of the readers again

A recording is a directory of tests/data/recordings with a file for each scene. Each scene has a claude, a home, a
terminal and a scripted API of its own; no token is spent. A second recording of one version is the same.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from sm.errors import SmError
from sm.providers import make_check
from sm.providers.kept_programs import KeptPrograms
from tests.record.catalogue import SCENES
from tests.record.comparison import differences
from tests.record.readings import write_readings
from tests.record.recording import RECORDINGS, Scene, read, scene_of, store, versions
from tests.record.stage import ClaudeStage, Program, SceneFailed

_AT_ONCE = 2
NEWEST = "newest"
WHOLE_SCENE = "start-with-prompt"
"""The scene with everything that begins a conversation."""


def record(program: Program, names: Sequence[str], directory: Path, tell: Callable[[str], object]) -> bool:
    """Record scenes of a program, and return whether all of them could be played."""

    def play(name: str) -> tuple[str, Scene | str]:
        try:
            with ClaudeStage(program) as stage:
                SCENES[name](stage)
                stage.settled()
                return name, scene_of(stage, whole=name == WHOLE_SCENE)
        except (SceneFailed, OSError) as failed:
            return name, str(failed)

    scenes, is_whole = dict[str, Scene](), True
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="scene") as pool:
        for name, scene in pool.map(play, names):
            if isinstance(scene, str):
                is_whole = False
                tell(f"{program.version}: {name} could not be played: {scene}")
            else:
                scenes[name] = scene
    directory.mkdir(parents=True, exist_ok=True)
    before = recordings(directory)
    store({**before, program.version: {**before.get(program.version, {}), **scenes}}, directory)
    tell(f"{program.version}: recorded {len(scenes)} scenes in {directory / program.version}")
    return is_whole


def recordings(directory: Path) -> dict[str, dict[str, Scene]]:
    """All recordings, by version."""
    return {version: read(version, directory) for version in versions(directory)}


def install(word: str, directory: str) -> str:
    """Install a version with npm, and return the path of the program. Raises SmError."""
    kept = KeptPrograms(make_check("claude").package, directory, f"{directory}/bin")
    version = kept.newest() if word == NEWEST else word
    kept.install(version)
    return kept.program(version)


def programs(words: Sequence[str], cleanup: ExitStack) -> Iterator[Program]:
    """Yield the programs that a user names by their paths or versions. Raises SmError, SceneFailed."""
    for word in words:
        if "/" not in word:
            word = install(word, cleanup.enter_context(tempfile.TemporaryDirectory(prefix="versions-")))
        yield Program.at(str(Path(word).absolute()))


def _tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def compared(old: Path, new: Path) -> list[str]:
    """The report on two recordings, by their directories."""
    return list(differences(read(old.name, old.parent), read(new.name, new.parent)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 1 if a scene could not be played, or if two recordings differ."""
    parser = argparse.ArgumentParser(prog="python -m tests.record", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--claude", nargs="+", metavar="VERSION", help=f"a version of npm, {NEWEST}, or a path"
    )
    parser.add_argument(
        "--scene", action="append", choices=list(SCENES), help="record only this scene (repeatable)"
    )
    parser.add_argument(
        "--into", type=Path, default=RECORDINGS, metavar="DIR", help="the directory of recordings"
    )
    parser.add_argument(
        "--diff", nargs=2, metavar=("OLD", "NEW"), help="versions, or directories of recordings"
    )
    parser.add_argument(
        "--install", nargs=2, metavar=("VERSION", "DIR"), help="install with npm, print the path"
    )
    parser.add_argument("--drop", metavar="VERSION", help="remove a recording")
    parser.add_argument("--newest", action="store_true", help="print the newest recorded version")
    parser.add_argument("--read", action="store_true", help="write the golden files of the readers")
    options = parser.parse_args(arguments)
    code = 0
    with ExitStack() as cleanup:
        try:
            if options.install:
                _tell(install(*options.install))
            for program in programs(options.claude or (), cleanup):
                if not record(program, options.scene or list(SCENES), options.into, _tell):
                    code = 1
        except (SmError, SceneFailed) as error:
            sys.stderr.write(f"{error}\n")
            return 1
    if options.drop:
        kept = recordings(options.into)
        kept.pop(options.drop)
        shutil.rmtree(options.into / options.drop)
        store(kept, options.into)
    if options.claude or options.drop or options.read:
        write_readings(options.into)
    if options.newest:
        _tell(versions(options.into)[-1])
    if options.diff:
        old, new = (Path(word) if "/" in word else options.into / word for word in options.diff)
        report = compared(old, new)
        _tell("\n".join(report) or "no difference")
        code = code or int(bool(report))
    return code


if __name__ == "__main__":
    sys.exit(main())
