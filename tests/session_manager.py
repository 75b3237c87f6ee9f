"""A session manager on a database of its own, without a daemon."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from sm.capabilities.completion.listeners import TurnReader
from sm.capabilities.completion.settings import AutoComplete
from sm.capabilities.completion.state import TurnFollower
from sm.capabilities.pauses.listeners import OrderedEnds
from sm.capabilities.pauses.state import Pauses
from sm.capabilities.warnings.settings import WarningsSection
from sm.capabilities.warnings.state.opening import Warnings
from sm.config import Config
from sm.providers import make_providers
from sm.sessions.manager import Manager
from sm.store import Store
from sm.store.audit import Record


@asynccontextmanager
async def open_manager(
    directory: Path,
    now: Callable[[], str],
    audit: Record = lambda *_: None,
    config: Config | None = None,
    steady: Callable[[], float] | None = None,
) -> AsyncIterator[tuple[Store, Manager]]:
    config = config or Config()
    providers = make_providers(config)
    async with await Store.open(str(directory / "sm.db"), now, steady) as store:
        yield store, Manager(config, store, providers, audit, now)


def with_pauses(store: Store, manager: Manager) -> Pauses:
    """Pauses that follow the sessions of the manager."""
    pauses = Pauses(manager.notices, make_providers(Config()))
    store.followers.append(pauses)
    manager.endings.rules.append(OrderedEnds())
    return pauses


def with_completion(store: Store, manager: Manager, settings: AutoComplete | None = None) -> TurnReader:
    """The reader of turns, whose decisions the store follows."""
    store.followers.append(TurnFollower(manager.notices))
    return TurnReader(settings or AutoComplete(), store)


def with_warnings(store: Store, manager: Manager, settings: WarningsSection) -> Warnings:
    """Warnings that follow the sessions of the manager."""
    providers = make_providers(Config())
    warnings = Warnings(settings, manager.notices, providers)
    store.followers.append(warnings)
    return warnings
