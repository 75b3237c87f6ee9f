"""Search: finds the sessions that said, were told or printed something."""
