"""Rules on the final message of a turn: done, question, progress, failed, blocked or unclear. Pure."""
