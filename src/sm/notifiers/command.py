"""Runs `notify.command`, a program of the operator, once for each notice."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from sm.linux.programs import run_program
from sm.notifiers.base import NotifyFailed

_WITHIN_S = 30.0


class CommandNotifier:
    """Runs the program with the notice on stdin, in a separate kernel session, and discards its output."""

    once = True

    def __init__(self, command: Sequence[str] | None, within_s: float = _WITHIN_S) -> None:
        self._command = command
        self._within_s = within_s

    async def send(self, target: str | None, body: Mapping[str, Any]) -> None:
        if self._command is None:
            raise NotifyFailed("notify.command is no longer configured", retryable=False)
        text = orjson.dumps(body) + b"\n"
        try:
            ended = await run_program(self._command, text, self._within_s)
        except TimeoutError:
            raise NotifyFailed(
                f"notify.command did not end within {self._within_s:g} s", retryable=False
            ) from None
        except OSError as error:
            raise NotifyFailed(f"cannot run notify.command: {error.strerror}", retryable=False) from None
        if ended.code != 0:
            raise NotifyFailed(f"notify.command ended with exit code {ended.code}", retryable=False)
