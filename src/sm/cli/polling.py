"""Waiting for the daemon to have an answer: one held request after another, also over its restarts."""

import time
from collections.abc import Callable
from typing import TypeVar

import click

from sm.cli.instance import Instance
from sm.client import Away, Client

T = TypeVar("T")

_HELD_S = 20.0  # the daemon holds no request longer than 25 s
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0


def until_answered(
    instance: Instance, ask: Callable[[Client, float], T | None], timeout_s: float | None
) -> T | None:
    """What `ask(client, wait_s)` returns once that is not None; None when `timeout_s` is over (None: never).

    The first question starts the daemon as any command does. From then on one that is away is waited for, which
    is said on stderr once: `ask` must bear being repeated.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    client, pause_s, away = instance.client(), _FIRST_PAUSE_S, False
    while True:
        left_s = _HELD_S if deadline is None else max(0.0, min(_HELD_S, deadline - time.monotonic()))
        try:
            answer = ask(client, left_s)
            if away:
                click.echo("the daemon is back", err=True)
            away, pause_s = False, _FIRST_PAUSE_S
        except Away:
            if instance.session_id is None and not away and instance.was_stopped:
                raise
            answer = None
            if not away:
                away = True
                click.echo("the daemon is away; waiting for it", err=True)
            time.sleep(pause_s if deadline is None else max(0.0, min(pause_s, deadline - time.monotonic())))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        if answer is not None:
            return answer
        if deadline is not None and time.monotonic() >= deadline:
            return None
        client = instance.client(start=False)
