"""The choices of a person in a live view, which the next start finds again. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum

from sm.board.order import Sort
from sm.core.dataclass import dataclass

_FOLDED_MAX = 1000


class Theme(StrEnum):
    SYSTEM = "system"
    """The colours of the terminal or of the browser."""
    DARK = "dark"
    LIGHT = "light"


@dataclass(frozen=True, slots=True)
class Choices:
    workspace: str | None = None
    """The slug of the workspace, or None for all."""
    sort: Sort = Sort.TREE
    theme: Theme = Theme.SYSTEM
    archived: bool = False
    """Archived sessions are shown too."""
    folded: tuple[str, ...] = ()
    """The sessions whose descendants are hidden, the latest last."""

    def as_json(self) -> Mapping[str, object]:
        return asdict(self)


def choices_of(value: object) -> Choices:
    """The choices that were kept. Values of another version of sm are left out."""
    found = value if isinstance(value, dict) else {}
    folded = found.get("folded")
    folded = folded if isinstance(folded, list | tuple) else ()
    workspace, sort, theme = found.get("workspace"), found.get("sort"), found.get("theme")
    return Choices(
        workspace if isinstance(workspace, str) else None,
        Sort(sort) if sort in list(Sort) else Sort.TREE,
        Theme(theme) if theme in list(Theme) else Theme.SYSTEM,
        found.get("archived") is True,
        tuple(entry for entry in folded if isinstance(entry, str))[-_FOLDED_MAX:],
    )


def folds_after(before: Sequence[str], session_id: str, folded: Collection[str]) -> tuple[str, ...]:
    """The folds to keep after that of one session has changed. `folded`: all present ones."""
    kept = [known for known in before if known in folded and known != session_id]
    return (*kept, *([session_id] if session_id in folded else []))[-_FOLDED_MAX:]
