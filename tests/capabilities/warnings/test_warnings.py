"""Warnings and the steps of sm that follow, on a real SQLite file."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from sm.capabilities.warnings.model import SessionWarning
from sm.capabilities.warnings.settings import WarningsSection
from sm.capabilities.warnings.state.opening import Warnings
from sm.config import Config
from sm.core.effects import EffectKind
from sm.core.models import Session
from sm.core.statuses import Status
from sm.core.warnings import WarningKind
from sm.providers import make_providers
from sm.state.notices import Notices
from sm.store import Store
from tests.samples import LAUNCH, commit, session

PROGRAM = session("aaaa1111", status=Status.RUNNING)
AGENT = replace(session("aaaa2222", status=Status.RUNNING), provider="claude")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await Store.open(str(tmp_path / "sm.db")) as opened:
        async with opened.transaction() as tx:
            for each in (PROGRAM, AGENT):
                await tx.insert(each, LAUNCH, None)
        yield opened


async def warn(store: Store, about: Session, act: str) -> SessionWarning | None:
    """Warn of no progress of the session. `act`: as in `warnings.no_progress.do`."""
    config, settings = Config(), WarningsSection.model_validate({"no_progress": {"do": act}})
    providers = make_providers(config)
    warnings = Warnings(settings, Notices(config), providers)
    return await commit(
        store,
        lambda tx: warnings.open_warning(
            tx, about, WarningKind.NO_PROGRESS, value=1200, limit=1200, evidence="nothing was printed"
        ),
    )


@pytest.mark.parametrize(("about", "is_interrupted"), [(AGENT, True), (PROGRAM, False)])
async def test_warning_interrupts_only_an_agent_with_turns(
    store: Store, about: Session, is_interrupted: bool
) -> None:
    assert await warn(store, about, "interrupt") is not None
    effects = [e.kind for e in store.mail.open.effects.values()]
    assert effects == ([EffectKind.INTERRUPT] if is_interrupted else [])
    (notice,) = store.mail.open.notices.values()
    assert ("sm interrupted its turn" in notice.text) is is_interrupted
