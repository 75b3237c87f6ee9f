"""Plans a spawn: turns a request into a session and the command of its process. Does not write."""

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from sm.config import AgentConfig, Config, is_model
from sm.core.items import ItemState
from sm.core.lifecycle import is_live
from sm.core.models import (
    Caller,
    Capabilities,
    Launch,
    PermissionMode,
    Session,
    SpawnRequest,
    Workspace,
    digest,
)
from sm.core.names import friendly_name, nearest_name, normalize_title
from sm.core.next_process import Restarts
from sm.core.permission_facts import current_mode
from sm.core.program_states import ProgramState
from sm.core.states import CallerKind, Mode, TrustLevel
from sm.core.statuses import Status
from sm.core.text import PROMPT_MAX, folded, validate_text
from sm.equipment.agent_types import AgentType, AgentTypes, Catalog, check_name
from sm.equipment.agreements import Agreements
from sm.equipment.grants import Granter, Grants
from sm.errors import IllegalState, NotPermitted, SetupRequired, UsageError
from sm.linux.file_threads import FileThreads
from sm.linux.process_limits import checked_limits
from sm.operations.hints import Argument, Hint, Use
from sm.operations.session_operations import SPAWN
from sm.paths import InstancePaths
from sm.policy.access import Action, is_unrestricted, may_at_all, paired_user
from sm.policy.modes import ModeChoice, choose_mode, parse_mode
from sm.providers.base import TYPED_LINES_MAX, AgentPlan, PlanContext, Provider
from sm.sandboxes.base import Sandbox
from sm.sandboxes.home import homes
from sm.sessions.container import (
    ImageVersion,
    ProgramCheck,
    contained_directory,
    contained_servers,
    place_sentences,
    require_program,
    unknown_program,
    unknown_version,
)
from sm.sessions.conversation_files import ConversationFiles
from sm.sessions.conversations import ConversationSource, is_unbegun, source_of
from sm.sessions.effective_mode import TrustDecisions
from sm.sessions.environment import (
    Environments,
    check_sandboxed,
    check_variables,
    denied_warnings,
    without,
)
from sm.sessions.setup_checks import (
    program_facts,
    require_ready,
    runs_hooks,
    session_warnings,
)
from sm.sessions.spawn_parts import SpawnAddition, SpawnPart, place_of, project_of
from sm.sessions.transcript_recovery import Recovery
from sm.sessions.workdir import WorkDirectories, allowed_workspace, require_directory
from sm.store import Store

_ARGUMENT_MAX = 4096


ProgramSeen = Callable[[str, Mapping[str, str], str | None], ProgramState | None]
"""Gets the name of the provider, the environment that decides the program, and its version if that is known. Returns
the outcomes of the contracts with this version if they are known."""


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
    recovery: Recovery = field(default_factory=Recovery)
    """Of the conversation that a fork copies."""


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """A new process of an existing session."""

    launch: Launch
    token: str = field(repr=False)
    warnings: tuple[str, ...] = ()
    recovery: Recovery = field(default_factory=Recovery)
    first_message: str | None = field(default=None, repr=False)
    """As in `SpawnPlan`."""
    program_version: str | None = None
    """As in `Session`."""


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


class SpawnPlanner:
    """Plans spawns, and makes every check of a spawn that needs no transaction."""

    def __init__(
        self,
        config: Config,
        paths: InstancePaths,
        providers: Mapping[str, Provider],
        store: Store,
        agreements: Agreements,
        sandbox: Sandbox,
        now: Callable[[], str],
        files: ConversationFiles,
        has_program: ProgramCheck = unknown_program,
        program_seen: ProgramSeen = lambda *_: None,
        image_version: ImageVersion = unknown_version,
    ) -> None:
        """`has_program`: a look into the image of a container. `program_seen`: called for each agent on this host."""
        self._program_seen = program_seen
        self._image_version = image_version
        self._threads = FileThreads()
        self._files = files
        self._config = config
        self._paths = paths
        self._providers = providers
        self._store = store
        self._directories = WorkDirectories(config, store, self._threads)
        self._environments = Environments(config, paths)
        self._types = AgentTypes(config, paths, providers, agreements)
        self._trust = TrustDecisions(config, sandbox, lambda: store.met)
        self._granter = Granter(lambda: _defaults(config), agreements, homes(paths))
        self._now = now
        self._has_program = has_program
        self._home_of = homes(paths)
        self.parts: list[SpawnPart] = []

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
        request, provider, home = start.request, start.provider, self._home_of(session)
        grants = Grants() if runs else await self._grants(session, provider, start.base, start.types)
        additions = [part.plan(session, request, start.kind.agent) for part in self.parts]
        context = await self._context(session, parent, start.base, provider, start.types, grants)
        context = replace(context, additions=_lines(addition.briefing for addition in additions))
        at_most = _at_most(caller, session, parent, start.parent_launch, start.kind)
        context = await self._limited(context, at_most, parent)
        plan, launch, first_message = await self._process(session, start, context, grants)
        session = replace(
            session,
            model=plan.model,
            conversation=plan.conversation,
            program_version=self._program_version(session, context),
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
        )

    async def _start(self, caller: Caller, request: SpawnRequest, parent: Session | None) -> _Start:
        """Check the request, and find the place, the environment and the agent type."""
        check_name(request.agent_type)
        self._check_arguments(caller, request)
        _check_command(caller, request)
        prompt = None if request.prompt is None else validate_text(request.prompt, "prompt", PROMPT_MAX)
        if parent is None:
            request = replace(request, workspace=allowed_workspace(caller, request.workspace))
        workspace = self._directories.workspace(parent, request.workspace)
        working_dir = await self._directories.working_dir(parent, request, workspace)
        place = place_of(self.parts, request, working_dir)
        if parent is None and request.workspace is None:
            workspace = await self._directories.nearest(place)
        parent_launch = await self._launch_of(parent)
        process_limits = await self._process_limits(parent_launch, request)
        inherited = self._inherited(parent_launch, request.environment)
        added = self._added(caller, request.env)
        types = await self._types.catalog(workspace, {**inherited, **added}, wanted=request.agent_type)
        kind = types.pick(request.agent_type)
        request, renamed = self._named(replace(request, agent_type=kind.name))
        return _Start(
            request,
            prompt,
            parent,
            parent_launch,
            workspace,
            working_dir,
            inherited,
            added,
            process_limits,
            types,
            kind,
            self._providers[kind.provider],
            renamed,
            {**inherited, **added},
        )

    async def _session(
        self, caller: Caller, start: _Start, *, runs: bool
    ) -> tuple[Session, str, _Start, tuple[str, ...]]:
        """Decide the trust and the mode of the session. Returns its token, its start, and warnings too."""
        request, parent, workspace = start.request, start.parent, start.workspace
        trust = await self._trust.decide(caller, parent, workspace, request.trust, runs=runs)
        mode = self._mode(request, start.kind, workspace)
        session, token = self._new(
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
            self._config, session, workspace, request, in_container=in_container, threads=self._threads
        )
        return replace(session, working_dir=inside), token, start, (*trust.warnings, *warnings)

    async def _process(
        self, session: Session, start: _Start, context: PlanContext, grants: Grants
    ) -> tuple[AgentPlan, Launch, str | None]:
        """Plan the process. Returns the first message too: the prompt, if it is no part of the command."""
        request, provider, prompt = start.request, start.provider, start.prompt
        plan = provider.plan(replace(request, prompt=prompt), context)
        launch = self._launch(
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
            or not await self._is_typed(provider, session, launch, prompt)
        ):
            return plan, launch, None
        plan = provider.plan(replace(request, prompt=None), context)
        return plan, replace(launch, argv=plan.argv, has_prompt=False), prompt

    async def _require_ready(self, caller: Caller, session: Session, start: _Start, launch: Launch) -> None:
        """Raise SetupRequired or ProgramMissing if the program cannot start without a person."""
        try:
            home, find_project = self._home_of(session), partial(project_of, self.parts)
            await require_ready(start.provider, session, launch, home, find_project)
        except SetupRequired as error:  # a login needs the program too
            await require_program(session, start.workspace, launch.argv[0], self._has_program)
            if caller.kind is not CallerKind.OPERATOR:
                error.hint = Hint("ask the operator: ", error.hint or "")
            raise

    async def plan_restore(self, session: Session, *, is_decided: bool = False) -> RestorePlan:
        """Plan a new process that resumes the session's conversation. Writes nothing.

        A program without conversations starts as before. `is_decided`: the restart is ordered already. So a session
        that fell back may run on this host again, and no message can be added. Raises IllegalState without a
        conversation or when nothing of it can be read, InvalidPath when the directory is gone, UsageError for an
        invalid file of MCP servers, FallbackOver, SandboxUnavailable, SandboxBusy.
        """
        place = self._directories.workspace_of(session)
        if place is not None and place.deleted_at is not None:
            raise IllegalState(
                f"workspace {place.slug} is deleted: no session can start in it",
                Hint(
                    f"recreate the workspace: sm workspace create {place.slug} ",
                    Argument("working_dir", "PATH"),
                ),
            )
        told = await self._require_place(session, place, is_decided=is_decided)
        launch, token = await self._store.launch(session.id), secrets.token_hex(32)
        if not self._providers[session.provider].has_turns:
            environment = self._environments.restored(session, launch.environment)
            return RestorePlan(replace(launch, environment=environment), token, told)
        parent = self._store.sessions.get(session.parent_id or "")
        provider = self._providers[session.provider]
        source = await source_of(
            session, launch, provider, self._store, self._home_of(session), self._threads
        )
        if source.prompt is not None and await self._files.is_archived(session):
            source = ConversationSource(source.id, copied=False)
        resumed, _, version, warnings = await self._resumed(session, parent, launch, source)
        if source.prompt is not None:
            first_message = None
            if not is_decided and await self._is_typed(provider, session, resumed, source.prompt):
                first_message, source = source.prompt, replace(source, prompt="")
                resumed, _, version, warnings = await self._resumed(session, parent, launch, source)
            return RestorePlan(
                resumed, token, (*told, *warnings), first_message=first_message, program_version=version
            )
        recovery = await self._files.recovery(session, provider, resumed, source.id, copied=source.copied)
        return RestorePlan(resumed, token, (*told, *warnings), recovery, program_version=version)

    async def give_back(self, session: Session, recovery: Recovery) -> None:
        """Give the agent CLI its transcript back. Raises StorageFull, IllegalState; then nothing is changed."""
        await self._files.give_back(session, recovery)

    async def check_restart(self, session: Session) -> tuple[bool, tuple[str, ...]]:
        """Check the place of a session that is about to start again.

        Returns True if it begins with its prompt again, and warnings. Raises InvalidPath, FallbackOver,
        SandboxUnavailable, SandboxBusy.
        """
        told = await self._require_place(session, self._directories.workspace_of(session))
        provider, launch = self._providers[session.provider], await self._store.launch(session.id)
        if not provider.has_turns:
            return True, told
        unbegun = await is_unbegun(
            session, launch, provider.readers, self._store, self._home_of(session), self._threads
        )
        return unbegun, told

    async def plan_fork(
        self,
        caller: Caller,
        original: Session,
        parent: Session | None,
        name: str | None,
    ) -> SpawnPlan:
        """Plan a new session that resumes a copy of the original's conversation.

        Raises UsageError and IllegalState without a conversation, InvalidPath when the directory is gone.
        """
        provider = self._providers[original.provider]
        told = await self._require_place(original, self._directories.workspace_of(original))
        session, token = self._new(
            caller,
            original.agent_type,
            provider,
            name,
            status_reason=f"requested as a fork of {original.display_name}",
            model=original.model,
            mode=original.mode,
            mode_source=original.mode_source,
            restarts=None if original.restarts is None else Restarts(original.restarts.max),
            account=original.account,
            parent=parent,
            working_dir=original.working_dir,
            workspace=original.workspace,
            trust_level=original.trust_level,
            effective_mode=original.effective_mode,
        )
        launch = await self._store.launch(original.id)
        id = ""
        if provider.has_turns:
            copied = await source_of(
                original, launch, provider, self._store, self._home_of(original), self._threads
            )
            id = copied.id
        source = ConversationSource(id, copied=True)
        # An ended parent is no parent of the fork, but what binds the parent binds the fork too.
        is_same = parent is not None and parent.id == original.parent_id
        session = replace(session, bound_to=original.bound_to or (None if is_same else original.parent_id))
        forked, plan, version, warnings = await self._resumed(
            session, parent, launch, source, forked_by=caller
        )
        kind = provider.agent_config(original.agent_type)
        additions = [part.plan(session, None, kind) for part in self.parts]
        warnings = (*told, *warnings, *(w for addition in additions for w in addition.warnings))
        session = replace(session, conversation=plan.conversation, program_version=version)
        recovery = Recovery()
        if provider.has_turns:
            recovery = await self._files.recovery(original, provider, forked, id, copied=True)
        if recovery.loss is not None:
            warnings = (*warnings, recovery.loss)
        return SpawnPlan(session, forked, None, token, warnings, additions=additions, recovery=recovery)

    async def _require_place(
        self, session: Session, workspace: Workspace | None, *, is_decided: bool = False
    ) -> tuple[str, ...]:
        """Require the directory or the sandbox of an earlier process. Returns the warnings of a fallback.

        Raises InvalidPath, FallbackOver, SandboxUnavailable, SandboxBusy.
        """
        if session.effective_mode is TrustLevel.DIRECT:
            await require_directory(session.working_dir, self._threads)
        return () if is_decided and session.fell_back else await self._trust.again(session, workspace)

    async def _resumed(
        self,
        session: Session,
        parent: Session | None,
        before: Launch,
        source: ConversationSource,
        *,
        forked_by: Caller | None = None,
    ) -> tuple[Launch, AgentPlan, str | None, tuple[str, ...]]:
        """Plan a process of `session` that resumes a conversation. `before`: the launch of an earlier process.

        Returns the launch, the plan, the version of its program if that is known, and warnings.

        `forked_by`: the caller who asked for a new session, or None if the session exists.
        """
        provider = self._providers[session.provider]
        place = self._directories.workspace_of(session)
        base = {**before.inherited, **before.added}
        types = await self._types.catalog(place, base, wanted=session.agent_type)
        grants = await self._grants(session, provider, base, types)
        context = await self._context(session, parent, base, provider, types, grants)
        if forked_by is not None:
            parent_launch, kind = await self._launch_of(parent), types.find(session.agent_type)
            at_most = _at_most(forked_by, session, parent, parent_launch, kind)
            context = await self._limited(context, at_most, parent)
        if source.prompt is None:
            plan = provider.resume(context, before.flags, source.id, fork=source.copied)
        else:
            plan = provider.begin_again(context, before.flags, source.id, source.prompt)
        if plan.permission is not None and before.permission is not None and not plan.permission.source:
            plan = replace(plan, permission=replace(plan.permission, source=before.permission.source))
        launch = self._launch(
            session,
            plan,
            before.inherited,
            before.added,
            provider,
            grants,
            has_prompt=bool(source.prompt),
            process_limits=before.process_limits,
        )
        lasting = (
            *types.caller_warnings,
            *grants.warnings,
            *plan.warnings,
            *await session_warnings(provider, launch, self._home_of(session)),
        )
        warnings = (*_missing_type_warnings(session, types), *lasting)
        return launch, plan, self._program_version(session, context), warnings

    async def agent_types(
        self,
        parent: Session | None,
        workspace: str | None,
        current_dir: str | None,
        environment: Mapping[str, str],
    ) -> Catalog:
        """The agent types available to a spawn, as `plan`. Raises NotFound, InvalidPath, InvalidText."""
        place = self._directories.workspace(parent, workspace)
        if parent is None and workspace is None and current_dir is not None:
            place = await self._directories.find_nearest(current_dir)
        return await self._types.catalog(place, self._inherited(await self._launch_of(parent), environment))

    async def type_modes(
        self, catalog: Catalog, parent: Session | None, environment: Mapping[str, str]
    ) -> Mapping[str, PermissionMode]:
        """The permission modes of agent types, by name, for sessions on this host without a parent.

        Arguments: those of `agent_types`, with its result.
        """
        inherited = self._environments.searched(self._inherited(await self._launch_of(parent), environment))
        names = {kind.provider for kind in catalog.types}
        facts = {name: await program_facts(self._providers[name], inherited, None) for name in names}
        modes = {
            k.name: self._providers[k.provider].permission_mode(k.agent, facts[k.provider])
            for k in catalog.types
        }
        return {name: mode for name, mode in modes.items() if mode is not None}

    async def _launch_of(self, parent: Session | None) -> Launch | None:
        return None if parent is None else await self._store.launch(parent.id)

    def _inherited(self, parent_launch: Launch | None, environment: Mapping[str, str]) -> Mapping[str, str]:
        if parent_launch is not None:
            return {**parent_launch.inherited, **parent_launch.added}
        return self._environments.inheritable(environment)

    async def _process_limits(self, parent_launch: Launch | None, request: SpawnRequest) -> Mapping[str, int]:
        """The umask and the soft limits of a new session: its parent's, else those of the caller's shell.

        A caller without a shell, such as a chat or the page in a browser, has those of the last spawn from a shell.
        """
        if parent_launch is not None:
            return parent_launch.process_limits
        return checked_limits(request.process_limits) or await self._store.shell_limits()

    def _named(self, request: SpawnRequest) -> tuple[SpawnRequest, tuple[str, ...]]:
        """The request with a name that can be used, and a warning if that is not the one in it."""
        wish, pattern, kind = request.name, self._config.sessions.naming.pattern, request.agent_type.lower()
        if wish is None or not request.is_name_wish:
            return request, ()
        sessions = self._store.sessions.values()
        taken = {s.friendly_name for s in sessions if s.friendly_name is not None and is_live(s.status)}
        name = nearest_name(pattern, kind, wish, taken)
        if name == wish.lower():
            return request, ()
        given = "no name" if name is None else f"the name {friendly_name(pattern, kind, name)}"
        return replace(request, name=name), (f"{folded(wish, 80)!r} cannot be its name: it has {given}",)

    def _new(
        self,
        caller: Caller,
        agent_type: str,
        provider: Provider,
        name: str | None,
        parent: Session | None,
        **facts: Any,
    ) -> tuple[Session, str]:
        """A session, not yet inserted, and its token. Raises UsageError for an invalid name."""
        at = self._now()
        session_id, token = secrets.token_hex(4), secrets.token_hex(32)
        kind = agent_type.lower()
        naming = self._config.sessions.naming
        session = Session(
            id=session_id,
            name=naming.fallback.format(agent_type=kind, short_id=session_id).lower(),
            friendly_name=None if name is None else friendly_name(naming.pattern, kind, name),
            agent_type=agent_type,
            provider=provider.name,
            status=Status.SPAWNED,
            status_source="manager",
            status_at=at,
            created_by=str(caller),
            parent_id=None if parent is None else parent.id,
            paired_user=paired_user(caller, parent),
            terminal=f"{provider.name}-{session_id}",
            created_at=at,
            token_hash=digest(token),
            **facts,
        )
        return session, token

    async def _context(
        self,
        session: Session,
        parent: Session | None,
        inherited: Mapping[str, str],
        provider: Provider,
        types: Catalog,
        grants: Grants,
    ) -> PlanContext:
        kind = types.find(session.agent_type)
        sandboxed = session.effective_mode is TrustLevel.SANDBOXED
        paths = self._paths.agent_paths(session.id, sandboxed=sandboxed)
        mcp_file = paths.mcp_file if grants.servers else None
        environment = without(inherited, provider.never_inherited)
        searched = self._environments.searched(environment)
        program = await program_facts(provider, searched, self._home_of(session))
        if not sandboxed:
            program = replace(program, state=self._program_seen(provider.name, searched, program.number))
        return PlanContext(
            session=session,
            sm=f"{paths.bin}/sm",
            environment=environment,
            parent=None if parent is None else parent.display_name,
            prompt_file=paths.prompt_file,
            agent=AgentConfig() if kind is None else kind.agent,
            agent_types={usable.name: usable.agent.description for usable in types.usable},
            granted=replace(grants.granted, mcp_file=mcp_file),
            place=place_sentences(session) if sandboxed else "",
            additions=_lines(part.briefing(session) for part in self.parts),
            program=program,
        )

    def _program_version(self, session: Session, context: PlanContext) -> str | None:
        if session.effective_mode is not TrustLevel.SANDBOXED:
            return context.program.number
        return self._image_version(self._directories.workspace_of(session), session.provider)

    async def _limited(
        self, context: PlanContext, at_most: tuple[str, ...] | None, parent: Session | None
    ) -> PlanContext:
        """The context with the limit of the parent's permissions, by the mode that the parent is in now."""
        if at_most is None or parent is None:
            return context
        launch, measured = await self._store.launch(parent.id), await self._store.measures.facts(parent.id)
        mode = current_mode(launch.permission, measured, parent.runs)
        if mode is None:
            return replace(context, at_most=at_most)
        return replace(context, at_most=at_most, parent_mode=mode.mode, is_parent_attended=mode.is_attended)

    async def _grants(
        self, session: Session, provider: Provider, inherited: Mapping[str, str], types: Catalog
    ) -> Grants:
        workspace = self._directories.workspace_of(session)
        given = without(inherited, provider.never_inherited)
        sandboxed = session.effective_mode is TrustLevel.SANDBOXED
        kind = types.find(session.agent_type)
        own_server = None
        if self._config.mcp.enabled and (kind is None or kind.agent.mcp):
            paths = self._paths.agent_paths(session.id, sandboxed=sandboxed)
            own_server = provider.own_server(f"{paths.bin}/sm")
        grants = await self._granter.grants(
            session, workspace, provider, given, has_own_server=own_server is not None
        )
        if sandboxed:
            grants = await contained_servers(self._config, workspace, grants, self._has_program)
        return grants if own_server is None else grants.with_own_server(own_server)

    def _launch(
        self,
        session: Session,
        plan: AgentPlan,
        inherited: Mapping[str, str],
        added: Mapping[str, str],
        provider: Provider,
        grants: Grants,
        *,
        has_prompt: bool,
        process_limits: Mapping[str, int],
    ) -> Launch:
        workspace = self._directories.workspace_of(session)
        given = self._environments.given(session, workspace, provider, inherited, plan.environment, added)
        environment = self._environments.complete(
            session, given, has_prompt_file=plan.prompt_file is not None
        )
        return Launch(
            argv=plan.argv,
            environment=environment,
            inherited=inherited,
            added=added,
            working_dir=session.working_dir,
            typed_prompt=plan.typed_prompt,
            prompt_file=plan.prompt_file,
            flags=plan.flags,
            has_prompt=has_prompt,
            has_own_tools=grants.granted.own_server,
            mcp_config=grants.mcp_config(environment),
            process_limits=process_limits,
            permission=plan.permission,
        )

    async def _is_typed(self, provider: Provider, session: Session, launch: Launch, prompt: str) -> bool:
        """True if a prompt is typed as the first message, because no hook can hold the first turn for the tools of sm.

        A longer prompt stays an argument, as does one in a file, of which the argument is a sentence of sm.
        """
        if launch.prompt_file is not None or not launch.has_own_tools:
            return False
        lines = prompt.strip().splitlines()
        if not 1 <= len(lines) <= TYPED_LINES_MAX:
            return False
        return not await runs_hooks(provider, launch, self._home_of(session))

    def _check_arguments(self, caller: Caller, request: SpawnRequest) -> None:
        if request.model is not None and not is_model(request.model):
            raise UsageError(
                f"invalid value for --model: {folded(request.model, 80)!r}",
                "use opus, sonnet, haiku or a full model name",
            )
        if not request.extra_args:
            return
        self._require_addition(caller, "--args")
        for argument in request.extra_args:
            validate_text(argument, "--args", _ARGUMENT_MAX)

    def _mode(self, request: SpawnRequest, kind: AgentType, workspace: Workspace | None) -> ModeChoice:
        """Raises UsageError for an unknown mode."""
        try:
            requested = None if request.lifecycle is None else parse_mode(request.lifecycle)
        except ValueError as error:
            raise UsageError(str(error)) from None
        of_type = None if kind.agent.lifecycle is None else Mode(kind.agent.lifecycle)
        configured = Mode(self._config.child_agents.mode)
        return choose_mode(requested, request.agent_type, of_type, workspace, configured)

    def _added(self, caller: Caller, variables: Mapping[str, str]) -> Mapping[str, str]:
        """The variables of --env. Raises NotPermitted and UsageError."""
        if variables:
            self._require_addition(caller, "--env")
            check_variables(variables)
        return variables

    def _require_addition(self, caller: Caller, option: str) -> None:
        """Raise NotPermitted unless the caller may add options and variables to an agent."""
        opened = self._config.child_agents.allow_args and caller.kind is CallerKind.SESSION
        if not opened and not may_at_all(caller, Action.ADD_ARGUMENTS):
            raise NotPermitted(
                f"only the operator may use {option}",
                f"to allow {option} for sessions, set child_agents.allow_args: true in config.yaml",
            )


def _check_command(caller: Caller, request: SpawnRequest) -> None:
    """Raise NotPermitted unless the caller may start an agent with a command, and UsageError without a command.

    A command acts outside of the conversation too: `/model` changes the settings of the agent CLI's user. So
    `child_agents.allow_args` does not open it to sessions.
    """
    if not request.as_command:
        return
    if not may_at_all(caller, Action.ADD_ARGUMENTS):
        raise NotPermitted(
            "only the operator may use --as-command",
            "omit --as-command: the agent gets the prompt as a text",
        )
    if request.prompt is None:
        raise UsageError(
            "--as-command needs a prompt", Hint(Use(SPAWN, "AGENT_TYPE", "/COMMAND", "--as-command"))
        )


def _missing_type_warnings(session: Session, types: Catalog) -> tuple[str, ...]:
    """Warn that a resumed agent does not get the prompt of its agent type again."""
    kind = types.find(session.agent_type)
    if kind is not None and kind.problem is None and kind.agreement is ItemState.AGREED:
        return ()
    what = "no longer exists" if kind is None else f"cannot be used ({kind.origin})"
    return (f"agent type {session.agent_type} {what}: the agent resumes without the prompt of that type",)


def _at_most(
    caller: Caller,
    session: Session,
    parent: Session | None,
    parent_launch: Launch | None,
    kind: AgentType | None,
) -> tuple[str, ...] | None:
    """The flags of the parent, whose permissions limit those of a new session, or None without a limit.

    They bind sessions and paired users. Flags of another provider cannot be compared.
    """
    unlimited = is_unrestricted(caller) or (kind is not None and kind.agent.spawnable)
    if unlimited or parent is None or parent_launch is None or parent.provider != session.provider:
        return None
    return parent_launch.flags


def _defaults(config: Config) -> Capabilities:
    given = config.default_capabilities
    return Capabilities(
        *(None if names == "all" else names for names in (given.mcps, given.skills, given.agents))
    )


def _lines(lines: Iterable[str]) -> tuple[str, ...]:
    return tuple(filter(None, lines))
