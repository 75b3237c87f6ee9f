"""Runs the processes of agents: on this host, later in containers."""
