"""The daemon process: its start, its parts, its outbox and its recovery."""
