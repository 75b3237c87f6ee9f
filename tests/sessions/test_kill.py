"""Order of the writes when a tree is killed."""

import asyncio
from contextlib import suppress
from pathlib import Path

from sm.core.effects import EffectKind
from sm.core.models import OPERATOR
from sm.sessions.kill import Kills
from sm.sessions.leftovers import Leftovers
from tests.samples import AT, LAUNCH, session
from tests.sandboxes.terminal import without_cgroups
from tests.state_parts import open_parts

PARENT, CHILD = "aaaa1111", "bbbb2222"


async def test_kill_of_a_tree_writes_audit_lines_after_the_commit(tmp_path: Path) -> None:
    lines: list[tuple[str | None, set[str]]] = []
    is_written = asyncio.Event()

    def audit(caller: str, action: str, target: str | None, decision: str, reason: str | None) -> None:
        ordered = {e.session_id for e in store.mail.open.effects.values() if e.kind == EffectKind.KILL}
        lines.append((target, ordered))
        if target == CHILD:
            is_written.set()

    async with open_parts(tmp_path, lambda: AT, audit) as (store, parts):
        async with store.transaction() as tx:
            for inserted in (session(PARENT), session(CHILD, parent=PARENT)):
                await tx.insert(inserted, LAUNCH, None)
        leftovers = Leftovers(store, parts.authorizer, without_cgroups())
        kill = Kills(store, parts.authorizer, lambda: None, leftovers).kill(
            OPERATOR, PARENT, None, force=False, tree=True
        )
        killing = asyncio.create_task(kill)
        await is_written.wait()
        killing.cancel()
        with suppress(asyncio.CancelledError):
            await killing
    assert lines == [(PARENT, set()), (CHILD, {PARENT, CHILD})]
