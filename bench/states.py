"""`python -m bench states`: measures how often the status is right, with the real Claude Code in every state.

`bench.sequences` plays every kind of turn, dialog, interrupt and end, and knows the true state. The status is sampled
ten times a second. Samples within `AROUND_S` of a change do not count, because the agent itself takes a moment.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from bench.sequences import AROUND_S, COUNT, EVERY_S, SESSIONS, UNKNOWN, NotPlayed, Run, Truth, begin, limited
from sm.core.observation import Source
from tests.claude_cli import BINARY
from tests.claude_instance import ClaudeInstance
from tests.scripted_api import ScriptedApi

STATES = ("starting", "running", "waiting_input", "idle", "ended")
_GATE = 0.995
_TOLERANCES_S = (0.5, 1.0, 1.5, 2.0, 2.5)
_WORST = 10
"""How many of the worst sequences are listed."""


def run_scripts(
    off: Source | None, scripts: Sequence[str] = (), record: Path | None = None, claude: str = str(BINARY)
) -> tuple[list[Truth], list[str]]:
    """Play all sequences without the source `off`.

    Returns the true and the reported states, and why a sequence was not played to its end. `record`: a directory for
    the observations and the true states, one file for each session, for tests to replay.
    """
    ignored = "" if off is None else f", ignore_evidence: [{off.value}]"
    more = f"daemon: {{log_level: debug{ignored}}}"
    truths, failures = [], []
    with ScriptedApi() as api, ClaudeInstance(api, more=more, program=claude) as instance:
        for agent, prompt, sequences in SESSIONS:
            wanted = {name: play for name, play in sequences.items() if not scripts or name in scripts}
            run: Run | None = None
            runs: list[Run] = []
            try:
                for name, play in wanted.items():
                    print(f"  {name}", file=sys.stderr, flush=True)
                    try:
                        with limited():
                            if run is None:
                                run = begin(instance, api, agent, prompt)
                                runs.append(run)
                            run.truth.steps.append((time.time(), name))
                            play(run)
                    except (NotPlayed, AssertionError) as error:
                        failures.append(f"{name}: not played: {error}")
                        if run is not None:
                            run.truth.now(UNKNOWN)
                        run, prompt = None, None  # the next sequence begins with a new session
            finally:
                for each in runs:
                    each.end()
            truths += [each.truth for run in runs for each in (run, *run.others)]
            if record is not None and runs:
                (record / f"{agent.lower()}.jsonl").write_text(_recording(instance, runs[0]))
    return truths, failures


def _recording(instance: ClaudeInstance, run: Run) -> str:
    """Lines of JSON in the order of time: {"t", "true"} and {"t", "source", "activity", "at", ...}."""
    lines: list[dict[str, object]] = [{"t": at, "true": state} for at, state in run.truth.changes]
    for text in (instance.state / "log" / "daemon.log").read_text().splitlines():
        line = json.loads(text)
        if line["message"] == "observed" and line["sm_session"] == run.id:
            seen = datetime.fromisoformat(line["time"]).timestamp()
            reported = {name[3:]: value for name, value in line.items() if name.startswith("sm_")}
            del reported["session"]
            lines.append({"t": seen, **{name: value for name, value in reported.items() if value}})
    lines.sort(key=lambda line: float(str(line["t"])))
    return "".join(f"{json.dumps(line)}\n" for line in lines)


def confusion(truths: Sequence[Truth], around_s: float = AROUND_S) -> Counter[tuple[str, str]]:
    """Counts of (true, reported) over all samples that are not within `around_s` of a change."""
    found: Counter[tuple[str, str]] = Counter()
    for matrix in by_sequence(truths, around_s).values():
        found += matrix
    return found


def by_sequence(truths: Sequence[Truth], around_s: float = AROUND_S) -> dict[str, Counter[tuple[str, str]]]:
    """The same counts for each sequence."""
    found: dict[str, Counter[tuple[str, str]]] = {}
    for truth in truths:
        for at, reported, _ in truth.samples:
            if true := truth.state_at(at, around_s):
                counts = found.setdefault(truth.step_at(at), Counter())
                counts[true, "starting" if reported == "spawned" else reported] += 1
    return found


def accuracy(matrix: Counter[tuple[str, str]]) -> float:
    right = sum(count for (true, reported), count in matrix.items() if true == reported)
    return right / max(1, matrix.total())


def wrong(truths: Sequence[Truth], around_s: float = AROUND_S) -> Iterator[str]:
    """Describe the first sample of each run of wrong samples, with the reported reason."""
    for truth in truths:
        before = False
        for at, reported, reason in truth.samples:
            true = truth.state_at(at, around_s)
            is_wrong = true is not None and true != ("starting" if reported == "spawned" else reported)
            if is_wrong and not before:
                since = at - max(changed for changed, _ in truth.changes if changed <= at)
                yield f"{truth.step_at(at)}: {true} for {since:.1f} s, reported {reported}: {reason}"
            before = is_wrong


def main(arguments: Sequence[str]) -> int:
    """Return 0 when enough of the samples are right in every run, and every sequence was played."""
    parser = argparse.ArgumentParser(
        prog="python -m bench states", description="Measure how often the status is right."
    )
    parser.add_argument("--claude", default=str(BINARY), metavar="PATH", help="the program to test")
    parser.add_argument(
        "--off",
        choices=[*(s.value for s in Source), "none", "each"],
        default="none",
        help="the source of evidence that sm ignores; each: one run without each of them (default: none)",
    )
    parser.add_argument(
        "--only", nargs="*", default=(), metavar="NAME", help="sequences to play (default: all)"
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        default=AROUND_S,
        metavar="SECONDS",
        help=f"leave out samples so near to a change, more on a busy machine (default: {AROUND_S:.1f})",
    )
    parser.add_argument("--record", type=Path, metavar="DIR", help="directory for the recorded observations")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    wanted: list[Source | None] = [None, *Source]
    if options.off != "each":
        wanted = [None if options.off == "none" else Source(options.off)]
    if not options.json:
        version = subprocess.run([options.claude, "--version"], capture_output=True, text=True, check=True)
        print(
            f"claude {version.stdout.strip()}, {COUNT} sequences, a sample every {EVERY_S:.1f} s; "
            f"samples within {options.tolerance} s of a change are left out; load {os.getloadavg()[0]:.0f}",
            flush=True,
        )
    answers = []
    for off in wanted:
        print(f"without {off or 'nothing'} ...", file=sys.stderr, flush=True)
        truths, failures = run_scripts(off, options.only, options.record, options.claude)
        around_s = options.tolerance
        matrix = confusion(truths, around_s)
        answers.append(
            {
                "off": off,
                "n": matrix.total(),
                "accuracy": accuracy(matrix),
                "matrix": {
                    f"{true} -> {reported}": count for (true, reported), count in sorted(matrix.items())
                },
                "sequences": {
                    name: accuracy(counts) for name, counts in by_sequence(truths, around_s).items()
                },
                "errors": [*wrong(truths, around_s), *failures],
                "failures": len(failures),
            }
        )
        if not options.json:
            print("\n".join(_table(off, matrix)))
            print("\n".join(_worst(truths, around_s)))
            print("\n".join(f"  {error}" for error in [*wrong(truths, around_s), *failures]), flush=True)
    if options.json:
        print(json.dumps(answers, indent=2))
    return int(any(float(str(answer["accuracy"])) < _GATE or answer["failures"] for answer in answers))


def _table(off: Source | None, matrix: Counter[tuple[str, str]]) -> Iterator[str]:
    yield ""
    title = "all sources" if off is None else f"without the {off}"
    yield f"{title}: {100 * accuracy(matrix):.2f}% of {matrix.total()} samples"
    yield f"{'true / said':>14}" + "".join(f"{reported:>14}" for reported in STATES)
    for true in STATES:
        yield f"{true:>14}" + "".join(f"{matrix[true, reported]:>14}" for reported in STATES)


def _worst(truths: Sequence[Truth], around_s: float) -> Iterator[str]:
    """Say how much other tolerances change, and list the sequences with wrong samples, the worst first."""
    others = [(each, accuracy(confusion(truths, each))) for each in _TOLERANCES_S]
    yield "by tolerance: " + ", ".join(f"{each:.1f} s {100 * share:.2f}%" for each, share in others)
    found = by_sequence(truths, around_s)
    wrong_ones = sorted((accuracy(counts), name) for name, counts in found.items() if accuracy(counts) < 1)
    yield f"{len(found) - len(wrong_ones)} of {len(found)} sequences have no wrong sample"
    for share, name in wrong_ones[:_WORST]:
        yield f"{100 * share:>8.1f}% {name}"
