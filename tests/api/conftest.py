"""Fixtures for the tests of the API."""

from tests.linux.child_process import start

__all__ = ["start"]
