"""Planning a spawn: from what was asked for to the session and the process to start. Decides, writes nothing."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sm.capabilities.agent_types import AgentType, AgentTypes, Catalog, check_name
from sm.capabilities.grants import Granter, Grants
from sm.config import AgentConfig, Config, is_model
from sm.core.models import Caller, Capabilities, Launch, Session, SpawnRequest, Workspace, digest
from sm.core.names import friendly_name, title_kept
from sm.core.states import CallerKind, Mode, TrustLevel
from sm.core.statuses import Status
from sm.core.text import PROMPT_MAX, accepted, folded
from sm.core.worktrees import outside
from sm.errors import IllegalState, NotPermitted, SandboxUnavailable, UsageError
from sm.paths import Places
from sm.policy.access import Action, may_at_all
from sm.policy.trust import child_trust, normalize_trust_level
from sm.providers.base import AgentPlan, PlanContext, Provider
from sm.sessions.environment import Environments, without
from sm.sessions.workdir import WorkDirectories, require_directory, worktree
from sm.store import Store

_ARGUMENT_MAX = 4096
_NO_SANDBOX = (
    "there is no sandbox in this version: the session runs directly on this host "
    "(trust level sandboxed, effective mode direct)"
)


@dataclass(frozen=True, slots=True)
class SpawnPlan:
    """A session that may be inserted, and how its process is started."""

    session: Session
    launch: Launch
    prompt: str | None = field(repr=False)
    token: str = field(repr=False)
    warnings: tuple[str, ...]


class SpawnPlanner:
    """Plans spawns by the configuration. Every refusal of a spawn that needs no transaction is made here."""

    def __init__(
        self,
        config: Config,
        places: Places,
        providers: Mapping[str, Provider],
        store: Store,
        now: Callable[[], str],
    ) -> None:
        self._config = config
        self._places = places
        self._providers = providers
        self._store = store
        self._directories = WorkDirectories(config, store)
        self._environments = Environments(config, places)
        self._types = AgentTypes(config, places, providers)
        self._granter = Granter(_defaults(config))
        self._now = now

    async def plan(
        self,
        caller: Caller,
        request: SpawnRequest,
        parent: Session | None,
        *,
        runs: bool = False,
    ) -> SpawnPlan:
        """`runs`: the process of the session runs already.

        Raises UsageError and its kin, NotPermitted, SandboxUnavailable.
        """
        check_name(request.agent_type)
        self._check_arguments(caller, request)
        prompt = None if request.prompt is None else accepted(request.prompt, "prompt", PROMPT_MAX)
        workspace = self._directories.workspace(parent, request.workspace)
        working_dir = await self._directories.working_dir(parent, request, workspace)
        tree = worktree(request, working_dir)
        if parent is None and request.workspace is None:
            # A worktree is in the workspace of what it is one of.
            stands_for = outside(working_dir, tree["worktree"], tree["branch"]) if tree else working_dir
            workspace = await self._directories.nearest(stands_for)
        above = await self._launch_of(parent)
        inherited = self._environments.narrowed(request.environment) if above is None else above.inherited
        types = await self._types.found(workspace, inherited, wanted=request.agent_type)
        kind = types.pick(request.agent_type)
        provider = self._providers[kind.provider]
        trust_level, effective_mode, warnings = self._trust(caller, parent, workspace, request.trust)
        session, token = self._new(
            caller,
            request.agent_type,
            provider,
            request.name,
            status_reason="asked for",
            mode=Mode(self._config.child_agents.mode),
            parent_id=None if parent is None else parent.id,
            working_dir=working_dir,
            workspace=parent.workspace if parent is not None else workspace.slug if workspace else None,
            trust_level=trust_level,
            effective_mode=effective_mode,
            title=None if request.title is None else title_kept(request.title),
            **tree,
        )
        grants = Grants() if runs else await self._grants(session, provider, inherited)
        context = self._context(session, parent, inherited, provider, types, grants)
        plan = provider.plan(
            replace(request, prompt=prompt),
            replace(context, at_most=_at_most(caller, session, parent, above, kind)),
        )
        session = replace(session, model=plan.model, conversation=plan.conversation)
        launch = self._launch(session, plan, inherited, provider, grants, has_prompt=prompt is not None)
        told = (*warnings, *types.unread, *grants.warnings, *plan.warnings)
        return SpawnPlan(session, launch, prompt, token, told)

    async def plan_again(self, session: Session) -> tuple[Launch, str, tuple[str, ...]]:
        """How to go on with the session's conversation in a new process, its new token, and warnings.

        A program that has no conversations is started as it was before. Raises IllegalState when there is
        none to go on with, InvalidPath when its directory is gone, UsageError for a file of MCP servers that
        cannot be used.
        """
        place = self._directories.workspace_of(session)
        if place is not None and place.deleted_at is not None:
            raise IllegalState(
                f"workspace {place.slug} is deleted; nothing is started in it any more",
                f"sm workspace create {place.slug} brings it back",
            )
        await require_directory(session.working_dir)
        launch, token = await self._store.launch(session.id), secrets.token_hex(32)
        if not self._providers[session.provider].has_turns:
            environment = self._environments.again(session, launch.environment)
            return replace(launch, environment=environment), token, ()
        parent = self._store.sessions.get(session.parent_id or "")
        again, _, told = await self._resumed(session, parent, launch, _conversation(session))
        return again, token, told

    async def plan_fork(
        self,
        caller: Caller,
        original: Session,
        parent: Session | None,
        name: str | None,
    ) -> SpawnPlan:
        """A session of its own that goes on with a copy of the original's conversation.

        Raises UsageError and IllegalState where there is none, InvalidPath when its directory is gone.
        """
        provider = self._providers[original.provider]
        conversation = _conversation(original) if provider.has_turns else ""
        await require_directory(original.working_dir)
        session, token = self._new(
            caller,
            original.agent_type,
            provider,
            name,
            status_reason=f"asked for, as a fork of {original.display_name}",
            model=original.model,
            mode=original.mode,
            parent_id=None if parent is None else parent.id,
            working_dir=original.working_dir,
            workspace=original.workspace,
            trust_level=original.trust_level,
            effective_mode=original.effective_mode,
        )
        launch = await self._store.launch(original.id)
        forked, plan, told = await self._resumed(session, parent, launch, conversation, forked_by=caller)
        return SpawnPlan(replace(session, conversation=plan.conversation), forked, None, token, told)

    async def _resumed(
        self,
        session: Session,
        parent: Session | None,
        before: Launch,
        conversation: str,
        *,
        forked_by: Caller | None = None,
    ) -> tuple[Launch, AgentPlan, tuple[str, ...]]:
        """How a conversation goes on in a process of `session`, and warnings. `before`: how its last process started.

        `forked_by`: the caller who asked for a copy of the conversation; None: the session goes on with its own.
        """
        provider = self._providers[session.provider]
        place = self._directories.workspace_of(session)
        types = await self._types.found(place, before.inherited, wanted=session.agent_type)
        grants = await self._grants(session, provider, before.inherited)
        context = self._context(session, parent, before.inherited, provider, types, grants)
        if forked_by is not None:
            above, kind = await self._launch_of(parent), types.known(session.agent_type)
            context = replace(context, at_most=_at_most(forked_by, session, parent, above, kind))
        plan = provider.resume(context, before.flags, conversation, fork=forked_by is not None)
        launch = self._launch(session, plan, before.inherited, provider, grants, has_prompt=False)
        told = (*_missing_type_warnings(session, types), *types.unread, *grants.warnings, *plan.warnings)
        return launch, plan, told

    async def agent_types(
        self,
        parent: Session | None,
        workspace: str | None,
        current_dir: str | None,
        environment: Mapping[str, str],
    ) -> Catalog:
        """What a spawn there would find; as `plan`. Raises NotFound, InvalidPath, InvalidText."""
        found = self._directories.workspace(parent, workspace)
        if parent is None and workspace is None and current_dir is not None:
            found = await self._directories.around(current_dir)
        above = await self._launch_of(parent)
        inherited = self._environments.narrowed(environment) if above is None else above.inherited
        return await self._types.found(found, inherited)

    async def _launch_of(self, parent: Session | None) -> Launch | None:
        """How the parent was started: its children inherit from that."""
        return None if parent is None else await self._store.launch(parent.id)

    def _new(
        self, caller: Caller, agent_type: str, provider: Provider, name: str | None, **facts: Any
    ) -> tuple[Session, str]:
        """A session that is still to be inserted, and its token. Raises UsageError for a name that cannot be one."""
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
            terminal=f"{provider.name}-{session_id}",
            created_at=at,
            token_hash=digest(token),
            **facts,
        )
        return session, token

    def _context(
        self,
        session: Session,
        parent: Session | None,
        inherited: Mapping[str, str],
        provider: Provider,
        types: Catalog,
        grants: Grants,
    ) -> PlanContext:
        kind = types.known(session.agent_type)
        mcp_file = self._places.mcp_file(session.id) if grants.servers else None
        return PlanContext(
            session=session,
            sm=f"{self._places.bin}/sm",
            environment=without(inherited, provider.never_inherited),
            parent=None if parent is None else parent.display_name,
            prompt_file=self._places.prompt_file(session.id),
            agent=AgentConfig() if kind is None else kind.agent,
            agent_types={each.name: each.agent.description for each in types.usable},
            given=replace(grants.given, mcp_file=mcp_file),
        )

    async def _grants(self, session: Session, provider: Provider, inherited: Mapping[str, str]) -> Grants:
        """What the session is given of MCP servers and skills, as they are now. Raises UsageError."""
        workspace = self._directories.workspace_of(session)
        given = without(inherited, provider.never_inherited)
        return await self._granter.grants(session, workspace, provider, given)

    def _launch(
        self,
        session: Session,
        plan: AgentPlan,
        inherited: Mapping[str, str],
        provider: Provider,
        grants: Grants,
        *,
        has_prompt: bool,
    ) -> Launch:
        given = without({**inherited, **plan.environment}, provider.never_inherited)
        environment = self._environments.whole(session, given, has_prompt_file=plan.prompt_file is not None)
        return Launch(
            argv=plan.argv,
            environment=environment,
            inherited=inherited,
            working_dir=session.working_dir,
            typed_prompt=plan.typed_prompt,
            prompt_file=plan.prompt_file,
            flags=plan.flags,
            has_prompt=has_prompt,
            mcp_config=grants.mcp_config(environment),
        )

    def _check_arguments(self, caller: Caller, request: SpawnRequest) -> None:
        if request.model is not None and not is_model(request.model):
            raise UsageError(
                f"--model {folded(request.model, 80)!r} is no name of a model",
                "opus, sonnet, haiku, or a full name",
            )
        if not request.extra_args:
            return
        if not self._config.child_agents.allow_args and not may_at_all(caller, Action.ADD_ARGUMENTS):
            raise NotPermitted(
                "--args is for the operator only", "child_agents.allow_args: true opens it to sessions"
            )
        for argument in request.extra_args:
            accepted(argument, "--args", _ARGUMENT_MAX)

    def _trust(
        self, caller: Caller, parent: Session | None, workspace: Workspace | None, asked: str | None
    ) -> tuple[TrustLevel, TrustLevel, tuple[str, ...]]:
        """Trust level, effective mode and warnings (design section 7; section 8 for who may fall back)."""
        try:
            level = None if asked is None else normalize_trust_level(asked)
        except ValueError as error:
            raise UsageError(str(error)) from None
        if parent is not None:
            given = child_trust(parent.effective_mode, level)
            if given is None:
                raise NotPermitted(f"a child of {parent.id} cannot have more trust than it has")
            level = given
        of_workspace = None if workspace is None else workspace.trust_level
        level = level or of_workspace or self._config.default_trust
        if level is TrustLevel.DIRECT:
            return level, level, ()
        if caller.kind is not CallerKind.OPERATOR:
            raise SandboxUnavailable(
                "there is no sandbox in this version, and only the operator may do without one"
            )
        if parent is not None and parent.effective_mode is TrustLevel.SANDBOXED:
            raise SandboxUnavailable(  # it would be hidden from its own parent, and have more trust
                f"there is no sandbox in this version, and a child of {parent.id} cannot do without one"
            )
        return level, TrustLevel.DIRECT, (_NO_SANDBOX,)


def _missing_type_warnings(session: Session, types: Catalog) -> tuple[str, ...]:
    """That an agent which goes on is not told again what its agent type said."""
    kind = types.known(session.agent_type)
    if kind is not None and kind.problem is None:
        return ()
    what = "is there no more" if kind is None else f"cannot be used ({kind.origin})"
    return (f"agent type {session.agent_type} {what}: nothing of its prompt is told again",)


def _at_most(
    caller: Caller, session: Session, parent: Session | None, above: Launch | None, kind: AgentType | None
) -> tuple[str, ...] | None:
    """The flags of the parent that `session`, started by a session, may have no more permissions than; None: any.

    The flags of another program than its own say nothing of what it may.
    """
    lifted = caller.kind is CallerKind.OPERATOR or (kind is not None and kind.agent.spawnable)
    if lifted or parent is None or above is None or parent.provider != session.provider:
        return None
    return above.flags


def _defaults(config: Config) -> Capabilities:
    given = config.default_capabilities
    return Capabilities(
        *(None if names == "all" else names for names in (given.mcps, given.skills, given.agents))
    )


def _conversation(session: Session) -> str:
    if session.conversation is None:
        raise IllegalState(
            f"session {session.id} has no conversation to go on with", "sm spawn starts a new one"
        )
    return session.conversation
