"""The parts that record facts about sessions, on a database of their own, without a daemon."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from sm.capabilities.completion.listeners import TurnReader
from sm.capabilities.completion.settings import AutoComplete
from sm.capabilities.completion.state import TurnFollower
from sm.capabilities.pauses.listeners import OrderedEnds
from sm.capabilities.pauses.state import Pauses
from sm.capabilities.warnings.settings import WarningsSection
from sm.capabilities.warnings.state.opening import Warnings
from sm.config import Config
from sm.core.models import Signal
from sm.providers import make_providers
from sm.providers.base import Provider
from sm.sessions.authorizer import Authorizer
from sm.sessions.process_ends import ProcessEnds
from sm.state.endings import Endings
from sm.state.faults import Faults
from sm.state.notices import Notices
from sm.state.quota import Quota
from sm.state.session_steps import move
from sm.store import Store
from sm.store.audit import Record


@dataclass(frozen=True)
class StateParts:
    store: Store
    providers: Mapping[str, Provider]
    authorizer: Authorizer
    notices: Notices
    endings: Endings
    faults: Faults
    quota: Quota
    ends: ProcessEnds

    async def observe(self, session_id: str, signal: Signal) -> None:
        async with self.store.transaction() as tx:
            await move(tx, self.notices, session_id, signal)


@asynccontextmanager
async def open_parts(
    directory: Path,
    now: Callable[[], str],
    audit: Record = lambda *_: None,
    config: Config | None = None,
    steady: Callable[[], float] | None = None,
) -> AsyncIterator[tuple[Store, StateParts]]:
    config = config or Config()
    providers, notices = make_providers(config), Notices(config)
    endings = Endings(config, notices, providers)
    async with await Store.open(str(directory / "sm.db"), now, steady) as store:
        yield (
            store,
            StateParts(
                store,
                providers,
                Authorizer(store, audit),
                notices,
                endings,
                Faults(config, notices, providers),
                Quota(config.limits),
                ProcessEnds(store, endings),
            ),
        )


def with_pauses(store: Store, parts: StateParts) -> Pauses:
    """Pauses that follow the sessions of the parts."""
    pauses = Pauses(parts.notices, make_providers(Config()))
    store.followers.append(pauses)
    parts.endings.rules.append(OrderedEnds())
    return pauses


def with_completion(store: Store, parts: StateParts, settings: AutoComplete | None = None) -> TurnReader:
    """The reader of turns, whose decisions the store follows."""
    store.followers.append(TurnFollower(parts.notices))
    return TurnReader(settings or AutoComplete(), store)


def with_warnings(store: Store, parts: StateParts, settings: WarningsSection) -> Warnings:
    """Warnings that follow the sessions of the parts."""
    providers = make_providers(Config())
    warnings = Warnings(settings, parts.notices, providers)
    store.followers.append(warnings)
    return warnings
