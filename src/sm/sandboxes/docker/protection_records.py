"""Remembers the state of protected files at the start of a session, to find at its end what the session changed."""

import json
import os
from collections.abc import Sequence
from contextlib import suppress

from sm.linux.files import read_or_empty, replace_private
from sm.paths import InstancePaths
from sm.sandboxes.docker.protection import appeared, fingerprints
from sm.sandboxes.path_map import Mount

_BYTES_MAX = 1 << 20
_SUFFIX = ".protected"


class ProtectionRecords:
    """One file for each session in the daemon's own launch directory, which no container sees. All methods block."""

    def __init__(self, paths: InstancePaths) -> None:
        self._directory = paths.launch

    def remember(self, session_id: str, directories: Sequence[str], protect: Sequence[str]) -> None:
        """Replace the record of the session. `directories`: those that it can write. Raises OSError."""
        os.makedirs(self._directory, 0o700, exist_ok=True)
        # ASCII, so that a name that is not UTF-8 comes back as it was.
        found = dict[str, str]()
        for directory in directories:
            found |= fingerprints(directory, protect)
        replace_private(self._file(session_id), json.dumps(found).encode("ascii"))

    def appeared(
        self, session_id: str, directories: Sequence[str], protect: Sequence[str], mounts: Sequence[Mount]
    ) -> tuple[str, ...]:
        """The paths that were made or changed since `remember`; empty for a session without a record."""
        try:
            at_start = json.loads(read_or_empty(self._file(session_id), _BYTES_MAX))
        except ValueError:
            return ()
        found = (appeared(directory, protect, at_start, mounts) for directory in directories)
        return tuple(dict.fromkeys(path for paths in found for path in paths))

    def forget(self, session_id: str) -> None:
        """Idempotent."""
        with suppress(FileNotFoundError):
            os.unlink(self._file(session_id))

    def _file(self, session_id: str) -> str:
        return f"{self._directory}/{session_id}{_SUFFIX}"
