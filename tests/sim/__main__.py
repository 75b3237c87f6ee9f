"""Plays random fleets: `python -m tests.sim --seed N [--runs M] [--minutes T]`.

Each run is a process of its own, with the same hash seed, so that a seed always plays the same. A seed that breaks a
promise is played again and again without some of its entries, and the shortest trace is printed.
"""

import argparse
import gc
import json
import logging
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.sim.fleet import Entry, days, script
from tests.sim.parts import Part, parts_of
from tests.sim.storm import play

_SHRINKS_MAX = 200
_WARM_UP_S = 60.0
"""Virtual seconds of a fleet with each part."""


@dataclass(frozen=True, slots=True)
class Outcome:
    broken: list[str]
    trace: list[str]
    virtual_s: float


def outcome(seed: int, entries: Sequence[Entry]) -> Outcome:
    """Play a script in a process of its own."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            storm = play(seed, entries)
            answer = json.dumps([storm.broken, storm.trace, storm.virtual_s])
        except BaseException as error:  # noqa: BLE001 - reported by the parent
            where = "".join(traceback.format_tb(error.__traceback__)[-3:])
            answer = json.dumps([[f"{type(error).__name__}: {error}\n{where}"], [], 0.0])
        with open(writer, "w", encoding="utf-8", closefd=False) as pipe:
            pipe.write(answer)
        os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return Outcome(*json.loads(text)) if text else Outcome(["the run died"], [], 0.0)


def shortest(entries: list[Entry], is_broken: Callable[[list[Entry]], bool]) -> list[Entry]:
    """Remove entries as long as the rest still breaks a promise: halves first, then smaller parts."""
    tries, size = 0, max(1, len(entries) // 2)
    while True:
        at, has_shrunk = 0, False
        while at < len(entries) and tries < _SHRINKS_MAX:
            fewer = entries[:at] + entries[at + size :]
            tries += 1
            if fewer and is_broken(fewer):
                entries, has_shrunk = fewer, True
            else:
                at += size
        if tries >= _SHRINKS_MAX or (size == 1 and not has_shrunk):
            return entries
        size = max(1, size // 2)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--runs", type=int, help="how many seeds; default: one, or as many as fit --minutes")
    parser.add_argument("--minutes", type=float, help="begin no further run after these minutes")
    parser.add_argument(
        "--days", type=float, help="play 20 claudes for so many days, in place of a random fleet"
    )
    parser.add_argument("--trace", action="store_true", help="print the trace of each run")
    parser.add_argument(
        "--first", action="store_true", help="end with the first seed that breaks a promise, unshortened"
    )
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    runs = options.runs or (1 if options.minutes is None else sys.maxsize)
    _warm_up()
    began_s, virtual_s, played, failed = time.monotonic(), 0.0, 0, 0
    for seed in range(options.seed, options.seed + runs):
        if options.minutes is not None and time.monotonic() - began_s > 60 * options.minutes:
            break
        entries = script(seed) if options.days is None else days(seed, options.days)
        found = outcome(seed, entries)
        played, virtual_s = played + 1, virtual_s + found.virtual_s
        if options.trace and not found.broken:
            sys.stdout.write("".join(f"{line}\n" for line in found.trace))
        if found.broken:
            failed += 1
            if options.first:
                sys.stdout.write("".join(f"seed {seed}: {text}\n" for text in found.broken))
                break
            _report(seed, entries, found)
    took_s = time.monotonic() - began_s
    pace = virtual_s / 86_400 / (took_s / 3600)
    sys.stdout.write(f"{played} runs, {failed} failed, {took_s:.0f} s; ")
    sys.stdout.write(f"{virtual_s / 3600:.1f} virtual hours, {pace:.1f} virtual days an hour\n")
    return 1 if failed else 0


def _warm_up() -> None:
    """Import and compile once what each run needs: the runs are forks of this process."""
    for part in Part:
        seed = next(seed for seed in range(1, 1000) if part in parts_of(seed))
        play(seed, [entry for entry in script(seed) if entry.at_s < _WARM_UP_S])
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def _report(seed: int, entries: list[Entry], found: Outcome) -> None:
    kinds = {_kind(text) for text in found.broken}

    def is_broken(fewer: list[Entry]) -> bool:
        return bool(kinds & {_kind(text) for text in outcome(seed, fewer).broken})

    short = shortest(entries, is_broken)
    last = outcome(seed, short)
    sys.stdout.write(f"seed {seed} breaks:\n" + "".join(f"  {text}\n" for text in found.broken))
    sys.stdout.write(f"{len(short)} of its {len(entries)} entries are enough:\n")
    sys.stdout.write("".join(f"{line}\n" for line in (*last.trace, *(f"  {text}" for text in last.broken))))
    sys.stdout.flush()


def _kind(text: str) -> str:
    """The promise that a text is about."""
    return text.split(":")[0]


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.sim", *sys.argv[1:]])
    sys.exit(main(sys.argv[1:]))
