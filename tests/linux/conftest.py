"""Fixtures for tests of `sm.linux`."""

from tests.linux.started import start

__all__ = ["start"]
