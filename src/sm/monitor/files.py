"""Watches the files and terminals of agents for changes. A sweep (`changes`) finds what inotify cannot report."""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress

from sm.linux.files import read_file
from sm.linux.inotify import IN_CHANGES, IN_IGNORED, IN_MODIFY, FileWatch

_CONTENT_MAX_BYTES = 64 * 1024


class FileEvents:
    """By whose they are. Where the kernel cannot tell (its limits, network mounts), nothing is heard."""

    def __init__(self) -> None:
        self._files: FileWatch | None = None
        self._listeners: dict[str, dict[tuple[str, str], Callable[[], None]]] = {}
        """Of each directory: what to call when a file changes, by its name and by whose it is.

        Two sessions share one when both go on with the same conversation.
        """
        self._directories: dict[str, int] = {}
        self._terminals: dict[str, int] = {}

    def listen(self, path: str, whose: str, told: Callable[[], None]) -> None:
        """Call `told` when the file is made, changes or goes. Repeat it when the directory was not there yet."""
        directory, name = os.path.split(path)
        self._listeners.setdefault(directory, {})[name, whose] = told
        if directory in self._directories:
            return

        def happened(mask: int, changed: str) -> None:
            if mask & IN_IGNORED:  # the directory is gone
                self._directories.pop(directory, None)
            for (name, _), call in tuple(self._listeners.get(directory, {}).items()):
                if changed in (name, ""):
                    call()

        with suppress(OSError):
            self._directories[directory] = self._watch().add(directory, IN_CHANGES, happened)

    def listen_to_terminal(self, tty: str, whose: str, told: Callable[[], None]) -> None:
        """Call `told` when the agent writes there: the kernel tells of it at once, tmux once a second."""
        if whose not in self._terminals:
            with suppress(OSError):
                self._terminals[whose] = self._watch().add(tty, IN_MODIFY, lambda mask, name: told())

    def leave_terminal(self, whose: str) -> None:
        number = self._terminals.pop(whose, None)
        if number is not None:
            self._watch().remove(number)

    def forget(self, whose: str) -> None:
        self.leave_terminal(whose)
        for directory, calls in tuple(self._listeners.items()):
            for name, owner in tuple(calls):
                if owner == whose:
                    del calls[name, owner]
            if not calls:
                del self._listeners[directory]
                number = self._directories.pop(directory, None)
                if number is not None:
                    self._watch().remove(number)

    def _watch(self) -> FileWatch:
        if self._files is None:
            self._files = FileWatch()
        return self._files

    def close(self) -> None:
        if self._files is not None:
            self._files.close()


def changes(files: Mapping[str, str]) -> dict[str, int]:
    """When each of these files was written, in ns; 0: it is not there. To be called in a thread."""
    found = {}
    for whose, path in files.items():
        try:
            found[whose] = os.lstat(path).st_mtime_ns
        except OSError:
            found[whose] = 0
    return found


def content(path: str) -> tuple[int, bytes | None]:
    """When a small file was written, in ns, and its bytes; (0, None): there is none. To be called in a thread."""
    try:
        read = read_file(path, _CONTENT_MAX_BYTES)
    except OSError:
        return 0, None
    return read.status.st_mtime_ns, read.data
