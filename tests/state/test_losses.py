"""The sessions that one loss ended together, and what a parent is told that is restored without its children."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from sm.core.models import Exit, Process, Session, Signal
from sm.core.states import RESTORE, NoticeKind, SignalKind, TrustLevel
from sm.core.statuses import Status
from sm.state.losses import CONTAINER_GONE, CUT_OFF, SERVER_GONE, TERMINAL_CLOSED, LossCause, left_behind
from sm.state.session_steps import move
from sm.store import Store
from tests.samples import AT, LAUNCH, session
from tests.state_parts import StateParts, open_parts

LEAD, CHILD, BELOW, EARLIER, OTHER = "aaaa1111", "bbbb2222", "cccc3333", "dddd4444", "eeee5555"
BEFORE, LATER = "2026-01-01T00:00:00.000Z", "2026-12-31T00:00:00.000Z"
PROCESS = Process(11, "boot/1")


def running(session_id: str, parent: str | None, mode: TrustLevel) -> Session:
    made = session(session_id, parent=parent, status=Status.RUNNING)
    return replace(made, effective_mode=mode, process=PROCESS, started_at=AT)


@asynccontextmanager
async def team(path: Path, mode: TrustLevel) -> AsyncIterator[tuple[Store, StateParts]]:
    async with open_parts(path, lambda: AT) as (store, parts):
        async with store.transaction() as tx:
            for made in (running(LEAD, None, mode), running(CHILD, LEAD, mode), running(BELOW, CHILD, mode)):
                await tx.insert(made, LAUNCH, None)
            for of in (running(EARLIER, LEAD, mode), running(OTHER, LEAD, mode)):
                await tx.insert(of, LAUNCH, None)
        yield store, parts


async def lose(parts: StateParts, loss: tuple[LossCause, str], *session_ids: str) -> None:
    for session_id in session_ids:
        await parts.ends.terminal_lost(session_id, PROCESS, *loss, process_gone=True)


async def left(store: Store) -> list[str]:
    async with store.transaction() as tx:
        return [s.id for s in await left_behind(tx, tx.session(LEAD))]


DIRECT, SANDBOXED = TrustLevel.DIRECT, TrustLevel.SANDBOXED


@pytest.mark.parametrize(
    ("loss", "mode"),
    [
        (SERVER_GONE, DIRECT),
        ((LossCause.MACHINE, "the machine restarted"), DIRECT),
        (CONTAINER_GONE, SANDBOXED),
    ],
)
async def test_descendants_are_left_behind_that_ended_by_the_loss_and_stay_ended(
    tmp_path: Path, loss: tuple[LossCause, str], mode: TrustLevel
) -> None:
    async with team(tmp_path, mode) as (store, parts):
        await parts.ends.process_ended(OTHER, PROCESS, Exit(1))  # a crash of its own
        await lose(parts, loss, CHILD, BELOW, LEAD, EARLIER)
        async with store.transaction() as tx:  # lost in an earlier run of the lead
            await tx.update(tx.session(EARLIER), status_at=BEFORE)
        assert await left(store) == [CHILD, BELOW]
        async with store.transaction() as tx:
            await tx.update(tx.session(CHILD), archived=True)
        assert await left(store) == [BELOW]


async def test_descendant_in_the_container_of_another_workspace_did_not_end_by_the_same_loss(
    tmp_path: Path,
) -> None:
    async with team(tmp_path, SANDBOXED) as (store, parts):
        async with store.transaction() as tx:
            await tx.update(tx.session(EARLIER), workspace="elsewhere")
        await lose(parts, CONTAINER_GONE, EARLIER)
        await lose(parts, CONTAINER_GONE, LEAD, CHILD)
        assert await left(store) == [CHILD]


async def test_nobody_is_left_behind_by_an_end_that_is_no_common_loss(tmp_path: Path) -> None:
    async with team(tmp_path, DIRECT) as (store, parts):
        await lose(parts, TERMINAL_CLOSED, CHILD, LEAD)
        assert await left(store) == []


async def test_sessions_that_the_daemon_restores_are_not_left_behind(tmp_path: Path) -> None:
    async with team(tmp_path, SANDBOXED) as (store, parts):
        await lose(parts, CUT_OFF, LEAD, CHILD)
        assert await left(store) == []


async def test_parent_is_told_once_who_is_left_and_no_more_when_the_child_is_restored(tmp_path: Path) -> None:
    async with team(tmp_path, DIRECT) as (store, parts):
        await lose(parts, SERVER_GONE, LEAD, CHILD, BELOW)

        async def restart(session_id: str) -> None:
            async with store.transaction() as tx:
                signal = Signal(SignalKind.RESTARTED, RESTORE, "restored", tx.now)
                after = await move(tx, parts.notices, session_id, signal, exit=None, process=PROCESS)
                after = await parts.endings.rejoin(tx, after)
                await parts.notices.add_for_restored(tx, after, None)

        def told() -> list[str]:
            notices = store.mail.open.notices.values()
            return [n.text for n in notices if n.recipient == LEAD and n.kind is NoticeKind.RESTORED]

        await restart(LEAD)
        for _ in range(2):
            async with store.transaction() as tx:
                for session_id in (CHILD, BELOW):
                    await parts.notices.add_for_left(tx, tx.session(session_id))
        assert told() == [
            f"child engineer-{CHILD} ({CHILD}) ended with you and is not restored: sm restore {CHILD}"
        ]
        await restart(BELOW)
        until = f"until its parent engineer-{CHILD} ({CHILD}) is restored"
        assert told()[1:] == [f"child engineer-{BELOW} ({BELOW}) was restored, and is your child {until}"]
        await restart(CHILD)
        assert told() == [f"child engineer-{CHILD} ({CHILD}) was restored, and is your child as before"]
        assert store.sessions[BELOW].parent_id == CHILD
