"""Reads the section `web` of the configuration, without keeping the configuration in memory."""

import os
import sys
from typing import Any, NamedTuple, NoReturn

import orjson

from sm.errors import ConfigError, InternalError


class WebSettings(NamedTuple):
    """The keys that the server needs; the fields of WebSection say what they mean."""

    port: int
    bind: str
    cert: str | None
    key: str | None
    hosts: tuple[str, ...]


def read_settings(config: str) -> WebSettings:
    """Read the file in a child process: its models take 8 MB, which the server would keep for days.

    Call it before the process has threads. Raises ConfigError.
    """
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        _answer(config, write_end)
    os.close(write_end)
    with open(read_end, "rb") as file:
        content = file.read()
    os.waitpid(child, 0)
    if not content:
        raise InternalError("the configuration could not be read")
    answer: dict[str, Any] = orjson.loads(content)
    if "message" in answer:
        raise ConfigError(answer["message"], answer["hint"])
    return WebSettings(**{**answer, "hosts": tuple(answer["hosts"])})


def _answer(config: str, write_end: int) -> NoReturn:
    """Write the settings, or the reason why they are not valid. Ends the process."""
    status = 1
    try:
        answer: dict[str, Any]
        try:
            from sm.config import load

            settings = load(config).config.web
            answer = {name: getattr(settings, name) for name in WebSettings._fields}
        except ConfigError as error:
            answer = {"message": error.message, "hint": error.hint}
        with open(write_end, "wb") as file:
            file.write(orjson.dumps(answer))
        status = 0
    except Exception:  # noqa: BLE001  as at the end of any process
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)
