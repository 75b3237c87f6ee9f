"""Plays random sequences of work in worktrees: `python -m tests.work_loss --seed N [--runs M] [--minutes T]`.

A sequence in which `sm` loses work is played again and again without some of its acts, and the shortest one is printed.
"""

import argparse
import json
import logging
import os
import sys
import time
import traceback
from collections.abc import Sequence

from tests.work_loss.sequences import Outcome, Script, play, prepare, script

_TRIES_MAX = 150


def outcome(wanted: Script) -> Outcome:
    """Play a sequence in a process of its own: it leaves no memory behind. An exception is a fault too."""
    prepare()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            found = play(wanted)
        except BaseException as error:  # noqa: BLE001 - reported by the parent
            where = "".join(traceback.format_tb(error.__traceback__)[-4:])
            found = Outcome([f"{type(error).__name__}: {error}\n{where}"])
        with open(writer, "w", encoding="utf-8", errors="replace", closefd=False) as pipe:
            pipe.write(json.dumps([found.lost, found.trace]))
        os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return Outcome(*json.loads(text)) if text else Outcome(["the run died"])


def shortest(wanted: Script) -> Script:
    """Remove acts as long as the rest loses work too."""
    acts, tries, kind = list(wanted.acts), 0, _kind(outcome(wanted))
    size = max(1, len(acts) // 2)
    while tries < _TRIES_MAX:
        at, has_shrunk = 0, False
        while at < len(acts) and tries < _TRIES_MAX:
            fewer = Script((*acts[:at], *acts[at + size :]), wanted.has_submodule, wanted.fills)
            tries += 1
            if _kind(outcome(fewer)) == kind:
                acts, has_shrunk = list(fewer.acts), True
            else:
                at += size
        if size == 1 and not has_shrunk:
            break
        size = max(1, size // 2)
    return Script(tuple(acts), wanted.has_submodule, wanted.fills)


def _kind(found: Outcome) -> str:
    """The first words of a fault."""
    return found.lost[0].split(" ")[0] if found.lost else ""


def report(seed: int, wanted: Script) -> str:
    """The shortest sequence of a seed, and what is lost."""
    short = shortest(wanted)
    found = outcome(short)
    return "\n".join(
        (
            f"seed {seed} loses work; {len(short.acts)} of its {len(wanted.acts)} acts are enough"
            f" (submodule: {short.has_submodule}, filled: {short.fills}):",
            *found.trace,
            *(f"LOST {text}" for text in found.lost),
        )
    )


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.work_loss", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--runs", type=int, default=1, help="how many seeds")
    parser.add_argument("--minutes", type=float, help="begin no further run after these minutes")
    parser.add_argument("--trace", action="store_true", help="print what each run does")
    parser.add_argument("--whole", action="store_true", help="do not shorten a sequence")
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    began_s, played, failed = time.monotonic(), 0, 0
    for seed in range(options.seed, options.seed + options.runs):
        if options.minutes is not None and time.monotonic() - began_s > 60 * options.minutes:
            break
        wanted = script(seed)
        found = outcome(wanted)
        played += 1
        if options.trace:
            sys.stdout.write(f"seed {seed}\n" + "".join(f"{line}\n" for line in found.trace))
        if found.lost:
            failed += 1
            words = "\n".join((*found.trace, *found.lost)) if options.whole else report(seed, wanted)
            sys.stdout.write(f"{words}\n\n")
            sys.stdout.flush()
    took_s = time.monotonic() - began_s
    sys.stdout.write(f"{played} sequences, {failed} failed, {took_s:.0f} s\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
