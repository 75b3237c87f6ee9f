"""The daemon's log file: one JSON object per line, rotated."""

import json
import logging
import logging.handlers

from sm.core.timestamps import iso
from sm.paths import InstancePaths

_LOG_BYTES = 5 * 1024 * 1024
_LOG_FILES = 3


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object: time, level, logger, message, and the `sm_` fields of `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": iso(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name.startswith("sm_")}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def start_logging(paths: InstancePaths, level: str, *, to_terminal: bool) -> None:
    handler = logging.handlers.RotatingFileHandler(
        f"{paths.log}/daemon.log", maxBytes=_LOG_BYTES, backupCount=_LOG_FILES, encoding="utf-8"
    )
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers = [handler]
    if to_terminal:
        terminal = logging.StreamHandler()
        terminal.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        root.handlers.append(terminal)
    root.setLevel(level.upper())
    logging.getLogger("aiosqlite").setLevel(logging.WARNING)
    logging.raiseExceptions = False  # a full disk must not fill stderr
