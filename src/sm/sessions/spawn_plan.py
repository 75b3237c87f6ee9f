"""Plans a spawn: turns a request into a session and the command of its process. Does not write."""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import partial

from sm.config import Config
from sm.core.dataclass import dataclass
from sm.core.models import Caller, Launch, Session, SpawnRequest, Workspace
from sm.core.names import normalize_title
from sm.core.states import CallerKind, TrustLevel
from sm.core.text import PROMPT_MAX, validate_text, with_own_lines
from sm.equipment.agent_types import AgentType, AgentTypes, Catalog, check_name
from sm.equipment.grants import Grants
from sm.errors import SetupRequired, UsageError
from sm.linux.file_threads import FileThreads
from sm.linux.process_limits import checked_limits
from sm.operations.hints import Hint
from sm.providers.base import AgentPlan, PlanContext, Provider
from sm.sandboxes.home import HomeOf
from sm.sessions.attachments import NO_FILES, Attachers, Attachment
from sm.sessions.container import ProgramCheck, contained_directory, require_program
from sm.sessions.effective_mode import TrustDecisions
from sm.sessions.environment import Environments, check_sandboxed, denied_warnings
from sm.sessions.new_session import NewSessions
from sm.sessions.process_plan import ProcessPlanner
from sm.sessions.setup_checks import require_ready, session_warnings
from sm.sessions.spawn_options import SpawnOptions
from sm.sessions.spawn_parts import (
    PreparedPlace,
    SpawnAddition,
    SpawnPart,
    place_of,
    prepared_place,
    project_of,
)
from sm.sessions.transcript_recovery import Recovery
from sm.sessions.workdir import WorkDirectories, allowed_workspace
from sm.store import Store


@dataclass(frozen=True, slots=True)
class SpawnPlan:
    """A session to insert, and the start of its process."""

    session: Session
    launch: Launch
    prompt: str | None = field(repr=False)
    token: str = field(repr=False)
    warnings: tuple[str, ...]
    first_message: str | None = field(default=None, repr=False)
    """The prompt, if it is typed once the agent has its tools, and is no part of the command."""
    shell_limits: Mapping[str, int] = field(default_factory=dict)
    """To be remembered for callers without a shell, or empty for nothing new."""
    no_park: bool = False
    additions: Sequence[SpawnAddition] = ()
    """Of the capabilities."""
    attachment: Attachment = NO_FILES
    """The files of the prompt, whose lines are its last ones."""
    recovery: Recovery = field(default_factory=Recovery)
    """Of the conversation that a fork copies."""


@dataclass(frozen=True, slots=True)
class _Start:
    """The request of a spawn, with its place, its environment and its agent type."""

    request: SpawnRequest
    prompt: str | None = field(repr=False)
    parent: Session | None
    parent_launch: Launch | None
    workspace: Workspace | None
    working_dir: str
    inherited: Mapping[str, str] = field(repr=False)
    added: Mapping[str, str] = field(repr=False)
    """Variables of `--env`, and those that a container has added."""
    process_limits: Mapping[str, int]
    types: Catalog
    kind: AgentType
    provider: Provider
    renamed: tuple[str, ...]
    """A warning about the name."""
    base: Mapping[str, str] = field(repr=False)
    """The environment that decides what the session gets: without what a container adds."""
    place: PreparedPlace | None = None
    """The working directory, if a capability makes it before the session starts."""


@dataclass(frozen=True, slots=True, eq=False)
class SpawnPlanner:
    """Makes every check of a spawn that needs no transaction."""

    _config: Config
    _store: Store
    _providers: Mapping[str, Provider]
    _options: SpawnOptions
    _directories: WorkDirectories
    _environments: Environments
    _types: AgentTypes
    _trust: TrustDecisions
    _processes: ProcessPlanner
    _new_sessions: NewSessions
    _home_of: HomeOf
    _threads: FileThreads
    _has_program: ProgramCheck
    _parts: Sequence[SpawnPart]
    _attachers: Attachers

    async def plan(
        self,
        caller: Caller,
        request: SpawnRequest,
        parent: Session | None,
        *,
        runs: bool = False,
    ) -> SpawnPlan:
        """Plan a spawn; `runs`: the process runs already.

        Raises UsageError, NotPermitted, SandboxUnavailable, SandboxBusy, SetupRequired.
        """
        start = await self._start(caller, request, parent)
        session, token, start, warnings = await self._session(caller, start, runs=runs)
        attachment = self._attachers.attach(caller, session, start.request.files)
        if start.prompt is not None:
            start = replace(start, prompt=with_own_lines(start.prompt, attachment.lines))
        request, provider, home = start.request, start.provider, self._home_of(session)
        grants = (
            Grants() if runs else await self._processes.grants(session, provider, start.base, start.types)
        )
        additions = [part.plan(session, request, start.kind.agent) for part in self._parts]
        additions += [] if start.place is None else [start.place.addition]
        context = await self._processes.context(session, parent, start.base, provider, start.types, grants)
        context = replace(context, additions=tuple(filter(None, (a.briefing for a in additions))))
        context = await self._processes.limited(context, caller, session, parent, start.kind)
        plan, launch, first_message = await self._process(session, start, context, grants)
        session = replace(
            session,
            model=plan.model,
            conversation=plan.conversation,
            program_version=context.program.number,
        )
        if not (runs or request.skip_checks):
            await self._require_ready(caller, session, start, launch)
        for addition in additions:
            session = await addition.complete(session, provider, launch, home)
        limits = await session_warnings(provider, launch, home)
        if session.effective_mode is TrustLevel.SANDBOXED:
            warnings = (*warnings, *denied_warnings(plan.environment))
        warnings = (*warnings, *start.types.caller_warnings, *grants.warnings, *plan.warnings, *limits)
        added_warnings = [w for a in additions for w in (*a.warnings, *a.planned_warnings(session, provider))]
        is_shell = caller.kind is CallerKind.OPERATOR and not runs
        return SpawnPlan(
            session,
            launch,
            start.prompt,
            token,
            (*start.renamed, *warnings, *added_warnings),
            first_message,
            checked_limits(request.process_limits) if is_shell else {},
            request.no_park,
            additions,
            attachment,
        )

    async def _start(self, caller: Caller, request: SpawnRequest, parent: Session | None) -> _Start:
        """Check the request, and find the place, the environment and the agent type."""
        check_name(request.agent_type)
        self._options.check_arguments(caller, request)
        prompt = None if request.prompt is None else validate_text(request.prompt, "prompt", PROMPT_MAX)
        if request.files and (prompt is None or request.as_command):
            raise UsageError(
                "files: they belong to a task", "add a prompt that is no command of the agent CLI"
            )
        if parent is None:
            request = replace(request, workspace=allowed_workspace(caller, request.workspace))
        workspace = self._directories.workspace(parent, request.workspace)
        working_dir = await self._directories.working_dir(parent, request, workspace)
        place = place_of(self._parts, request, working_dir)
        if parent is None and request.workspace is None:
            workspace = await self._directories.nearest(place)
        parent_launch = None if parent is None else await self._store.launch(parent.id)
        process_limits = await self._process_limits(parent_launch, request)
        inherited, added = self._environments.inherited(parent_launch, request.environment), request.env
        self._options.check_variables(caller, added)
        types = await self._types.catalog(workspace, {**inherited, **added}, wanted=request.agent_type)
        kind = types.pick(request.agent_type)
        request, renamed = self._options.named(replace(request, agent_type=kind.name))
        made = await prepared_place(self._parts, request, parent, working_dir, inherited, process_limits)
        return _Start(
            request,
            prompt,
            parent,
            parent_launch,
            workspace,
            working_dir if made is None else made.working_dir,
            inherited,
            added,
            process_limits,
            types,
            kind,
            self._providers[kind.provider],
            renamed,
            {**inherited, **added},
            made,
        )

    async def _session(
        self, caller: Caller, start: _Start, *, runs: bool
    ) -> tuple[Session, str, _Start, tuple[str, ...]]:
        """Decide the trust and the mode of the session. Returns its token, its start, and warnings too."""
        request, parent, workspace = start.request, start.parent, start.workspace
        trust = await self._trust.decide(caller, parent, workspace, request.trust, runs=runs)
        mode = self._options.mode(request, start.kind, workspace)
        session, token = self._new_sessions.make(
            caller,
            request.agent_type,
            start.provider,
            request.name,
            status_reason="requested",
            mode=mode.mode,
            mode_source=mode.source,
            parent=parent,
            working_dir=start.working_dir,
            workspace=parent.workspace if parent is not None else workspace.slug if workspace else None,
            trust_level=trust.level,
            effective_mode=trust.mode,
            title=None if request.title is None else normalize_title(request.title),
        )
        if session.effective_mode is not TrustLevel.SANDBOXED:
            return session, token, start, trust.warnings
        in_container = parent is not None and parent.effective_mode is TrustLevel.SANDBOXED
        check_sandboxed(start.added)
        if in_container and start.parent_launch is not None:
            start = replace(start, added={**start.parent_launch.added, **start.added})
        if parent is None:
            passed = self._environments.passed(request.environment, workspace)
            start = replace(start, inherited={**start.inherited, **passed})
        inside, warnings = await contained_directory(
            self._config,
            session,
            workspace,
            request,
            in_container=in_container,
            threads=self._threads,
            exists=start.place is None,
        )
        return replace(session, working_dir=inside), token, start, (*trust.warnings, *warnings)

    async def _process(
        self, session: Session, start: _Start, context: PlanContext, grants: Grants
    ) -> tuple[AgentPlan, Launch, str | None]:
        """Plan the process. Returns the first message too: the prompt, if it is no part of the command."""
        request, provider, prompt = start.request, start.provider, start.prompt
        plan = provider.plan(replace(request, prompt=prompt), context)
        launch = self._processes.launch(
            session,
            plan,
            start.inherited,
            start.added,
            provider,
            grants,
            has_prompt=prompt is not None,
            process_limits=start.process_limits,
        )
        if (
            prompt is None
            or request.as_command
            or not await self._processes.is_typed(provider, session, launch, prompt)
        ):
            return plan, launch, None
        plan = provider.plan(replace(request, prompt=None), context)
        return plan, replace(launch, argv=plan.argv, has_prompt=False), prompt

    async def _require_ready(self, caller: Caller, session: Session, start: _Start, launch: Launch) -> None:
        """Raise SetupRequired or ProgramMissing if the program cannot start without a person."""
        try:
            home, find_project = self._home_of(session), partial(project_of, self._parts)
            await require_ready(start.provider, session, launch, home, find_project)
        except SetupRequired as error:  # a login needs the program too
            await require_program(session, start.workspace, launch.argv[0], self._has_program)
            if caller.kind is not CallerKind.OPERATOR:
                error.hint = Hint("ask the operator: ", error.hint or "")
            raise

    async def _process_limits(self, parent_launch: Launch | None, request: SpawnRequest) -> Mapping[str, int]:
        """The umask and the soft limits of a new session: its parent's, else those of the caller's shell.

        A caller without a shell, such as a chat or the page in a browser, has those of the last spawn from a shell.
        """
        if parent_launch is not None:
            return parent_launch.process_limits
        return checked_limits(request.process_limits) or await self._store.shell_limits()
