"""Providers: what an agent CLI is started with, says, and means."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from sm.models import Exit, Signal, SpawnRequest


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """How to start one agent. `environment` is what the configuration adds, before `SM_*`."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    typed_prompt: str | None = field(default=None, repr=False)
    prompt_file: str | None = field(default=None, repr=False)


class Input(StrEnum):
    """How an agent gets messages."""

    INBOX = "inbox"
    """It asks for them (`sm inbox --take`)."""
    TTY = "tty"
    """Each is typed into its terminal as one line."""


class Provider(Protocol):
    """One kind of agent CLI. Pure: it plans and reads, others act."""

    name: str

    has_turns: bool
    """Whether its agents say themselves when they are busy; else one is idle only while its `sm` waits."""

    interrupt_key: str
    """The key (tmux(1), send-keys) that makes an agent leave off what it does."""

    @property
    def agent_types(self) -> Collection[str]:
        """The agent types that this provider starts, as configured."""

    def plan(self, request: SpawnRequest) -> AgentPlan:
        """What to run for this request. Raises UsageError when an option means nothing to this provider."""

    def read_exit(self, exit: Exit, emitted_at: str) -> Signal:
        """What the end of the agent's process means."""

    def input_of(self, agent_type: str) -> Input:
        """How agents of this type get messages; also for a type that is configured no more."""

    def holds(self, screen: Sequence[str]) -> str | None:
        """Why nothing may be typed into a terminal that shows `screen`: a dialog, a person's half-typed line.

        None: it takes text. Asked before a text is pasted and again before Enter.
        """
