"""Fixtures for tests of `sm.linux`."""

from tests.linux.child_process import start

__all__ = ["start"]
