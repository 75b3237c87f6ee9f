"""Stars: marks of sessions that last until a time."""
