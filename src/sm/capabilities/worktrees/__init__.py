"""Worktrees: each agent works on a branch of its own, which people compare, merge and remove."""
