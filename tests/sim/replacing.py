"""Replaces attributes and the environment of this process for a while, cheaper than `mock.patch` does."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

Replacement = tuple[object, str, object]
"""An owner, the name of an attribute of its own, and the value that takes its place."""
_environ: dict[bytes, bytes] = vars(os.environ)["_data"]


@contextmanager
def replaced(*replacements: Replacement) -> Iterator[None]:
    before = [(owner, name, vars(owner)[name]) for owner, name, _ in replacements]
    try:
        for owner, name, value in replacements:
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in reversed(before):
            setattr(owner, name, value)


def encoded(environ: Mapping[str, str]) -> dict[bytes, bytes]:
    """An environment for `environment`."""
    return {os.fsencode(name): os.fsencode(value) for name, value in environ.items()}


@contextmanager
def environment(environ: Mapping[bytes, bytes]) -> Iterator[None]:
    """Give this process that environment and its time zone, and at the end those of before."""
    before = dict(_environ)
    try:
        _become(environ)
        yield
    finally:
        _become(before)


def _become(environ: Mapping[bytes, bytes]) -> None:
    """Change the variables that differ, in Python and in the C library."""
    zone = _environ.get(b"TZ")
    for name in [name for name in _environ if name not in environ]:
        del _environ[name]
        os.unsetenv(name)
    for name, value in environ.items():
        if _environ.get(name) != value:
            os.putenv(name, value)
            _environ[name] = value
    if _environ.get(b"TZ") != zone:
        time.tzset()
