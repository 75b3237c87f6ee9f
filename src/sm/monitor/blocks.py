"""Reads a block of a transcript, and reduces it to a small amount of work for the event loop.

An agent can write a transcript with a million lines. Every function blocks: call it in a thread.
"""

from collections.abc import Iterable, Sequence
from dataclasses import field, replace

from sm.core.dataclass import dataclass
from sm.core.observation import Activity, Observation
from sm.core.timestamps import iso
from sm.core.tool_calls import TurnBreak
from sm.core.turns import TurnWork
from sm.core.usage import UNREAD, FilePosition, Todo, ToolUse
from sm.monitor.transcripts import Root, read_new
from sm.providers.base import Fork
from sm.providers.readers import TranscriptDelta, TranscriptReader

BLOCK_MAX_BYTES = 256 * 1024
_LONGEST_BYTES = 4 * 1024 * 1024
_NO_WORK = TurnWork()


def original_path(fork: Fork | None, path: str) -> str | None:
    """Return the path of the file that the file at `path` may have copied, or None for another conversation.

    An agent CLI finds the original only in the directory in which it writes the copy.
    """
    return path.replace(fork.copy, fork.original) if fork is not None and fork.copy in path else None


@dataclass(slots=True)
class Original:
    """The entries of a conversation that a fork has copied, as far as they were read. Blocks: call it in a thread.

    A fork writes the entries of its original, with their ids, before its first own entry (claude 2.1.197 and 2.1.332,
    measured). So a line with an id that the transcript of the original has is not the fork's, whatever its time is: the
    original may have written it after the fork was ordered, and the system clock may have been set in between.
    """

    path: str
    below: Root
    _ids: set[str] = field(default_factory=set)
    _position: FilePosition | None = None

    def own_lines(self, lines: Sequence[bytes], reader: TranscriptReader) -> list[bytes] | None:
        """Return the lines of a copy that are not in the original, or None if the original is gone.

        The lines were read before the call, so the original has all of them that were copied. Raises OSErrors.
        """
        self._read(reader)
        if not self._ids:
            return None
        return [line for line in lines if not self._ids & _ids_in([line], reader)]

    def _read(self, reader: TranscriptReader) -> None:
        more = True
        while more:
            new = read_new(self.path, self._position, BLOCK_MAX_BYTES, below=self.below)
            self._ids |= _ids_in(new.lines, reader)
            more, self._position = new.more, new.position


def _ids_in(lines: Sequence[bytes], reader: TranscriptReader) -> set[str]:
    """The ids of the entries, of the model's messages, and of the tool uses."""
    delta = reader.delta(lines, sidechain=False, todo=())
    entries = {entry.id for entry in reader.entries(lines)}
    return entries | {used.message_id for used in delta.usage} | {tool.id for tool in delta.tools}


@dataclass(frozen=True, slots=True)
class TranscriptBlock:
    """The new lines of a transcript that one read found."""

    delta: TranscriptDelta
    """The meaning of the lines, without the usage and the faults of other sessions, and with few observations."""
    position: FilePosition | None
    """The position at which the next read starts, or None if the file never existed."""
    more: bool
    """There may be more lines to read now."""
    newest_tool: ToolUse | None
    model: str | None
    """The model of the last answer in the main conversation."""
    is_past_copy: bool = False
    """Of a fork, which has used tokens itself: no copied line follows."""


def read_block(
    path: str,
    position: FilePosition | None,
    reader: TranscriptReader,
    todo: Sequence[Todo],
    *,
    below: Root,
    sidechain: bool,
    since: str,
    original: Original | None = None,
    is_past_copy: bool = False,
    failed: bool = False,
    work: TurnWork = _NO_WORK,
) -> TranscriptBlock:
    """Read about `BLOCK_MAX_BYTES`, and more if that ends in a failure: the next lines may say that it is over.

    Usage and tools of lines in `original` belong to another session; without it, or if it is gone, those from before
    `since`. `is_past_copy`: that of the block before. `failed`, `work`: as for `TranscriptReader.delta`.
    """
    limit_bytes = BLOCK_MAX_BYTES
    while True:
        new = read_new(path, position, limit_bytes, below=below)
        delta = reader.delta(new.lines, sidechain=sidechain, todo=todo, failed=failed, work=work)
        ends_in_failure = bool(delta.observations) and delta.observations[-1].fault is not None
        if not (new.more and ends_in_failure) or limit_bytes >= _LONGEST_BYTES:
            break
        limit_bytes *= 2
    is_past_copy = is_past_copy and position is not None and not new.again
    own = _own(delta, new.lines, reader, original, since, sidechain=sidechain, is_past_copy=is_past_copy)
    faults = {o for o in own.observations if o.fault is not None}
    observations = (
        o if o.fault is None or o in faults else replace(o, fault=None) for o in delta.observations
    )
    delta = replace(
        delta,
        usage=own.usage,
        tools=own.tools,
        said=own.said,
        calls=own.calls,
        observations=condense(observations),
    )
    return TranscriptBlock(
        delta,
        new.position,
        new.more,
        max(delta.tools, key=lambda tool: tool.at, default=None),
        next((u.model.removesuffix(UNREAD) for u in reversed(delta.usage) if not u.sidechain), None) or None,
        original is not None and not sidechain and (is_past_copy or bool(own.usage)),
    )


def _own(
    delta: TranscriptDelta,
    lines: Sequence[bytes],
    reader: TranscriptReader,
    original: Original | None,
    since: str,
    *,
    sidechain: bool,
    is_past_copy: bool,
) -> TranscriptDelta:
    """The part of `delta`, the meaning of `lines`, that belongs to the session."""
    if original is None:
        return _since(delta, since)
    if is_past_copy or not lines:
        return delta
    own_lines = original.own_lines(lines, reader)
    if own_lines is None:
        return _since(delta, since)
    return delta if len(own_lines) == len(lines) else reader.delta(own_lines, sidechain=sidechain, todo=())


def _since(delta: TranscriptDelta, since: str) -> TranscriptDelta:
    """Only the usage, tools, texts, calls and faults from `since` on, and those without a time."""
    return replace(
        delta,
        usage=tuple(u for u in delta.usage if not u.at or u.at >= since),
        tools=tuple(t for t in delta.tools if not t.at or t.at >= since),
        said=tuple(s for s in delta.said if not s.at or s.at >= since),
        calls=tuple(c for c in delta.calls if isinstance(c, TurnBreak) or not c.at or c.at >= since),
        observations=tuple(o for o in delta.observations if o.fault is None or iso(o.at) >= since),
    )


def condense(observations: Iterable[Observation]) -> tuple[Observation, ...]:
    """The few of these observations that have the same effect on a `Ledger` as all of them.

    Kept are the newest report of work, and the last reports of an activity with the one before them.
    """
    worked: Observation | None = None
    before: Observation | None = None
    first: Observation | None = None
    last: Observation | None = None
    for observation in observations:
        if last is not None and observation.at < last.at:
            continue  # late
        if observation.activity is not Activity.IDLE:
            worked = observation
        if last is None or observation.final or observation.activity is not last.activity:
            before, first = last, observation
        last = observation
    kept = (None if worked is last else worked, before, first, last)
    return tuple({id(observation): observation for observation in kept if observation is not None}.values())
