"""`sm hook`: sends the events of an agent's own hooks to the daemon."""
