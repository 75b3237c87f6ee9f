"""Compares two configurations, and takes over the keys of a changed file that need no restart of the daemon."""

from collections.abc import Iterator, Sequence

from pydantic import BaseModel

from sm.config.model import Config
from sm.core.dataclass import dataclass

NEEDS_RESTART = (
    "tmux",
    "child_agents.cleanup.archive_path",
    "sandbox.engine",
    "telegram",
    "web",
    "mcp",
    "daemon.ignore_evidence",
)
"""Sections and keys that the daemon reads only when it starts."""


@dataclass(frozen=True, slots=True)
class ConfigChanges:
    """The dotted keys that differ, in the order of the model."""

    taken: tuple[str, ...]
    """Keys that the daemon has taken over."""
    waiting: tuple[str, ...]
    """Entries of NEEDS_RESTART that differ: a restart of the daemon applies them."""


def take_over(running: Config, file: Config) -> ConfigChanges:
    """Change `running` in place to the values of `file`, except for those that need a restart.

    Every part of the daemon keeps a reference to `running` or to one of its sections. A part that reads a key when it
    needs it always gets the value that applies (docs/adr/0017).
    """
    taken: list[str] = []
    waiting: dict[str, None] = {}
    for key, section, name, value in list(_differences(running, file)):
        restart = next((entry for entry in NEEDS_RESTART if f"{key}.".startswith(f"{entry}.")), None)
        if restart is not None:
            waiting[restart] = None
        else:
            vars(section)[name] = value  # sections are frozen for all others
            taken.append(key)
    return ConfigChanges(tuple(taken), tuple(waiting))


def _differences(
    before: BaseModel, after: BaseModel, prefix: str = ""
) -> Iterator[tuple[str, BaseModel, str, object]]:
    """Each key whose value differs: its dotted name, the section in `before`, its name there, and the new value."""
    for name in type(before).model_fields:
        old, new = getattr(before, name), getattr(after, name)
        if isinstance(old, BaseModel) and type(old) is type(new):
            yield from _differences(old, new, f"{prefix}{name}.")
        elif old != new:
            yield prefix + name, before, name, new


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
