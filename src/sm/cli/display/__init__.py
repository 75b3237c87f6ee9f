"""Formats the daemon's answers as text."""
