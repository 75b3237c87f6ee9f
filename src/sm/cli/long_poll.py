"""Repeats a request that the daemon holds until it has an answer, over restarts of the daemon too."""

import time
from collections.abc import Callable
from typing import TypeVar

import click

from sm.cli.instance import Instance, stopped
from sm.client.http import Away, Client
from sm.core.backoff import Backoff

T = TypeVar("T")

_HELD_S = 20.0  # the daemon holds no request longer than 25 s
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0


def until_answered(
    instance: Instance, ask: Callable[[Client, float], T | None], timeout_s: float | None
) -> T | None:
    """What `ask(client, wait_s)` returns once that is not None; None when `timeout_s` is over (None: never).

    The daemon is started first, as by any command. From then on one that is away is waited for, which is said on
    stderr once, and never started from here: `ask` must bear being repeated. A person's command ends when the
    daemon was stopped on purpose; an agent's goes on.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    found, away = False, False
    backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
    while True:
        try:
            if not found:
                instance.client().get("/v1/health")
                found = True
            answer = ask(instance.client(start=False), _at_most(_HELD_S, deadline))
            if away:
                click.echo("the daemon is back", err=True)
            away = False
            backoff.reset()
        except Away:
            if instance.session_id is None and instance.was_stopped:
                raise stopped() from None
            answer = None
            if not away:
                away = True
                click.echo("the daemon is away; waiting for it", err=True)
            time.sleep(_at_most(backoff.next_s(), deadline))
        if answer is not None:
            return answer
        if deadline is not None and time.monotonic() >= deadline:
            return None


def _at_most(seconds: float, deadline: float | None) -> float:
    return seconds if deadline is None else max(0.0, min(seconds, deadline - time.monotonic()))
