"""Creates, changes, deletes and lists workspaces. A session sees only its own workspace."""

import asyncio
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sm.config import sandbox_settings
from sm.core.items import ItemKind, ItemState
from sm.core.models import NO_WORKSPACE, Caller, Capabilities, RequestKey, Session, Workspace
from sm.core.session_index import oldest_first
from sm.core.states import Mode, TrustLevel
from sm.core.text import folded, validate_text
from sm.equipment.project_items import ProjectItems, ProjectListing
from sm.errors import ExternalError, IllegalState, InvalidPath, NameTaken, UsageError
from sm.operations.hints import Argument, Hint, Use
from sm.operations.session_operations import KILL
from sm.operations.workspace_operations import AGREE, CREATE_WORKSPACE, DELETE_WORKSPACE, SET_WORKSPACE
from sm.policy.modes import parse_mode
from sm.policy.relations import visible, visible_workspace
from sm.policy.trust import normalize_trust_level
from sm.sessions.authorizer import Authorizer
from sm.sessions.spawn_types import SpawnTypes
from sm.sessions.workdir import no_such_workspace
from sm.store import Store, Transaction
from sm.store.history import seen_by

_SLUG = re.compile(r"[a-z0-9][a-z0-9-]*[a-z0-9]")
_SLUG_MAX = 64
_RESERVED_SLUG = "default"
"""Commands for containers use this name for the container of sessions without a workspace."""
_PATH_MAX = 4096
_NAMES_MAX = 200
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_SKILL = re.compile(r"[A-Za-z0-9_.:-]{1,64}")


class Workspaces:
    def __init__(self, store: Store, authorizer: Authorizer, types: SpawnTypes, items: ProjectItems) -> None:
        self._store = store
        self._authorizer = authorizer
        self._types = types
        self._items = items

    def list_workspaces(self, caller: Caller, *, deleted: bool = False) -> list[Workspace]:
        """The workspaces that the caller sees, by slug; `deleted`: include deleted ones."""
        principal = self._authorizer.principal(caller)
        return [
            w
            for w in sorted(self._store.workspaces.values(), key=lambda w: w.slug)
            if visible_workspace(principal, w.slug) and (deleted or w.deleted_at is None)
        ]

    def find(self, caller: Caller, slug: str) -> Workspace:
        """The workspace, also if it is deleted. Raises NotFound, also for a workspace that is hidden."""
        workspaces = {w.slug: w for w in self.list_workspaces(caller, deleted=True)}
        if slug not in workspaces:
            raise no_such_workspace(slug, workspaces.values())
        return workspaces[slug]

    def slug(self, caller: Caller, named: str) -> str | None:
        """The slug of a workspace; None of `-`, which is none. Raises NotFound for an unknown workspace."""
        return None if named == NO_WORKSPACE else self.find(caller, named).slug

    def sessions(self, caller: Caller, slug: str) -> list[Session]:
        """The sessions of the workspace that the caller sees."""
        principal = self._authorizer.principal(caller)
        return [s for s in self._store.sessions.values() if s.workspace == slug and visible(principal, s)]

    async def count_past(self, caller: Caller, slug: str) -> int:
        """Count the sessions of the workspace that the caller sees and that are no longer in memory."""
        past = seen_by(self._authorizer.principal(caller)).also("workspace IS ?", slug)
        return sum((await self._store.history.counts(past)).values())

    async def create(
        self, caller: Caller, slug: str, given: Mapping[str, Any], key: RequestKey | None
    ) -> tuple[Workspace, tuple[str, ...]]:
        """Create a workspace. `given`: the settings of `change`, of which `working_dir` is required.

        A deleted workspace comes back with its old sessions, and a warning. Raises NotPermitted, NameTaken,
        UsageError.
        """
        self._authorizer.require(caller, CREATE_WORKSPACE.audience, slug, "create")
        if len(slug) > _SLUG_MAX or not _SLUG.fullmatch(slug):
            raise UsageError(
                f"invalid workspace name {folded(slug, 80)!r}",
                "use 2 to 64 characters: a-z, 0-9 and dashes, without a dash at either end",
            )
        if slug == _RESERVED_SLUG:
            raise UsageError(f"a workspace cannot be named {slug}", "choose another name")
        if given.get("working_dir") is None:
            raise UsageError(
                f"no directory given for workspace {slug}", Hint("add ", Argument("working_dir", "PATH"))
            )
        given = await _resolved(given)
        created = _changed(Workspace(slug, "", self._store.now()), given)
        async with self._store.transaction(caller, key) as tx:
            before = tx.workspace(slug)
            if tx.replayed is not None:
                created = before or created
            elif before is not None and before.deleted_at is None:
                raise NameTaken(f"workspace {slug} already exists", f"sm workspace show {slug}")
            else:
                self._put(tx, created)
                tx.remember(slug)
        await self._agree_to_named(created, given)
        past = seen_by(self._authorizer.principal(caller)).also("workspace = ?", slug)
        if not self.sessions(caller, slug) and not await self._store.history.count(past):
            return created, ()
        return created, (f"workspace {slug} existed before: its earlier sessions belong to it again",)

    async def change(
        self, caller: Caller, slug: str, given: Mapping[str, Any], key: RequestKey | None
    ) -> Workspace:
        """Change the settings in `given`: working_dir, trust (None for the default), lifecycle (None for the configured
        one), capabilities, strict_mcps, sandbox.

        Applies to sessions that start later. Raises the errors of `create`, and IllegalState for a deleted workspace.
        """
        self._authorizer.require(caller, SET_WORKSPACE.audience, slug, "set")
        workspace = self.find(caller, slug)
        given = await _resolved(given)
        async with self._store.transaction(caller, key) as tx:
            now = tx.workspace(slug) or workspace
            if tx.replayed is not None:
                return now
            _refuse_deleted(now)
            # Change the workspace of this transaction, because it may have changed since `find`.
            after = _changed(now, given)
            self._put(tx, after)
            tx.remember(slug)
        await self._agree_to_named(after, given)
        return after

    async def delete(self, caller: Caller, slug: str, key: RequestKey | None) -> Workspace:
        """Refuse new sessions in the workspace. Its sessions stay readable, its directory is not touched.

        Raises IllegalState while a process of its sessions lives.
        """
        self._authorizer.require(caller, DELETE_WORKSPACE.audience, slug, "delete")
        self.find(caller, slug)
        async with self._store.transaction(caller, key) as tx:
            now = tx.workspace(slug)
            assert now is not None
            if tx.replayed is not None:
                return now
            _refuse_deleted(now)
            unfinished = sorted(tx.unfinished_sessions(), key=oldest_first)
            living = [s.id for s in unfinished if s.workspace == slug and s.exit is None]
            if living:
                raise IllegalState(
                    f"workspace {slug} has {len(living)} sessions whose processes still run",
                    Hint(Use(KILL, *living[:5])),
                )
            after = replace(now, deleted_at=tx.now)
            tx.put_workspace(after)
            tx.remember(slug)
        return after

    async def project_items(self, workspace: Workspace) -> ProjectListing:
        """The items of the workspace's files that need the operator's agreement."""
        return await self._items.listing(workspace.directory)

    async def agree(self, caller: Caller, slug: str, ids: Sequence[str]) -> Workspace:
        """Agree to the items with these ids. Idempotent. Raises IllegalState, if an item has changed."""
        self._authorizer.require(caller, AGREE.audience, slug, "agree")
        workspace = self.find(caller, slug)
        _refuse_deleted(workspace)
        await self._items.agree(slug, workspace.directory, ids)
        return workspace

    async def agreement_warnings(self, workspace: Workspace) -> tuple[str, ...]:
        """A warning about the items that are left out until the operator agrees, and about unreadable files."""
        listing = await self._items.listing(workspace.directory)
        pending = [item for item, state in listing.items if state is not ItemState.AGREED]
        if not pending:
            return listing.warnings
        names = folded(", ".join(item.subject for item in pending), 400)
        warning = f"left out until you agree: {names} (sm workspace agree {workspace.slug})"
        return (*listing.warnings, warning)

    async def _agree_to_named(self, workspace: Workspace, given: Mapping[str, Any]) -> None:
        """Agree to the MCP servers and agent types that the operator selects by name, as they are now."""
        selected = given.get("capabilities")
        if isinstance(selected, dict):
            kinds = {"mcps": ItemKind.MCP_SERVER, "agents": ItemKind.AGENT_TYPE}
            names = {
                kind: selected[key] for key, kind in kinds.items() if isinstance(selected.get(key), list)
            }
            if any(names.values()):
                await self._items.agree_to_named(workspace.directory, names)

    async def unknown_agent_type_warnings(self, caller: Caller, workspace: Workspace) -> tuple[str, ...]:
        """Warnings about agent types in the capabilities that do not exist now, possibly misspelled.

        The lookup uses the daemon's environment.
        """
        try:
            types = await self._types.catalog(caller, workspace.slug, None, os.environ)
        except ExternalError as error:
            return (f"agent types were not checked: {error.message}",)
        return types.unknown_name_warnings(workspace.capabilities.agents or ())

    def _put(self, tx: Transaction, workspace: Workspace) -> None:
        for other in tx.all_workspaces():
            same = other.directory == workspace.directory and other.slug != workspace.slug
            if same and other.deleted_at is None:
                raise NameTaken(
                    f"directory {workspace.directory} already belongs to workspace {other.slug}",
                    f"change the directory there: sm workspace set {other.slug}; or choose another directory",
                )
        tx.put_workspace(workspace)


async def _resolved(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """`given` with the symbolic links of `working_dir` resolved. Raises InvalidPath."""
    path = given.get("working_dir")
    if path is None:
        return given
    if not isinstance(path, str) or not path.startswith("/"):
        raise InvalidPath(f"working directory {folded(str(path), 200)!r} is not an absolute path")
    path = validate_text(path, "working directory", _PATH_MAX, one_line=True)
    return {**given, "working_dir": await asyncio.to_thread(_directory, path)}


def _changed(workspace: Workspace, given: Mapping[str, Any]) -> Workspace:
    """Raises UsageError for an invalid setting."""
    changes = {name: read(workspace, given[key]) for key, (name, read) in _SETTINGS.items() if key in given}
    return replace(workspace, **changes)


def _refuse_deleted(workspace: Workspace) -> None:
    if workspace.deleted_at is not None:
        raise IllegalState(
            f"workspace {workspace.slug} is deleted",
            Hint(
                f"recreate the workspace: sm workspace create {workspace.slug} ",
                Argument("working_dir", "PATH"),
            ),
        )


def _directory(path: str) -> str:
    """Resolve symbolic links. Raises InvalidPath. Runs in a thread."""
    real = os.path.realpath(path)
    if not os.path.isdir(real):
        raise InvalidPath(
            f"working directory {path} {'is not a directory' if os.path.exists(real) else 'does not exist'}"
        )
    if real == "/":
        raise InvalidPath("the directory of a workspace cannot be /", "choose a directory below /")
    return real


def _trust(workspace: Workspace, value: object) -> TrustLevel | None:
    try:
        return None if value is None else normalize_trust_level(str(value))
    except ValueError as error:
        raise UsageError(str(error)) from None


def _lifecycle(workspace: Workspace, value: object) -> Mode | None:
    try:
        return None if value is None else parse_mode(str(value))
    except ValueError as error:
        raise UsageError(str(error)) from None


def _capabilities(workspace: Workspace, value: object) -> Capabilities:
    if not isinstance(value, dict):
        raise UsageError("capabilities must be an object of mcps, skills and agents")
    unknown = [str(name) for name in value if name not in ("mcps", "skills", "agents")]
    if unknown:
        raise UsageError(f"unknown capability {folded(unknown[0], 40)}", "use one of: mcps, skills, agents")
    return replace(workspace.capabilities, **{name: _names(name, given) for name, given in value.items()})


def _names(kind: str, given: object) -> tuple[str, ...] | None:
    if given == "all":
        return None
    if not isinstance(given, list) or len(given) > _NAMES_MAX:
        raise UsageError(f"{kind} must be all, or a list of at most {_NAMES_MAX} names")
    pattern, colon = (_SKILL, "colon, ") if kind == "skills" else (_NAME, "")
    for name in given:
        if not isinstance(name, str) or not pattern.fullmatch(name):
            raise UsageError(
                f"{kind}: invalid name {folded(str(name), 80)!r}",
                f"use letters, digits, {colon}dot, dash and underscore, at most 64 characters",
            )
    return tuple(dict.fromkeys(given))


def _strict(workspace: Workspace, value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageError("strict_mcps must be true or false")
    return value


def _sandbox(workspace: Workspace, value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise UsageError("sandbox must be an object of strings; an empty value removes a key")
    kept = {key: setting for key, setting in workspace.sandbox.items() if key not in value}
    return {**kept, **sandbox_settings(value)}


_SETTINGS: Mapping[str, tuple[str, Callable[[Workspace, Any], Any]]] = {
    "working_dir": ("directory", lambda workspace, path: workspace.directory if path is None else path),
    "trust": ("trust_level", _trust),
    "lifecycle": ("lifecycle", _lifecycle),
    "capabilities": ("capabilities", _capabilities),
    "strict_mcps": ("strict_mcps", _strict),
    "sandbox": ("sandbox", _sandbox),
}
"""The field of each setting, and the function that checks its new value."""
