"""Killing a tree: what is written when."""

import asyncio
from contextlib import suppress
from pathlib import Path

from sm.core.effects import EffectKind
from sm.core.models import OPERATOR
from sm.sessions.kill import Kills
from tests.load import scaled
from tests.managed import managed
from tests.samples import AT, LAUNCH, session

PARENT, CHILD = "aaaa1111", "bbbb2222"


async def test_killing_a_tree_writes_its_audit_lines_after_the_commit(tmp_path: Path) -> None:
    lines: list[tuple[str | None, set[str]]] = []
    is_written = asyncio.Event()

    def audit(who: str, what: str, target: str | None, decision: str, reason: str | None) -> None:
        ordered = {e.session_id for e in store.mail.open.effects.values() if e.kind == EffectKind.KILL}
        lines.append((target, ordered))
        if target == CHILD:
            is_written.set()

    async with managed(tmp_path, lambda: AT, audit) as (store, manager):
        async with store.transaction() as tx:
            for each in (session(PARENT), session(CHILD, parent=PARENT)):
                await tx.insert(each, LAUNCH, None)
        kill = Kills(store, manager).kill(OPERATOR, PARENT, None, force=False, tree=True)
        killing = asyncio.create_task(kill)
        async with asyncio.timeout(scaled()):
            await is_written.wait()
        killing.cancel()
        with suppress(asyncio.CancelledError):
            await killing
    assert lines == [(PARENT, set()), (CHILD, {PARENT, CHILD})]
