"""The recorded answers of two versions of claude to --version and --help."""

from pathlib import Path

from sm.providers.base import ProgramFacts

_DIRECTORY = Path(__file__).parent / "data" / "claude_help"
VERSIONS = ("2.1.197", "2.1.332")


def program_facts(version: str) -> ProgramFacts:
    """The answers of this version. Recorded with `claude --help`, without the descriptions of the options."""
    return ProgramFacts(f"{version} (Claude Code)\n", (_DIRECTORY / f"{version}.txt").read_text())
