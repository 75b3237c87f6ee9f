"""The section `warnings`: when sm warns of a session, and what it does then."""

from typing import Literal, TypeAlias

from pydantic import Field, field_validator

from sm.section import Section

Act: TypeAlias = Literal["notice", "nudge", "interrupt", "pause", "off"]
Word: TypeAlias = Literal["notice", "off"]


class _Rule(Section):
    @field_validator("do", mode="before", check_fields=False)
    @classmethod
    def _read_off(cls, value: object) -> object:
        return "off" if value is False else value  # YAML reads a plain `off` as false


class Loop(_Rule):
    """Five equal calls with five equal results are no coincidence; three equal errors show that nothing was changed."""

    limit: int = Field(default=5, ge=2, le=1000)
    """Calls of the same tool in a row, with the same arguments and the same result."""
    failures: int = Field(default=3, ge=2, le=1000)
    """Failed calls of the same tool in a row, with the same error."""
    do: Act = "nudge"
    """nudge: tell the agent itself first, and you and its parent if it goes on. notice: tell you and its parent.
    interrupt, pause: also interrupt its turn, or pause the session. off: nothing."""


class NoProgress(_Rule):
    """Most tools take less than 20 minutes; a build or a test run may take an hour."""

    after: float = Field(default=1200, ge=0.1, le=604_800, allow_inf_nan=False)
    """Seconds for which a working agent ends no tool, uses no token and prints nothing."""
    tool_after: float = Field(default=3600, ge=0.1, le=604_800, allow_inf_nan=False)
    """Seconds for which one tool may run."""
    do: Act = "notice"
    """As for loop."""


class Burn(_Rule):
    """Nine of ten sessions stay below their p90 on average; a short peak of twice or three times that is normal."""

    after: float = Field(default=300, ge=60, le=86_400, allow_inf_nan=False)
    """Seconds for which the agent uses tokens that fast."""
    limit: float = Field(default=5, ge=1.1, le=10_000, allow_inf_nan=False)
    """Tokens a minute, as a multiple of the p90 of the completed sessions of its type."""
    do: Act = "notice"
    """As for loop."""


class ContextUse(_Rule):
    """claude compacts a conversation at about 95%; before that it can still write down what is important."""

    limit: float = Field(default=85, ge=1, le=100, allow_inf_nan=False)
    """The used part of the context window, in per cent."""
    do: Act = "notice"
    """As for loop."""


class Unanswered(_Rule):
    """An agent that waits for an answer does nothing. A person at the computer answers within 15 minutes."""

    after: float = Field(default=900, ge=0.1, le=604_800, allow_inf_nan=False)
    """Seconds for which a request is open."""
    do: Word = "notice"
    """notice: tell you and the parent. off: nothing."""


class Memory(_Rule):
    """claude needs about 250 MB. 4 GiB is the default limit of a sandbox, in which the kernel ends the agent."""

    limit: float = Field(default=4096, ge=1, le=1_000_000_000, allow_inf_nan=False)
    """Memory of all processes of the agent, in MiB."""
    do: Act = "notice"
    """As for loop."""


class CrashLoop(_Rule):
    do: Word = "notice"
    """notice: tell you and the parent of a session whose process crashes and is restarted. off: nothing."""


class ReportMissing(_Rule):
    do: Word = "notice"
    """notice: warn of an agent that has not reported after the reminders of remind_after_s. off: nothing."""


class Silent(_Rule):
    """A working claude draws and writes all the time, so ten minutes without a sign are no pause for thought."""

    after: float = Field(default=600, ge=0.1, le=604_800, allow_inf_nan=False)
    """Seconds for which no source reports anything about a working agent."""
    limit: float = Field(default=50, ge=1, le=100_000, allow_inf_nan=False)
    """The use of the processor by the agent's own process meanwhile, in per cent of one core."""
    do: Act = "notice"
    """As for loop."""


class Denied(_Rule):
    """One or two denied actions are what a permission mode is for; after three the agent looks for a way around."""

    limit: int = Field(default=3, ge=1, le=1000)
    """Actions in a row that the agent's permission mode denied, without one that ran in between."""
    do: Act = "notice"
    """As for loop."""


class HooksMissing(_Rule):
    do: Word = "notice"
    """notice: warn of an agent that works, of which no hook has told sm within 30 s. off: nothing."""


class ToolsMissing(_Rule):
    do: Word = "notice"
    """notice: warn of an agent that has not listed the tools of sm 30 s after its prompt. off: nothing."""


class PingPong(Section):
    """Two agents at work on one task exchange a few messages; a dozen without any work between them is a chat."""

    limit: int = Field(default=12, ge=2, le=1000)
    """Messages between the same two agents in which neither does anything but send, read or wait. Several messages of
    one without an answer count once."""
    within_s: float = Field(default=300, ge=1, le=86_400, allow_inf_nan=False)
    """Seconds in which that many messages are exchanged."""
    do: Literal["slow", "notice", "off"] = "slow"
    """slow: tell the nearest ancestor of both, delay each further message (10, 30, then 120 s), and hold them from
    twice the limit on until that ancestor or a person lets them go on. notice: tell only. off: nothing."""

    @field_validator("do", mode="before")
    @classmethod
    def _read_off(cls, value: object) -> object:
        return "off" if value is False else value  # YAML reads a plain `off` as false


class WarningsSection(Section):
    """Each warning is reported once, ends by itself with its cause, and may come again then."""

    loop: Loop = Loop()
    """The agent repeats itself."""
    no_progress: NoProgress = NoProgress()
    """The agent works, but nothing happens."""
    burn: Burn = Burn()
    """The agent uses tokens fast. This needs five completed sessions of its type."""
    context: ContextUse = ContextUse()
    """The context window is nearly full."""
    unanswered: Unanswered = Unanswered()
    """A request is open."""
    memory: Memory = Memory()
    """The processes of the agent use much memory."""
    crash_loop: CrashLoop = CrashLoop()
    """The process of the session crashes and is restarted."""
    report_missing: ReportMissing = ReportMissing()
    """The agent is idle and has not reported."""
    silent: Silent = Silent()
    """No source reports anything while the agent's process works."""
    denied: Denied = Denied()
    """The permission mode `auto` denies what the agent tries, and asks nobody."""
    hooks_missing: HooksMissing = HooksMissing()
    """The hooks of the agent do not reach sm."""
    tools_missing: ToolsMissing = ToolsMissing()
    """The agent has no tools of sm."""
    ping_pong: PingPong = PingPong()
    """Two agents only answer each other."""


class WarningKeys(Section):
    """The section that warnings add to config.yaml."""

    warnings: WarningsSection = WarningsSection()
    """Signs that a session goes wrong (docs/lifecycle.md)."""


CONFIG = WarningKeys
