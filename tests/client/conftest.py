"""Fixtures of the scripted daemon."""

from tests.cli.conftest import home, peer, state

__all__ = ["home", "peer", "state"]
