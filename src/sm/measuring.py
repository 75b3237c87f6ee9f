"""What agents consume, read from their transcripts: tokens, tools, lists, context."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sm.config import Config
from sm.evidence import Observation
from sm.models import Session
from sm.persisting import persist
from sm.providers.base import Reader, TranscriptNews
from sm.store import Store, Transaction
from sm.transcripts import News, files_of, read_last, read_new
from sm.usage import ActionLine, Position, Todo, ToolUse

_READ_MAX_BYTES = 1024 * 1024
_TAIL_MAX_BYTES = 2 * 1024 * 1024
_LINES_PER_ACTION = 4


class Measuring:
    """Reads what transcripts have that was not read before, and keeps what it adds up to with how far it came."""

    def __init__(self, store: Store, config: Config) -> None:
        self._store = store
        self._settings = config.child_agents.progress
        self._positions: dict[str, dict[str, Position]] = {}
        self._facts: dict[str, dict[str, Any]] = {}

    async def read(
        self, session: Session, transcript: str, reader: Reader, *, below: str, since: str = ""
    ) -> list[Observation]:
        """What the new lines of the session's transcripts say; what they count is on disk when this returns.

        No file outside the directory `below` is read. What was consumed before `since` is another session's: a
        copied conversation has all the lines of its original.
        """
        positions = await self._positions_of(session.id)
        said: list[Observation] = []
        # Those of before too: the last lines before `/clear` may have come after we looked.
        for path in dict.fromkeys((*positions, *await asyncio.to_thread(files_of, transcript))):
            sidechain = "/subagents/" in path.removeprefix(transcript.removesuffix(".jsonl"))
            more = True
            while more:
                todo = await self._todo(session.id)
                position = positions.get(path)
                news, meant = await asyncio.to_thread(
                    _read, path, position, reader, todo, below, sidechain=sidechain
                )
                more = news.more
                if news.position is None or news.position == position:
                    break
                usage = tuple(u for u in meant.usage if u.at >= since)
                tools = tuple(t for t in meant.tools if t.at >= since)
                own = replace(meant, usage=usage, tools=tools)
                await self._keep(session.id, path, news.position, own, sidechain=sidechain)
                if path == transcript:
                    said += meant.said
        return said

    async def _keep(
        self, session_id: str, path: str, position: Position, meant: TranscriptNews, *, sidechain: bool
    ) -> None:
        facts = dict(await self._facts_of(session_id))
        if not sidechain:
            facts["todo"] = [{"content": t.content, "status": t.status, "id": t.id} for t in meant.todo]
            if meant.context_tokens is not None:
                facts["context_tokens"] = meant.context_tokens
        if meant.usage and "model" not in facts:
            facts["model"] = meant.usage[-1].model
        if meant.tools:
            facts["last_tool"] = _tool_json(meant.tools[-1])

        async def unit(tx: Transaction) -> None:
            tx.measures.read_to(session_id, path, position)
            if self._settings.enable_token_tracking:
                tx.measures.used(session_id, meant.usage)
            if self._settings.enable_tool_tracking:
                tx.measures.tools(session_id, meant.tools)
            if facts != self._facts.get(session_id):
                tx.measures.facts(session_id, facts)

        await persist(lambda: self._store.write(unit))
        self._positions.setdefault(session_id, {})[path] = position
        self._facts[session_id] = facts

    async def runs_on(self, session_id: str, model: str) -> None:
        """The agent said which model it runs on, in its own full name."""
        facts = await self._facts_of(session_id)
        if facts.get("model") == model:
            return
        changed = {**facts, "model": model}

        async def unit(tx: Transaction) -> None:
            tx.measures.facts(session_id, changed)

        await persist(lambda: self._store.write(unit))
        self._facts[session_id] = changed

    def forget(self, session_id: str) -> None:
        """Its process is gone; what is on disk stays."""
        self._positions.pop(session_id, None)
        self._facts.pop(session_id, None)

    # What others ask

    async def actions(self, session: Session, reader: Reader, count: int) -> Sequence[ActionLine]:
        """The last things that the session did, by its transcript."""
        if session.transcript is None:
            return ()
        below = reader.home((await self._store.launch(session.id)).environment)
        most = _LINES_PER_ACTION * count + 20
        lines = await asyncio.to_thread(read_last, session.transcript, most, _TAIL_MAX_BYTES, below=below)
        return await asyncio.to_thread(reader.actions, lines, count, session.working_dir)

    async def _positions_of(self, session_id: str) -> dict[str, Position]:
        if session_id not in self._positions:
            self._positions[session_id] = await self._store.measures.positions(session_id)
        return self._positions[session_id]

    async def _facts_of(self, session_id: str) -> dict[str, Any]:
        if session_id not in self._facts:
            self._facts[session_id] = await self._store.measures.facts(session_id)
        return self._facts[session_id]

    async def _todo(self, session_id: str) -> list[Todo]:
        facts = await self._facts_of(session_id)
        return [Todo(t["content"], t["status"], t.get("id")) for t in facts.get("todo", ())]


def _read(
    path: str, position: Position | None, reader: Reader, todo: Sequence[Todo], below: str, *, sidechain: bool
) -> tuple[News, TranscriptNews]:
    """In a thread: a transcript may be long, and a line of it large."""
    news = read_new(path, position, _READ_MAX_BYTES, below=below)
    return news, reader.lines(news.lines, sidechain=sidechain, todo=todo)


def _tool_json(tool: ToolUse) -> dict[str, Any]:
    return {"name": tool.name, "args": dict(tool.arguments), "timestamp": tool.at}
