"""Lays out answers for a person, as plain text or on a terminal."""
