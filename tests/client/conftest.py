"""The scripted daemon of the command's tests."""

from tests.cli.conftest import home, peer, state

__all__ = ["home", "peer", "state"]
