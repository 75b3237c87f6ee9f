"""Accounts: parks those that met a limit, and lets their sessions go on when it is over."""
