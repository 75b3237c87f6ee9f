"""Measures what agents consume, from their transcripts: tokens, tools, lists, context."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from sm.config import Config
from sm.core.models import Session
from sm.core.observation import Observation
from sm.core.usage import ActionLine, FilePosition, Todo, ToolUse, Usage
from sm.monitor.transcripts import NewLines, files_of, read_last, read_new
from sm.providers.readers import TranscriptDelta, TranscriptReader
from sm.store import Store, durable

_READ_MAX_BYTES = 1024 * 1024
_TAIL_MAX_BYTES = 2 * 1024 * 1024
_LINES_PER_ACTION = 4
_PROMPT_LINES = 500
"""How far back a prompt is looked for. One that was taken out of the conversation has no answer behind it."""
_UNREAD = FilePosition(0, 0)
"""No file has this inode."""
_NO_TOOL = {"timestamp": ""}
_OF_THE_CONVERSATION = frozenset({"todo", "context_tokens"})
"""Facts that another conversation of the same session begins without."""


class UsageMeter:
    """Reads what transcripts have that was not read before, and keeps what it adds up to with how far it came."""

    def __init__(self, store: Store, config: Config, now: Callable[[], str]) -> None:
        self._store = store
        self._now = now
        self._settings = config.child_agents.progress
        self._positions: dict[str, dict[str, FilePosition]] = {}
        self._facts: dict[str, dict[str, Any]] = {}
        self._resumed: set[str] = set()
        """Sessions whose last prompt has been told by this daemon."""

    async def read(
        self,
        session: Session,
        transcript: str,
        reader: TranscriptReader,
        tell: Callable[[TranscriptDelta], Awaitable[None]],
        *,
        below: str,
        since: str = "",
    ) -> list[Observation]:
        """What the new lines of the session's transcripts say; what they count is on disk when this returns.

        `tell` is handed what they say of anything else before it is written down that they were read: a second time,
        if that is never written. The first call for a session also tells the prompt again that was read last.
        No file outside the directory `below` is read. What was consumed before `since` is another session's: a
        copied conversation has all the lines of its original.
        """
        said: list[Observation] = []
        if session.id not in self._resumed:
            self._resumed.add(session.id)
            await self._tell_last_prompt(session.id, transcript, reader, tell, below)
        await self._goes_on_in(session.id, transcript)
        positions = await self._positions_of(session.id)
        for path in await asyncio.to_thread(_grown, transcript, dict(positions), below):
            more = True
            while more:
                todo = await self._todo(session.id)
                position = positions.get(path)
                new, delta = await asyncio.to_thread(_read, path, position, reader, todo, below)
                more = new.more
                if new.position is None or new.position == position:
                    break
                own = replace(
                    delta,
                    usage=tuple(u for u in delta.usage if not u.at or u.at >= since),
                    tools=tuple(t for t in delta.tools if not t.at or t.at >= since),
                )
                await tell(delta)
                await self._keep(session.id, path, new.position, own, current=path == transcript)
                if path == transcript:
                    said += delta.observations
        return said

    async def _tell_last_prompt(
        self,
        session_id: str,
        transcript: str,
        reader: TranscriptReader,
        tell: Callable[[TranscriptDelta], Awaitable[None]],
        below: str,
    ) -> None:
        """Tell the prompt again that the last daemon read last: the next one may take its place in the conversation."""
        position = (await self._positions_of(session_id)).get(transcript)
        if position is None:
            return
        lines = await asyncio.to_thread(
            read_last, transcript, _PROMPT_LINES, _READ_MAX_BYTES, below=below, before=position
        )
        delta = await asyncio.to_thread(reader.delta, lines, sidechain=False, todo=())
        prompts = [accepted for accepted in delta.accepted if accepted.parent is not None]
        if prompts:
            await tell(TranscriptDelta(accepted=(prompts[-1],)))

    async def grown(self, transcripts: Mapping[str, tuple[str, str]]) -> set[str]:
        """Which sessions have something unread; `transcripts`: of each the file, and the directory that it is below.

        One look for all of them.
        """
        known = {s: dict(self._positions.get(s, {})) for s in transcripts}

        def look() -> set[str]:
            return {s for s, (path, below) in transcripts.items() if _grown(path, known[s], below)}

        return await asyncio.to_thread(look)

    async def heard_of(self, session_id: str, transcript: str) -> None:
        """The session's conversation is in this file: it is read even if another comes before we look."""
        positions = await self._positions_of(session_id)
        if transcript not in positions:
            await self._write(session_id, read_to={transcript: _UNREAD})
            positions.setdefault(transcript, _UNREAD)

    async def _goes_on_in(self, session_id: str, transcript: str) -> None:
        """Another conversation than before (`/clear`) holds nothing yet, and has no list."""
        facts = await self._facts_of(session_id)
        if facts.get("transcript", transcript) != transcript:
            kept = {name: value for name, value in facts.items() if name not in _OF_THE_CONVERSATION}
            await self._keep_facts(session_id, {**kept, "transcript": transcript})

    async def _keep(
        self, session_id: str, path: str, position: FilePosition, delta: TranscriptDelta, *, current: bool
    ) -> None:
        """`current`: of the conversation that the session is in, and not of a sub-agent or one that is over."""
        facts = dict(await self._facts_of(session_id))
        counts_tokens = self._settings.enable_token_tracking
        counts_tools = self._settings.enable_tool_tracking
        if current:
            facts["transcript"] = path
            facts["todo"] = [{"content": t.content, "status": t.status, "id": t.id} for t in delta.todo]
            if delta.context_tokens is not None and counts_tokens:
                facts["context_tokens"] = delta.context_tokens
            answered = next((u.model for u in reversed(delta.usage) if not u.sidechain), None)
            if answered is not None and not _is_same_model(facts.get("model"), answered):
                facts["model"] = answered  # a person has chosen another one
        now = self._now()
        newest = max(delta.tools, key=lambda tool: tool.at, default=None)
        # A time to come is none: it would stand in the way of every later one.
        last_at = facts.get("last_tool", _NO_TOOL)["timestamp"]
        if newest is not None and counts_tools and newest.at >= (last_at if last_at <= now else ""):
            facts["last_tool"] = _tool_json(replace(newest, at=min(newest.at, now)))
        used = delta.usage if counts_tokens else ()
        tools = delta.tools if counts_tools else ()
        await self._write(session_id, facts, used, tools, read_to={path: position})
        self._positions.setdefault(session_id, {})[path] = position
        self._facts[session_id] = facts

    async def runs_on(self, session_id: str, model: str) -> None:
        """The agent said which model it runs on, in its own full name."""
        await self._keep_facts(session_id, {**await self._facts_of(session_id), "model": model})

    async def ends(self, session_id: str, reason: str | None) -> None:
        """The agent said itself that it ends, and why, in its own word. None: another process of it has begun."""
        facts = await self._facts_of(session_id)
        if facts.get("ending") != reason:
            await self._keep_facts(session_id, {**facts, "ending": reason})

    async def _keep_facts(self, session_id: str, facts: dict[str, Any]) -> None:
        if facts != self._facts.get(session_id):
            await self._write(session_id, facts)
            self._facts[session_id] = facts

    @durable
    async def _write(
        self,
        session_id: str,
        facts: dict[str, Any] | None = None,
        usage: Sequence[Usage] = (),
        tools: Sequence[ToolUse] = (),
        read_to: Mapping[str, FilePosition] = MappingProxyType({}),
    ) -> None:
        async with self._store.transaction() as tx:
            for path, position in read_to.items():
                tx.measures.read_to(session_id, path, position)
            tx.measures.used(session_id, usage)
            tx.measures.tools(session_id, tools)
            if facts is not None and facts != self._facts.get(session_id):
                tx.measures.facts(session_id, facts)

    def forget(self, session_id: str) -> None:
        """Its process is gone; what is on disk stays."""
        self._resumed.discard(session_id)
        self._positions.pop(session_id, None)
        self._facts.pop(session_id, None)

    # What others ask

    async def actions(self, session: Session, reader: TranscriptReader, count: int) -> Sequence[ActionLine]:
        """The last things that the session did, by its transcripts; in their order within each."""
        if session.transcript is None:
            return ()
        below = reader.root((await self._store.launch(session.id)).environment)
        known = await self._store.measures.positions(session.id)
        before = [path for path in known if path != session.transcript and not _is_sub_agents(path, below)]
        return await asyncio.to_thread(
            _last_actions, session.transcript, before, reader, count, session.working_dir, below
        )

    async def _positions_of(self, session_id: str) -> dict[str, FilePosition]:
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


def _is_same_model(known: str | None, answered: str) -> bool:
    """An agent may say more of itself than who answers (`claude-opus-4-8[1m]`), or less (without the date)."""
    base = (known or "").partition("[")[0]
    return bool(base) and (base in answered or answered in base)


def _is_sub_agents(path: str, below: str) -> bool:
    return "/subagents/" in path.removeprefix(below)


def _grown(transcript: str, positions: Mapping[str, FilePosition], below: str) -> list[str]:
    """In a thread: the session's files that are not read to their end, those that ended before the current one first.

    Those of conversations before too: their last lines, or whole files of sub-agents, may have come after we looked.
    """
    before = [path for path in positions if path != transcript and not _is_sub_agents(path, below)]
    files = dict.fromkeys(path for main in (*before, transcript) for path in files_of(main))
    return [
        path for path in (*files, *(positions.keys() - files.keys())) if _is_unread(path, positions.get(path))
    ]


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (OSError, ValueError):
        return None


def _is_unread(path: str, position: FilePosition | None) -> bool:
    status = _status(path)
    return status is not None and position != FilePosition(status.st_ino, status.st_size)


def _last_actions(
    transcript: str, before: Sequence[str], reader: TranscriptReader, count: int, working_dir: str, below: str
) -> list[ActionLine]:
    """In a thread: of the current conversation, and of as many `before` it as it takes, the newest first."""
    found: list[ActionLine] = []
    most = _LINES_PER_ACTION * count + 20
    for path in (transcript, *sorted(before, key=_changed_ns, reverse=True)):
        lines = read_last(path, most, _TAIL_MAX_BYTES, below=below)
        found[:0] = reader.actions(lines, count, working_dir)
        if len(found) >= count:
            break
    return found[-count:] if count else []


def _changed_ns(path: str) -> int:
    status = _status(path)
    return 0 if status is None else status.st_mtime_ns


def _read(
    path: str, position: FilePosition | None, reader: TranscriptReader, todo: Sequence[Todo], below: str
) -> tuple[NewLines, TranscriptDelta]:
    """In a thread: a transcript may be long, and a line of it large."""
    new = read_new(path, position, _READ_MAX_BYTES, below=below)
    return new, reader.delta(new.lines, sidechain=_is_sub_agents(path, below), todo=todo)


def _tool_json(tool: ToolUse) -> dict[str, Any]:
    return {"name": tool.name, "args": dict(tool.arguments), "timestamp": tool.at}
