"""Pauses of sessions: stops what they spend, verifies that it has stopped, and lets them go on."""
