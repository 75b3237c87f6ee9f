"""Tells the lines of a fork from those that it has copied from the conversation of another session.

A fork writes the entries of its original, with their ids, before its first own entry (claude 2.1.197 and 2.1.332,
measured). So a line with an id that the transcript of the original has is not the fork's, whatever its time is: the
original may have written it after the fork was ordered, and the system clock may have been set in between.
"""

from collections.abc import Sequence
from dataclasses import field

from sm.core.dataclass import dataclass
from sm.core.usage import FilePosition
from sm.monitor.transcripts import Root, read_new
from sm.providers.base import Fork
from sm.providers.readers import TranscriptReader

_BLOCK_MAX_BYTES = 256 * 1024


def original_path(fork: Fork | None, path: str) -> str | None:
    """Return the path of the file that the file at `path` may have copied, or None for another conversation.

    An agent CLI finds the original only in the directory in which it writes the copy.
    """
    return path.replace(fork.copy, fork.original) if fork is not None and fork.copy in path else None


@dataclass(slots=True)
class Original:
    """The entries of a conversation that was copied, as far as they were read. Blocks: call it in a thread."""

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
            new = read_new(self.path, self._position, _BLOCK_MAX_BYTES, below=self.below)
            self._ids |= _ids_in(new.lines, reader)
            more, self._position = new.more, new.position


def _ids_in(lines: Sequence[bytes], reader: TranscriptReader) -> set[str]:
    """The ids of the entries, of the model's messages, and of the tool uses."""
    delta = reader.delta(lines, sidechain=False, todo=())
    entries = {entry.id for entry in reader.entries(lines)}
    return entries | {used.message_id for used in delta.usage} | {tool.id for tool in delta.tools}
