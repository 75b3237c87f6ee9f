"""The log file of each life of the daemon, beside the handlers that pytest has."""

import logging

from sm.daemon.log import start_logging
from sm.paths import InstancePaths
from tests.sim.lives import Life, life_in


class LifeLog:
    """Writes what one life logs to its file, from `begin` until `close`."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._handler: logging.Handler | None = None
        self._before = logging.WARNING, True

    def begin(self, paths: InstancePaths, level: str) -> None:
        root = logging.getLogger()
        others, self._before = list(root.handlers), (root.level, logging.raiseExceptions)
        start_logging(paths, level, to_terminal=False)
        (self._handler,) = root.handlers
        self._handler.addFilter(lambda _: life_in(None) is self._life)
        root.handlers = [*others, self._handler]

    def close(self) -> None:
        if self._handler is not None:
            root = logging.getLogger()
            root.removeHandler(self._handler)
            self._handler.close()
            self._handler = None
            level, logging.raiseExceptions = self._before
            root.setLevel(level)
