"""Puts mutants into the product, one at a time, and prints which part of the checks finds each.

    python -m tests.mutants                       all of them; takes about an hour on two cores
    python -m tests.mutants NAME...               only these
    python -m tests.mutants --parts pure,simulation
    python -m tests.mutants --list

The files are changed in place and changed back, so the checkout must have no changes in src/, and nobody else may use
it meanwhile. The first failure ends the search. It begins with the pure tests of the edited room and the played ones;
then the parts run in the order of `./check`.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.catalog import MUTANTS, ROOT, Mutant

_PYTEST = (sys.executable, "-m", "pytest", "-q", "-x", "--tb=no", "-p", "no:cacheprovider")
# The test of the catalog fails for every mutant.
_NOT_THE_CATALOG = ("--ignore=tests/test_mutants.py",)
_PURE = (*_PYTEST, "-n", "2", "--dist", "worksteal", "-m", "not processes", *_NOT_THE_CATALOG)
PARTS: Mapping[str, tuple[str, ...]] = {
    "room": _PURE,
    "played": _PURE,
    "pure": _PURE,
    "simulation": (sys.executable, "-m", "tests.sim", "--seed", "1", "--minutes", "1", "--first"),
    "processes": (*_PYTEST, "-n", "6", "--dist", "loadgroup", "-m", "processes and not full"),
}
_FOUND = re.compile(r"^(?:FAILED|ERROR) (\S+)|^seed (\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Finding:
    part: str
    by: str
    """The test, or the seed."""
    after_s: float
    """Seconds since the parts of the checks began, without the time of the edit."""


@contextmanager
def put_in(mutant: Mutant) -> Iterator[None]:
    """Edit the file; put it back at the end, also after an interrupt. Raises ValueError if the mutant does not fit."""
    if not mutant.is_applicable():
        raise ValueError(f"{mutant.name} does not fit {mutant.path} any more")
    path = ROOT / mutant.path
    before = path.read_bytes()
    try:
        path.write_text(before.decode().replace(mutant.old, mutant.new))
        yield
    finally:
        path.write_bytes(before)


def search(mutant: Mutant, parts: Sequence[str], only: Sequence[str]) -> Finding | None:
    """Run the parts until one finds the mutant. `only`: files of tests in place of all."""
    environment = {
        **os.environ,
        "PYTHONDONTWRITEBYTECODE": "1",
    }  # an edit within a second leaves a stale file
    began = time.monotonic()
    room = ROOT / "tests" / Path(mutant.path).parent.name
    with put_in(mutant):
        for part in parts:
            if part == "room" and not room.is_dir():
                continue
            argv = PARTS[part] + (() if part == "simulation" else tuple(only) or _files(part, room))
            done = subprocess.run(
                argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode:
                found = _FOUND.search(done.stdout + done.stderr)
                by = next(filter(None, found.groups()), "?") if found else done.stdout.strip()[-120:]
                return Finding(part, by, time.monotonic() - began)
    return None


def _files(part: str, room: Path) -> tuple[str, ...]:
    """The tests of a part: those of the edited room, those of whole daemons in a simulation, or all."""
    return {"room": (str(room),), "played": ("tests/played", "tests/sim")}.get(part, ())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="a mutant of tests/mutants/catalog.py")
    parser.add_argument("--parts", default=",".join(PARTS), help="separated by commas: %(default)s")
    parser.add_argument("--tests", nargs="+", default=[], metavar="PATH", help="only these files of tests")
    parser.add_argument("--list", action="store_true", help="print the mutants and what each breaks")
    arguments = parser.parse_args()
    known = {mutant.name: mutant for mutant in MUTANTS}
    if unknown := [name for name in arguments.names if name not in known]:
        parser.error(f"unknown mutant: {', '.join(unknown)}")
    parts = arguments.parts.split(",")
    if unknown := [part for part in parts if part not in PARTS]:
        parser.error(f"unknown part: {', '.join(unknown)}; choose from {', '.join(PARTS)}")
    if arguments.list:
        for mutant in MUTANTS:
            sys.stdout.write(f"{mutant.name:34}{mutant.breaks}\n")
        return 0
    changed = subprocess.run(
        ("git", "status", "--porcelain", "src"), cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    if changed:
        parser.error(f"src/ has changes; commit or stash them first:\n{changed}")
    missed = 0
    for mutant in [known[name] for name in arguments.names] or MUTANTS:
        found = search(mutant, parts, arguments.tests)
        missed += found is None
        words = "not found" if found is None else f"{found.part:11} {found.after_s:5.0f} s  {found.by}"
        sys.stdout.write(f"{mutant.name:34}{words}\n")
        sys.stdout.flush()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
