"""A live session is warned before its agent CLI deletes the transcript, and when the transcript is gone."""

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from sm.config import Cleanup
from sm.core.effects import EffectKind
from sm.core.timestamps import epoch_s
from sm.core.usage import FilePosition
from sm.sandboxes.home import on_host
from sm.sessions.transcript_watch import TranscriptWatch
from sm.store import Store
from tests import golden
from tests.samples import AT, LAUNCH
from tests.state_parts import open_parts

DAY = 86_400.0


@dataclass
class Bench:
    store: Store
    watch: TranscriptWatch
    transcript: Path

    def notices(self) -> list[str]:
        return [n.text for n in self.store.mail.open.notices.values()]

    def archives(self) -> int:
        return sum(e.kind == EffectKind.ARCHIVE for e in self.store.mail.open.effects.values())


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    transcript = tmp_path / "c.jsonl"
    transcript.write_text("{}\n")
    session = replace(
        golden.RUNNING,
        parent_id=None,
        provider="claude",
        transcript=str(transcript),
        working_dir=str(tmp_path),
    )
    assert session.process is not None and session.exit is None
    async with open_parts(tmp_path, lambda: AT) as (store, parts):
        async with store.transaction() as tx:
            await tx.insert(session, replace(LAUNCH, environment={"HOME": str(tmp_path)}), None)
        watch = TranscriptWatch(
            store, parts.notices, parts.providers, on_host, settings=Cleanup(), clock=lambda: epoch_s(AT)
        )
        yield Bench(store, watch, transcript)


@pytest.mark.parametrize(("days", "told"), [(0, 0), (27, 0), (28.5, 1), (40, 1)])
async def test_live_session_is_warned_once_and_archived_before_its_transcript_is_deleted(
    bench: Bench, days: float, told: int
) -> None:
    at_s = epoch_s(AT) - days * DAY
    os.utime(bench.transcript, (at_s, at_s))
    for _ in range(2):
        await bench.watch.look()
    assert len(bench.notices()) == bench.archives() == told
    assert all("deletes its transcript" in text for text in bench.notices())


@pytest.mark.parametrize("was_read", [True, False])
async def test_missing_transcript_is_a_warning_only_if_it_was_there(bench: Bench, was_read: bool) -> None:
    bench.transcript.unlink()
    if was_read:
        async with bench.store.transaction() as tx:
            (session,) = await tx.select()
            tx.measures.set_position(session.id, str(bench.transcript), FilePosition(7, 3))
    for _ in range(2):
        await bench.watch.look()
    assert len(bench.notices()) == was_read
    assert bench.archives() == 0
