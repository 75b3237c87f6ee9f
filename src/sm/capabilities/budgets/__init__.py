"""Budgets: limits for what a session and all sessions below it may spend."""
