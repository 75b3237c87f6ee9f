"""The JSON objects in the answers of the routes of sessions.

Those that stand in rows of lists have no slots, because orjson writes them in a third of the time then.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from typing import Annotated, Any, Self

from sm.core.attention import Attention, TaskKind
from sm.core.dataclass import dataclass
from sm.core.pause_states import PauseState
from sm.core.pauses import Pause
from sm.core.states import Mode, TrustLevel
from sm.core.statuses import Status
from sm.wire_types.budget import BudgetView
from sm.wire_types.fields import LEFT_OUT, SOMETIMES, SessionLabel, Sparse, Time, narrowed
from sm.wire_types.usage_answers import SessionSumsView

_EMPTY = "empty"
OF_CAPABILITY = {_EMPTY: None}
"""Marks a field that a capability fills (`sessions.session_fields`). Without a value it is null."""
LIST_OF_CAPABILITY = {_EMPTY: ()}
"""As OF_CAPABILITY, of a list."""


@dataclass(frozen=True, slots=True)
class WarningView:
    """A sign that a session goes wrong, whose cause lasts."""

    kind: str
    """The kind, such as `loop`; docs/lifecycle.md describes each."""
    at: Time
    value: float
    """The measured value; its unit depends on `kind`."""
    limit: float
    """The limit that `value` has reached."""
    evidence: str
    """One line for people. It may quote the agent."""


@dataclass(frozen=True)
class WorktreeView:
    """A git worktree that the client made for a session and removes again."""

    path: str
    branch: str | None


@dataclass(frozen=True)
class PausedView:
    """The pause of a session that does nothing."""

    at: Time
    by: str
    """`operator`, the id of a session, a user such as `telegram:4711`, or `sm`."""
    reason: str
    until: Time | None
    """The session resumes then by itself."""
    state: PauseState
    """`paused`: sm has seen that the session spends nothing."""
    settled_at: Time | None
    """The time at which sm has seen that."""
    held: str | None
    """The cause that it does not spend: `told`, its agent reports that nothing runs; `frozen`, its processes are
    frozen; `ended`, its process was ended, and the end of the pause starts it again."""
    spends: Sequence[str]
    """The activity that still spends, for people."""

    @classmethod
    def of(cls, pause: Pause) -> Self:
        return cls(**{name: getattr(pause, name) for name in cls.__dataclass_fields__})


@dataclass(frozen=True)
class RestartsView:
    """The restarts of a session that sm starts again after a crash."""

    count: int
    """Restarts in a row within 15 minutes, at the last crash."""
    max: int
    """After a crash that follows so many restarts, the session ends."""
    next_at: Time | None
    """The session waits for a restart, which is due then."""
    total: int
    """Restarts since the session was spawned or restored."""
    exit_code: int | None
    """Of the process that the last restart replaced."""
    exit_signal: int | None
    """As `exit_code`."""


@dataclass(frozen=True)
class BareSessionView:
    """One agent, alive or ended, without its warnings."""

    session_id: Annotated[str, narrowed("string", pattern="^[0-9a-f]{8}$")]
    """8 hexadecimal digits."""
    name: str
    """`TYPE-ID`. It never changes."""
    friendly_name: str | None
    """`TYPE-NAME`, unique among live sessions."""
    label: SessionLabel
    title: str | None
    """One line for people."""
    agent_type: str
    provider: str
    """The driver of the agent: `command` or `claude`."""
    model: str | None
    program_version: str | None
    """The version of the agent CLI that its process runs, such as `2.1.332`, or null if unknown."""
    status: Status
    status_source: str
    """The source of the status."""
    status_reason: str
    """The reason for the status, for people."""
    status_at: Time
    status_stale: bool
    """True while no source confirms the status."""
    mode: Mode
    """Decides who may finish the session."""
    mode_source: str
    """The setting that decided `mode`, such as `--lifecycle`."""
    parent_session_id: str | None
    """Null if the operator is the parent."""
    parent_label: str | None
    """The `label` of the parent; null as `parent_session_id`."""
    created_by: str
    """`operator`, the session that spawned this one, or a user such as `telegram:4711`."""
    working_dir: str
    workspace: str | None
    """A slug."""
    trust_level: TrustLevel
    """The requested trust level."""
    effective_mode: TrustLevel
    """The trust level in force. Every rule reads this one."""
    tmux_session: str
    pid: int | None
    exit_code: int | None
    exit_signal: int | None
    created_at: Time
    started_at: Time | None
    completed_at: Time | None
    completion_status: str | None
    """The result that the session reported."""
    completion_message: str | None
    note: str | None
    """The activity that the session reported last."""
    last_activity_at: Time
    archived: bool
    seen_at: Time | None
    """The time at which the operator last looked at the session after it had ended, or null for never."""
    paused: PausedView | None
    restarts: RestartsView | None
    """Null if a crash ends the session."""
    budget: BudgetView | None = field(metadata=OF_CAPABILITY)
    """Its own budget, for callers who may read the session, or null without one."""
    worktree: WorktreeView | None
    copy_of: str | None = field(metadata=OF_CAPABILITY)
    """The directory of which `worktree` is a copy, for callers who may read the session; null for a git worktree."""
    takes_files: bool
    """Messages of the operator to it may have files."""
    children: "Sequence[SessionView]"
    """Filled only with `recursive`."""


@dataclass(frozen=True)
class SessionView(BareSessionView):
    """One agent, alive or ended."""

    warnings: Sequence[WarningView] = field(metadata=LIST_OF_CAPABILITY)
    """The open warnings, oldest first."""


CAPABILITY_FIELDS: Mapping[str, Any] = {
    f.name: f.metadata[_EMPTY] for f in fields(SessionView) if _EMPTY in f.metadata
}
"""The value of each field of a capability that has none for the session."""


@dataclass(frozen=True)
class ListedView(SessionView):
    """A session with its group."""

    attention: Attention
    """The group in lists. `waiting`: for an answer of a person or of the parent. `failed`, `done`: ended,
    and the operator has not seen that; `older`: so since more than `unseen_days`."""
    children_failed: int
    """Its children that failed, without archived ones."""
    children_done: int
    """Its children that completed, without archived ones."""


@dataclass(frozen=True)
class OverviewView(ListedView):
    """A session with its current task and its usage."""

    task: str
    """The activity of the session, or the thing that it waits for; never empty."""
    task_kind: TaskKind
    """The source of `task`."""
    requests: Sequence[str]
    """The open requests that the caller may see, such as `r57`."""
    context_percent: int | None
    """The used part of the context window."""
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class OverviewRestView:
    """The ended sessions that the overview leaves out, in numbers."""

    failed: int
    completed: int
    killed: int
    older: int
    """Ended ones that the operator has not seen for more than `unseen_days`."""
    lost: int
    """Sessions that ended with the machine or the tmux server; `POST /v1/restore` starts them."""
    programs: Sequence[str]
    """Versions of agent CLIs that were not checked or break a contract, and agents that run a version that
    was replaced. Empty for a session."""


@dataclass(frozen=True, slots=True)
class ProgramView:
    """The version of an agent CLI, and the outcome of its check (`sm check`)."""

    version: str | None
    checked_at: Time | None
    """Null if it was not checked."""
    broken: Sequence[str]
    """The contracts that do not hold."""
    line: str
    """All of this for people."""


@dataclass(frozen=True)
class StartedView(BareSessionView, Sparse):
    """A session with warnings about its start, its end or its note."""

    warnings: Sequence[str]
    """Sentences for people."""
    permission_mode: str = LEFT_OUT
    """Only of a new session: the permission mode that its agent CLI starts in."""
    permission_source: str = LEFT_OUT
    """The setting that decided the mode."""
    program: ProgramView = LEFT_OUT
    """Only if something is known of the program that it runs on this host."""


@dataclass(frozen=True)
class SessionWithOutput(SessionView, Sparse):
    """A session with its children in numbers; an ended one with the last lines of its terminal."""

    children_by_status: dict[str, int]
    """The number of its children in each status, of those that the caller may see."""
    last_output: Sequence[str] = LEFT_OUT
    """Only of an ended session, and only for callers that may read the session."""


@dataclass(frozen=True)
class SessionWithSums(SessionView):
    """A session; where it is asked for, with what it and its descendants have used."""

    sums: SessionSumsView = field(metadata=SOMETIMES)
    """Only with `recursive` or `sums`."""
    children: "Sequence[SessionWithSums]"
    """Filled only with `recursive`."""


@dataclass(frozen=True, slots=True)
class FailureView:
    """A session that could not be restored, and the reason."""

    session_id: str
    code: str
    message: str
    hint: str | None


@dataclass(frozen=True)
class KilledView(SessionView):
    """A killed session, and every session that was killed with it."""

    killed: Sequence[str]
    """The ids of all killed sessions."""
    killed_too: Sequence[SessionView]
    """The killed descendants."""


@dataclass(frozen=True, slots=True)
class LossView:
    """A session whose conversation is not whole."""

    session_id: str
    message: str
    """The facts that the agent does not know, as the end of a sentence."""


@dataclass(frozen=True)
class RestoredView(SessionView):
    """A restored session, and every session that was restored with it."""

    restored: Sequence[str]
    """The ids of all restored sessions."""
    restored_too: Sequence[SessionView]
    """The restored descendants."""
    continued: Sequence[str]
    """The ids of the sessions that were told to go on with their turn."""
    losses: Sequence[LossView]
    """The restored sessions whose conversation is not whole."""
    left: Sequence[SessionView]
    """Without `tree`: the descendants that ended by the same loss and were not restored, nearest first."""
    failed: Sequence[FailureView]


@dataclass(frozen=True, slots=True)
class SeenView:
    seen: Sequence[SessionView]
    """The sessions that were not seen before."""


@dataclass(frozen=True, slots=True)
class AllRestoredView:
    restored: Sequence[SessionView]
    continued: Sequence[str]
    """As in RestoredView."""
    losses: Sequence[LossView]
    """As in RestoredView."""
    failed: Sequence[FailureView]


@dataclass(frozen=True)
class InterruptedView(SessionView):
    """A session after an interrupt."""

    interrupted: bool | None
    """False if the agent still works, null if that is unknown because the agent has no turns or was suspended."""
    continued: bool
    """The agent was suspended, and works again. No key was pressed."""


@dataclass(frozen=True)
class PauseView(BareSessionView):
    """A session after its pause has begun or ended."""

    warnings: Sequence[str]
    """Sentences for people."""
    sessions: Sequence[str]
    """The ids of all sessions that were paused or resumed."""
    too: Sequence[SessionView]
    """The descendants among them."""
    working: Sequence[str]
    """The ids of the sessions that may still spend."""


@dataclass(frozen=True, slots=True)
class RemovedView:
    """A removed session, and facts for the removal of its worktree."""

    removed: str
    label: SessionLabel
    effective_mode: TrustLevel | None
    worktree: WorktreeView | None
    used: bool
    """Another session works in the worktree."""
    sandboxed: bool
    """A sandboxed session may have changed programs that git runs in it."""
    repository: str | None
    """The main directory of the repository of the worktree that the daemon has made. Null for one of a client."""
    git_directory: str | None
    """The git directory of that repository."""
    start: str | None
    """The commit that the worktree began with, empty for none."""
    keeps_branch: bool
    """The branch was there before the worktree, and stays after it."""
    teardown: list[str]
    """Commands to run in the worktree before it is removed."""
    teardown_within_s: float
    """Seconds in which all of them must end."""


@dataclass(frozen=True, slots=True)
class WaitView:
    reached: bool | None
    """False if the status can no longer be reached, null if it is not reached yet."""
    sessions: Sequence[SessionView]
