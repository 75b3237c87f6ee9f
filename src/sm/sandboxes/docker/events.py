"""The standing stream of the engine's events about the containers of an instance. Nothing polls the engine."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import urlencode

from sm.core.backoff import Backoff
from sm.core.dataclass import dataclass
from sm.errors import SandboxUnavailable
from sm.sandboxes.docker.container import labels_of_instance
from sm.sandboxes.docker.engine import Engine

log = logging.getLogger(__name__)

# Not the events of exec: they contain command lines, and every attach causes one.
_KINDS: Final = ("start", "die", "oom", "kill", "pause", "unpause", "destroy")
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 30.0


@dataclass(frozen=True, slots=True)
class EngineEvent:
    """An event of one container. `attributes`: its labels, and `exitCode` or `signal`."""

    kind: str
    """start, die, oom, kill, pause, unpause or destroy"""
    container: str
    """The id."""
    attributes: dict[str, str]


async def follow(
    engine: Engine,
    instance: str,
    on_connect: Callable[[], Awaitable[None]],
    on_event: Callable[[EngineEvent], None],
) -> None:
    """Pass on events until this is cancelled, and connect again with back-off after an error.

    `on_connect` runs after each connection and before its first event: events were lost meanwhile.
    """
    filters = {"type": ["container"], "event": list(_KINDS), "label": list(labels_of_instance(instance))}
    target = "/events?" + urlencode({"filters": json.dumps(filters)})
    backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
    while True:
        try:
            async with engine.stream(target) as reader:
                await on_connect()
                backoff.reset()
                while line := await reader.readline():
                    if (event := _parse(line)) is not None:
                        on_event(event)
            log.info("the engine ended the stream of events")
        except SandboxUnavailable as error:
            log.info("the engine is not available: %s", error)
        await asyncio.sleep(backoff.next_s())


def _parse(line: bytes) -> EngineEvent | None:
    try:
        answer: dict[str, Any] = json.loads(line)
        actor = answer["Actor"]
        return EngineEvent(str(answer["Action"]), str(actor["ID"]), dict(actor.get("Attributes") or {}))
    except (ValueError, KeyError, TypeError):
        log.warning("the engine sent an event that cannot be read")
        return None
