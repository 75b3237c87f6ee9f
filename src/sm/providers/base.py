"""Providers: what an agent CLI is started with, says, and means."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from sm.models import Exit, Signal, SpawnRequest


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """How to start one agent. `environment` is what the configuration adds, before `SM_*`."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    typed_prompt: str | None = field(default=None, repr=False)
    prompt_file: str | None = field(default=None, repr=False)


class Provider(Protocol):
    """One kind of agent CLI. Pure: it plans and reads, others act."""

    name: str

    @property
    def agent_types(self) -> Collection[str]:
        """The agent types that this provider starts, as configured."""

    def plan(self, request: SpawnRequest) -> AgentPlan:
        """What to run for this request. Raises UsageError when an option means nothing to this provider."""

    def read_exit(self, exit: Exit, emitted_at: str) -> Signal:
        """What the end of the agent's process means."""
