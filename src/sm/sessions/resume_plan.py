"""Plans a new process for a conversation: of a session that is restored or restarted, or of a fork. Does not write."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from sm.core.dataclass import dataclass
from sm.core.items import ItemState
from sm.core.models import Caller, Launch, Session, Workspace
from sm.core.next_process import Restarts
from sm.core.states import TrustLevel
from sm.equipment.agent_types import AgentTypes, Catalog
from sm.errors import IllegalState
from sm.linux.file_threads import FileThreads
from sm.operations.hints import Argument, Hint
from sm.providers.base import AgentPlan, Provider
from sm.sandboxes.home import HomeOf
from sm.sessions.conversation_files import ConversationFiles
from sm.sessions.conversations import ConversationSource, is_unbegun, source_of
from sm.sessions.effective_mode import TrustDecisions
from sm.sessions.environment import Environments
from sm.sessions.new_session import NewSessions
from sm.sessions.process_plan import ProcessPlanner
from sm.sessions.setup_checks import session_warnings
from sm.sessions.spawn_parts import SpawnPart
from sm.sessions.spawn_plan import SpawnPlan
from sm.sessions.transcript_recovery import Recovery
from sm.sessions.workdir import WorkDirectories, require_directory
from sm.store import Store


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


@dataclass(frozen=True, slots=True, eq=False)
class ResumePlanner:
    """Makes every check of a restore, a restart and a fork that needs no transaction."""

    _store: Store
    _providers: Mapping[str, Provider]
    _files: ConversationFiles
    _directories: WorkDirectories
    _environments: Environments
    _types: AgentTypes
    _trust: TrustDecisions
    _processes: ProcessPlanner
    _new_sessions: NewSessions
    _home_of: HomeOf
    _threads: FileThreads
    _parts: Sequence[SpawnPart]

    async def restore(self, session: Session, *, is_decided: bool = False) -> RestorePlan:
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
        told = (*told, *(warning for part in self._parts for warning in part.restore_warnings(session)))
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
            if not is_decided and await self._processes.is_typed(provider, session, resumed, source.prompt):
                first_message, source = source.prompt, replace(source, prompt="")
                resumed, _, version, warnings = await self._resumed(session, parent, launch, source)
            return RestorePlan(
                resumed, token, (*told, *warnings), first_message=first_message, program_version=version
            )
        recovery = await self._files.recovery(session, provider, resumed, source.id, copied=source.copied)
        return RestorePlan(resumed, token, (*told, *warnings), recovery, program_version=version)

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

    async def fork(
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
        session, token = self._new_sessions.make(
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
        session = replace(
            session,
            bound_to=original.bound_to or (None if is_same else original.parent_id),
            program_version=original.program_version,
        )
        forked, plan, version, warnings = await self._resumed(
            session, parent, launch, source, forked_by=caller
        )
        kind = provider.agent_config(original.agent_type)
        additions = [part.plan(session, None, kind) for part in self._parts]
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
        grants = await self._processes.grants(session, provider, base, types)
        context = await self._processes.context(session, parent, base, provider, types, grants)
        if forked_by is not None:
            kind = types.find(session.agent_type)
            context = await self._processes.limited(context, forked_by, session, parent, kind)
        if source.prompt is None:
            plan = provider.resume(context, before.flags, source.id, fork=source.copied)
        else:
            plan = provider.begin_again(context, before.flags, source.id, source.prompt)
        if plan.permission is not None and before.permission is not None and not plan.permission.source:
            plan = replace(plan, permission=replace(plan.permission, source=before.permission.source))
        launch = self._processes.launch(
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
        return launch, plan, context.program.number, warnings


def _missing_type_warnings(session: Session, types: Catalog) -> tuple[str, ...]:
    """Warn that a resumed agent does not get the prompt of its agent type again."""
    kind = types.find(session.agent_type)
    if kind is not None and kind.problem is None and kind.agreement is ItemState.AGREED:
        return ()
    what = "no longer exists" if kind is None else f"cannot be used ({kind.origin})"
    return (f"agent type {session.agent_type} {what}: the agent resumes without the prompt of that type",)
