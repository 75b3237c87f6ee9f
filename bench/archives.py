"""Measures the search in the texts of many archived sessions, and the archive of a long transcript."""

import asyncio
import os
import random
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import cast

from bench.instance import ended_session
from bench.row import Effort, Judged, Pairs, Row
from sm.capabilities.archives.files.writer import ArchiveContents
from sm.capabilities.archives.keeper import Archives
from sm.capabilities.search.tables import PART
from sm.core.models import Launch
from sm.core.usage import SaidText
from sm.store import Store
from sm.terminals.base import Screen

_GATE_MS = 50
_ARCHIVE_GATE = 2.0
_MB = 2**20
_TRANSCRIPT_BYTES = 20 * _MB
_TEXTS = 10
"""Texts of each session: of its transcript, its messages and its terminal."""
_WORDS = 60
_VOCABULARY = [
    f"{a}{b}{c}" for a in ("ba", "co", "del", "fi") for b in ("gan", "hu", "jor") for c in "lmnprst"
]


def measure(effort: Effort) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="sm-bench-") as home:
        rare, usual = asyncio.run(_searched(f"{home}/sm.db", effort.stored, effort.pairs))
        what = f"search in {effort.stored:,} archived sessions of {_TEXTS} texts"
        yield Row(f"{what}, a rare word", "ms", rare, gate=_GATE_MS)
        yield Row("  a word that half of the texts have", "ms", usual, gate=_GATE_MS)
        pairs = _archived(home, effort.pairs)
        yield pairs.row(
            "archive of a session with 20 MB of transcript", "cp, fsync", Judged.RATIO, _ARCHIVE_GATE, None
        )


async def _searched(path: str, sessions: int, times: int) -> tuple[float, float]:
    """The medians in milliseconds of a search for a rare word and for one that half of the texts have."""
    words = random.Random(1)
    async with await Store.open(path) as store:
        for number in range(sessions):
            session = ended_session(number, "/home/user/projects/shop")
            texts = [_text(words, number, k) for k in range(_TEXTS)]
            async with store.transaction() as tx:
                await tx.insert(session, Launch(("claude",), "/", {}, {}), None)
                tx.part(PART).follow_said(session.id, texts)
        rare, usual = f"unique{sessions // 2}", "half"
        found = await store.part(PART).find(rare, sessions=None)
        if len(found) != 1:
            raise RuntimeError(f"the search finds {len(found)} texts instead of 1")
        return await _median(store, rare, times), await _median(store, usual, times)


def _text(words: random.Random, session: int, number: int) -> SaidText:
    said = words.choices(_VOCABULARY, k=_WORDS)
    if number == 0:
        said.append(f"unique{session}")
    if number % 2:
        said.append("half")
    return SaidText(f"{session} {number}", "2026-01-27T15:10:00.000Z", "text", " ".join(said))


async def _median(store: Store, words: str, times: int) -> float:
    results = []
    for _ in range(times):
        begin = time.perf_counter()
        await store.part(PART).find(words, sessions=None)
        results.append((time.perf_counter() - begin) * 1000)
    return sorted(results)[len(results) // 2]


class _Blank:
    """The screen of a terminal without output."""

    async def capture(self, name: str, lines: int) -> list[str]:
        return []


class _Records:
    """The records of a session that has only a transcript."""

    def __init__(self, transcript: str) -> None:
        self._transcript = transcript

    async def collect(self, session_id: str) -> ArchiveContents:
        return ArchiveContents({}, {"transcript.jsonl": partial(_opened, self._transcript)})

    async def add_terminal(self, session_id: str, lines: Sequence[str], since_s: float) -> None:
        return


@contextmanager
def _opened(path: str) -> Iterator[int | None]:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _sync(path: str) -> None:
    with _opened(path) as descriptor:
        if descriptor is not None:
            os.fsync(descriptor)


def _archived(home: str, times: int) -> Pairs:
    transcript = f"{home}/transcript.jsonl"
    with open(transcript, "wb") as file:
        file.write(os.urandom(_MB) * (_TRANSCRIPT_BYTES // _MB))
    archives = Archives(f"{home}/archives", cast(Screen, _Blank()), _Records(transcript))
    ours, floor = list[float](), list[float]()
    with asyncio.Runner() as runner:
        for number in range(times + 1):
            begin = time.perf_counter()
            failed = runner.run(archives.keep("1a2b3c4d", "command-1a2b3c4d", 0.0))
            middle = time.perf_counter()
            if failed is not None:
                raise RuntimeError(failed)
            subprocess.run(("cp", transcript, f"{home}/copy"), check=True)
            _sync(f"{home}/copy")  # an archive waits for the disk too
            end = time.perf_counter()
            if number:  # the first one is not counted
                ours.append((middle - begin) * 1000)
                floor.append((end - middle) * 1000)
            runner.run(archives.remove("1a2b3c4d"))
            os.unlink(f"{home}/copy")
    return Pairs(ours, floor)
