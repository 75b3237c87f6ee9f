"""Plays releases of Claude Code that change what `sm` relies on, and writes docs/claude-changes.md.

    .venv/bin/python -m tests.rehearsal                         # all changes
    .venv/bin/python -m tests.rehearsal trust-words hook-field --claude PATH

A wrapper changes what the real program shows and reports (`wrapper`), and `sm check claude` tries contracts with it,
those that should break and some others: as it is, and with an operator's dialect if data can mend the change. Returns 1
if a change is not noticed, if `sm` said what was not so, or if the data do not mend it. Lines of changes that are not
played stay in the document.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sm.providers.claude.check.play import FALSE_CLAIM
from tests.claude_cli import BINARY
from tests.rehearsal.changes import CHANGES, Change
from tests.rehearsal.wrapper import script

DOCUMENT = Path(__file__).parents[2] / "docs" / "claude-changes.md"
HEAD = """\
# Changes of Claude Code

Claude Code changes almost daily. These changes, as a release could bring them, were played between `sm` and the real
program, and `sm check claude` was run ([Check your claude](guide/claude.md#check-your-claude)). This page is written by
`python -m tests.rehearsal`. With each change it tries the contracts that depend on it, and start, text, queue,
permission and usage.

- **broken**: the contracts that the check names ([their sentences](claude-versions.md#contracts)).
- **seen**: what was seen in place of the first of them.
- **false**: how often `sm` said what was not so, such as that a message was read.
- **mended by data**: with a file of the operator, `dialect/claude.toml`, these contracts hold again.

"""
_SEEN_MAX = 160
WITNESSES = ("start", "text", "queue", "permission", "usage")
"""Contracts that are tried with each change, because they notice what sm says wrongly."""
_COLUMNS = ("change", "what a release changes", "version", "broken", "seen", "false", "mended by data")


@dataclass(frozen=True, slots=True)
class Played:
    """The outcome of one change."""

    change: Change
    version: str
    broken: Mapping[str, str]
    """By contract the evidence."""
    still_broken: Mapping[str, str] | None
    """The same with the operator's dialect, or None if no data can mend the change."""

    @property
    def false_claims(self) -> list[str]:
        return [
            text
            for outcomes in (self.broken, self.still_broken or {})
            for text in outcomes.values()
            if text.startswith(FALSE_CLAIM)
        ]

    @property
    def is_as_hoped(self) -> bool:
        is_noticed = {*self.change.breaks} <= self.broken.keys()
        return is_noticed and not self.false_claims and not self.still_broken

    @property
    def seen(self) -> str:
        """The evidence of the first contract that is broken."""
        evidence = next((self.broken[name] for name in self.change.breaks if name in self.broken), "nothing")
        short = evidence if len(evidence) <= _SEEN_MAX else f"{evidence[:_SEEN_MAX].rstrip()}..."
        return short.replace("|", "/")

    @property
    def row(self) -> tuple[str, ...]:
        mended = "no" if self.still_broken is None else ", ".join(self.still_broken) or "yes"
        return (
            self.change.name,
            self.change.sentence,
            self.version,
            ", ".join(self.broken) or "none",
            self.seen,
            str(len(self.false_claims)),
            mended if mended in ("yes", "no") else f"not: {mended}",
        )


def play(change: Change, program: str, contracts: Sequence[str] = ()) -> Played:
    """Check a program with a change, and once more with the data that mend it. `contracts`: empty means all."""
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as directory:
        wrapper = Path(directory, "claude")
        wrapper.write_text(script(change.name, os.path.realpath(program)), encoding="utf-8")
        wrapper.chmod(0o755)
        version, broken = _check(wrapper, Path(directory, "as-it-is"), None, contracts)
        if others := [name for name in broken if name not in change.breaks]:
            # On a busy machine a contract may take too long.
            _, again = _check(wrapper, Path(directory, "again"), None, others, "--patient")
            broken = {name: text for name, text in broken.items() if name in again or name not in others}
        still_broken = None
        if change.mends is not None:
            names = [*broken] or contracts
            _, still_broken = _check(wrapper, Path(directory, "mended"), change.mends, names, "--patient")
    return Played(change, version, broken, still_broken)


def _check(
    program: Path, home: Path, dialect: str | None, contracts: Sequence[str], *options: str
) -> tuple[str, Mapping[str, str]]:
    """Return the version, and by contract the evidence of those that are broken."""
    home.mkdir()
    if dialect is not None:
        (home / "dialect").mkdir()
        (home / "dialect" / "claude.toml").write_text(textwrap.dedent(dialect), encoding="utf-8")
    chosen = [word for name in contracts for word in ("--contract", name)]
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "sm.cli",
            "check",
            "claude",
            "--program",
            str(program),
            "--json",
            *chosen,
            *options,
        ],
        env={**os.environ, "SM_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    if not ended.stdout:
        raise SystemExit(f"{program}: {ended.stderr}")
    record: dict[str, Any] = json.loads(ended.stdout)
    broken = {one["name"]: one["evidence"] for one in record["outcomes"] if not one["holds"]}
    return record["program"]["version"], broken


def rows_of(text: str) -> dict[str, tuple[str, ...]]:
    """The rows in the document, by change."""
    rows = (tuple(line.strip("| ").split(" | ")) for line in text.splitlines() if line.startswith("| "))
    return {row[0]: row for row in rows if row != _COLUMNS}


def text_of(rows: Mapping[str, Sequence[str]]) -> str:
    """The text of the document."""
    lines = [_COLUMNS, *(rows[name] for name in CHANGES if name in rows)]
    table = ["| " + " | ".join(line) + " |" for line in lines]
    table.insert(1, "|---" * len(_COLUMNS) + "|")
    return HEAD + "\n".join([*table, "", *_mends()]) + "\n"


def _mends() -> Iterator[str]:
    yield "## The data that mend a change"
    for change in CHANGES.values():
        if change.mends is not None:
            yield f"\n{change.name}:\n\n```toml\n{textwrap.dedent(change.mends).strip()}\n```"


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 1 if a change was not handled as it should be."""
    parser = argparse.ArgumentParser(prog="python -m tests.rehearsal")
    parser.add_argument("changes", nargs="*", metavar="CHANGE", help=f"of: {', '.join(CHANGES)}")
    parser.add_argument("--claude", metavar="PATH", default=str(BINARY), help="the real program")
    parser.add_argument(
        "--contract", action="append", default=[], help="try only this one, and write nothing"
    )
    parser.add_argument(
        "--all", action="store_true", help="try all contracts with each change: takes half an hour"
    )
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.changes if name not in CHANGES]:
        parser.error(f"there is no change {unknown[0]}")
    rows = rows_of(DOCUMENT.read_text(encoding="utf-8")) if DOCUMENT.exists() else {}
    is_as_hoped = True
    for name in options.changes or CHANGES:
        contracts = [] if options.all else {**dict.fromkeys(CHANGES[name].breaks), **dict.fromkeys(WITNESSES)}
        played = play(CHANGES[name], options.claude, options.contract or [*contracts])
        is_as_hoped = is_as_hoped and played.is_as_hoped
        rows[name] = played.row
        words = ("" if played.is_as_hoped else "NOT AS HOPED ", *played.row)
        sys.stdout.write("{}{}: {} [{}] broken: {}; seen: {}; false: {}; mended by data: {}\n".format(*words))
        for contract, evidence in {**played.broken, **(played.still_broken or {})}.items():
            sys.stdout.write(f"    {contract}: {evidence}\n")
        sys.stdout.flush()
        if not options.contract:
            DOCUMENT.write_text(text_of(rows), encoding="utf-8")
    return int(not is_as_hoped)


if __name__ == "__main__":
    sys.exit(main())
