"""Completion: sm reads the final message of a turn, and completes, asks, reminds or reports."""
