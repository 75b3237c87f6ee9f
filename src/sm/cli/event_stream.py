"""Follows the events of the daemon over its restarts, without losing or repeating one."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping

import click

from sm.client.http import Away, Client
from sm.core.backoff import Backoff

_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0


def follow(client: Client, query: Mapping[str, object], since: int) -> Iterator[str]:
    """Events after `since` as JSON, for ever: the cursor is what was yielded last.

    The daemon is never started from here. When it is away, that is said on stderr once, and once that it is back.
    Raises BrokenPipeError as soon as nobody reads stdout any more.
    """
    cursor = since
    backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
    away = False

    def opened() -> None:
        nonlocal away
        backoff.reset()
        if away:
            away = False
            click.echo("the daemon is back", err=True)

    while True:
        try:
            for seq, event in _stream(client, {**query, "since": cursor}, opened):
                if seq > cursor:
                    cursor = seq
                    yield event
        except Away:
            if not away:
                away = True
                click.echo("the daemon is away; waiting for it", err=True)
            time.sleep(backoff.next_s())


def _stream(
    client: Client, query: Mapping[str, object], opened: Callable[[], None]
) -> Iterator[tuple[int, str]]:
    return client.events("/v1/events/stream", query, opened=opened, reader_fd=sys.stdout.fileno())
