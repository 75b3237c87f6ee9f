"""Warnings: signs that a session goes wrong, and exchanges of messages between sessions that do no other work."""
