"""Checks the installation of an agent CLI before a session starts. Each check has a time limit."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

from sm.core.models import Launch, Session
from sm.providers.base import ProgramFacts, Provider
from sm.sandboxes.home import ContainerHome

DEFAULT_CONTAINER = "default"
"""The name of the container for sessions without a workspace, in commands."""

_WITHIN_S = 2.0
_PROGRAM_WITHIN_S = 4.0


async def require_ready(
    provider: Provider,
    session: Session,
    launch: Launch,
    home: ContainerHome | None,
    project_of: Callable[[str], str],
) -> None:
    """Raise SetupRequired if the agent would wait in a dialog of its first start.

    `home`: the home directory of its container, or None if it starts on this host. `project_of`: as in
    `Setup.require_ready`.
    """
    if provider.setup is None:
        return
    facts = launch.environment, launch.argv, launch.working_dir
    check = partial(provider.setup.require_ready, *facts, project_of)
    if home is not None:
        container = session.workspace or DEFAULT_CONTAINER
        check = partial(provider.setup.require_login, launch.environment, launch.argv, home, container)
    with suppress(TimeoutError):  # a slow file system proves no open dialog
        async with asyncio.timeout(_WITHIN_S):
            await asyncio.to_thread(check)


async def program_facts(
    provider: Provider, environment: Mapping[str, str], home: ContainerHome | None
) -> ProgramFacts:
    """The program that the agent starts. `environment`: inherited. `home`: as above."""
    if provider.setup is not None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_PROGRAM_WITHIN_S):
                return await provider.setup.program(environment, home)
    return ProgramFacts()


async def runs_hooks(provider: Provider, launch: Launch, home: ContainerHome | None) -> bool:
    """False if a setting turns off the hooks of sm in this session. `home`: as above."""
    if provider.setup is None:
        return True
    with suppress(TimeoutError):
        async with asyncio.timeout(_WITHIN_S):
            return await asyncio.to_thread(
                provider.setup.runs_hooks, launch.environment, launch.working_dir, home
            )
    return True


async def session_warnings(provider: Provider, launch: Launch, home: ContainerHome | None) -> tuple[str, ...]:
    """Warnings about settings of the user or the project that limit `sm` in this session. `home`: as above."""
    if provider.setup is None:
        return ()
    with suppress(TimeoutError):
        async with asyncio.timeout(_WITHIN_S):
            return await asyncio.to_thread(
                provider.setup.session_warnings, launch.environment, launch.working_dir, home
            )
    return ()
