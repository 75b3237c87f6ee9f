"""Decides how long the first turn of an agent waits for the tools of sm, and whether it began without them. Pure.

Times are seconds since the epoch.
"""

from collections.abc import Mapping
from typing import Any

from sm.core.dataclass import dataclass
from sm.core.timestamps import epoch_s, iso

LIMIT_S = 2.0
"""The longest wait after the MCP server began, or after the prompt while no server has begun."""
SLOW_LIMIT_S = 5.0
"""The same for an agent that started slowly."""
SLOW_START_S = 1.5
"""A longer start means that the machine is busy: claude needs about a second on an idle one."""
ABSENT_AFTER_S = 30.0
"""An MCP server that has not begun this long after the start of its agent is not awaited: no server will begin."""
SETTLES_S = 0.25, 1.0
"""The shortest and the longest time that the agent gets to take over the tools that it has read: a quarter of the time
of its start. claude takes them over some time after it has read them (measured: 0.1 s was too short in 4 of 10 starts).
"""


@dataclass(slots=True)
class OwnTools:
    """The tools of sm in one process of an agent."""

    started_s: float
    is_over: bool = False
    """The first turn has begun. Later turns do not wait."""
    began_s: float | None = None
    """The time of the first message from the MCP server."""
    listed_s: float | None = None
    """The time at which the agent had read the list of tools."""
    prompt_s: float | None = None
    """The time of the prompt of the first turn, or None if this daemon has seen none."""
    released_s: float | None = None
    """The time at which the first turn began."""
    changes: int = 0
    is_stored: bool = True

    def begin(self, now: float) -> None:
        """Note that the MCP server runs."""
        if self.began_s is None:
            self.began_s = now
            self.changes += 1

    def read(self, now: float) -> None:
        """Note that the agent has read the tools."""
        self.begin(now)
        if self.listed_s is None:
            self.listed_s = now
            self._change()

    def submit(self, at: float) -> None:
        """Note the prompt of a turn."""
        if self.prompt_s is None and not self.is_over:
            self.prompt_s = at

    def release_s(self) -> float:
        """The time until which the first turn waits. Call it after `submit`."""
        assert self.prompt_s is not None
        if self.listed_s is not None and self.began_s is not None:
            shortest_s, longest_s = SETTLES_S
            return self.listed_s + min(max(shortest_s, (self.began_s - self.started_s) / 4), longest_s)
        since = self.prompt_s if self.began_s is None else self.began_s
        start_s = since - self.started_s
        if self.began_s is None and start_s > ABSENT_AFTER_S:
            return since
        return since + (SLOW_LIMIT_S if start_s > SLOW_START_S else LIMIT_S)

    def release(self, now: float) -> None:
        """Note that the first turn begins now."""
        if not self.is_over:
            self.is_over, self.released_s = True, now
            self._change()

    def _change(self) -> None:
        self.changes += 1
        self.is_stored = False

    def facts(self) -> dict[str, str]:
        """The times that are known, to store with the session."""
        known = {"prompt": self.prompt_s, "released": self.released_s, "listed": self.listed_s}
        return {name: iso(at) for name, at in known.items() if at is not None}

    def load(self, facts: Mapping[str, Any]) -> None:
        """Take over the times that an earlier daemon has stored about the same process."""
        if self.listed_s is None and "listed" in facts:
            self.began_s = self.listed_s = epoch_s(facts["listed"])
        self.is_over |= "released" in facts


def missing_tools(facts: Mapping[str, Any]) -> str | None:
    """A sentence about a first request without the tools of sm, or None if it had them or nothing is known.

    `facts`: as `OwnTools.facts`.
    """
    prompt, released, listed = (facts.get(name) for name in ("prompt", "released", "listed"))
    if prompt is None or released is None:
        return None
    if listed is not None and epoch_s(listed) <= epoch_s(released):
        return None
    waited_s = epoch_s(released) - epoch_s(prompt)
    missed = f"its first request had no tools of sm: sm mcp had not listed them after {waited_s:.1f} s"
    if listed is None:
        return f"{missed}, and has not listed them since"
    late_s = epoch_s(listed) - epoch_s(prompt)
    return f"{missed}, but after {late_s:.1f} s: later requests have them"
