"""Waits for answers and events across restarts of the daemon, and never restarts it."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import click

from sm.cli.instance import Instance, daemon_stopped_error
from sm.client.http import Client, DaemonAway
from sm.core.backoff import Backoff

T = TypeVar("T")

_HELD_S = 20.0  # the daemon holds no request longer than 25 s


class _Outage:
    """Prints once on stderr that the daemon is away, and once that it is back."""

    def __init__(self) -> None:
        self._backoff = Backoff(0.05, 1.0)
        self._is_on = False

    def pause_s(self) -> float:
        if not self._is_on:
            self._is_on = True
            click.echo("the daemon is not running; waiting for it", err=True)
        return self._backoff.next_s()

    def end(self) -> None:
        self._backoff.reset()
        if self._is_on:
            self._is_on = False
            click.echo("the daemon is running again", err=True)


def until_answered(
    instance: Instance, ask: Callable[[Client, float], T | None], timeout_s: float | None
) -> T | None:
    """Call `ask(client, wait_s)` until it returns a value other than None; None after `timeout_s` (None for no limit).

    The daemon is started first, as by any command. Later `ask` is retried while the daemon is away, so it must be
    idempotent. After `sm daemon stop` a user's command raises DaemonUnavailable; an agent's command waits.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    started = False
    outage = _Outage()
    while True:
        try:
            if not started:
                instance.client().get("/v1/health")
                started = True
            answer = ask(instance.client(start=False), _at_most(_HELD_S, deadline))
            outage.end()
        except DaemonAway:
            if instance.session_id is None and instance.was_stopped:
                raise daemon_stopped_error() from None
            answer = None
            time.sleep(_at_most(outage.pause_s(), deadline))
        if answer is not None:
            return answer
        if deadline is not None and time.monotonic() >= deadline:
            return None


def _at_most(seconds: float, deadline: float | None) -> float:
    return seconds if deadline is None else max(0.0, min(seconds, deadline - time.monotonic()))


def follow(client: Client, query: Mapping[str, object], since: int) -> Iterator[str]:
    """Yield every event after `since` as JSON, exactly once, without end.

    Raises BrokenPipeError as soon as the reader closes stdout.
    """
    cursor = since
    outage = _Outage()
    while True:
        try:
            events = client.events(
                "/v1/events/stream",
                {**query, "since": cursor},
                opened=outage.end,
                reader_fd=sys.stdout.fileno(),
            )
            for seq, event in events:
                if seq > cursor:
                    cursor = seq
                    yield event
        except DaemonAway:
            time.sleep(outage.pause_s())
