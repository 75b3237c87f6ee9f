"""Checks the installation of an agent CLI before a session starts. Each check has a time limit."""

import asyncio
from contextlib import suppress

from sm.core.models import Launch, Session
from sm.core.states import TrustLevel
from sm.providers.base import Provider

_WITHIN_S = 2.0


async def require_ready(provider: Provider, session: Session, launch: Launch) -> None:
    """Raise SetupRequired if the agent would wait in a dialog of its first start on this host."""
    if provider.setup is None or session.effective_mode is not TrustLevel.DIRECT:
        return
    with suppress(TimeoutError):  # a slow file system proves no open dialog
        async with asyncio.timeout(_WITHIN_S):
            await asyncio.to_thread(
                provider.setup.require_ready, launch.environment, launch.argv, launch.working_dir
            )


async def session_warnings(provider: Provider, launch: Launch) -> tuple[str, ...]:
    """Warnings about settings of the user or the project that limit `sm` in this session."""
    if provider.setup is None:
        return ()
    with suppress(TimeoutError):
        async with asyncio.timeout(_WITHIN_S):
            return await asyncio.to_thread(
                provider.setup.session_warnings, launch.environment, launch.working_dir
            )
    return ()
