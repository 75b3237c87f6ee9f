"""Runs git for the commands of worktrees, as the caller and without programs of a repository."""
