"""Watches the files and terminals of agents for changes. A sweep (`changes`) finds changes that inotify misses."""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress

from sm.linux.files import read_file
from sm.linux.inotify import IN_CHANGES, IN_IGNORED, IN_MODIFY, FileWatch
from sm.sandboxes.home import ContainerHome

_CONTENT_MAX_BYTES = 64 * 1024


class FileEvents:
    """inotify watches by owner (a session id). Reports nothing past the kernel's limits and on network mounts."""

    def __init__(self) -> None:
        self._files: FileWatch | None = None
        self._listeners: dict[str, dict[tuple[str, str], Callable[[], None]]] = {}
        """The callbacks of each directory, by file name and owner.

        Two sessions share a file when both resumed the same conversation.
        """
        self._directories: dict[str, int] = {}
        self._terminals: dict[str, int] = {}

    def listen(self, path: str, owner: str, callback: Callable[[], None]) -> None:
        """Call `callback` when the file is created, changed or deleted, or when its missing directory is created."""
        directory, name = os.path.split(path)
        self._listeners.setdefault(directory, {})[name, owner] = callback
        if directory in self._directories:
            return

        def notify(mask: int, changed: str) -> None:
            if mask & IN_IGNORED:  # the directory is gone
                self._directories.pop(directory, None)
            for (name, _), call in tuple(self._listeners.get(directory, {}).items()):
                if changed in (name, ""):
                    call()

        try:
            self._directories[directory] = self._watch().add(directory, IN_CHANGES, notify)
        except FileNotFoundError:
            self._await_directory(directory, path, owner, callback)
        except OSError:
            pass

    def _await_directory(self, directory: str, path: str, owner: str, callback: Callable[[], None]) -> None:
        """Listen to `path` when its directory is created: an agent may make it just before its first line."""

        def created() -> None:
            above, name = os.path.split(directory)
            self._leave(above, (name, owner))
            self.listen(path, owner, callback)
            callback()

        self.listen(directory, owner, created)
        if os.path.isdir(directory):  # it was created before the watch on the directory above it
            created()

    def _leave(self, directory: str, key: tuple[str, str]) -> None:
        calls = self._listeners.get(directory, {})
        calls.pop(key, None)
        if not calls:
            self._listeners.pop(directory, None)
            number = self._directories.pop(directory, None)
            if number is not None:
                self._watch().remove(number)

    def listen_to_terminal(self, tty: str, owner: str, callback: Callable[[], None]) -> None:
        """Call `callback` when the agent writes to its terminal: inotify reports it immediately, tmux once a second."""
        if owner not in self._terminals:
            with suppress(OSError):
                self._terminals[owner] = self._watch().add(tty, IN_MODIFY, lambda mask, name: callback())

    def leave_terminal(self, owner: str) -> None:
        number = self._terminals.pop(owner, None)
        if number is not None:
            self._watch().remove(number)

    def forget(self, owner: str) -> None:
        self.leave_terminal(owner)
        for directory, calls in tuple(self._listeners.items()):
            for key in tuple(calls):
                if key[1] == owner:
                    self._leave(directory, key)

    def _watch(self) -> FileWatch:
        if self._files is None:
            self._files = FileWatch()
        return self._files

    def close(self) -> None:
        if self._files is not None:
            self._files.close()


def changes(files: Mapping[str, str]) -> dict[str, int]:
    """The modification times of `files` in ns, by owner; 0 for a missing file. Blocks: call it in a thread."""
    times = {}
    for owner, path in files.items():
        try:
            times[owner] = os.lstat(path).st_mtime_ns
        except OSError:
            times[owner] = 0
    return times


def content(path: str, home: ContainerHome | None) -> tuple[int, bytes | None]:
    """The modification time in ns and the bytes of a small file; (0, None): none. Blocks: call it in a thread.

    `home`: the home directory of a container, in which the file lies.
    """
    try:
        read = read_file(path, _CONTENT_MAX_BYTES) if home is None else home.read(path, _CONTENT_MAX_BYTES)
    except OSError:
        return 0, None
    return read.status.st_mtime_ns, read.data
