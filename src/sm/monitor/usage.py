"""Measures the usage of agents from their transcripts: tokens, tools, task lists, context."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Protocol

from sm.config import Config
from sm.core.models import Session
from sm.core.observation import Observation
from sm.core.text import folded
from sm.core.tool_calls import CallStep, TurnBreak
from sm.core.usage import ActionLine, FilePosition, SaidText, Todo, ToolUse, Usage
from sm.linux.file_threads import FileThreads
from sm.monitor.blocks import Original, TranscriptBlock, condense, original_path, read_block
from sm.monitor.tool_calls import follow, steps_of
from sm.monitor.transcript_facts import OF_CONVERSATION, follow_conversation, follow_newest_tool, work_of
from sm.monitor.transcripts import Root, archive_names, files_of, last_lines, read_last
from sm.providers.base import Fork, program_version
from sm.providers.readers import ANSWER_MAX, TranscriptDelta, TranscriptReader
from sm.sandboxes.home import HomeOf, on_host
from sm.sessions.keepers import KeptTranscript
from sm.state.followers import UsageFollower
from sm.state.unread_transcripts import tell_unread_usage
from sm.store import Store, Transaction, durable

_LOOKED_WITHIN_S = 5.0
_PROMPT_MAX_BYTES = 1024 * 1024
_TAIL_MAX_BYTES = 2 * 1024 * 1024
_LINES_PER_ACTION = 4
_PROMPT_LINES = 500
"""How many lines to search backwards for the last prompt."""
_UNREAD = FilePosition(0, 0)
"""No file has this inode."""
UNREAD_FACT = "unread_usage"
"""The fact with the time at which the first answer came whose tokens cannot be read."""


class Record(Protocol):
    """Records the observations in new lines of a transcript, in a transaction. May be called again if that fails."""

    async def __call__(self, tx: Transaction, observations: Sequence[Observation]) -> None: ...


class UsageMeter:
    """Reads the new lines of transcripts, and stores their totals together with the read positions."""

    def __init__(
        self,
        store: Store,
        config: Config,
        now: Callable[[], str],
        home_of: HomeOf = on_host,
        *,
        threads: FileThreads | None = None,
    ) -> None:
        """`threads`: by default its own."""
        self._store = store
        self._threads = threads or FileThreads()
        self.followers: list[UsageFollower] = []
        self._home_of = home_of
        self._now = now
        self._settings = config.child_agents.progress
        self._positions: dict[str, dict[str, FilePosition]] = {}
        self._facts: dict[str, dict[str, Any]] = {}
        self._originals: dict[str, dict[str, Original]] = {}
        """By session, and by the path of the copy."""
        self._resumed: set[str] = set()
        """Sessions whose last prompt this daemon has dispatched."""
        self._changed: set[str] = set()
        self._followers: list[set[str]] = []

    async def read(
        self,
        session: Session,
        transcript: str,
        reader: TranscriptReader,
        dispatch: Callable[[TranscriptDelta], Awaitable[None]],
        record: Record,
        *,
        below: Root,
        since: str = "",
        fork: Fork | None = None,
    ) -> Sequence[Observation]:
        """The observations in the new lines of the session's transcripts, condensed.

        Returns when the counted usage is on disk. Calls `record` with the observations of the current transcript in
        the transaction that stores the new position, so each line is recorded exactly once.

        Calls `dispatch` before the new position is stored, so it gets a line again if the daemon dies in between. The
        first call for a session dispatches the last prompt again. No file outside the directory `below` is read.

        Usage before `since` belongs to another session. `fork`: the copy of a conversation that the session began with.
        Its lines that are in the original too belong to another session, whatever their times are.
        """
        observations: tuple[Observation, ...] = ()
        if session.id not in self._resumed:
            self._resumed.add(session.id)
            await self._dispatch_last_prompt(session.id, transcript, reader, dispatch, below)
        await self._start_conversation(session.id, transcript)
        positions = await self._positions_of(session.id)
        for path in await self._threads.run(transcript, _grown, transcript, dict(positions), below):
            current = path == transcript
            async for position, block in self._blocks(
                session.id, path, reader, below, since, fork, current=current
            ):
                await dispatch(block.delta)
                await self._keep(
                    session.id, path, position, block, record if current else None, current=current
                )
                if current:
                    observations = condense((*observations, *block.delta.observations))
        return observations

    async def _blocks(
        self,
        session_id: str,
        path: str,
        reader: TranscriptReader,
        below: Root,
        since: str,
        fork: Fork | None,
        *,
        current: bool,
    ) -> AsyncIterator[tuple[FilePosition, TranscriptBlock]]:
        """Yield the new lines of the file at `path`, in blocks with the position after each.

        The caller stores each before it asks for the next one.
        """
        is_sub_agents = _is_sub_agents(path, below)
        more = True
        while more:
            original = self._original(session_id, fork, path, below)
            known = await self._facts_of(session_id)
            facts = known if current else {}
            position = (await self._positions_of(session_id)).get(path)
            block = await self._threads.run(
                path,
                read_block,
                path,
                position,
                reader,
                await self._todo(session_id),
                below=below,
                sidechain=is_sub_agents,
                # A fork copies no files of sub-agents (claude 2.1.197, measured).
                since="" if original is not None and is_sub_agents else since,
                original=original,
                is_past_copy=known.get("own_from") == path,
                failed=bool(facts.get("failed")),
                work=work_of(facts),
            )
            if block.position is None or block.position == position:
                return
            yield block.position, block
            more = block.more

    def _original(self, session_id: str, fork: Fork | None, path: str, below: Root) -> Original | None:
        """Return the file of which the file at `path` may have copied lines, or None."""
        original = original_path(fork, path)
        if original is None:
            return None
        return self._originals.setdefault(session_id, {}).setdefault(path, Original(original, below))

    async def _dispatch_last_prompt(
        self,
        session_id: str,
        transcript: str,
        reader: TranscriptReader,
        dispatch: Callable[[TranscriptDelta], Awaitable[None]],
        below: Root,
    ) -> None:
        """Dispatch the last prompt that the previous daemon read: the next one may replace it in the conversation."""
        position = (await self._positions_of(session_id)).get(transcript)
        if position is None:
            return
        lines = await self._threads.run(
            transcript, read_last, transcript, _PROMPT_LINES, _PROMPT_MAX_BYTES, below=below, before=position
        )
        delta = await asyncio.to_thread(reader.delta, lines, sidechain=False, todo=())
        prompts = [accepted for accepted in delta.accepted if accepted.parent is not None]
        if prompts:
            await dispatch(TranscriptDelta(accepted=(prompts[-1],)))

    async def find_grown(self, transcripts: Mapping[str, tuple[str, Root]]) -> set[str]:
        """The sessions with unread lines, found in one thread for each mount that answers.

        `transcripts`: (file, directory above it) by session.
        """
        known = {s: dict(self._positions.get(s, {})) for s in transcripts}

        def look(some: Collection[str]) -> set[str]:
            return {s for s in some if _grown(transcripts[s][0], known[s], transcripts[s][1])}

        paths = {s: path for s, (path, _) in transcripts.items()}
        return set().union(*await self._threads.run_each(paths, look, _LOOKED_WITHIN_S))

    async def add_transcript(self, session_id: str, transcript: str) -> None:
        """Read this transcript of the session even if another conversation starts before the next read."""
        positions = await self._positions_of(session_id)
        if transcript not in positions:
            await self._write(session_id, read_to={transcript: _UNREAD})
            positions.setdefault(transcript, _UNREAD)

    async def _start_conversation(self, session_id: str, transcript: str) -> None:
        """Drop the facts of the previous conversation when the transcript is a new one (`/clear`)."""
        facts = await self._facts_of(session_id)
        if facts.get("transcript", transcript) != transcript:
            kept = {name: value for name, value in facts.items() if name not in OF_CONVERSATION}
            await self._keep_facts(session_id, {**kept, "transcript": transcript})

    async def _keep(
        self,
        session_id: str,
        path: str,
        position: FilePosition,
        block: TranscriptBlock,
        record: Record | None,
        *,
        current: bool,
    ) -> None:
        """Store the facts and the usage in `block`, and the new read position of the file at `path`.

        `current`: `path` is the transcript of the current conversation, not of a sub-agent or an earlier one.
        """
        delta, now = block.delta, self._now()
        counts_tokens = self._settings.enable_token_tracking and self._store.usage.counts
        counts_tools = self._settings.enable_tool_tracking
        facts = dict(await self._facts_of(session_id))
        if block.is_past_copy:
            facts["own_from"] = path
            self._originals.get(session_id, {}).pop(path, None)  # which has the ids of all its entries
        elif facts.get("own_from") == path:  # another file took its place
            del facts["own_from"]
        calls: Sequence[CallStep] = ()
        if current:
            follow_conversation(facts, path, block, counts_tokens=counts_tokens)
            if counts_tools and delta.calls:
                calls = steps_of(facts.get("calls"), delta.calls)
                facts["calls"] = calls[-1].state
        if delta.usage or delta.tools or delta.tools_ended:
            facts["grew_at"] = now
        if counts_tools and block.newest_tool is not None:
            follow_newest_tool(facts, block.newest_tool, now)
        used = delta.usage if counts_tokens else ()
        tools = delta.tools if counts_tools else ()
        version = program_version(delta.version) if current else None
        is_first_unread = UNREAD_FACT not in facts and await self._has_unread(session_id, used)
        if is_first_unread:
            facts[UNREAD_FACT] = now

        async def recorded(tx: Transaction) -> None:
            if record is not None:
                await record(tx, observations=delta.observations)
            if is_first_unread:
                await tell_unread_usage(tx, session_id)
            if version is not None and version != tx.session(session_id).program_version:
                await tx.update(tx.session(session_id), program_version=version)

        await self._write(
            session_id,
            facts,
            used,
            tools,
            read_to={path: position},
            record=recorded,
            said=delta.said,
            calls=calls,
        )
        self._positions.setdefault(session_id, {})[path] = position
        self._facts[session_id] = facts

    async def _has_unread(self, session_id: str, used: Sequence[Usage]) -> bool:
        """True if the tokens of a message cannot be read, and no other line has them."""
        unread = {one.message_id for one in used if one.is_unread}
        if not unread:
            return False
        known = await self._store.usage.of_messages(session_id, unread)
        return not unread <= {one.message_id for one in (*known.values(), *used) if not one.is_unread}

    async def begin_conversation(self, session_id: str, conversation: str) -> None:
        """Drop the facts of the previous conversation, if a link reports another one."""
        facts = await self._facts_of(session_id)
        if facts.get("conversation", conversation) != conversation:
            facts = {name: value for name, value in facts.items() if name not in OF_CONVERSATION}
        await self._keep_facts(session_id, {**facts, "conversation": conversation})

    async def report(
        self,
        session_id: str,
        *,
        usage: Sequence[Usage] = (),
        tools: Sequence[ToolUse] = (),
        todo: Sequence[Todo] | None = None,
        context: tuple[int, int | None] | None = None,
        answer: str | None = None,
    ) -> None:
        """Store measurements that a link reports. Each of them counts once, even if the link repeats it.

        `todo`: the whole list. `context`: the tokens of the conversation, and the most that the model can read.
        `answer`: the agent's last words.
        """
        now = self._now()
        counts_tokens = self._settings.enable_token_tracking and self._store.usage.counts
        facts = dict(await self._facts_of(session_id))
        if usage or tools:
            facts["grew_at"] = now
        if not self._settings.enable_tool_tracking:
            tools = ()
        for tool in tools:
            follow_newest_tool(facts, tool, now)
        if answer is not None:
            facts["answer"] = folded(answer, ANSWER_MAX)
        if todo is not None:
            facts["todo"] = [{"content": t.content, "status": t.status, "id": t.id} for t in todo]
        if not counts_tokens:
            usage, context = (), None
        for used in usage:
            if not (used.sidechain or used.is_unread):
                facts["context_tokens"] = used.context
                facts["model"] = used.model
        if context is not None:
            facts["context_tokens"], facts["context_window"] = context
        await self._write(session_id, facts, usage, tools)
        self._facts[session_id] = facts

    async def set_model(self, session_id: str, model: str) -> None:
        await self._keep_facts(session_id, {**await self._facts_of(session_id), "model": model})

    async def set_ending(self, session_id: str, reason: str) -> None:
        """Store the reason that the agent reported for its end."""
        await self._keep_facts(session_id, {**await self._facts_of(session_id), "ending": reason})

    async def set_own_tools(self, session_id: str, facts: Mapping[str, Any]) -> None:
        """Store when a process of the session got the tools of sm, and when its first turn began."""
        await self._keep_facts(session_id, {**await self._facts_of(session_id), "own_tools": facts})

    async def set_permission(
        self,
        session_id: str,
        name: str,
        fact: Mapping[str, Any],
        record: Callable[[Transaction], Awaitable[None]],
    ) -> None:
        """Store a fact about permissions that the agent reported. `record` records it in the same transaction."""
        facts = {**await self._facts_of(session_id), name: fact}
        await self._write(session_id, facts, record=record)
        self._facts[session_id] = facts

    async def begin_process(self, session_id: str) -> None:
        """Drop the facts of the process that ended before this one: the reason for its end, and its running calls."""
        facts = {
            name: value for name, value in (await self._facts_of(session_id)).items() if name != "ending"
        }
        if "calls" in facts:
            facts["calls"] = follow(facts["calls"], TurnBreak())
        await self._keep_facts(session_id, facts)

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
        record: Callable[[Transaction], Awaitable[None]] | None = None,
        said: Sequence[SaidText] = (),
        calls: Sequence[CallStep] = (),
    ) -> None:
        before = None
        if usage and any(follower.needs_stored(session_id) for follower in self.followers):
            ids = {used.message_id for used in usage}
            before = await self._store.usage.of_messages(session_id, ids)
        await self._write_rows(session_id, facts, usage, before, tools, read_to, record, said, calls)
        for changed in (self._changed, *self._followers):
            changed.add(session_id)

    async def _write_rows(
        self,
        session_id: str,
        facts: dict[str, Any] | None,
        usage: Sequence[Usage],
        before: Mapping[str, Usage] | None,
        tools: Sequence[ToolUse],
        read_to: Mapping[str, FilePosition],
        record: Callable[[Transaction], Awaitable[None]] | None,
        said: Sequence[SaidText],
        calls: Sequence[CallStep],
    ) -> None:
        """`before`: the stored usage of the messages in `usage`, or None if it was not read."""
        async with self._store.transaction() as tx:
            # Removed since the transcript was read: its texts must not come back.
            if tx.find(session_id) is None:
                return
            if record is not None:
                await record(tx)
            for path, position in read_to.items():
                tx.measures.set_position(session_id, path, position)
            for follower in self.followers:
                await follower.follow_usage(tx, tx.session(session_id), usage, before)
            tx.usage.add(session_id, usage)
            tx.measures.tools(session_id, tools)
            if said:
                for part in tx.parts:
                    part.follow_said(session_id, said)
            if facts is not None and facts != self._facts.get(session_id):
                tx.measures.facts(session_id, facts)
                for follower in self.followers:
                    await follower.follow_facts(tx, session_id, facts, calls)

    def take_changed(self) -> set[str]:
        """The ids of the sessions whose stored usage or facts have changed since the last call."""
        changed, self._changed = self._changed, set()
        return changed

    def follow_changes(self) -> set[str]:
        """A set that gets the id of each session whose stored usage changes. Its owner removes the ids."""
        changed: set[str] = set()
        self._followers.append(changed)
        return changed

    def forget(self, session_id: str) -> None:
        """Drop the cache of a session whose process is gone; the database keeps the data."""
        self._resumed.discard(session_id)
        self._originals.pop(session_id, None)
        self._positions.pop(session_id, None)
        self._facts.pop(session_id, None)

    # Queries

    async def actions(
        self,
        session: Session,
        reader: TranscriptReader,
        count: int,
        kept: Callable[[], Iterable[KeptTranscript]],
    ) -> Sequence[ActionLine]:
        """The last actions of the session by its transcripts, in the order of each transcript.

        `kept`: copies of its transcripts, of which some may be gone.
        """
        if session.transcript is None:
            return ()
        below = await self.root_of(session, reader)
        *before, current = await self.conversations(session, below)
        return await self._threads.run(
            current, _last_actions, current, before, reader, count, session.working_dir, below, kept
        )

    async def root_of(self, session: Session, reader: TranscriptReader) -> Root:
        """The directory below which the session's transcripts lie."""
        home = self._home_of(session)
        if home is not None:
            return Root(home.directory, contained=True)
        return Root(reader.root((await self._store.launch(session.id)).environment))

    async def conversations(self, session: Session, below: Root) -> list[str]:
        """The files of the session's conversations, without those of sub-agents; the current one is the last."""
        known = await self._store.measures.positions(session.id)
        before = [path for path in known if path != session.transcript and not _is_sub_agents(path, below)]
        return before if session.transcript is None else [*before, session.transcript]

    async def _positions_of(self, session_id: str) -> dict[str, FilePosition]:
        if session_id not in self._positions:
            self._positions[session_id] = await self._store.measures.positions(session_id)
        return self._positions[session_id]

    async def known_facts(self, session_id: str) -> Mapping[str, Any]:
        """The facts of a session, without a query if they were read before."""
        return await self._facts_of(session_id)

    async def _facts_of(self, session_id: str) -> dict[str, Any]:
        if session_id not in self._facts:
            self._facts[session_id] = await self._store.measures.facts(session_id)
        return self._facts[session_id]

    async def _todo(self, session_id: str) -> list[Todo]:
        facts = await self._facts_of(session_id)
        return [Todo(t["content"], t["status"], t.get("id")) for t in facts.get("todo", ())]


def _is_sub_agents(path: str, below: Root) -> bool:
    return "/subagents/" in path.removeprefix(below.directory)


def _grown(transcript: str, positions: Mapping[str, FilePosition], below: Root) -> list[str]:
    """The session's files with unread lines, earlier conversations first. Blocks: call it in a thread.

    Earlier conversations are included: their last lines, or files of their sub-agents, may come after the last read.
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
    transcript: str,
    before: Sequence[str],
    reader: TranscriptReader,
    count: int,
    working_dir: str,
    below: Root,
    kept: Callable[[], Iterable[KeptTranscript]],
) -> list[ActionLine]:
    """Actions of the current and, as far as needed, of earlier conversations (`before`). Call it in a thread."""
    actions: list[ActionLine] = []
    most = _LINES_PER_ACTION * count + 20
    names = archive_names((*before, transcript))
    for path in (transcript, *sorted(before, key=_changed_ns, reverse=True)):
        lines = read_last(path, most, _TAIL_MAX_BYTES, below=below)
        if not lines:
            copy = next((copy for copy in kept() if copy.name == names[path]), None)
            if copy is not None:
                with suppress(OSError), copy.open() as part:
                    lines = last_lines(part, most, _TAIL_MAX_BYTES)
        actions[:0] = reader.actions(lines, count, working_dir)
        if len(actions) >= count:
            break
    return actions[-count:] if count else []


def _changed_ns(path: str) -> int:
    status = _status(path)
    return 0 if status is None else status.st_mtime_ns
