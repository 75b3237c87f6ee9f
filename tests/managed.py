"""A manager of sessions on a store of its own, without a daemon."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from sm.config import Config
from sm.providers import PROVIDERS
from sm.sessions.manager import Manager
from sm.state.endings import Endings
from sm.state.notices import Notices
from sm.state.quota import Quota
from sm.state.sessions import SessionChanges
from sm.store import Store


@asynccontextmanager
async def managed(directory: Path, now: Callable[[], str]) -> AsyncIterator[tuple[Store, Manager]]:
    config = Config()
    providers = {name: make(config) for name, make in PROVIDERS.items()}
    notices = Notices(config)
    changes = SessionChanges(notices)
    async with await Store.open(str(directory / "sm.db"), now) as store:
        manager = Manager(
            store=store,
            providers=providers,
            notices=notices,
            changes=changes,
            endings=Endings(config, notices, changes, providers),
            quota=Quota(config.limits),
            audit=lambda *_: None,
            now=now,
        )
        yield store, manager
