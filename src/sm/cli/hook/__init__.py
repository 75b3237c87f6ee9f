"""Sends events of agents' hooks to the daemon, for `sm hook`."""
