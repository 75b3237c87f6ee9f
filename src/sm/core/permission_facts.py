"""The permission mode of a session: as ordered at its start, and as its agent reported it later. Pure."""

from collections.abc import Mapping
from typing import Any

from sm.core.dataclass import dataclass
from sm.core.models import PermissionMode

FACT = "permission"
"""The name of the measured fact."""
CHANGED = "changed at its terminal, or by an approved plan"


def mode_words(mode: str, source: str | None) -> str:
    """The mode with the setting or the act that decided it, if that is known."""
    return f"{mode} ({source})" if source else mode


@dataclass(frozen=True, slots=True)
class CurrentMode:
    """The permission mode of a process now."""

    mode: str
    source: str
    """The setting or the act that decided it."""
    ordered: PermissionMode | None
    """The mode that the process started in, if it is known."""
    is_attended: bool = False
    """The operator had the terminal on the screen when the agent reported the mode."""

    @property
    def sentence(self) -> str:
        """For people, such as `permission mode manual (agent type Engineer)`."""
        began = "" if self.ordered is None or self.mode == self.ordered.mode else self.ordered.mode
        return f"permission mode {mode_words(self.mode, self.source)}{began and f', at the start {began}'}"


def current_mode(
    ordered: PermissionMode | None, measured: Mapping[str, Any], runs: int
) -> CurrentMode | None:
    """The mode of the process of run number `runs`, or None if unknown. `measured`: facts of its session."""
    reported = measured.get(FACT, {})
    mode = str(reported.get("mode", "")) if reported.get("run") == runs else ""
    is_attended = reported.get("attended") is True
    if ordered is None:
        return CurrentMode(mode, "", None, is_attended) if mode else None
    if not mode or mode == ordered.mode:
        return CurrentMode(ordered.mode, ordered.source, ordered)
    return CurrentMode(mode, CHANGED, ordered, is_attended)


def reported_mode(mode: str, runs: int, *, is_attended: bool) -> Mapping[str, Any]:
    """The measured fact of a mode that the agent has reported. `is_attended`: as in CurrentMode."""
    return {"mode": mode, "run": runs, "attended": is_attended}
