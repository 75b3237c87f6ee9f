"""Decides the trust level of a new session, and where its agent runs."""

from dataclasses import dataclass

from sm.config import Config
from sm.core.labels import short_label
from sm.core.models import Caller, Session, Workspace
from sm.core.states import CallerKind, TrustLevel
from sm.errors import NotPermitted, SandboxUnavailable, SandboxUnreachable, UsageError
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
    def __init__(self, config: Config, sandbox: Sandbox) -> None:
        self._default = config.default_trust
        self._falls_back = config.sandbox.fallback == "warn"
        self._sandbox = sandbox

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
            given = child_trust(parent.effective_mode, level)
            if given is None:
                raise NotPermitted(
                    f"session {short_label(parent)} may not start a child with a higher trust level than its own"
                )
            level = given
        level = level or (None if workspace is None else workspace.trust_level)
        is_default = level is None
        level = level or self._default
        if runs or level is TrustLevel.DIRECT:
            return TrustDecision(level, TrustLevel.DIRECT)
        try:
            warnings = await self._sandbox.require_available(workspace)
        except SandboxUnreachable:
            raise  # the sandbox exists: an engine that is busy or hangs must not let an agent out of it
        except SandboxUnavailable as error:
            # A level that somebody asked for is a promise; only the operator may take less than the default.
            if not (is_default and caller.kind is CallerKind.OPERATOR and self._falls_back):
                raise
            hint = "" if error.hint is None else f" ({error.hint})"
            warning = f"no sandbox: {error.message}{hint}; the session runs directly on this host"
            return TrustDecision(level, TrustLevel.DIRECT, (warning,))
        return TrustDecision(level, level, warnings)
