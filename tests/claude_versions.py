"""Checks several versions of Claude Code and writes docs/claude-versions.md.

    .venv/bin/python -m tests.claude_versions 2.1.197 2.1.240 newest

Gets each version with npm into a directory that it removes afterwards, and tries all contracts of `sm check claude`.
Versions that the document has already stay in it, unless they are checked again.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from sm.providers import make_check
from sm.providers.kept_programs import KeptPrograms

DOCUMENT = Path(__file__).parents[1] / "docs" / "claude-versions.md"
HEAD = """\
# Versions of Claude Code

`sm check claude` tries what `sm` relies on with the real program
([Check your claude](guide/claude.md#check-your-claude)). This page is written by
`python -m tests.claude_versions VERSION...`. A dash means that the contract was broken on that day, with the `sm` of
that day; a question mark, that there was no such contract.

"""
NEWEST = "newest"
HELD, BROKEN = "ok", "-"
_UNKNOWN = "?"

Row = tuple[str, Mapping[str, str]]
"""The day of a check, and its outcome by contract."""


def contracts() -> Mapping[str, str]:
    """The sentences of the contracts, by name."""
    return {contract.name: contract.sentence for contract in make_check("claude").contracts}


def checked(program: str, directory: str) -> Row:
    """Check a program in an instance of its own."""
    ended = subprocess.run(
        [sys.executable, "-m", "sm.cli", "check", "claude", "--program", program, "--patient", "--json"],
        env={**os.environ, "SM_HOME": directory},
        capture_output=True,
        text=True,
        check=False,
    )
    if not ended.stdout:
        raise SystemExit(f"{program}: {ended.stderr}")
    record = json.loads(ended.stdout)
    for outcome in record["outcomes"]:
        if not outcome["holds"]:
            sys.stderr.write(f"{record['program']['version']}: {outcome['name']}: {outcome['evidence']}\n")
    marks = {outcome["name"]: HELD if outcome["holds"] else BROKEN for outcome in record["outcomes"]}
    return record["checked_at"][:10], marks


def rows_of(text: str) -> dict[str, Row]:
    """The outcomes in the document, by version."""
    table = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    if not table:
        return {}
    (_, *versions), (_, *days), *lines = table
    return {
        version: (days[column], {name: marks[column] for name, *marks in lines})
        for column, version in enumerate(versions)
    }


def text_of(rows: Mapping[str, Row]) -> str:
    """The text of the document, the newest version first."""
    versions = sorted(rows, key=lambda text: [*map(int, text.split("."))], reverse=True)
    lines = [("contract", *versions), ("checked on", *(rows[version][0] for version in versions))]
    lines += [(name, *(rows[version][1].get(name, _UNKNOWN) for version in versions)) for name in contracts()]
    table = ["| " + " | ".join(line) + " |" for line in lines]
    table.insert(1, "|---" * (len(versions) + 1) + "|")
    sentences = [f"- **{name}**: {sentence}" for name, sentence in contracts().items()]
    return HEAD + "\n".join(table) + "\n\n## Contracts\n\n" + "\n".join(sentences) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 1 if a contract is broken in one of the versions."""
    parser = argparse.ArgumentParser(prog="python -m tests.claude_versions")
    parser.add_argument("versions", nargs="*", metavar="VERSION", help=f"such as 2.1.332, or {NEWEST}")
    options = parser.parse_args(arguments)
    rows = rows_of(DOCUMENT.read_text(encoding="utf-8")) if DOCUMENT.exists() else {}
    broken = False
    for word in options.versions:
        with tempfile.TemporaryDirectory(prefix="versions-") as directory:
            kept = KeptPrograms(make_check("claude").package, directory, f"{directory}/bin")
            version = kept.newest() if word == NEWEST else word
            kept.install(version)
            rows[version] = day, marks = checked(kept.program(version), f"{directory}/home")
            broken = broken or BROKEN in marks.values()
            held = sum(mark == HELD for mark in marks.values())
            sys.stdout.write(f"{version}: {held} of {len(marks)} contracts hold ({day})\n")
        DOCUMENT.write_text(text_of(rows), encoding="utf-8")
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
