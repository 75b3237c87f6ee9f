"""Restarts: sm starts a session again whose process has crashed."""
