"""Runs the processes of agents: on this host, or in containers."""

from sm.sandboxes.base import ProcessEnding, Sandbox
from sm.sandboxes.router import Sandboxes

__all__ = ["ProcessEnding", "Sandbox", "Sandboxes"]
