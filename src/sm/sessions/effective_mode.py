"""Decides the trust level of a new session, and where its agent runs; and where one that fell back runs again."""

from collections.abc import Callable, Container

from sm.config import Config
from sm.core.dataclass import dataclass
from sm.core.labels import name_to_type, short_label
from sm.core.models import Caller, Session, Workspace
from sm.core.sightings import Sighting
from sm.core.states import CallerKind, TrustLevel
from sm.errors import FallbackOver, NotPermitted, SandboxUnavailable, UsageError
from sm.operations.hints import Hint, Use
from sm.operations.session_operations import RESTORE, SPAWN
from sm.policy.fallback import may_fall_back
from sm.policy.trust import child_trust, limited_trust, normalize_trust_level
from sm.sandboxes.base import Sandbox


@dataclass(frozen=True, slots=True)
class TrustDecision:
    level: TrustLevel
    """The requested level."""
    mode: TrustLevel
    """The mode in which the agent runs: direct in place of sandboxed after a fallback."""
    warnings: tuple[str, ...] = ()


class TrustDecisions:
    def __init__(self, config: Config, sandbox: Sandbox, met: Callable[[], Container[Sighting]]) -> None:
        """`met`: the parts of a sandbox that this instance has ever met."""
        self._config = config
        self._sandbox = sandbox
        self._met = met

    def _falls_back(self) -> bool:
        return self._config.sandbox.fallback == "warn"

    async def decide(
        self,
        caller: Caller,
        parent: Session | None,
        workspace: Workspace | None,
        asked: str | None,
        *,
        runs: bool,
    ) -> TrustDecision:
        """Decide for a spawn; `runs`: the agent runs already, on this host.

        Raises UsageError, NotPermitted, SandboxUnavailable, SandboxBusy.
        """
        try:
            level = None if asked is None else normalize_trust_level(asked)
        except ValueError as error:
            raise UsageError(str(error)) from None
        try:
            level = limited_trust(caller, level)
        except ValueError as error:
            raise NotPermitted(f"{error}: all sessions of that user run in a sandbox") from None
        if parent is not None:
            if level is None and parent.fell_back:  # the decision of the parent is that of its children
                return TrustDecision(
                    parent.trust_level,
                    parent.effective_mode,
                    (f"no sandbox: {short_label(parent)} runs directly on this host, and so does its child",),
                )
            given = child_trust(parent.effective_mode, level)
            if given is None:
                raise NotPermitted(
                    f"session {short_label(parent)} may not start a child with a higher trust level than its own"
                )
            level = given
        level = level or (None if workspace is None else workspace.trust_level)
        is_default = level is None
        level = level or self._config.default_trust
        if runs or level is TrustLevel.DIRECT:
            return TrustDecision(level, TrustLevel.DIRECT)
        try:
            warnings = await self._sandbox.require_available(workspace)
        except SandboxUnavailable as error:
            # A level that somebody asked for is a promise; only the operator may take less than the default.
            if not (is_default and caller.kind is CallerKind.OPERATOR and self._falls_back()):
                raise
            if not may_fall_back(error, self._met()):
                error.hint = _or(error.hint, "to run it on this host: add --trust direct")
                raise
            return TrustDecision(level, TrustLevel.DIRECT, (_warning(error),))
        return TrustDecision(level, level, warnings)

    async def again(self, session: Session, workspace: Workspace | None) -> tuple[str, ...]:
        """Return the warnings of a session that runs again where it ran before.

        For one that fell back, the reason must still hold. Raises FallbackOver if there is a sandbox now,
        SandboxUnavailable if it is wanting for another reason, and SandboxBusy.
        """
        if session.effective_mode is TrustLevel.SANDBOXED:
            await self._sandbox.require_available(workspace)
            return ()
        if not session.fell_back:
            return ()
        name = name_to_type(session)
        hint = Hint(
            "to go on without a sandbox: ",
            Use(RESTORE, name, "--trust", "direct"),
            "; to begin anew in one: ",
            Use(SPAWN),
        )
        try:
            await self._sandbox.require_available(workspace)
        except SandboxUnavailable as error:
            if self._falls_back() and may_fall_back(error, self._met()):
                return (_warning(error),)
            error.hint = _or(error.hint, hint)
            raise
        raise FallbackOver(
            f"session {short_label(session)} ran directly on this host because there was no sandbox, and now there is "
            "one: its conversation cannot move into it",
            hint,
        )


def _or(hint: str | None, other: str) -> str:
    return other if hint is None else Hint(hint, "; ", other)


def _warning(error: SandboxUnavailable) -> str:
    hint = "" if error.hint is None else f" ({error.hint})"
    return f"no sandbox: {error.message}{hint}; the session runs directly on this host"
