"""Contracts with Claude Code, tried with the real program. Only the check itself loads this package."""
