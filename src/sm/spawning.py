"""Planning a spawn: from what was asked for to the session and the process to start. Decides, writes nothing."""

import asyncio
import hashlib
import os
import re
import secrets
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

from sm.config import Config
from sm.errors import (
    IllegalState,
    NotFound,
    NotPermitted,
    PathRefused,
    SandboxUnavailable,
    UnknownAgentType,
    UsageError,
)
from sm.models import Caller, CallerKind, Launch, Mode, Session, SpawnRequest, Status, TrustLevel, Workspace
from sm.places import Places
from sm.policy import Action, may
from sm.providers.base import AgentPlan, Provider, Start
from sm.text import PROMPT_MAX, accepted, folded
from sm.trust import child_trust, normalize_trust_level

_ALWAYS_INHERITED = ("HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ")
_FRIENDLY = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_ARGUMENT_MAX = 4096
TITLE_MAX = 200
_TITLE_SIGNS = " _-.#:()"
_NO_SANDBOX = (
    "there is no sandbox in this version: the session runs directly on this host "
    "(trust level sandboxed, effective mode direct)"
)


@dataclass(frozen=True, slots=True)
class Planned:
    """A session that may be inserted, and how its process is started."""

    session: Session
    launch: Launch
    prompt: str | None = field(repr=False)
    token: str = field(repr=False)
    warnings: tuple[str, ...]


class Spawning:
    """Plans spawns by the configuration. Every refusal of a spawn that needs no transaction is made here."""

    def __init__(
        self,
        config: Config,
        places: Places,
        providers: Mapping[str, Provider],
        workspaces: Callable[[], Mapping[str, Workspace]],
        now: Callable[[], str],
    ) -> None:
        """`workspaces`: all there are, by slug, deleted ones too."""
        self._config = config
        self._places = places
        self._providers = providers
        self._workspaces = workspaces
        self._provider_of = {
            kind: provider for provider in providers.values() for kind in provider.agent_types
        }
        self._now = now

    async def plan(
        self,
        caller: Caller,
        request: SpawnRequest,
        parent: Session | None,
        inherited: Mapping[str, str] | None,
    ) -> Planned:
        """`inherited` is the environment that the parent was started with; None for a session without parent.

        Raises UsageError and its kin, NotPermitted, SandboxUnavailable.
        """
        provider = self._provider(request.agent_type)
        self._check_arguments(caller, request)
        prompt = None if request.prompt is None else accepted(request.prompt, "prompt", PROMPT_MAX)
        workspace = self._named_workspace(parent, request.workspace)
        working_dir = await self._working_dir(parent, request, workspace)
        if workspace is None and parent is None:
            workspace = await asyncio.to_thread(_nearest, working_dir, self._workspaces())
        trust_level, effective_mode, warnings = self._trust(caller, parent, workspace, request.trust)
        if inherited is None:
            inherited = self._narrowed(request.environment)
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
            title=None if request.title is None else _title(request.title),
            **_worktree(request, working_dir),
        )
        plan = provider.plan(
            replace(request, prompt=prompt), self._start(session, parent, inherited, provider)
        )
        session = replace(session, model=plan.model, conversation=plan.conversation)
        launch = self._launch(session, plan, inherited, provider, has_prompt=prompt is not None)
        return Planned(session, launch, prompt, token, (*warnings, *plan.warnings))

    async def plan_again(
        self, session: Session, parent: Session | None, launch: Launch
    ) -> tuple[Launch, str]:
        """How to go on with the session's conversation in a new process, and its new token.

        A program that has no conversations is started as it was before. Raises IllegalState when there is
        none to go on with, PathRefused when its directory is gone.
        """
        provider = self._provider_of_session(session)
        trouble = await asyncio.to_thread(_trouble_with, session.working_dir)
        if trouble is not None:
            raise PathRefused(f"working directory {session.working_dir} {trouble}")
        if provider.reader is None:
            environment = {**launch.environment, "SM_PARENT_ID": session.parent_id or ""}
            return replace(launch, environment=environment), secrets.token_hex(32)
        start = self._start(session, parent, launch.inherited, provider)
        plan = provider.resume(start, launch.flags, _conversation(session), fork=False)
        again = self._launch(session, plan, launch.inherited, provider, has_prompt=False)
        return again, secrets.token_hex(32)

    async def plan_fork(
        self, caller: Caller, original: Session, parent: Session | None, launch: Launch, name: str | None
    ) -> Planned:
        """A session of its own that goes on with a copy of the original's conversation.

        Raises UsageError and IllegalState where there is none, PathRefused when its directory is gone.
        """
        provider = self._provider_of_session(original)
        conversation = "" if provider.reader is None else _conversation(original)
        trouble = await asyncio.to_thread(_trouble_with, original.working_dir)
        if trouble is not None:
            raise PathRefused(f"working directory {original.working_dir} {trouble}")
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
        start = self._start(session, parent, launch.inherited, provider)
        plan = provider.resume(start, launch.flags, conversation, fork=True)
        session = replace(session, conversation=plan.conversation)
        forked = self._launch(session, plan, launch.inherited, provider, has_prompt=False)
        return Planned(session, forked, None, token, plan.warnings)

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
            friendly_name=None if name is None else _friendly(naming.pattern, kind, name),
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

    def _provider_of_session(self, session: Session) -> Provider:
        return self._providers[session.provider]

    def _start(
        self, session: Session, parent: Session | None, inherited: Mapping[str, str], provider: Provider
    ) -> Start:
        return Start(
            session=session,
            sm=f"{self._places.bin}/sm",
            environment=_without(inherited, provider.never_inherited),
            parent=None if parent is None else parent.display_name,
            prompt_file=self._places.prompt_file(session.id),
        )

    def _launch(
        self,
        session: Session,
        plan: AgentPlan,
        inherited: Mapping[str, str],
        provider: Provider,
        *,
        has_prompt: bool,
    ) -> Launch:
        given = _without({**inherited, **plan.environment}, provider.never_inherited)
        return Launch(
            argv=plan.argv,
            environment=self._environment(session, given, plan.prompt_file is not None),
            inherited=inherited,
            working_dir=session.working_dir,
            typed_prompt=plan.typed_prompt,
            prompt_file=plan.prompt_file,
            flags=plan.flags,
            has_prompt=has_prompt,
        )

    def _provider(self, agent_type: str) -> Provider:
        provider = self._provider_of.get(agent_type)
        if provider is not None:
            return provider
        by_lower = {known.lower(): known for known in self._provider_of}
        near = get_close_matches(agent_type.lower(), by_lower, n=1, cutoff=0.5)
        if near:
            hint = f"did you mean {by_lower[near[0]]}?"
        elif by_lower:
            known = ", ".join(sorted(self._provider_of))
            hint = f"known are: {known}; after a change of config.yaml: sm daemon restart"
        else:
            hint = f"add it under commands: in {self._places.config} (sm config --example), then: sm daemon restart"
        raise UnknownAgentType(f"unknown agent type {folded(agent_type, 64)}", hint)

    def _check_arguments(self, caller: Caller, request: SpawnRequest) -> None:
        if not request.extra_args:
            return
        if not self._config.child_agents.allow_args and not may(caller, Action.ADD_ARGUMENTS):
            raise NotPermitted(
                "--args is for the operator only", "child_agents.allow_args: true opens it to sessions"
            )
        for argument in request.extra_args:
            accepted(argument, "--args", _ARGUMENT_MAX)

    def _named_workspace(self, parent: Session | None, slug: str | None) -> Workspace | None:
        """The workspace that was asked for, or the parent's, which a child always has. Raises NotFound.

        A session that asks for another one than its own hears what it would hear of one that does not exist.
        """
        if parent is not None:
            if slug is not None and slug != parent.workspace:
                raise NotFound(
                    f"no such workspace: {folded(slug, 80)}", "a child is in its parent's workspace"
                )
            return None if parent.workspace is None else self._workspaces().get(parent.workspace)
        if slug is None:
            return None
        found = self._workspaces().get(slug)
        if found is None or found.deleted_at is not None:
            known = [w.slug for w in self._workspaces().values() if w.deleted_at is None]
            near = get_close_matches(slug, known, n=1)
            raise NotFound(
                f"no such workspace: {folded(slug, 80)}",
                f"did you mean {near[0]}?" if near else "sm workspace list shows them",
            )
        return found

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
        return level, TrustLevel.DIRECT, (_NO_SANDBOX,)

    async def _working_dir(
        self, parent: Session | None, request: SpawnRequest, workspace: Workspace | None
    ) -> str:
        path = request.working_dir
        if path is None and parent is None and workspace is not None:
            path = workspace.directory
        if path is None and self._config.sessions.default_working_dir_behavior == "specify":
            raise UsageError(
                "a working directory must be given",
                "--working-dir DIR (config: sessions.default_working_dir_behavior: specify)",
            )
        if path is None:
            path = parent.working_dir if parent is not None else request.current_dir
        if path is None or not path.startswith("/"):
            raise PathRefused(f"working directory {folded(path or '', 200)!r} is not an absolute path")
        accepted(path, "working directory", _ARGUMENT_MAX, one_line=True)
        trouble = await asyncio.to_thread(_trouble_with, path)
        if trouble is not None:
            raise PathRefused(f"working directory {path} {trouble}")
        return path

    def _narrowed(self, environment: Mapping[str, str]) -> Mapping[str, str]:
        names = {*_ALWAYS_INHERITED, *self._config.sessions.inherit_environment_vars}
        return {
            name: value
            for name, value in environment.items()
            if (name in names or name.startswith("LC_")) and name.isidentifier() and "\0" not in value
        }

    def _environment(
        self, session: Session, given: Mapping[str, str], has_prompt_file: bool
    ) -> Mapping[str, str]:
        """Built from nothing; `SM_*` last, over anything a configuration says (design section 7)."""
        environment = dict(given)
        environment["PATH"] = f"{self._places.bin}:{environment.get('PATH', os.defpath)}"
        environment |= {
            "SM_SESSION_ID": session.id,
            "SM_PARENT_ID": session.parent_id or "",
            "SM_WORKSPACE_ID": session.workspace or "",
            "SM_TRUST_LEVEL": session.effective_mode.value,
            "SM_SOCKET": self._places.socket,
            "SM_TOKEN_FILE": self._places.token_file(session.id),
        }
        if has_prompt_file:
            environment["SM_PROMPT_FILE"] = self._places.prompt_file(session.id)
        return environment


def _without(environment: Mapping[str, str], names: frozenset[str]) -> Mapping[str, str]:
    return {name: value for name, value in environment.items() if name not in names}


def _conversation(session: Session) -> str:
    if session.conversation is None:
        raise IllegalState(
            f"session {session.id} has no conversation to go on with", "sm spawn starts a new one"
        )
    return session.conversation


def digest(token: str) -> str:
    """How a token is stored: its SHA-256, so that the database opens no door."""
    return hashlib.sha256(token.encode()).hexdigest()


def _title(title: str) -> str:
    """A title as it is kept: one line of letters and digits of any script and a few signs. Raises UsageError."""
    kept = accepted(title, "title", TITLE_MAX, one_line=True).strip()
    if not kept or not all(
        c.isalnum() or unicodedata.category(c)[0] == "M" or c in _TITLE_SIGNS for c in kept
    ):
        raise UsageError(
            f"title {folded(title, 80)!r} is not usable",
            f"letters and digits of any script, blanks, and {' '.join(_TITLE_SIGNS.strip())}",
        )
    return kept


def _worktree(request: SpawnRequest, working_dir: str) -> dict[str, str | None]:
    """The git worktree that the caller has made for the session. Raises UsageError and PathRefused."""
    if (request.worktree is None) is not (request.branch is None):
        raise UsageError("a worktree and its branch come together")
    if request.worktree is None or request.branch is None:
        return {}
    worktree = os.path.normpath(accepted(request.worktree, "worktree", _ARGUMENT_MAX, one_line=True))
    if not within(working_dir, worktree):
        raise PathRefused(
            f"working directory {working_dir} does not lie in the worktree {folded(worktree, 200)}"
        )
    return {"worktree": worktree, "branch": accepted(request.branch, "branch", 200, one_line=True)}


def within(path: str, directory: str) -> bool:
    """Whether `path` is `directory` or lies in it; both absolute and without links."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _nearest(working_dir: str, workspaces: Mapping[str, Workspace]) -> Workspace | None:
    """The workspace whose directory is the nearest above, or is, the working directory."""
    path = os.path.realpath(working_dir)
    around = [w for w in workspaces.values() if w.deleted_at is None and within(path, w.directory)]
    return max(around, key=lambda w: len(w.directory), default=None)


def _friendly(pattern: str, kind: str, name: str) -> str:
    """The friendly name for `--name`, in lower case, the agent type not doubled."""
    name = name.lower()
    if not _FRIENDLY.fullmatch(name):
        raise UsageError(
            f"name {folded(name, 80)!r} is not usable",
            "letters a-z, digits, dot, dash and underscore, at most 64",
        )
    if name.startswith(f"{kind}-"):
        return name
    return pattern.format(agent_type=kind, friendly_name=name).lower()


def _trouble_with(path: str) -> str | None:
    try:
        os.stat(path)
    except OSError as error:
        return (
            "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be used: {error.strerror}"
        )
    if not os.path.isdir(path):
        return "is not a directory"
    return None if os.access(path, os.X_OK) else "cannot be entered: permission denied"
