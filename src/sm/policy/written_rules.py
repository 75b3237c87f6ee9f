"""The rules of rules.yaml, which allow something to all sessions of an agent type. Pure."""

import json
from collections.abc import Sequence
from dataclasses import field

from sm.core.dataclass import dataclass
from sm.core.programs import free_arguments


@dataclass(frozen=True, slots=True)
class WrittenRule:
    """A rule that allows something to all sessions of an agent type."""

    agent_type: str
    allow: str
    """The rule, as in `auto_allow`."""
    sandboxed: bool = False
    """True for a rule that only sandboxed sessions have, because one of them asked."""
    line: int = field(default=0, compare=False)
    """The line of the file that has it, from 1, or 0 for a rule that is not written."""

    @property
    def text(self) -> str:
        """The line of the file without its end. JSON, so that no character of a name or a rule has a meaning."""
        value: dict[str, object] = {"agent_type": self.agent_type, "allow": self.allow}
        if self.sandboxed:
            value["sandboxed"] = True
        return f"- {json.dumps(value, ensure_ascii=False)}"

    @property
    def sentence(self) -> str:
        """The effect of the rule, for people."""
        where = " in sandboxes" if self.sandboxed else ""
        free = free_arguments(self.allow.partition("(")[0])
        return f"{self.agent_type} may always use {self.allow}{where}{free and f', with {free}'}"


def allowed(rules: Sequence[WrittenRule], agent_type: str, *, sandboxed: bool) -> tuple[str, ...]:
    """The rules for a session of this agent type."""
    return tuple(
        rule.allow for rule in rules if rule.agent_type == agent_type and (sandboxed or not rule.sandboxed)
    )
