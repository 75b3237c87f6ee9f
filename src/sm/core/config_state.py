"""The state of config.yaml in the running daemon: whether it applies, and what waits for a restart."""

from collections.abc import Sequence

from sm.core.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ConfigState:
    path: str
    problem: str | None = None
    """Why the daemon keeps its configuration and does not apply the file; one line for each mistake. None if it applies
    the file."""
    waiting: Sequence[str] = ()
    """Sections and keys that only a restart of the daemon applies."""

    def lines(self) -> list[str]:
        """One line for each matter that needs attention."""
        lines = []
        if self.problem is not None:
            first, *more = self.problem.splitlines()
            rest = f" (and {len(more)} more)" if more else ""
            lines.append(f"the configuration is not applied: {first}{rest}; see: sm config --check")
        if self.waiting:
            lines.append(f"only a restart applies the change of {', '.join(self.waiting)}: sm daemon restart")
        return lines
