"""The JSON objects in the answers of the routes of sessions."""

from typing import Annotated, NotRequired, get_type_hints

from typing_extensions import TypedDict  # pydantic reads the one of `typing` only from Python 3.12 on

from sm.api.fields import doc
from sm.core.attention import Attention, TaskKind
from sm.core.pause_states import PauseState
from sm.core.states import Mode, TrustLevel
from sm.core.statuses import Status
from sm.wire_types.budget import BudgetView
from sm.wire_types.fields import Time
from sm.wire_types.usage import SessionSumsView
from sm.wire_types.warning import WarningView

OF_CAPABILITY = object()
"""Marks a field that a capability fills (`sessions.session_fields`). Without the capability it is null."""
SessionLabel = Annotated[
    str, doc("The name for people. It ends with the id only if another session has the same friendly name.")
]


class WorktreeView(TypedDict):
    """A git worktree that the client made for a session and removes again."""

    path: str
    branch: str | None


class PausedView(TypedDict):
    """The pause of a session that does nothing."""

    at: Time
    by: Annotated[str, doc("`operator`, the id of a session, a user such as `telegram:4711`, or `sm`.")]
    reason: str
    until: Annotated[Time | None, doc("The session resumes then by itself.")]
    state: Annotated[PauseState, doc("`paused`: sm has seen that the session spends nothing.")]
    settled_at: Annotated[Time | None, doc("When sm has seen that.")]
    held: Annotated[
        str | None,
        doc(
            "What keeps it from spending: `told`, its agent reports that nothing runs; `frozen`, its processes are "
            "frozen; `ended`, its process was ended, and the end of the pause starts it again."
        ),
    ]
    spends: Annotated[list[str], doc("What still spends, for people.")]


class RestartsView(TypedDict):
    """The restarts of a session that sm starts again after a crash."""

    count: Annotated[int, doc("Restarts in a row within 15 minutes, at the last crash.")]
    max: Annotated[int, doc("After a crash that follows so many restarts, the session ends.")]
    next_at: Annotated[Time | None, doc("The session waits for a restart, which is due then.")]
    total: Annotated[int, doc("Restarts since the session was spawned or restored.")]
    exit_code: Annotated[int | None, doc("Of the process that the last restart replaced.")]
    exit_signal: Annotated[int | None, doc("As `exit_code`.")]


class BareSessionView(TypedDict):
    """One agent, alive or ended, without its warnings."""

    session_id: Annotated[str, doc("8 hexadecimal digits.", pattern="^[0-9a-f]{8}$")]
    name: Annotated[str, doc("`TYPE-ID`. It never changes.")]
    friendly_name: Annotated[str | None, doc("`TYPE-NAME`, unique among live sessions.")]
    label: SessionLabel
    title: Annotated[str | None, doc("One line for people.")]
    agent_type: str
    provider: Annotated[str, doc("The driver of the agent: `command` or `claude`.")]
    model: str | None
    program_version: Annotated[
        str | None,
        doc("The version of the agent CLI that its process runs, such as `2.1.332`; null: unknown."),
    ]
    status: Status
    status_source: Annotated[str, doc("The source of the status.")]
    status_reason: Annotated[str, doc("The reason for the status, for people.")]
    status_at: Time
    status_stale: Annotated[bool, doc("True while no source confirms the status.")]
    mode: Annotated[Mode, doc("Who decides that the session is finished.")]
    mode_source: Annotated[str, doc("The setting that decided `mode`, such as `--lifecycle`.")]
    parent_session_id: Annotated[str | None, doc("Null: the operator is the parent.")]
    parent_label: Annotated[str | None, doc("The `label` of the parent; null as `parent_session_id`.")]
    created_by: Annotated[
        str, doc("`operator`, the session that spawned this one, or a user such as `telegram:4711`.")
    ]
    working_dir: str
    workspace: Annotated[str | None, doc("A slug.")]
    trust_level: Annotated[TrustLevel, doc("The requested trust level.")]
    effective_mode: Annotated[TrustLevel, doc("The trust level in force. Every rule reads this one.")]
    tmux_session: str
    pid: int | None
    exit_code: int | None
    exit_signal: int | None
    created_at: Time
    started_at: Time | None
    completed_at: Time | None
    completion_status: Annotated[str | None, doc("The result that the session reported.")]
    completion_message: str | None
    note: Annotated[str | None, doc("The activity that the session reported last.")]
    last_activity_at: Time
    archived: bool
    seen_at: Annotated[
        Time | None, doc("When the operator last looked at the session after it had ended; null: never.")
    ]
    paused: PausedView | None
    restarts: Annotated[RestartsView | None, doc("Null: a crash ends the session.")]
    budget: Annotated[
        BudgetView | None,
        doc("Its own budget, for callers who may read the session; null: none."),
        OF_CAPABILITY,
    ]
    worktree: WorktreeView | None
    children: Annotated["list[SessionView]", doc("Filled only with `recursive`.")]


class SessionView(BareSessionView):
    """One agent, alive or ended."""

    warnings: Annotated[list[WarningView], doc("The open warnings, oldest first.")]


CAPABILITY_FIELDS = tuple(
    name
    for name, hint in get_type_hints(BareSessionView, include_extras=True).items()
    if OF_CAPABILITY in getattr(hint, "__metadata__", ())
)


class OverviewView(SessionView):
    """A session with its current task and its usage."""

    attention: Annotated[
        Attention,
        doc(
            "The group in lists. `waiting`: for an answer of a person or of the parent. `failed`, `done`: ended, and"
            " the operator has not seen that; `older`: so since more than `unseen_days`."
        ),
    ]
    children_failed: Annotated[int, doc("Its children that failed, without archived ones.")]
    children_done: Annotated[int, doc("Its children that completed, without archived ones.")]
    task: Annotated[str, doc("What the session does or waits for; never empty.")]
    task_kind: Annotated[TaskKind, doc("The source of `task`.")]
    requests: Annotated[list[str], doc("The open requests that the caller may see, such as `r57`.")]
    context_percent: Annotated[int | None, doc("The used part of the context window.")]
    cost_usd: float | None


class OverviewRestView(TypedDict):
    """The ended sessions that the overview leaves out, in numbers."""

    failed: int
    completed: int
    killed: int
    older: Annotated[int, doc("Those among them that the operator has not seen for more than `unseen_days`.")]
    lost: Annotated[
        int, doc("Sessions that ended with the machine or the tmux server; `POST /v1/restore` starts them.")
    ]
    programs: Annotated[
        list[str],
        doc(
            "Versions of agent CLIs that were not checked or break a contract, and agents that run a version that was"
            " replaced. Empty for a session."
        ),
    ]


class ProgramView(TypedDict):
    """The version of an agent CLI, and the outcome of its check (`sm check`)."""

    version: str | None
    checked_at: Annotated[Time | None, doc("Null: it was not checked.")]
    broken: Annotated[list[str], doc("The contracts that do not hold.")]
    line: Annotated[str, doc("All of this for people.")]


class StartedView(BareSessionView):
    """A session with warnings about its start, its end or its note."""

    warnings: Annotated[list[str], doc("Sentences for people.")]
    permission_mode: NotRequired[
        Annotated[str, doc("Only of a new session: the permission mode that its agent CLI starts in.")]
    ]
    permission_source: NotRequired[Annotated[str, doc("The setting that decided the mode.")]]
    program: NotRequired[
        Annotated[ProgramView, doc("Only if something is known of the program that it runs on this host.")]
    ]


class SessionWithOutput(SessionView):
    """A session with its children in numbers; an ended one with the last lines of its terminal."""

    children_by_status: Annotated[
        dict[str, int], doc("The number of its children in each status, of those that the caller may see.")
    ]
    last_output: NotRequired[
        Annotated[list[str], doc("Only of an ended session, and only for callers that may read the session.")]
    ]


class SessionWithSums(SessionView):
    """A session; where it is asked for, with what it and its descendants have used."""

    sums: NotRequired[Annotated[SessionSumsView, doc("Only with `recursive` or `sums`.")]]
    children: Annotated[  # type: ignore[misc]  # narrower than that of a session
        "list[SessionWithSums]", doc("Filled only with `recursive`.")
    ]


class FailureView(TypedDict):
    """A session that could not be restored, and the reason."""

    session_id: str
    code: str
    message: str
    hint: str | None


class KilledView(SessionView):
    """A killed session, and every session that was killed with it."""

    killed: Annotated[list[str], doc("The ids of all killed sessions.")]
    killed_too: Annotated[list[SessionView], doc("The killed descendants.")]


class LossView(TypedDict):
    """A session whose conversation is not whole."""

    session_id: str
    message: Annotated[str, doc("What the agent does not know, as the end of a sentence.")]


class RestoredView(SessionView):
    """A restored session, and every session that was restored with it."""

    restored: Annotated[list[str], doc("The ids of all restored sessions.")]
    restored_too: Annotated[list[SessionView], doc("The restored descendants.")]
    continued: Annotated[list[str], doc("The ids of the sessions that were told to go on with their turn.")]
    losses: Annotated[list[LossView], doc("The restored sessions whose conversation is not whole.")]
    left: Annotated[
        list[SessionView],
        doc(
            "Without `tree`: the descendants that ended by the same loss and were not restored, nearest first."
        ),
    ]
    failed: list[FailureView]


class SeenView(TypedDict):
    seen: Annotated[list[SessionView], doc("The sessions that were not seen before.")]


class AllRestoredView(TypedDict):
    restored: list[SessionView]
    continued: Annotated[list[str], doc("As in RestoredView.")]
    losses: Annotated[list[LossView], doc("As in RestoredView.")]
    failed: list[FailureView]


class InterruptedView(SessionView):
    """A session after an interrupt."""

    interrupted: Annotated[
        bool | None,
        doc("False: the agent still works; null: unknown, because the agent has no turns or was suspended."),
    ]
    continued: Annotated[bool, doc("The agent was suspended, and works again. No key was pressed.")]


class PauseView(BareSessionView):
    """A session after its pause has begun or ended."""

    sessions: Annotated[list[str], doc("The ids of all sessions that were paused or resumed.")]
    too: Annotated[list[SessionView], doc("The descendants among them.")]
    working: Annotated[list[str], doc("The ids of the sessions that may still spend.")]
    warnings: Annotated[list[str], doc("Sentences for people.")]


class RemovedView(TypedDict):
    """A removed session, and facts for the removal of its worktree."""

    removed: str
    label: SessionLabel
    effective_mode: TrustLevel | None
    worktree: WorktreeView | None
    used: Annotated[bool, doc("Another session works in the worktree.")]
    sandboxed: Annotated[bool, doc("A sandboxed session may have changed programs that git runs in it.")]


class WaitView(TypedDict):
    reached: Annotated[bool | None, doc("False: the status can no longer be reached; null: not yet.")]
    sessions: list[SessionView]
