"""The search of a caller: its excerpts are bounded work, and the daemon goes on meanwhile."""

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import cast

import pytest

from sm.capabilities.search import finding
from sm.capabilities.search.operations import SearchedWords
from sm.capabilities.search.tables import PART
from sm.core.models import OPERATOR
from sm.core.usage import SaidText
from sm.kernel import OperationCall
from sm.sessions.authorizer import Authorizer
from sm.store import Store
from tests import golden
from tests.samples import LAUNCH


async def test_excerpts_take_few_words_and_are_made_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = list[tuple[int, int, threading.Thread]]()

    def recorded(text: str, words: Iterable[str]) -> str:
        calls.append((len(text), len(list(words)), threading.current_thread()))
        return f"excerpt {len(calls)}"

    monkeypatch.setattr(finding, "excerpt", recorded)
    async with await Store.open(str(tmp_path / "sm.db")) as store:
        async with store.transaction() as tx:
            await tx.insert(golden.RUNNING, LAUNCH, f"quokka {'x' * 40_000}")
            tx.part(PART).follow_said(golden.RUNNING.id, [SaidText("text 1", "", "text", "quokka")])
        search = finding.Search(store, cast(Authorizer, None))
        found = await search.find(
            OperationCall(OPERATOR, "", SearchedWords("quokka " * 5_000, limit=1_000), None)
        )
    assert sorted((size, words) for size, words, _ in calls) == [(6, 20), (20_000, 20)]
    assert threading.main_thread() not in {thread for *_, thread in calls}
    assert {(hit.type, hit.excerpt) for hit in found} == {("text", "excerpt 1"), ("prompt", "excerpt 2")}
