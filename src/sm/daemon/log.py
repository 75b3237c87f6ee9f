"""The daemon's log file: one JSON object per line, rotated."""

import json
import logging
import logging.handlers
from collections.abc import Collection
from urllib.parse import quote

from sm.core.timestamps import iso
from sm.paths import InstancePaths

_LOG_BYTES = 5 * 1024 * 1024
_LOG_FILES = 3


class Redaction:
    """Replaces secrets in text, such as a token that a library logs as a part of a URL."""

    def __init__(self, secrets: Collection[str] = ()) -> None:
        # The longest first: a token ends with its secret part.
        written = {
            form for secret in secrets for form in (secret, quote(secret, ""), secret.partition(":")[2])
        }
        self._written = sorted(filter(None, written), key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for secret in self._written:
            text = text.replace(secret, "[token]")
        return text


class RedactedFormatter(logging.Formatter):
    """The usual format, without secrets. It also covers tracebacks, because it changes the finished text."""

    def __init__(self, redact: Redaction, format: str | None = None) -> None:
        super().__init__(format)
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        return self._redact(super().format(record))


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object: time, level, logger, message, and the `sm_` fields of `extra`."""

    def __init__(self, redact: Redaction) -> None:
        super().__init__()
        self._redact = redact

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
        return self._redact(json.dumps(line, ensure_ascii=False, default=str))


def start_logging(
    paths: InstancePaths, level: str, *, to_terminal: bool, secrets: Collection[str] = ()
) -> None:
    """Log to the file, and with `to_terminal` also to stderr. No record shows one of `secrets`."""
    redact = Redaction(secrets)
    handler = logging.handlers.RotatingFileHandler(
        f"{paths.log}/daemon.log", maxBytes=_LOG_BYTES, backupCount=_LOG_FILES, encoding="utf-8"
    )
    handler.setFormatter(JsonLines(redact))
    root = logging.getLogger()
    root.handlers = [handler]
    if to_terminal:
        terminal = logging.StreamHandler()
        terminal.setFormatter(RedactedFormatter(redact, "%(asctime)s %(levelname)s %(message)s"))
        root.handlers.append(terminal)
    set_log_level(level)
    logging.getLogger("aiosqlite").setLevel(logging.WARNING)
    logging.raiseExceptions = False  # a full disk must not fill stderr


def set_log_level(level: str) -> None:
    """Log from this level on: debug, info, warning or error."""
    logging.getLogger().setLevel(level.upper())
