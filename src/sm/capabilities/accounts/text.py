"""The words of accounts in lists. Standard library alone."""

MARKS = {"account": str}
"""The words of the fields of a session that accounts add."""
