"""Decides which MCP servers of a workspace's own files agents may get: those to which the operator agreed.

A repository or an agent writes these files, and `sm` would start their programs without a question. So an item counts
only as it was when the operator agreed. A file in the state directory keeps a digest of each agreed item.
"""

import logging
import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence

import orjson

from sm.core.items import ItemState, ProjectItem
from sm.linux.files import read_file, replace_private

_log = logging.getLogger(__name__)

_AGREED_MAX = 5_000
"""The number of items that the file keeps. The oldest ones are dropped, and the operator must agree again."""
_FILE_MAX = 1024 * 1024


class Agreements:
    """The operator's agreements, in the file at `path` (mode 0600). Only the daemon writes the file.

    Every method blocks.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._writing = threading.Lock()

    def states(self, items: Sequence[ProjectItem]) -> tuple[ItemState, ...]:
        """The state of each item. Nothing is agreed if the file is missing, damaged, or not a regular file."""
        agreed = self._read() if items else {}
        return tuple(_state(agreed.get(item.key), item) for item in items)

    def agree(self, items: Iterable[ProjectItem]) -> None:
        """Agree to the items with their present content. Raises OSError."""
        with self._writing:
            agreed = dict(self._kept())
            for item in items:
                agreed.pop(item.key, None)
                agreed[item.key] = item.id
            kept = list(agreed.items())[-_AGREED_MAX:]
            replace_private(self._path, orjson.dumps({"version": 1, "agreed": dict(kept)}))

    def _kept(self) -> Mapping[str, str]:
        """The content of the file before it is written again. A file that cannot be read gets another name first."""
        agreed = self._read()
        if not agreed and os.path.lexists(self._path) and not self._is_readable():
            os.replace(self._path, f"{self._path}.{int(time.time())}.damaged")
        return agreed

    def _is_readable(self) -> bool:
        try:
            value = orjson.loads(read_file(self._path, _FILE_MAX).data)
            return bool(value["version"] == 1 and isinstance(value["agreed"], dict))
        except (OSError, orjson.JSONDecodeError, KeyError, TypeError):
            return False

    def _read(self) -> Mapping[str, str]:
        try:
            content = read_file(self._path, _FILE_MAX)
            value = orjson.loads(content.data)
            agreed = value["agreed"] if value["version"] == 1 else None
        except FileNotFoundError:
            return {}
        except (OSError, orjson.JSONDecodeError, KeyError, TypeError):
            agreed = None
        if not isinstance(agreed, dict) or not all(isinstance(known, str) for known in agreed.values()):
            _log.warning("the file of agreements is damaged: the operator must agree again")
            return {}
        return agreed


def _state(agreed: str | None, item: ProjectItem) -> ItemState:
    if agreed is None:
        return ItemState.NEW
    return ItemState.AGREED if agreed == item.id else ItemState.CHANGED
